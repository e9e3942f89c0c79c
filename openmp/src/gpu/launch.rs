//! Launches of kernels on GPUs. LLVM: `GenericKernelTy::launch`.

use super::environment::LaunchEnvironment;
use super::kernel::{KernelFacts, WITH_ENVIRONMENT};
use super::limits::Gpu;
use super::shape::{self, Wanted};
use crate::abi;
use crate::info;
use crate::kernel::RegionKernel;
use crate::mapping::Failure;
use crate::memory::Memory;
use crate::region::{Region, Words};
use crate::settings::{info as kinds, wants};
use crate::stream::{After, Stream};
use longshore::{Grid, RawArguments};
use smallvec::SmallVec;
use std::ffi::c_void;

/// The launch environment of a kernel that reads none.
const NO_ENVIRONMENT: u64 = u64::MAX;
/// The first version of arguments with the launch environment behind the other arguments.
const ENVIRONMENT_LAST: u32 = 4;

/// Dynamic group memory of a launch.
struct GroupMemory {
    /// Size in bytes that the kernel sees.
    bytes: u32,
    /// Size in bytes that the launch asks for.
    launched: u32,
    fallback: u8,
    /// Device memory in place of group memory.
    replacement: Option<Memory>,
}

/// Launches the kernel of a region on a GPU. The caller synchronizes the stream.
///
/// # Errors
/// Errors of the image and of the driver; group memory that the device lacks.
///
/// # Safety
/// The program compiled the region for the arguments in `words`.
pub(crate) unsafe fn launch(
    stream: &mut Stream,
    gpu: &Gpu,
    region: &Region,
    kernel: &RegionKernel,
    words: &mut Words,
) -> Result<(), Failure> {
    let native = kernel.get()?;
    let device = stream.device;
    let facts = kernel.gpu_facts(|| {
        let queue = device.device.queue()?;
        KernelFacts::read(native.program(), native, &gpu.limits, &queue, region.version)
    })?;
    let (teams, threads) = shape::shape(facts, &gpu.limits, &wanted(region));
    let mut owned = Vec::new();
    let group = group_memory(stream, gpu, region, facts, teams)?;
    let shape = (teams, group.bytes, group.fallback);
    let replacement = group.replacement.as_ref().map_or(0, Memory::address);
    owned.extend(group.replacement);
    let described = describe(stream, region, facts, shape, replacement, &mut owned);
    if !owned.is_empty() {
        stream.after(After::Free(owned));
    }
    match (convention(region, facts), described?) {
        (..WITH_ENVIRONMENT, _) => {}
        (..ENVIRONMENT_LAST, environment) => words.insert(0, environment),
        (_, environment) => words.push(environment),
    }
    if wants(kinds::LAUNCHES) {
        info::launch(device.number, kernel, teams, threads, facts.mode.name());
        if let Some(description) = &kernel.description {
            let counts = (words.len(), region.trip_count);
            info::amdgpu_launch(device.number, description, teams, threads, counts);
        }
    }
    if let Some(serving) = gpu.users.begin() {
        stream.after(After::Serve(serving));
    }
    let pointers: SmallVec<[*const c_void; 12]> =
        words.iter().map(|word| std::ptr::from_ref(word).cast()).collect();
    let sizes = sizes(facts, words.len());
    let grid = Grid::new(teams, threads)
        .with_shared_bytes(u64::from(group.launched))
        .with_cooperative(region.request.flags & abi::FLAG_COOPERATIVE != 0);
    // SAFETY: each pointer leads to a word, which outlives the launch.
    let arguments = unsafe { RawArguments::new(&pointers, &sizes)? };
    // SAFETY: promised by the caller.
    unsafe { stream.queue_to_submit()?.launch(native, grid, arguments)? };
    Ok(())
}

/// Returns the version by which a kernel takes its arguments. Clang 18 gives arguments the version
/// of clang 17, but its kernels take a launch environment.
fn convention(region: &Region, facts: &KernelFacts) -> u32 {
    if region.version == 2 && facts.has_environment { WITH_ENVIRONMENT } else { region.version }
}

/// Returns the numbers that a region asks for. A region without `teams` has one team.
fn wanted(region: &Region) -> Wanted {
    let mut wanted = Wanted {
        teams: region.request.teams,
        threads: region.request.threads,
        trip_count: region.trip_count,
    };
    wanted.teams[0] = if region.teams < 0 { 1 } else { region.teams as u32 };
    wanted.threads[0] = region.thread_limit.max(0) as u32;
    wanted
}

/// Returns the size of each argument: 8 bytes, or fewer if the image says so.
fn sizes(facts: &KernelFacts, count: usize) -> SmallVec<[usize; 12]> {
    let declared = facts.argument_bytes.as_ref().filter(|declared| declared.len() == count);
    match declared {
        Some(declared) => declared.iter().map(|bytes| (*bytes as usize).min(8)).collect(),
        None => smallvec::smallvec![8; count],
    }
}

/// Decides on the dynamic group memory of a launch. LLVM: `prepareBlockMemory`.
fn group_memory(
    stream: &mut Stream,
    gpu: &Gpu,
    region: &Region,
    facts: &KernelFacts,
    teams: [u32; 3],
) -> Result<GroupMemory, Failure> {
    const TO_DEVICE_MEMORY: u8 = 2;
    let asked = region.request.dynamic_group_bytes;
    let bytes = asked.max(gpu.group_bytes);
    let total = facts.static_group_bytes + u64::from(bytes);
    let most = gpu.limits.group_bytes;
    if bytes == 0 || most == 0 || total <= most {
        return Ok(GroupMemory { bytes, launched: bytes, fallback: 0, replacement: None });
    }
    let fallback = (region.request.flags >> 2 & 3) as u8;
    if region.version < ENVIRONMENT_LAST || fallback == 0 {
        return Err(Failure::Other(format!(
            "the region needs {total} bytes of memory for each team, and the device has {most}"
        )));
    }
    if fallback != TO_DEVICE_MEMORY {
        return Ok(GroupMemory { bytes: 0, launched: 0, fallback, replacement: None });
    }
    let count = teams.iter().map(|teams| u64::from(*teams)).product::<u64>();
    let size = count.saturating_mul(u64::from(bytes));
    let replacement = Some(stream.device.table.lock().pool.allocate(size)?);
    Ok(GroupMemory { bytes, launched: 0, fallback, replacement })
}

/// Makes the launch environment that a kernel reads, and the buffer of its reduction. Returns the
/// environment's device address. LLVM: `getKernelLaunchEnvironment`.
fn describe(
    stream: &mut Stream,
    region: &Region,
    facts: &KernelFacts,
    (teams, group_bytes, fallback): ([u32; 3], u32, u8),
    replacement: u64,
    owned: &mut Vec<Memory>,
) -> Result<u64, Failure> {
    let version = convention(region, facts);
    let elements = match facts.reduction_elements {
        0 if version >= ENVIRONMENT_LAST => teams[0],
        elements => elements,
    };
    let reduction_bytes = u64::from(facts.reduction_bytes) * u64::from(elements);
    let tells_memory = version >= ENVIRONMENT_LAST && region.request.dynamic_group_bytes != 0;
    if version < WITH_ENVIRONMENT || (reduction_bytes == 0 && !tells_memory) {
        return Ok(NO_ENVIRONMENT);
    }
    let mut contents = LaunchEnvironment {
        group_memory: replacement,
        group_bytes,
        fallback,
        ..LaunchEnvironment::default()
    };
    if reduction_bytes != 0 {
        let buffer = stream.device.table.lock().pool.allocate(reduction_bytes)?;
        contents.reduction_buffer = buffer.address();
        owned.push(buffer);
    }
    let contents = contents.to_bytes(version);
    let memory = stream.device.table.lock().pool.allocate(contents.len() as u64)?;
    let address = memory.address();
    owned.push(memory);
    if wants(kinds::TRANSFERS) {
        let host = contents.as_ptr() as u64;
        info::launch_environment(stream.device.number, host, address, contents.len());
    }
    // SAFETY: the memory was allocated for these contents.
    unsafe { stream.submit_value(address, &contents)? };
    Ok(address)
}
