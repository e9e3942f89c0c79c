//! Information queries and the types of their answers.

use crate::error::{Error, ErrorCode, Result};
use std::fmt::Display;

/// The type of the answer to a device query, as bytes written to the sink (little endian).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InfoType {
    /// UTF-8 without NUL.
    Text,
    /// One byte, 0 or 1.
    Bool,
    /// 4 bytes.
    U32,
    /// 8 bytes.
    U64,
    /// Three times 4 bytes: x, y, z.
    Dimensions,
    /// 16 bytes.
    Uuid,
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum InfoValue {
    /// A string.
    Text(String),
    /// A truth value.
    Bool(bool),
    /// A 32-bit number, also for enumerations and sets of flags.
    U32(u32),
    /// A 64-bit number.
    U64(u64),
    /// A number for each of x, y and z.
    Dimensions([u32; 3]),
    /// A UUID.
    Uuid([u8; 16]),
}

macro_rules! device_info {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $kind:ident;)*) => {
        /// A query about a device. Values below 0x1000 equal LLVM's `ol_device_info_t` (without
        /// `PLATFORM`, which the host answers itself); all further values are Longshore's own.
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum DeviceInfo { $($(#[$doc])* $name = $value,)* }

        impl DeviceInfo {
            /// All queries that this version knows, in the order of their values.
            pub const ALL: &[DeviceInfo] = &[$(DeviceInfo::$name,)*];

            /// Returns the type of the answer.
            pub fn value_type(self) -> InfoType {
                match self { $(DeviceInfo::$name => InfoType::$kind,)* }
            }
        }
    };
}

device_info! {
    /// Kind of the device: a `DeviceType`.
    Type = 0, U32;
    /// Name of the device.
    Name = 2, Text;
    /// Name under which the device is sold.
    ProductName = 3, Text;
    /// Unique name: `<backend>-<uuid or index>`.
    Uid = 4, Text;
    /// Vendor of the device.
    Vendor = 5, Text;
    /// Version of the driver.
    DriverVersion = 6, Text;
    /// Maximum number of work-items in a group.
    MaxWorkGroupSize = 7, U32;
    /// Maximum number of work-items of a group in each dimension.
    MaxWorkGroupSizePerDimension = 8, Dimensions;
    /// Maximum number of work-items in a launch.
    MaxWorkSize = 9, U32;
    /// Maximum number of work-items of a launch in each dimension.
    MaxWorkSizePerDimension = 10, Dimensions;
    /// Number of the vendor, assigned by PCI-SIG.
    VendorId = 11, U32;
    /// Number of compute units that work in parallel.
    NumComputeUnits = 12, U32;
    /// Highest clock in MHz.
    MaxClockFrequency = 13, U32;
    /// Memory clock in MHz.
    MemoryClockRate = 14, U32;
    /// Bits of a device address.
    AddressBits = 15, U32;
    /// Size of the largest possible allocation in bytes.
    MaxMemAllocSize = 16, U64;
    /// Size of the device memory in bytes.
    GlobalMemSize = 17, U64;
    /// Maximum size of the shared memory of a group in bytes.
    WorkGroupLocalMemSize = 18, U64;
    /// Abilities in single precision: `FpCapability` bits.
    SingleFpConfig = 19, U32;
    /// Abilities in double precision: `FpCapability` bits.
    DoubleFpConfig = 20, U32;
    /// Abilities in half precision: `FpCapability` bits.
    HalfFpConfig = 21, U32;
    /// Native vector width for 8-bit integers, in elements.
    NativeVectorWidthChar = 22, U32;
    /// Native vector width for 16-bit integers, in elements.
    NativeVectorWidthShort = 23, U32;
    /// Native vector width for 32-bit integers, in elements.
    NativeVectorWidthInt = 24, U32;
    /// Native vector width for 64-bit integers, in elements.
    NativeVectorWidthLong = 25, U32;
    /// Native vector width for single precision, in elements.
    NativeVectorWidthFloat = 26, U32;
    /// Native vector width for double precision, in elements.
    NativeVectorWidthDouble = 27, U32;
    /// Native vector width for half precision, in elements.
    NativeVectorWidthHalf = 28, U32;
    /// Whether the device has single precision.
    SingleFpSupport = 29, Bool;
    /// Whether the device has double precision.
    DoubleFpSupport = 30, Bool;
    /// Whether the device has half precision.
    HalfFpSupport = 31, Bool;
    /// Whether the device has cooperative launches.
    CooperativeLaunchSupport = 32, Bool;
    /// UUID of the device, from the vendor.
    Uuid = 0x1000, Uuid;
    /// PCI address: "0000:65:00.0".
    PciAddress = 0x1001, Text;
    /// Architecture that images are compiled for: "x86_64", "sm_90", "gfx942".
    Architecture = 0x1002, Text;
    /// Free memory in bytes. The only query whose answer changes.
    FreeMemory = 0x1003, U64;
    /// Further properties worth showing, one `name=value` per line.
    Properties = 0x1004, Text;
    /// Whether the program may read and write memory of kind `Device` and global variables at their
    /// device addresses, in its own process. No queue orders such accesses.
    HostAccess = 0x1005, Bool;
    /// Whether kernels may read and write all memory of the program's process at its host
    /// addresses.
    UnifiedMemory = 0x1006, Bool;
}

/// A query about a platform, with a text as answer. The values equal LLVM's
/// `ol_platform_info_t` (without `BACKEND`, which the host answers itself).
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum PlatformInfo {
    /// Name of the platform: "CUDA", "x86_64".
    Name = 0,
    /// Vendor of the platform.
    VendorName = 1,
    /// Version of the platform's driver or runtime.
    Version = 2,
}

impl PlatformInfo {
    /// All queries, in the order of their values.
    pub const ALL: &[PlatformInfo] =
        &[PlatformInfo::Name, PlatformInfo::VendorName, PlatformInfo::Version];
}

/// The kind of a device. The values equal LLVM's `ol_device_type_t`, with integrated GPUs as
/// an addition.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceType {
    /// A GPU with memory of its own.
    Gpu = 2,
    /// A CPU behind a GPU interface, such as lavapipe.
    Cpu = 3,
    /// The CPU that runs the program.
    Host = 4,
    /// A GPU that shares the CPU's memory.
    IntegratedGpu = 0x1000,
}

/// A bit of the floating-point queries. The values equal LLVM's
/// `ol_device_fp_capability_flag_t`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FpCapability {
    /// Correct rounding of division and square root.
    CorrectlyRoundedDivideSqrt = 1,
    /// Rounding to nearest.
    RoundToNearest = 2,
    /// Rounding to zero.
    RoundToZero = 4,
    /// Rounding to infinity.
    RoundToInf = 8,
    /// Infinities and NaN.
    InfNan = 16,
    /// Denormals.
    Denorm = 32,
    /// Fused multiply-add.
    Fma = 64,
    /// Computation in software.
    SoftFloat = 128,
}

impl DeviceInfo {
    /// Returns the query with this value.
    ///
    /// # Errors
    /// `InvalidEnumeration` for any other value.
    pub fn from_raw(value: u32) -> Result<DeviceInfo> {
        let found = Self::ALL.iter().find(|query| **query as u32 == value);
        found.copied().ok_or_else(|| unknown("device", value))
    }

    /// Creates the `Unimplemented` error of a query without an answer from `subject`, a device or a
    /// driver's interface.
    pub fn unanswered_by(self, subject: impl Display) -> Error {
        Error::new(ErrorCode::Unimplemented, format!("{subject} has no answer to {self:?}"))
    }
}

impl PlatformInfo {
    /// Returns the query with this value.
    ///
    /// # Errors
    /// `InvalidEnumeration` for any other value.
    pub fn from_raw(value: u32) -> Result<PlatformInfo> {
        let found = Self::ALL.iter().find(|query| **query as u32 == value);
        found.copied().ok_or_else(|| unknown("platform", value))
    }

    /// Creates the `Unimplemented` error of a query without an answer from `subject`, a platform.
    pub fn unanswered_by(self, subject: impl Display) -> Error {
        Error::new(ErrorCode::Unimplemented, format!("{subject} has no answer to {self:?}"))
    }
}

impl DeviceType {
    /// Returns the type with this value; `None` for a type unknown to this version.
    pub fn from_raw(value: u32) -> Option<DeviceType> {
        Some(match value {
            2 => DeviceType::Gpu,
            3 => DeviceType::Cpu,
            4 => DeviceType::Host,
            0x1000 => DeviceType::IntegratedGpu,
            _ => return None,
        })
    }
}

impl InfoValue {
    /// Returns the answer as the bytes that cross the boundary.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.with_bytes(<[u8]>::to_vec)
    }

    /// Calls `read` with the bytes that cross the boundary; allocates nothing.
    pub(crate) fn with_bytes<R>(&self, read: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            InfoValue::Text(text) => read(text.as_bytes()),
            InfoValue::Bool(value) => read(&[u8::from(*value)]),
            InfoValue::U32(value) => read(&value.to_le_bytes()),
            InfoValue::U64(value) => read(&value.to_le_bytes()),
            InfoValue::Dimensions(xyz) => read(xyz.map(u32::to_le_bytes).as_flattened()),
            InfoValue::Uuid(bytes) => read(bytes),
        }
    }

    /// Reads back the bytes of [`InfoValue::to_bytes`]; a text keeps the memory of `bytes`.
    ///
    /// # Errors
    /// `BackendFailure` for bytes of another size than the type's, and for a text that is not UTF-8
    /// without NUL.
    pub fn from_bytes(kind: InfoType, bytes: Vec<u8>) -> Result<InfoValue> {
        let (size, array) = (bytes.len(), &*bytes);
        let value = match kind {
            InfoType::Text => {
                let text = String::from_utf8(bytes).ok();
                text.filter(|text| !text.as_bytes().contains(&0)).map(InfoValue::Text)
            }
            InfoType::Bool => array.try_into().ok().map(|[b]: [u8; 1]| InfoValue::Bool(b != 0)),
            InfoType::U32 => word(array).map(InfoValue::U32),
            InfoType::U64 => array.try_into().ok().map(u64::from_le_bytes).map(InfoValue::U64),
            InfoType::Dimensions => dimensions(array).map(InfoValue::Dimensions),
            InfoType::Uuid => array.try_into().ok().map(InfoValue::Uuid),
        };
        value.ok_or_else(|| {
            let message =
                format!("the plugin answered {size} bytes, which are not a {kind:?} value");
            Error::new(ErrorCode::BackendFailure, message)
        })
    }

    /// Returns the number of a `U32`, `U64` or `Bool` answer; `None` for other answers.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            InfoValue::U32(value) => Some(u64::from(*value)),
            InfoValue::U64(value) => Some(*value),
            InfoValue::Bool(value) => Some(u64::from(*value)),
            _ => None,
        }
    }

    /// Returns the string of a `Text` answer; `None` for other answers.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            InfoValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

macro_rules! into_info_value {
    ($($type:ty => $variant:ident),* $(,)?) => { $(
        impl From<$type> for InfoValue {
            fn from(value: $type) -> InfoValue {
                InfoValue::$variant(value.into())
            }
        }
    )* };
}

into_info_value! {
    &str => Text,
    String => Text,
    bool => Bool,
    u32 => U32,
    u64 => U64,
    [u32; 3] => Dimensions,
    [u8; 16] => Uuid,
}

impl From<DeviceType> for InfoValue {
    fn from(value: DeviceType) -> InfoValue {
        InfoValue::U32(value as u32)
    }
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_le_bytes)
}

fn dimensions(bytes: &[u8]) -> Option<[u32; 3]> {
    let bytes: &[u8; 12] = bytes.try_into().ok()?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
    Some([0, 4, 8].map(number))
}

fn unknown(what: &str, value: u32) -> Error {
    Error::new(ErrorCode::InvalidEnumeration, format!("{value} is not a {what} query"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_the_trip_through_bytes() {
        let values = [
            (InfoType::Text, InfoValue::Text("größer".into())),
            (InfoType::Bool, InfoValue::Bool(true)),
            (InfoType::U32, InfoValue::U32(7)),
            (InfoType::U64, InfoValue::U64(u64::MAX)),
            (InfoType::Dimensions, InfoValue::Dimensions([1, 2, 3])),
            (InfoType::Uuid, InfoValue::Uuid([9; 16])),
        ];
        for (kind, value) in values {
            assert_eq!(InfoValue::from_bytes(kind, value.to_bytes()), Ok(value));
        }
    }

    #[test]
    fn an_answer_of_the_wrong_size_or_with_nul_is_the_backends_failure() {
        for (kind, bytes) in [(InfoType::U32, &[1, 2, 3][..]), (InfoType::Text, b"a\0b")] {
            let error = InfoValue::from_bytes(kind, bytes.to_vec()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::BackendFailure);
        }
    }
}
