//! Comparison of the table with the driver's header in `cudarc`.

use super::functions::Functions;
use super::result;
use super::types::{self, LaunchAttribute, LaunchConfig, Location, PoolProperties};
use cudarc::driver::sys;
use longshore_plugin_streams::Code;

/// A type that the compiler infers.
macro_rules! unknown {
    ($kind:ty) => {
        _
    };
}
pub(super) use unknown;

/// Access to the names of a function's parameter types.
pub(super) trait Parameters {
    fn parameters(self) -> Vec<&'static str>;
}

macro_rules! of_function {
    ($($parameter:ident)*) => {
        impl<$($parameter,)* R> Parameters for unsafe fn($($parameter),*) -> R {
            fn parameters(self) -> Vec<&'static str> {
                vec![$(std::any::type_name::<$parameter>()),*]
            }
        }
    };
}

of_function!();
of_function!(A);
of_function!(A B);
of_function!(A B C);
of_function!(A B C D);
of_function!(A B C D E);
of_function!(A B C D E F);
of_function!(A B C D E F G);
of_function!(A B C D E F G H);
of_function!(A B C D E F G H I);
of_function!(A B C D E F G H I J);
of_function!(A B C D E F G H I J K);

/// Returns a type's normalized name: types with the same meaning have the same one. Such types are
/// handles and pointers to the driver's objects, numbers for enumerations, and structures with
/// other names here.
fn plain(name: &str) -> String {
    if let Some(pointee) = name.strip_prefix("*mut ") {
        return pointer("mut", pointee);
    }
    if let Some(pointee) = name.strip_prefix("*const ") {
        return pointer("const", pointee);
    }
    let last = name.rsplit("::").next().unwrap_or(name);
    if name.contains("Handle<") {
        return "object".to_owned();
    }
    if name.contains("Option<") {
        return "function".to_owned();
    }
    let same = [
        ("CUuuid_st", "Uuid"),
        ("CUmemLocation_st", "Location"),
        ("CUmemPoolProps_st", "PoolProperties"),
        ("CUmemAccessDesc_st", "Access"),
        ("CUlaunchConfig_st", "LaunchConfig"),
        ("CUDA_MEMCPY3D_st", "Copy3d"),
        ("cudaError_enum", "Code"),
    ];
    if let Some((_, ours)) = same.iter().find(|(theirs, _)| *theirs == last) {
        return (*ours).to_owned();
    }
    if last.starts_with("CU") && last.ends_with("_enum") {
        return "u32".to_owned();
    }
    last.to_owned()
}

fn pointer(kind: &str, pointee: &str) -> String {
    let is_driver_object = pointee.starts_with("cudarc") && pointee.ends_with("_st");
    match plain(pointee).as_str() {
        structure @ ("Uuid" | "PoolProperties" | "Access" | "LaunchConfig" | "Copy3d") => {
            format!("*{kind} {structure}")
        }
        _ if is_driver_object => "object".to_owned(),
        // Whether a pointer is `const` differs between versions of the header.
        other => format!("*{kind} {other}"),
    }
}

#[test]
fn functions_have_the_parameters_of_the_drivers_header() {
    let all = Functions::signatures();
    assert!(all.len() > 70, "{} functions", all.len());
    for (name, [ours, theirs]) in all {
        let [ours, theirs] =
            [ours, theirs].map(|types| types.into_iter().map(plain).collect::<Vec<_>>());
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn structures_have_the_layout_of_the_drivers_header() {
    use std::mem::{align_of, offset_of};
    macro_rules! same {
        ($ours:ty, $theirs:ty; $($our:ident $their:ident),*) => {
            assert_eq!(size_of::<$ours>(), size_of::<$theirs>(), stringify!($ours));
            assert_eq!(align_of::<$ours>(), align_of::<$theirs>(), stringify!($ours));
            $(assert_eq!(offset_of!($ours, $our), offset_of!($theirs, $their), stringify!($our));)*
        };
    }
    same!(types::Uuid, sys::CUuuid; bytes bytes);
    same!(Location, sys::CUmemLocation; kind type_, id id);
    same!(PoolProperties, sys::CUmemPoolProps;
        allocation allocType, handles handleTypes, location location,
        security win32SecurityAttributes, max_bytes maxSize);
    same!(types::Access, sys::CUmemAccessDesc; location location, flags flags);
    same!(LaunchConfig, sys::CUlaunchConfig;
        groups gridDimX, items blockDimX, shared_bytes sharedMemBytes, stream hStream,
        attributes attrs, attribute_count numAttrs);
    same!(types::Copy3d, sys::CUDA_MEMCPY3D;
        from srcXInBytes, to dstXInBytes, row_bytes WidthInBytes, rows Height, slices Depth);
    assert_eq!(
        offset_of!(types::Copy3d, from.memory),
        offset_of!(sys::CUDA_MEMCPY3D, srcMemoryType)
    );
    assert_eq!(offset_of!(types::Copy3d, from.host), offset_of!(sys::CUDA_MEMCPY3D, srcHost));
    assert_eq!(offset_of!(types::Copy3d, from.device), offset_of!(sys::CUDA_MEMCPY3D, srcDevice));
    assert_eq!(offset_of!(types::Copy3d, from.pitch), offset_of!(sys::CUDA_MEMCPY3D, srcPitch));
    assert_eq!(offset_of!(types::Copy3d, from.height), offset_of!(sys::CUDA_MEMCPY3D, srcHeight));
    assert_eq!(offset_of!(types::Copy3d, to.device), offset_of!(sys::CUDA_MEMCPY3D, dstDevice));
    assert_eq!(offset_of!(types::Copy3d, to.height), offset_of!(sys::CUDA_MEMCPY3D, dstHeight));
    same!(LaunchAttribute, sys::CUlaunchAttribute; id id, value value);
    assert_eq!(Location::DEVICE, sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE as u32);
    assert_eq!(Location::HOST, sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST as u32);
    use sys::CUlaunchAttributeID as Id;
    assert_eq!(LaunchAttribute::COOPERATIVE, Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE as u32);
    assert_eq!(LaunchAttribute::CLUSTER, Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION as u32);
}

#[test]
fn numbers_match_the_drivers_header() {
    for (name, ours, theirs) in types::ALL {
        assert_eq!(ours, theirs, "{name}");
    }
    assert_eq!(types::host_memory::PORTABLE, sys::CU_MEMHOSTALLOC_PORTABLE);
    assert_eq!(types::host_memory::DEVICEMAP, sys::CU_MEMHOSTALLOC_DEVICEMAP);
    assert_eq!(types::host_memory::PORTABLE, sys::CU_MEMHOSTREGISTER_PORTABLE);
    assert_eq!(types::host_memory::READ_ONLY, sys::CU_MEMHOSTREGISTER_READ_ONLY);
    assert_eq!(types::host_memory::DEVICEMAP, sys::CU_MEMHOSTREGISTER_DEVICEMAP);
}

#[test]
fn results_match_the_drivers_header() {
    for (ours, theirs) in result::ALL {
        assert_eq!(ours.0, *theirs, "{ours:?}");
    }
    assert_eq!(result::name(Code(123_456)), None);
    assert_eq!(result::name(result::ASSERT), Some("CUDA_ERROR_ASSERT"));
    assert!(result::is_sticky(result::ILLEGAL_ADDRESS) && !result::is_sticky(Code::OUT_OF_MEMORY));
}
