//! A getter for each query about a device, with the type of its value.

use super::Device;
use crate::host::DeviceEntry;
use longshore_plugin_api::{DeviceInfo, DeviceType, Error, ErrorCode, InfoValue, Result};

macro_rules! getters {
    ($( $(#[$doc:meta])* fn $name:ident() -> $kind:ty = $query:ident; )*) => {
        getters!(Device { $( $(#[$doc])* fn $name() -> $kind = $query; )* });
        getters!(DeviceEntry { $( $(#[$doc])* fn $name() -> $kind = $query; )* });
    };
    ($owner:ident { $( $(#[$doc:meta])* fn $name:ident() -> $kind:ty = $query:ident; )* }) => {
        impl $owner { $(
            $(#[$doc])*
            ///
            /// # Errors
            /// `Unimplemented` if the device has no answer; errors of the driver.
            pub fn $name(&self) -> Result<$kind> {
                let query = DeviceInfo::$query;
                self.info(query).and_then(|value| <$kind>::from_info(query, value))
            }
        )* }
    };
}

getters! {
    /// Returns the type of the device. `InvalidEnumeration` for a type that this version does not
    /// know. LLVM: `OL_DEVICE_INFO_TYPE`.
    fn device_type() -> DeviceType = Type;
    /// Returns the name that the driver gives the device. LLVM: `OL_DEVICE_INFO_NAME`.
    fn device_name() -> String = Name;
    /// Returns the name under which the device is sold. LLVM: `OL_DEVICE_INFO_PRODUCT_NAME`.
    fn product_name() -> String = ProductName;
    /// Returns the unique identifier `<backend>-<uuid or index>`. LLVM: `OL_DEVICE_INFO_UID`.
    fn uid() -> String = Uid;
    /// Returns the name of the vendor. LLVM: `OL_DEVICE_INFO_VENDOR`.
    fn vendor() -> String = Vendor;
    /// Returns the version of the driver. LLVM: `OL_DEVICE_INFO_DRIVER_VERSION`.
    fn driver_version() -> String = DriverVersion;
    /// Returns the largest number of work-items of a work-group. LLVM:
    /// `OL_DEVICE_INFO_MAX_WORK_GROUP_SIZE`.
    fn max_work_group_size() -> u32 = MaxWorkGroupSize;
    /// Returns the largest number of work-items of a work-group in x, y and z. LLVM:
    /// `OL_DEVICE_INFO_MAX_WORK_GROUP_SIZE_PER_DIMENSION`.
    fn max_work_group_size_per_dimension() -> [u32; 3] = MaxWorkGroupSizePerDimension;
    /// Returns the largest number of work-items of a launch. LLVM: `OL_DEVICE_INFO_MAX_WORK_SIZE`.
    fn max_work_size() -> u32 = MaxWorkSize;
    /// Returns the largest number of work-items of a launch in x, y and z. LLVM:
    /// `OL_DEVICE_INFO_MAX_WORK_SIZE_PER_DIMENSION`.
    fn max_work_size_per_dimension() -> [u32; 3] = MaxWorkSizePerDimension;
    /// Returns the vendor's number as assigned by PCI-SIG. LLVM: `OL_DEVICE_INFO_VENDOR_ID`.
    fn vendor_id() -> u32 = VendorId;
    /// Returns the number of compute units that work in parallel. LLVM:
    /// `OL_DEVICE_INFO_NUM_COMPUTE_UNITS`.
    fn compute_units() -> u32 = NumComputeUnits;
    /// Returns the highest clock rate in MHz. LLVM: `OL_DEVICE_INFO_MAX_CLOCK_FREQUENCY`.
    fn max_clock_mhz() -> u32 = MaxClockFrequency;
    /// Returns the clock rate of the memory in MHz. LLVM: `OL_DEVICE_INFO_MEMORY_CLOCK_RATE`.
    fn memory_clock_mhz() -> u32 = MemoryClockRate;
    /// Returns the size of a device address in bits. LLVM: `OL_DEVICE_INFO_ADDRESS_BITS`.
    fn address_bits() -> u32 = AddressBits;
    /// Returns the size of the largest allocation in bytes. LLVM:
    /// `OL_DEVICE_INFO_MAX_MEM_ALLOC_SIZE`.
    fn max_allocation_bytes() -> u64 = MaxMemAllocSize;
    /// Returns the size of the device's memory in bytes. LLVM: `OL_DEVICE_INFO_GLOBAL_MEM_SIZE`.
    fn global_memory_bytes() -> u64 = GlobalMemSize;
    /// Returns the largest shared memory of a work-group in bytes. LLVM:
    /// `OL_DEVICE_INFO_WORK_GROUP_LOCAL_MEM_SIZE`.
    fn work_group_local_memory_bytes() -> u64 = WorkGroupLocalMemSize;
    /// Returns the floating-point capabilities of single precision, bits of
    /// [`FpCapability`](crate::FpCapability). LLVM: `OL_DEVICE_INFO_SINGLE_FP_CONFIG`.
    fn single_fp_config() -> u32 = SingleFpConfig;
    /// Returns the floating-point capabilities of double precision, bits of
    /// [`FpCapability`](crate::FpCapability). LLVM: `OL_DEVICE_INFO_DOUBLE_FP_CONFIG`.
    fn double_fp_config() -> u32 = DoubleFpConfig;
    /// Returns the floating-point capabilities of half precision, bits of
    /// [`FpCapability`](crate::FpCapability). LLVM: `OL_DEVICE_INFO_HALF_FP_CONFIG`.
    fn half_fp_config() -> u32 = HalfFpConfig;
    /// Returns the native vector width for 8-bit integers, in elements. LLVM:
    /// `OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_CHAR`.
    fn native_vector_width_i8() -> u32 = NativeVectorWidthChar;
    /// Returns the native vector width for 16-bit integers, in elements. LLVM:
    /// `OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_SHORT`.
    fn native_vector_width_i16() -> u32 = NativeVectorWidthShort;
    /// Returns the native vector width for 32-bit integers, in elements. LLVM:
    /// `OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_INT`.
    fn native_vector_width_i32() -> u32 = NativeVectorWidthInt;
    /// Returns the native vector width for 64-bit integers, in elements. LLVM:
    /// `OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_LONG`.
    fn native_vector_width_i64() -> u32 = NativeVectorWidthLong;
    /// Returns the native vector width for single precision, in elements. LLVM:
    /// `OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_FLOAT`.
    fn native_vector_width_f32() -> u32 = NativeVectorWidthFloat;
    /// Returns the native vector width for double precision, in elements. LLVM:
    /// `OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_DOUBLE`.
    fn native_vector_width_f64() -> u32 = NativeVectorWidthDouble;
    /// Returns the native vector width for half precision, in elements. LLVM:
    /// `OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_HALF`.
    fn native_vector_width_f16() -> u32 = NativeVectorWidthHalf;
    /// Returns whether the device supports single precision. LLVM:
    /// `OL_DEVICE_INFO_SINGLE_FP_SUPPORT`.
    fn supports_single_fp() -> bool = SingleFpSupport;
    /// Returns whether the device supports double precision. LLVM:
    /// `OL_DEVICE_INFO_DOUBLE_FP_SUPPORT`.
    fn supports_double_fp() -> bool = DoubleFpSupport;
    /// Returns whether the device supports half precision. LLVM: `OL_DEVICE_INFO_HALF_FP_SUPPORT`.
    fn supports_half_fp() -> bool = HalfFpSupport;
    /// Returns whether the device supports cooperative launches. LLVM:
    /// `OL_DEVICE_INFO_COOPERATIVE_LAUNCH_SUPPORT`.
    fn supports_cooperative_launch() -> bool = CooperativeLaunchSupport;
    /// Returns the vendor's UUID of the device. LLVM has no such query.
    fn uuid() -> [u8; 16] = Uuid;
    /// Returns the PCI address "0000:65:00.0". LLVM has no such query.
    fn pci_address() -> String = PciAddress;
    /// Returns the architecture that images are compiled for: "x86_64", "sm_90", "gfx942". LLVM has
    /// no such query.
    fn architecture() -> String = Architecture;
    /// Returns the size of the device memory that is free now, in bytes. LLVM has no such query.
    fn free_memory_bytes() -> u64 = FreeMemory;
    /// Returns whether the program may read and write device memory ([`MemoryKind::Device`]) and
    /// globals at their device addresses. No queue orders such accesses. True for the CPU in this
    /// process, false for GPUs and for isolated plugins. LLVM has no such query.
    ///
    /// [`MemoryKind::Device`]: crate::MemoryKind::Device
    fn supports_host_access() -> bool = HostAccess;
    /// Returns whether kernels may read and write all memory of this process at its host addresses,
    /// as unified shared memory of OpenMP requires. True for the CPU in this process, and for GPUs
    /// whose driver reports access to pageable memory; false for isolated plugins. LLVM has no such
    /// query.
    fn supports_unified_memory() -> bool = UnifiedMemory;
    /// Returns further properties, one `name=value` per line. LLVM has no such query.
    fn properties() -> String = Properties;
}

/// A type of the values of queries.
trait FromInfo: Sized {
    /// Converts the value of a query to this type.
    ///
    /// # Errors
    /// `BackendFailure` for a value of a type other than the query's.
    fn from_info(query: DeviceInfo, value: InfoValue) -> Result<Self>;
}

macro_rules! values {
    ($($kind:ty: $variant:ident),*) => { $(
        impl FromInfo for $kind {
            fn from_info(query: DeviceInfo, value: InfoValue) -> Result<$kind> {
                match value {
                    InfoValue::$variant(value) => Ok(value),
                    other => Err(mismatch(query, &other)),
                }
            }
        }
    )* };
}

values!(String: Text, bool: Bool, u32: U32, u64: U64, [u32; 3]: Dimensions, [u8; 16]: Uuid);

impl FromInfo for DeviceType {
    fn from_info(query: DeviceInfo, value: InfoValue) -> Result<DeviceType> {
        let number = u32::from_info(query, value)?;
        DeviceType::from_raw(number).ok_or_else(|| {
            let message = format!("the device has type {number}, which this version does not know");
            Error::new(ErrorCode::InvalidEnumeration, message)
        })
    }
}

#[cold]
fn mismatch(query: DeviceInfo, value: &InfoValue) -> Error {
    let expected = query.value_type();
    let message = format!("the answer to {query:?} is {value:?}, expected a value of {expected:?}");
    Error::new(ErrorCode::BackendFailure, message)
}
