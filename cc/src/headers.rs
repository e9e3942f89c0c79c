//! The headers that kernels include.

use std::io;
use std::path::Path;

macro_rules! headers {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../include/", $name)))),*]
    };
}
/// The headers, by their paths in a folder of headers.
const HEADERS: [(&str, &str); 35] = headers![
    "longshore_device.h",
    "longshore_math.h",
    "longshore_math/angles.h",
    "longshore_math/double.h",
    "longshore_math/exact.h",
    "longshore_math/fast.h",
    "longshore_math/float.h",
    "longshore_math/pair.h",
    "longshore_cuda.h",
    "longshore_cuda/bessel.h",
    "longshore_cuda/complex.h",
    "longshore_cuda/cooperative_groups.h",
    "longshore_cuda/cub.h",
    "longshore_cuda/cub_order.h",
    "longshore_cuda/cub_traits.h",
    "longshore_cuda/cub_warp.h",
    "longshore_cuda/curand.h",
    "longshore_cuda/fp8.h",
    "longshore_cuda/half.h",
    "longshore_cuda/heap.h",
    "longshore_cuda/host.h",
    "longshore_cuda/host_types.h",
    "longshore_cuda/libcu.h",
    "longshore_cuda/libraries.h",
    "longshore_cuda/math.h",
    "longshore_cuda/memory.h",
    "longshore_cuda/numbers.h",
    "longshore_cuda/ptx.h",
    "longshore_cuda/rounding.h",
    "longshore_cuda/simd.h",
    "longshore_cuda/thrust.h",
    "longshore_cuda/types.h",
    "longshore_cuda/warp.h",
    "longshore_gpu/gpuintrin.h",
    "longshore_gpu/here.h",
];
/// Folder with the headers of clang's that have an equivalent here.
pub(crate) const CLANGS_FOLDER: &str = "longshore_gpu";
/// The header before sources in CUDA and HIP.
pub(crate) const CUDA_HEADER: &str = "longshore_cuda.h";
/// Folder with headers of the names that CUDA and HIP have for theirs.
pub(crate) const VENDORS_FOLDER: &str = "longshore_cuda/vendors";
/// The names, and the header for each.
const VENDORS: [(&str, &[&str]); 10] = [
    (
        CUDA_HEADER,
        &[
            "cuda.h",
            "cuda_runtime.h",
            "cuda_runtime_api.h",
            "device_launch_parameters.h",
            "device_functions.h",
            "device_atomic_functions.h",
            "builtin_types.h",
            "driver_types.h",
            "host_defines.h",
            "math_constants.h",
            "math_functions.h",
            "vector_functions.h",
            "vector_types.h",
            "crt/host_defines.h",
            "cuda_device_runtime_api.h",
            "cuda_occupancy.h",
            "cuda_profiler_api.h",
            "cuda_surface_types.h",
            "cuda_texture_types.h",
            "channel_descriptor.h",
            "common_functions.h",
            "device_double_functions.h",
            "host_config.h",
            "library_types.h",
            "math_functions.hpp",
            "sm_20_intrinsics.h",
            "sm_30_intrinsics.h",
            "sm_32_intrinsics.h",
            "sm_35_intrinsics.h",
            "sm_60_atomic_functions.h",
            "sm_61_intrinsics.h",
            "surface_functions.h",
            "surface_types.h",
            "texture_fetch_functions.h",
            "texture_types.h",
            "hip/amd_detail/amd_device_functions.h",
            "hip/amd_detail/amd_hip_runtime.h",
            "hip/amd_detail/amd_hip_vector_types.h",
            "hip/amd_detail/hip_runtime.h",
            "hip/channel_descriptor.h",
            "hip/device_functions.h",
            "hip/driver_types.h",
            "hip/hip_common.h",
            "hip/hip_ext.h",
            "hip/hip_math_constants.h",
            "hip/hip_profile.h",
            "hip/hip_runtime.h",
            "hip/hip_runtime_api.h",
            "hip/hip_texture_types.h",
            "hip/hip_vector_types.h",
            "hip/hip_version.h",
            "hip/hiprtc.h",
            "hip/host_defines.h",
            "hip/library_types.h",
            "hip/math_functions.h",
            "hip/surface_types.h",
            "hip/texture_types.h",
        ],
    ),
    (
        "longshore_cuda/cooperative_groups.h",
        &[
            "cooperative_groups.h",
            "cooperative_groups/memcpy_async.h",
            "cooperative_groups/reduce.h",
            "cooperative_groups/scan.h",
            "hip/cooperative_groups/memcpy_async.h",
            "hip/cooperative_groups/reduce.h",
            "hip/cooperative_groups/scan.h",
            "hip/hip_cooperative_groups.h",
        ],
    ),
    (
        "longshore_cuda/half.h",
        &[
            "cuda_fp16.h",
            "cuda_fp16.hpp",
            "cuda_bf16.h",
            "cuda_bf16.hpp",
            "mma.h",
            "hip/hip_fp16.h",
            "hip/hip_bf16.h",
            "hip/hip_bfloat16.h",
        ],
    ),
    ("longshore_cuda/fp8.h", &["cuda_fp8.h", "cuda_fp8.hpp", "hip/hip_fp8.h"]),
    ("longshore_cuda/complex.h", &["cuComplex.h", "hip/hip_complex.h"]),
    (
        "longshore_cuda/libraries.h",
        &[
            "cublas.h",
            "cublas_api.h",
            "cublas_v2.h",
            "cublasLt.h",
            "cublasXt.h",
            "cufft.h",
            "cufftXt.h",
            "cufftw.h",
            "cusolverDn.h",
            "cusolverMg.h",
            "cusolverRf.h",
            "cusolverSp.h",
            "cusolver_common.h",
            "cusparse.h",
            "cusparse_v2.h",
            "hipblas.h",
            "hipblas/hipblas.h",
            "hipfft.h",
            "hipfft/hipfft.h",
            "hipfft/hipfftXt.h",
            "hipsolver/hipsolver.h",
            "hipsparse/hipsparse.h",
        ],
    ),
    (
        "longshore_cuda/cub.h",
        &[
            "cub/block/block_discontinuity.cuh",
            "cub/block/block_exchange.cuh",
            "cub/block/block_histogram.cuh",
            "cub/block/block_load.cuh",
            "cub/block/block_merge_sort.cuh",
            "cub/block/block_radix_sort.cuh",
            "cub/block/block_reduce.cuh",
            "cub/block/block_scan.cuh",
            "cub/block/block_store.cuh",
            "cub/cub.cuh",
            "cub/iterator/counting_input_iterator.cuh",
            "cub/iterator/transform_input_iterator.cuh",
            "cub/thread/thread_operators.cuh",
            "cub/util_type.cuh",
            "cub/warp/warp_exchange.cuh",
            "cub/warp/warp_merge_sort.cuh",
            "cub/warp/warp_reduce.cuh",
            "cub/warp/warp_scan.cuh",
            "hipcub/block/block_exchange.hpp",
            "hipcub/block/block_load.hpp",
            "hipcub/block/block_radix_sort.hpp",
            "hipcub/block/block_reduce.hpp",
            "hipcub/block/block_scan.hpp",
            "hipcub/block/block_store.hpp",
            "hipcub/hipcub.hpp",
            "hipcub/warp/warp_exchange.hpp",
            "hipcub/warp/warp_merge_sort.hpp",
            "hipcub/warp/warp_reduce.hpp",
        ],
    ),
    ("longshore_cuda/thrust.h", &["thrust/pair.h", "thrust/tuple.h"]),
    (
        "longshore_cuda/curand.h",
        &[
            "curand_kernel.h",
            "curand_philox4x32_x.h",
            "hiprand/hiprand_kernel.h",
            "hiprand_kernel.h",
        ],
    ),
    (
        "longshore_cuda/libcu.h",
        &[
            "cuda/atomic",
            "cuda/barrier",
            "cuda/pipeline",
            "cuda/std/array",
            "cuda/std/atomic",
            "cuda/std/barrier",
            "cuda/std/cassert",
            "cuda/std/cfloat",
            "cuda/std/climits",
            "cuda/std/cmath",
            "cuda/std/complex",
            "cuda/std/cstddef",
            "cuda/std/cstdint",
            "cuda/std/functional",
            "cuda/std/initializer_list",
            "cuda/std/limits",
            "cuda/std/tuple",
            "cuda/std/type_traits",
            "cuda/std/utility",
            "cuda_awbarrier_primitives.h",
            "cuda_pipeline.h",
            "cuda_pipeline_primitives.h",
        ],
    ),
];

/// Returns the paths of all headers that kernels include, in a folder of headers, and their texts.
pub fn all() -> impl Iterator<Item = (String, String)> {
    let own = HEADERS.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let vendors = VENDORS.iter().flat_map(|(header, names)| {
        names.iter().map(move |name| {
            let text = format!("#pragma once\n#include <{header}>\n");
            (format!("{VENDORS_FOLDER}/{name}"), text)
        })
    });
    own.chain(vendors)
}

/// Writes all headers into a folder.
pub(crate) fn write(folder: &Path) -> io::Result<()> {
    for (name, text) in all() {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().expect("the header is in the folder"))?;
        std::fs::write(file, text)?;
    }
    Ok(())
}
