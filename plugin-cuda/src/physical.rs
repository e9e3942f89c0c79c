//! What is known of a device before it is opened.

use crate::driver::types::{Device, Uuid, device_attribute as attribute};
use crate::driver::{CuResult, Driver, Failure};
use crate::error;
use longshore_cuda_image::Arch;
use longshore_plugin_api::{
    DeviceInfo, DeviceType, Error, ErrorCode, FpCapability, InfoValue, Result,
};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::fmt::Write;
use std::sync::Arc;

/// NVIDIA's number of PCI-SIG.
const VENDOR_ID: u32 = 0x10de;
/// Since this compute capability there are 16-bit floating-point numbers.
const HALF_SINCE: (u32, u32) = (5, 3);

/// A device of the driver.
pub(crate) struct Physical {
    pub(crate) driver: Arc<Driver>,
    pub(crate) raw: Device,
    pub(crate) name: String,
    pub(crate) arch: Arch,
    pub(crate) memory_bytes: u64,
    pub(crate) limits: Limits,
    pub(crate) features: Features,
    uuid: [u8; 16],
    pci: Option<String>,
}

/// How much of something there can be.
pub(crate) struct Limits {
    /// Groups of a launch in each dimension.
    pub(crate) groups: [u32; 3],
    /// Items of a group in each dimension, and altogether.
    pub(crate) items: [u32; 3],
    pub(crate) group_items: u32,
    /// Shared memory of a group: what every kernel can have, and what one can ask for.
    pub(crate) shared_bytes: u64,
    pub(crate) most_shared_bytes: u64,
    pub(crate) multiprocessors: u32,
}

/// What the device can do.
pub(crate) struct Features {
    pub(crate) cooperative: bool,
    pub(crate) managed: bool,
    pub(crate) pools: bool,
    pub(crate) clusters: bool,
}

impl Physical {
    /// Asks the driver for what does not change.
    ///
    /// # Errors
    /// Those of the driver.
    pub(crate) fn query(driver: &Arc<Driver>, ordinal: c_int) -> Result<Physical> {
        let failed = |failure| {
            error::driver(driver, &format!("asking about CUDA device {ordinal}"), failure)
        };
        let ask = Ask { driver, raw: raw(driver, ordinal).map_err(failed)? };
        let number = |which| ask.attribute(which).map(|value| value.max(0) as u32).map_err(failed);
        // What an older driver does not know, the device has not.
        let optional = |which| match ask.attribute(which) {
            Err(failure) if failure.is(CuResult::INVALID_VALUE) => Ok(0),
            value => value.map(|value| value.max(0) as u32).map_err(failed),
        };
        let major = number(attribute::COMPUTE_CAPABILITY_MAJOR)?;
        let minor = number(attribute::COMPUTE_CAPABILITY_MINOR)?;
        let three = |which: [c_uint; 3]| -> Result<[u32; 3]> {
            Ok([number(which[0])?, number(which[1])?, number(which[2])?])
        };
        let shared_bytes = u64::from(number(attribute::MAX_SHARED_MEMORY_PER_BLOCK)?);
        let opt_in = u64::from(optional(attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?);
        Ok(Physical {
            driver: Arc::clone(driver),
            raw: ask.raw,
            name: ask.name().map_err(failed)?,
            arch: Arch::new(major, minor),
            memory_bytes: ask.memory_bytes().map_err(failed)?,
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
            },
            uuid: ask.uuid().map_err(failed)?,
            pci: ask.pci().ok(),
        })
    }

    /// Answers a query; all but [`DeviceInfo::FreeMemory`], which only an open device knows.
    ///
    /// # Errors
    /// `Unimplemented` if there is no answer; those of the driver.
    pub(crate) fn info(&self, query: DeviceInfo) -> Result<InfoValue> {
        let text = |text: &str| Ok(InfoValue::Text(text.to_owned()));
        let number = |number: u32| Ok(InfoValue::U32(number));
        let limits = &self.limits;
        match query {
            DeviceInfo::Type => number(self.kind() as u32),
            DeviceInfo::Name | DeviceInfo::ProductName => text(&self.name),
            DeviceInfo::Uid => text(&format!("cuda-{}", hex(&self.uuid))),
            DeviceInfo::Uuid => Ok(InfoValue::Uuid(self.uuid)),
            DeviceInfo::PciAddress => text(self.pci.as_deref().ok_or_else(|| none(query))?),
            DeviceInfo::Vendor => text("NVIDIA"),
            DeviceInfo::VendorId => number(VENDOR_ID),
            DeviceInfo::DriverVersion => text(&format!("CUDA {}", self.driver.version_text())),
            DeviceInfo::Architecture => text(&self.arch.to_string()),
            DeviceInfo::AddressBits => number(64),
            DeviceInfo::MaxWorkGroupSize => number(limits.group_items),
            DeviceInfo::MaxWorkGroupSizePerDimension => Ok(InfoValue::Dimensions(limits.items)),
            DeviceInfo::MaxWorkSize => number(self.work_items(0)),
            DeviceInfo::MaxWorkSizePerDimension => {
                Ok(InfoValue::Dimensions([0, 1, 2].map(|axis| self.work_items(axis))))
            }
            DeviceInfo::NumComputeUnits => number(limits.multiprocessors),
            DeviceInfo::MaxClockFrequency => number(self.megahertz(attribute::CLOCK_RATE, query)?),
            DeviceInfo::MemoryClockRate => {
                number(self.megahertz(attribute::MEMORY_CLOCK_RATE, query)?)
            }
            DeviceInfo::MaxMemAllocSize | DeviceInfo::GlobalMemSize => {
                Ok(InfoValue::U64(self.memory_bytes))
            }
            DeviceInfo::WorkGroupLocalMemSize => Ok(InfoValue::U64(limits.most_shared_bytes)),
            DeviceInfo::CooperativeLaunchSupport => Ok(InfoValue::Bool(self.features.cooperative)),
            DeviceInfo::Properties => text(&self.properties()),
            _ => arithmetic(query, self.has_half()).ok_or_else(|| none(query)),
        }
    }

    fn kind(&self) -> DeviceType {
        match self.attribute(attribute::INTEGRATED) {
            Some(integrated) if integrated != 0 => DeviceType::IntegratedGpu,
            _ => DeviceType::Gpu,
        }
    }

    fn has_half(&self) -> bool {
        (self.arch.major(), self.arch.minor()) >= HALF_SINCE
    }

    fn work_items(&self, axis: usize) -> u32 {
        self.limits.groups[axis].saturating_mul(self.limits.items[axis])
    }

    fn megahertz(&self, which: c_uint, query: DeviceInfo) -> Result<u32> {
        let rate = self.attribute(which).filter(|rate| *rate > 0);
        rate.map(|kilohertz| kilohertz as u32 / 1000).ok_or_else(|| none(query))
    }

    fn attribute(&self, which: c_uint) -> Option<c_int> {
        Ask { driver: &self.driver, raw: self.raw }.attribute(which).ok()
    }

    fn properties(&self) -> String {
        let (major, minor) = (self.arch.major(), self.arch.minor());
        let mut text = format!("compute_capability={major}.{minor}\n");
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
            ("memory_pools", attribute::MEMORY_POOLS_SUPPORTED),
            ("cluster_launch", attribute::CLUSTER_LAUNCH),
        ];
        for (name, which) in known {
            if let Some(value) = self.attribute(which) {
                let _ = writeln!(text, "{name}={value}");
            }
        }
        match mig_profile(&self.name) {
            Some(profile) => _ = writeln!(text, "mig=1\nmig_profile={profile}"),
            None => text.push_str("mig=0\n"),
        }
        text
    }
}

/// Questions about a device.
struct Ask<'a> {
    driver: &'a Driver,
    raw: Device,
}

impl Ask<'_> {
    fn attribute(&self, which: c_uint) -> std::result::Result<c_int, Failure> {
        let mut value = 0;
        // SAFETY: the output is ours; the driver knows the device.
        unsafe { self.driver.cuDeviceGetAttribute(&mut value, which, self.raw) }?;
        Ok(value)
    }

    fn name(&self) -> std::result::Result<String, Failure> {
        text(|buffer, bytes| {
            // SAFETY: the buffer has so many bytes.
            unsafe { self.driver.cuDeviceGetName(buffer, bytes, self.raw) }
        })
    }

    /// "0000:65:00.0".
    fn pci(&self) -> std::result::Result<String, Failure> {
        let found = text(|buffer, bytes| {
            // SAFETY: the buffer has so many bytes.
            unsafe { self.driver.cuDeviceGetPCIBusId(buffer, bytes, self.raw) }
        });
        found.map(|address| address.to_ascii_lowercase())
    }

    fn uuid(&self) -> std::result::Result<[u8; 16], Failure> {
        let mut uuid = Uuid::default();
        // SAFETY: the output is ours.
        let asked = unsafe {
            match self.driver.cuDeviceGetUuid(&mut uuid, self.raw) {
                // Of a part of a GPU this is the whole one's.
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
        // SAFETY: the output is ours.
        unsafe { self.driver.cuDeviceTotalMem(&mut bytes, self.raw) }?;
        Ok(bytes as u64)
    }
}

fn raw(driver: &Driver, ordinal: c_int) -> std::result::Result<Device, Failure> {
    let mut raw = 0;
    // SAFETY: the output is ours.
    unsafe { driver.cuDeviceGet(&mut raw, ordinal) }?;
    Ok(raw)
}

fn text(
    write: impl FnOnce(*mut c_char, c_int) -> std::result::Result<(), Failure>,
) -> std::result::Result<String, Failure> {
    let mut buffer = [0u8; 256];
    write(buffer.as_mut_ptr().cast(), buffer.len() as c_int)?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().trim().to_owned())
}

/// "1g.10gb" of "NVIDIA H100 PCIe MIG 1g.10gb".
fn mig_profile(name: &str) -> Option<&str> {
    name.split_once(" MIG ").map(|(_, profile)| profile.trim())
}

/// Floating point and vectors. As all devices of one backend, for lack of a query.
fn arithmetic(query: DeviceInfo, has_half: bool) -> Option<InfoValue> {
    const IEEE: u32 = FpCapability::CorrectlyRoundedDivideSqrt as u32
        | FpCapability::RoundToNearest as u32
        | FpCapability::RoundToZero as u32
        | FpCapability::RoundToInf as u32
        | FpCapability::InfNan as u32
        | FpCapability::Denorm as u32
        | FpCapability::Fma as u32;
    let half = IEEE & !(FpCapability::CorrectlyRoundedDivideSqrt as u32);
    let number = match query {
        DeviceInfo::SingleFpConfig | DeviceInfo::DoubleFpConfig => IEEE,
        DeviceInfo::HalfFpConfig => {
            if has_half {
                half
            } else {
                0
            }
        }
        DeviceInfo::NativeVectorWidthChar => 4,
        DeviceInfo::NativeVectorWidthShort => 2,
        DeviceInfo::NativeVectorWidthInt
        | DeviceInfo::NativeVectorWidthLong
        | DeviceInfo::NativeVectorWidthFloat
        | DeviceInfo::NativeVectorWidthDouble => 1,
        DeviceInfo::NativeVectorWidthHalf => {
            if has_half {
                2
            } else {
                0
            }
        }
        DeviceInfo::SingleFpSupport | DeviceInfo::DoubleFpSupport => {
            return Some(InfoValue::Bool(true));
        }
        DeviceInfo::HalfFpSupport => return Some(InfoValue::Bool(has_half)),
        _ => return None,
    };
    Some(InfoValue::U32(number))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn none(query: DeviceInfo) -> Error {
    Error::new(ErrorCode::Unimplemented, format!("CUDA has no answer to {query:?}"))
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
