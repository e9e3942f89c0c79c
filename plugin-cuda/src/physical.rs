//! Properties of a device that are known before it is opened.

use crate::driver::Driver;
use crate::driver::types::{Device, Uuid, device_attribute as attribute};
use longshore_format_nvidia::Arch;
use longshore_plugin_api::Result;
use longshore_plugin_streams::{
    Code, Driver as _, Facts, Failure, Features, Limits, driver_error, lines, text,
};
use std::ffi::{c_int, c_uint};
use std::fmt::Write;
use std::sync::Arc;

/// NVIDIA's vendor ID from PCI-SIG.
const VENDOR_ID: u32 = 0x10de;
/// First compute capability with 16-bit floating-point numbers.
const HALF_SINCE: (u32, u32) = (5, 3);

/// A device of the driver.
pub struct CudaPhysical {
    pub(crate) raw: Device,
    pub(crate) arch: Arch,
    facts: Arc<Facts>,
}

impl longshore_plugin_streams::Physical for CudaPhysical {
    fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    fn ordinal(&self) -> i32 {
        self.raw
    }
}

impl CudaPhysical {
    /// Queries the device's constant properties.
    ///
    /// # Errors
    /// Errors of the driver.
    pub(crate) fn query(driver: &Arc<Driver>, ordinal: c_int) -> Result<CudaPhysical> {
        let failed =
            |failure| driver_error(&**driver, &format!("querying CUDA device {ordinal}"), failure);
        let ask = DeviceQueries { driver, raw: raw(driver, ordinal).map_err(failed)? };
        let number = |which| ask.attribute(which).map(|value| value.max(0) as u32).map_err(failed);
        // A feature that an older driver does not know counts as absent.
        let optional = |which| match ask.attribute(which) {
            Err(failure) if failure.is(Code::INVALID_VALUE) => Ok(0),
            value => value.map(|value| value.max(0) as u32).map_err(failed),
        };
        let major = number(attribute::COMPUTE_CAPABILITY_MAJOR)?;
        let minor = number(attribute::COMPUTE_CAPABILITY_MINOR)?;
        let arch = Arch::new(major, minor);
        let three = |which: [c_uint; 3]| -> Result<[u32; 3]> {
            Ok([number(which[0])?, number(which[1])?, number(which[2])?])
        };
        let shared_bytes = u64::from(number(attribute::MAX_SHARED_MEMORY_PER_BLOCK)?);
        let opt_in = u64::from(optional(attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?);
        let name = ask.name().map_err(failed)?;
        let facts = Facts {
            backend: "cuda",
            vendor: "NVIDIA",
            vendor_id: VENDOR_ID,
            driver: format!("CUDA {}", driver.version_text()),
            architecture: arch.to_string(),
            integrated: ask.optional(attribute::INTEGRATED).is_some_and(|yes| yes != 0),
            uuid: ask.uuid().map_err(failed)?,
            pci: ask.pci().ok(),
            memory_bytes: ask.memory_bytes().map_err(failed)?,
            clocks: [attribute::CLOCK_RATE, attribute::MEMORY_CLOCK_RATE]
                .map(|which| ask.megahertz(which)),
            half: (arch.major(), arch.minor()) >= HALF_SINCE,
            limits: Limits {
                groups: three([
                    attribute::MAX_GRID_DIM_X,
                    attribute::MAX_GRID_DIM_Y,
                    attribute::MAX_GRID_DIM_Z,
                ])?,
                items: three([
                    attribute::MAX_BLOCK_DIM_X,
                    attribute::MAX_BLOCK_DIM_Y,
                    attribute::MAX_BLOCK_DIM_Z,
                ])?,
                group_items: number(attribute::MAX_THREADS_PER_BLOCK)?,
                shared_bytes,
                most_shared_bytes: opt_in.max(shared_bytes),
                multiprocessors: number(attribute::MULTIPROCESSOR_COUNT)?,
            },
            features: Features {
                cooperative: optional(attribute::COOPERATIVE_LAUNCH)? != 0,
                managed: optional(attribute::MANAGED_MEMORY)? != 0,
                pools: optional(attribute::MEMORY_POOLS_SUPPORTED)? != 0,
                clusters: optional(attribute::CLUSTER_LAUNCH)? != 0,
                pageable: optional(attribute::PAGEABLE_MEMORY_ACCESS)? != 0,
            },
            properties: ask.properties(arch, &name),
            name,
        };
        Ok(CudaPhysical { raw: ask.raw, arch, facts: Arc::new(facts) })
    }
}

/// Queries about a device.
struct DeviceQueries<'a> {
    driver: &'a Driver,
    raw: Device,
}

impl DeviceQueries<'_> {
    fn attribute(&self, which: c_uint) -> std::result::Result<c_int, Failure> {
        let mut value = 0;
        // SAFETY: the output is a local variable; the driver knows the device.
        unsafe { self.driver.cuDeviceGetAttribute(&mut value, which, self.raw) }?;
        Ok(value)
    }

    /// Returns an attribute that the device may lack.
    fn optional(&self, which: c_uint) -> Option<c_int> {
        self.attribute(which).ok()
    }

    fn megahertz(&self, which: c_uint) -> Option<u32> {
        let kilohertz = self.optional(which).filter(|rate| *rate > 0)?;
        Some(kilohertz as u32 / 1000)
    }

    fn properties(&self, arch: Arch, name: &str) -> String {
        let (major, minor) = (arch.major(), arch.minor());

        let known = [
            ("ecc", attribute::ECC_ENABLED),
            ("warp_size", attribute::WARP_SIZE),
            ("threads_per_multiprocessor", attribute::MAX_THREADS_PER_MULTIPROCESSOR),
            ("groups_per_multiprocessor", attribute::MAX_BLOCKS_PER_MULTIPROCESSOR),
            ("registers_per_group", attribute::MAX_REGISTERS_PER_BLOCK),
            ("registers_per_multiprocessor", attribute::MAX_REGISTERS_PER_MULTIPROCESSOR),
            ("shared_bytes_per_group", attribute::MAX_SHARED_MEMORY_PER_BLOCK),
            ("shared_bytes_per_multiprocessor", attribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            ("constant_bytes", attribute::TOTAL_CONSTANT_MEMORY),
            ("l2_cache_bytes", attribute::L2_CACHE_SIZE),
            ("memory_bus_bits", attribute::GLOBAL_MEMORY_BUS_WIDTH),
            ("copy_engines", attribute::ASYNC_ENGINE_COUNT),
            ("concurrent_kernels", attribute::CONCURRENT_KERNELS),
            ("compute_mode", attribute::COMPUTE_MODE),
            ("unified_addressing", attribute::UNIFIED_ADDRESSING),
            ("managed_memory", attribute::MANAGED_MEMORY),
            ("concurrent_managed_access", attribute::CONCURRENT_MANAGED_ACCESS),
            ("pageable_memory_access", attribute::PAGEABLE_MEMORY_ACCESS),
            ("memory_pools", attribute::MEMORY_POOLS_SUPPORTED),
            ("cluster_launch", attribute::CLUSTER_LAUNCH),
        ];
        let mut text = format!("compute_capability={major}.{minor}\n");
        text.push_str(&lines(&known, |which| self.optional(which)));
        match mig_profile(name) {
            Some(profile) => _ = writeln!(text, "mig=1\nmig_profile={profile}"),
            None => text.push_str("mig=0\n"),
        }
        text
    }

    fn name(&self) -> std::result::Result<String, Failure> {
        text(|buffer, bytes| {
            // SAFETY: the buffer has `bytes` bytes.
            unsafe { self.driver.cuDeviceGetName(buffer, bytes, self.raw) }
        })
    }

    /// Returns the PCI address, such as "0000:65:00.0".
    fn pci(&self) -> std::result::Result<String, Failure> {
        let found = text(|buffer, bytes| {
            // SAFETY: the buffer has `bytes` bytes.
            unsafe { self.driver.cuDeviceGetPCIBusId(buffer, bytes, self.raw) }
        });
        found.map(|address| address.to_ascii_lowercase())
    }

    fn uuid(&self) -> std::result::Result<[u8; 16], Failure> {
        let mut uuid = Uuid::default();
        // SAFETY: the output is a local variable.
        let asked = unsafe {
            match self.driver.cuDeviceGetUuid(&mut uuid, self.raw) {
                // For a MIG part of a GPU, the older function returns the UUID of the whole GPU.
                Err(failure) if failure.result.is_none() => {
                    self.driver.cuDeviceGetUuid_v1(&mut uuid, self.raw)
                }
                asked => asked,
            }
        };
        asked.map(|()| uuid.bytes)
    }

    fn memory_bytes(&self) -> std::result::Result<u64, Failure> {
        let mut bytes = 0;
        // SAFETY: the output is a local variable.
        unsafe { self.driver.cuDeviceTotalMem(&mut bytes, self.raw) }?;
        Ok(bytes as u64)
    }
}

fn raw(driver: &Driver, ordinal: c_int) -> std::result::Result<Device, Failure> {
    let mut raw = 0;
    // SAFETY: the output is a local variable.
    unsafe { driver.cuDeviceGet(&mut raw, ordinal) }?;
    Ok(raw)
}

/// Returns the MIG profile in a device's name: "1g.10gb" in "NVIDIA H100 PCIe MIG 1g.10gb".
fn mig_profile(name: &str) -> Option<&str> {
    name.split_once(" MIG ").map(|(_, profile)| profile.trim())
}

#[cfg(test)]
mod tests {
    use super::mig_profile;

    #[test]
    fn a_part_of_a_gpu_is_known_by_its_name() {
        assert_eq!(mig_profile("NVIDIA A100-SXM4-40GB MIG 1g.5gb"), Some("1g.5gb"));
        assert_eq!(mig_profile("NVIDIA H100 80GB HBM3"), None);
    }
}
