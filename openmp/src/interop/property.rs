//! The properties of interoperability objects, and the numbers and names of the OpenMP Additional
//! Definitions.

use super::InteropPreference;
use std::ffi::CStr;

/// A property of an object. LLVM: `omp_interop_property_t`.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Property {
    RuntimeId = -1,
    RuntimeName = -2,
    Vendor = -3,
    VendorName = -4,
    DeviceNumber = -5,
    Platform = -6,
    Device = -7,
    DeviceContext = -8,
    TargetSync = -9,
}

/// The outcome of a query. LLVM: `omp_interop_rc_t`.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnCode {
    NoValue = 1,
    Success = 0,
    Empty = -1,
    OutOfRange = -2,
    TypeInteger = -3,
    TypePointer = -4,
    TypeText = -5,
    Other = -6,
}

/// The value of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Integer(i64),
    Text(&'static CStr),
    /// A handle of the driver: a pointer or a number.
    Handle(u64),
}

impl Property {
    const ALL: [Property; 9] = [
        Property::RuntimeId,
        Property::RuntimeName,
        Property::Vendor,
        Property::VendorName,
        Property::DeviceNumber,
        Property::Platform,
        Property::Device,
        Property::DeviceContext,
        Property::TargetSync,
    ];

    /// Returns the property with a number.
    pub(crate) fn from_number(number: i32) -> Option<Property> {
        Property::ALL.into_iter().find(|property| *property as i32 == number)
    }

    /// Returns the property's name.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Property::RuntimeId => c"fr_id",
            Property::RuntimeName => c"fr_name",
            Property::Vendor => c"vendor",
            Property::VendorName => c"vendor_name",
            Property::DeviceNumber => c"device_num",
            Property::Platform => c"platform",
            Property::Device => c"device",
            Property::DeviceContext => c"device_context",
            Property::TargetSync => c"targetsync",
        }
    }

    /// Returns the code by which a query of a wrong type names the right one.
    pub(crate) fn type_code(self) -> ReturnCode {
        match self {
            Property::RuntimeId | Property::Vendor | Property::DeviceNumber => {
                ReturnCode::TypeInteger
            }
            Property::RuntimeName | Property::VendorName => ReturnCode::TypeText,
            // LLVM's code for the platform is that of an integer, but the value is a pointer.
            Property::Platform
            | Property::Device
            | Property::DeviceContext
            | Property::TargetSync => ReturnCode::TypePointer,
        }
    }

    /// Returns the type of the property's value, as C writes it.
    pub(crate) fn type_name(self) -> &'static CStr {
        match self.type_code() {
            ReturnCode::TypeInteger => c"omp_intptr_t",
            ReturnCode::TypeText => c"const char *",
            _ => c"void *",
        }
    }
}

impl ReturnCode {
    /// Returns the description of a code; of `Other` for an unknown one.
    pub(crate) fn description(number: i32) -> &'static CStr {
        match number {
            1 => c"the property has no value",
            0 => c"success",
            -1 => c"the object is omp_interop_none",
            -2 => c"the property is out of range",
            -3 => c"the property is an integer: use omp_get_interop_int",
            -4 => c"the property is a pointer: use omp_get_interop_ptr",
            -5 => c"the property is a string: use omp_get_interop_str",
            _ => c"the object has no such property",
        }
    }
}

/// A foreign runtime, by its number. LLVM: `tgt_foreign_runtime_id_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForeignRuntime(pub(super) i32);

impl ForeignRuntime {
    const NONE: i32 = 0;
    const CUDA: i32 = 1;
    const CUDA_DRIVER: i32 = 2;
    const HIP: i32 = 5;

    /// Returns the foreign runtimes of a backend, the preferred one first.
    fn for_backend(backend: &str) -> &'static [i32] {
        match backend {
            "cuda" => &[ForeignRuntime::CUDA, ForeignRuntime::CUDA_DRIVER],
            "amdgpu" => &[ForeignRuntime::HIP],
            _ => &[],
        }
    }

    /// Returns the first preference that a backend has. Without one, returns the backend's own.
    pub(super) fn choose(backend: &str, preferences: &[InteropPreference]) -> InteropPreference {
        let offered = ForeignRuntime::for_backend(backend);
        let wanted = preferences.iter().find(|wanted| offered.contains(&wanted.runtime));
        wanted.copied().unwrap_or_else(|| {
            let runtime = offered.first().copied().unwrap_or(ForeignRuntime::NONE);
            InteropPreference { runtime, ..InteropPreference::default() }
        })
    }

    pub(super) fn name(self) -> &'static CStr {
        match self.0 {
            ForeignRuntime::CUDA => c"cuda",
            ForeignRuntime::CUDA_DRIVER => c"cuda_driver",
            ForeignRuntime::HIP => c"hip",
            _ => c"none",
        }
    }
}

/// A vendor, by its number. LLVM: `omp_vendor_id_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    Amd = 1,
    Llvm = 9,
    Nvidia = 11,
}

impl Vendor {
    pub(super) fn for_backend(backend: &str) -> Vendor {
        match backend {
            "cuda" => Vendor::Nvidia,
            "amdgpu" => Vendor::Amd,
            _ => Vendor::Llvm,
        }
    }

    pub(super) fn name(self) -> &'static CStr {
        match self {
            Vendor::Amd => c"amd",
            Vendor::Llvm => c"llvm",
            Vendor::Nvidia => c"nvidia",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ForeignRuntime, InteropPreference, Property};

    fn prefer(runtime: i32) -> InteropPreference {
        InteropPreference { runtime, attributes: 1, own_attributes: 0 }
    }

    #[test]
    fn each_property_is_found_by_its_number() {
        for number in -9..=-1 {
            assert_eq!(Property::from_number(number).map(|found| found as i32), Some(number));
        }
        assert_eq!(Property::from_number(0), None);
        assert_eq!(Property::from_number(-10), None);
    }

    #[test]
    fn the_first_preference_of_the_backend_is_chosen() {
        let preferences = [prefer(4), prefer(2), prefer(1)];
        assert_eq!(ForeignRuntime::choose("cuda", &preferences), prefer(2));
    }

    #[test]
    fn without_a_fitting_preference_the_backend_chooses() {
        let chosen = |backend| ForeignRuntime::choose(backend, &[prefer(6)]).runtime;
        assert_eq!(["cuda", "amdgpu", "vulkan", "host"].map(chosen), [1, 5, 0, 0]);
    }
}
