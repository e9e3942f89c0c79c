//! The properties of a GPU that decide launches.

use super::pin::PinPolicy;
use super::rpc::Users;
use crate::settings;
use longshore::{Device, DeviceInfo, Environment};
use std::sync::Arc;

/// Device settings for which OpenMP has variables of its own: setting, variable.
const MEMORY_SETTINGS: [(&str, &str); 2] =
    [("STACK_BYTES", "LIBOMPTARGET_STACK_SIZE"), ("HEAP_BYTES", "LIBOMPTARGET_HEAP_SIZE")];
/// Backends with these settings.
const WITH_MEMORY_SETTINGS: [&str; 2] = ["cuda", "amdgpu"];
/// Least threads of a team for a loop with few iterations.
const LOW_TRIP_THREADS: i64 = 32;
/// Size in bytes of the memory pool that AMD's images get for `malloc`.
const POOL_BYTES: u64 = 512 << 20;

/// A GPU that runs images with LLVM's device runtime. LLVM: `GenericDeviceTy`, `GV`.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) limits: Limits,
    /// `LIBOMPTARGET_SHARED_MEMORY_SIZE`: least dynamic group memory of a launch, in bytes.
    pub(crate) group_bytes: u32,
    /// Number of warps that run at the same time.
    pub(crate) parallelism: u64,
    /// Rate of the device runtime's clock, in Hz.
    pub(crate) clock_rate: u64,
    /// `LIBOMPTARGET_DEVICE_RTL_DEBUG`: checks of the device runtime.
    pub(crate) debug_kinds: u32,
    /// Size in bytes of the memory pool for images that want one; 0 if the driver has `malloc`.
    pub(crate) pool_bytes: u64,
    /// Whether the device's plugin is in another process.
    pub(crate) is_isolated: bool,
    pub(crate) pins: PinPolicy,
    /// Launches that servers of images wait for.
    pub(crate) users: Arc<Users>,
}

/// Limits and defaults of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Number of threads of a warp.
    pub(crate) warp: u32,
    /// Greatest number of threads of a team.
    pub(crate) threads: u32,
    /// Number of threads of a team without a clause.
    pub(crate) default_threads: u32,
    /// Greatest number of teams.
    pub(crate) teams: u32,
    /// Number of teams without a clause and without a known number of iterations.
    pub(crate) default_teams: u32,
    /// Least number of threads of a team for a loop with few iterations.
    pub(crate) low_trip_threads: u32,
    /// Whether teams are reused for loops with many iterations.
    pub(crate) reuses_teams: bool,
    /// Greatest size of the memory of a team, in bytes.
    pub(crate) group_bytes: u64,
}

impl Gpu {
    /// Returns the properties of a device; `None` unless its architecture is one for which LLVM has
    /// a device runtime for GPUs.
    pub(crate) fn for_device(device: &Device, is_isolated: bool) -> Option<Gpu> {
        let architecture = device.info(DeviceInfo::Architecture).ok()?;
        let architecture = architecture.as_text()?;
        let is_nvidia = architecture.starts_with("sm_");
        if !is_nvidia && !architecture.starts_with("gfx") {
            return None;
        }
        let number = |query| device.info(query).ok().and_then(|value| value.as_u64());
        let properties = device.info(DeviceInfo::Properties).ok();
        let properties = properties.as_ref().and_then(|value| value.as_text()).unwrap_or_default();
        let property = |names: [&str; 2]| {
            let lines = properties.lines().filter_map(|line| line.split_once('='));
            let mut found = lines.filter(|(name, _)| names.contains(name));
            found.next().and_then(|(_, value)| value.parse::<u32>().ok())
        };
        let units = number(DeviceInfo::NumComputeUnits).unwrap_or(1).max(1) as u32;
        let warp = property(["warp_size", "wavefront_size"]).unwrap_or(32).max(1);
        let resident = property(["threads_per_multiprocessor", "threads_per_compute_unit"]);
        let threads = number(DeviceInfo::MaxWorkGroupSize).unwrap_or(1024).max(1) as u32;
        let limits = Limits {
            warp,
            threads: at_most(threads, "OMP_TEAMS_THREAD_LIMIT"),
            low_trip_threads: setting("LIBOMPTARGET_MIN_THREADS_FOR_LOW_TRIP_COUNT")
                .unwrap_or(LOW_TRIP_THREADS) as u32,
            reuses_teams: setting("LIBOMPTARGET_REUSE_BLOCKS_FOR_HIGH_TRIP_COUNT") != Some(0),
            group_bytes: number(DeviceInfo::WorkGroupLocalMemSize).unwrap_or(0),
            ..Limits::for_vendor(is_nvidia, threads, units)
        };
        Some(Gpu {
            limits,
            group_bytes: setting("LIBOMPTARGET_SHARED_MEMORY_SIZE").unwrap_or(0) as u32,
            parallelism: u64::from(units) * u64::from(resident.unwrap_or(warp) / warp),
            // The device runtime's clock counts nanoseconds, or cycles of AMD's constant clock.
            clock_rate: if is_nvidia { 1_000_000_000 } else { 100_000_000 },
            debug_kinds: setting("LIBOMPTARGET_DEVICE_RTL_DEBUG").unwrap_or(0) as u32,
            pool_bytes: match is_nvidia {
                true => 0,
                false => setting("LIBOMPTARGET_HEAP_SIZE").map_or(POOL_BYTES, |bytes| bytes as u64),
            },
            is_isolated,
            pins: PinPolicy::from_user(),
            users: Arc::default(),
        })
    }
}

impl Limits {
    /// Returns LLVM's values for NVIDIA or AMD, with the users' limit of teams. LLVM:
    /// `NVPTXGridValues`, `AMDGPUGridValues64`.
    fn for_vendor(is_nvidia: bool, threads: u32, units: u32) -> Limits {
        let (default_threads, teams, default_teams) = match is_nvidia {
            true => (128, i32::MAX as u32, 3200),
            false => {
                let of_each = setting("LIBOMPTARGET_AMDGPU_TEAMS_PER_CU").unwrap_or(4) as u32;
                (256, u32::MAX / threads, units.saturating_mul(of_each))
            }
        };
        Limits {
            warp: 1,
            threads,
            default_threads,
            teams: at_most(teams, "OMP_NUM_TEAMS"),
            default_teams: default_teams.max(1),
            low_trip_threads: 1,
            reuses_teams: true,
            group_bytes: 0,
        }
    }
}

/// Returns the environment for plugins: the sizes of stack and heap that OpenMP's variables set
/// hold unless the user has set the backend's own variables.
pub(crate) fn host_environment() -> Environment {
    let mut environment = Environment::from_process();
    for (name, variable) in MEMORY_SETTINGS {
        let Some(bytes) = setting(variable).filter(|bytes| *bytes > 0) else { continue };
        for backend in WITH_MEMORY_SETTINGS {
            if environment.setting(backend, name).is_none() {
                let full = format!("LONGSHORE_{}_{name}", backend.to_uppercase());
                environment.set(full, bytes.to_string());
            }
        }
    }
    environment
}

/// Returns a limit, lowered by a variable.
fn at_most(limit: u32, variable: &str) -> u32 {
    match setting(variable) {
        Some(most) if most > 0 => limit.min(u32::try_from(most).unwrap_or(u32::MAX)),
        _ => limit,
    }
}

/// Returns the value of a variable that is a number of at least 0.
fn setting(variable: &str) -> Option<i64> {
    settings::number(variable).filter(|value| *value >= 0)
}
