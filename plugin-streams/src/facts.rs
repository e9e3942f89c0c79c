//! Properties of a device that are known before it is opened.

use crate::call::{Call, Failure};
use longshore_plugin_api::{DeviceInfo, DeviceType, FpCapability, InfoValue, Result};
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Write;

/// Constant properties of a device.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The device's name, for the user.
    pub name: String,
    /// The name of the backend.
    pub backend: &'static str,
    /// The name of the vendor.
    pub vendor: &'static str,
    /// The vendor's ID from PCI-SIG.
    pub vendor_id: u32,
    /// The driver and its version.
    pub driver: String,
    /// The architecture's name in the driver's compilers: "sm_90", "gfx90a:sramecc+:xnack-".
    pub architecture: String,
    /// Whether the device is part of a processor.
    pub integrated: bool,
    /// The 16 bytes of the UUID, in the order of its printed form.
    pub uuid: [u8; 16],
    /// The PCI address, such as "0000:65:00.0".
    pub pci: Option<String>,
    /// Size of the device's memory in bytes.
    pub memory_bytes: u64,
    /// Clock rates of the processors and of the memory, in MHz.
    pub clocks: [Option<u32>; 2],
    /// Whether the device computes with 16-bit floating-point numbers.
    pub half: bool,
    /// Upper limits of launches.
    pub limits: Limits,
    /// Optional features of the device.
    pub features: Features,
    /// Lines of the form "name=value", for the user.
    pub properties: String,
}

/// Upper limits of launches on a device.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most work-groups of a launch, in each dimension.
    pub groups: [u32; 3],
    /// Most work-items of a work-group, in each dimension.
    pub items: [u32; 3],
    /// Most work-items of a work-group in all.
    pub group_items: u32,
    /// Bytes of shared memory that a work-group of every kernel can have.
    pub shared_bytes: u64,
    /// Bytes of shared memory that a work-group can have if its kernel requests them.
    pub most_shared_bytes: u64,
    /// Number of multiprocessors (NVIDIA) or compute units (AMD).
    pub multiprocessors: u32,
}

/// Optional features of a device.
#[derive(Clone, Debug)]
pub struct Features {
    /// Launches whose groups all run at once.
    pub cooperative: bool,
    /// Managed memory, which moves between host and device.
    pub managed: bool,
    /// Allocation from memory pools.
    pub pools: bool,
    /// Clusters of groups.
    pub clusters: bool,
    /// Access of kernels to pageable memory of the host, at its host addresses.
    pub pageable: bool,
}

impl Facts {
    /// Answers a query about the device; all but [`DeviceInfo::FreeMemory`], which only the driver
    /// knows.
    ///
    /// # Errors
    /// `Unimplemented` if there is no answer.
    pub(crate) fn info(&self, query: DeviceInfo) -> Result<InfoValue> {
        self.answer(query).ok_or_else(|| query.unanswered_by(format_args!("'{}'", self.name)))
    }

    fn answer(&self, query: DeviceInfo) -> Option<InfoValue> {
        let text = |text: &str| Some(InfoValue::Text(text.to_owned()));
        let number = |number: u32| Some(InfoValue::U32(number));
        let limits = &self.limits;
        let kind = if self.integrated { DeviceType::IntegratedGpu } else { DeviceType::Gpu };
        match query {
            DeviceInfo::Type => number(kind as u32),
            DeviceInfo::Name | DeviceInfo::ProductName => text(&self.name),
            DeviceInfo::Uid => text(&format!("{}-{}", self.backend, hex(&self.uuid))),
            DeviceInfo::Uuid => Some(InfoValue::Uuid(self.uuid)),
            DeviceInfo::PciAddress => text(self.pci.as_deref()?),
            DeviceInfo::Vendor => text(self.vendor),
            DeviceInfo::VendorId => number(self.vendor_id),
            DeviceInfo::DriverVersion => text(&self.driver),
            DeviceInfo::Architecture => text(&self.architecture),
            DeviceInfo::AddressBits => number(64),
            DeviceInfo::MaxWorkGroupSize => number(limits.group_items),
            DeviceInfo::MaxWorkGroupSizePerDimension => Some(InfoValue::Dimensions(limits.items)),
            DeviceInfo::MaxWorkSize => number(self.work_items(0)),
            DeviceInfo::MaxWorkSizePerDimension => {
                Some(InfoValue::Dimensions([0, 1, 2].map(|axis| self.work_items(axis))))
            }
            DeviceInfo::NumComputeUnits => number(limits.multiprocessors),
            DeviceInfo::MaxClockFrequency => number(self.clocks[0]?),
            DeviceInfo::MemoryClockRate => number(self.clocks[1]?),
            DeviceInfo::MaxMemAllocSize | DeviceInfo::GlobalMemSize => {
                Some(InfoValue::U64(self.memory_bytes))
            }
            DeviceInfo::WorkGroupLocalMemSize => Some(InfoValue::U64(limits.most_shared_bytes)),
            DeviceInfo::CooperativeLaunchSupport => {
                Some(InfoValue::Bool(self.features.cooperative))
            }
            DeviceInfo::HostAccess => Some(InfoValue::Bool(false)),
            DeviceInfo::UnifiedMemory => Some(InfoValue::Bool(self.features.pageable)),
            DeviceInfo::Properties => text(&self.properties),
            _ => arithmetic(query, self.half),
        }
    }

    fn work_items(&self, axis: usize) -> u32 {
        self.limits.groups[axis].saturating_mul(self.limits.items[axis])
    }
}

/// Answers queries about floating-point numbers and vectors. The answers are the same for all
/// devices of a backend, as the drivers have no query for them.
fn arithmetic(query: DeviceInfo, has_half: bool) -> Option<InfoValue> {
    const IEEE: u32 = FpCapability::CorrectlyRoundedDivideSqrt as u32
        | FpCapability::RoundToNearest as u32
        | FpCapability::RoundToZero as u32
        | FpCapability::RoundToInf as u32
        | FpCapability::InfNan as u32
        | FpCapability::Denorm as u32
        | FpCapability::Fma as u32;
    let half = IEEE & !(FpCapability::CorrectlyRoundedDivideSqrt as u32);
    let if_half = |number| if has_half { number } else { 0 };
    let number = match query {
        DeviceInfo::SingleFpConfig | DeviceInfo::DoubleFpConfig => IEEE,
        DeviceInfo::HalfFpConfig => if_half(half),
        DeviceInfo::NativeVectorWidthChar => 4,
        DeviceInfo::NativeVectorWidthShort => 2,
        DeviceInfo::NativeVectorWidthInt
        | DeviceInfo::NativeVectorWidthLong
        | DeviceInfo::NativeVectorWidthFloat
        | DeviceInfo::NativeVectorWidthDouble => 1,
        DeviceInfo::NativeVectorWidthHalf => if_half(2),
        DeviceInfo::SingleFpSupport | DeviceInfo::DoubleFpSupport => {
            return Some(InfoValue::Bool(true));
        }
        DeviceInfo::HalfFpSupport => return Some(InfoValue::Bool(has_half)),
        _ => return None,
    };
    Some(InfoValue::U32(number))
}

/// Returns lines of the form "name=value" for each property that has a value.
pub fn lines(known: &[(&str, u32)], value: impl Fn(u32) -> Option<i32>) -> String {
    let lines = known.iter().filter_map(|(name, which)| Some((name, value(*which)?)));
    lines.fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name}={value}");
        text
    })
}

/// Returns the NUL-terminated text that a function of a driver writes into a buffer. `write` gets
/// the buffer and its size in bytes.
///
/// # Errors
/// Errors of the driver.
pub fn text(
    write: impl FnOnce(*mut c_char, c_int) -> Call,
) -> std::result::Result<String, Failure> {
    let mut buffer = [0u8; 256];
    write(buffer.as_mut_ptr().cast(), buffer.len() as c_int)?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().trim().to_owned())
}

/// Returns two hexadecimal digits for each byte.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
