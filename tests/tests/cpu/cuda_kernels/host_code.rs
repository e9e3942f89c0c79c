//! The host's half of programs in CUDA and HIP: `longshore cc` reads it without the libraries of
//! vendors.

use longshore_tests::cuda_kernels::compilers;
use longshore_tests::world::command;
use std::path::Path;
use std::process::{Command, Output};

const HEADER: &str = r#"
#include <cudnn.h>
#define FROM_ALL __host__ __device__
cublasHandle_t handle;
FROM_ALL int twice(int x) { return 2 * x; }
inline void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) exit(1);
}
void host_only() { no_such_function(handle); }
"#;

const SOURCE: &str = r#"
#include <thrust/device_vector.h>
#include "common.h"
template <class T> __global__ void scale(T *x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
template <class T> __global__ void shift(T *x) { x[threadIdx.x] += 3; }
__device__ int sum(int *x) { return thrust::reduce(x, x + 4); }
__global__ void sums(int *x) { x[0] = sum(x); }
template <class T> void run(T *x) {
  check(cublasCreate(&handle));
  cudaFuncSetAttribute(scale<T>, cudaFuncAttributeSomeNew, 3);
  scale<T><<<1, 4, 0, cudaStreamPerThread>>>(x);
}
int main() {
  thrust::device_vector<int> values(4);
  shift<int><<<1, 4>>>(thrust::raw_pointer_cast(values.data()));
}
template void run<int>(int *);
"#;

const HIP: &str = r#"
#include <hip/hip_runtime.h>
#if !defined(__HIP__)
#error "not HIP"
#endif
__global__ void fill(float4 *out) { out[threadIdx.x] = float4(2.5f); }
template <class T> __global__ void count(T *out) { out[threadIdx.x] = threadIdx.x; }
template <class T> double run(T *out) {
  const auto start = std::chrono::steady_clock::now();
  count<T><<<1, 4>>>(out);
  std::this_thread::yield();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
int main() { run((int *)nullptr); hipLaunchKernelGGL(fill, 1, 4, 0, hipStreamDefault, nullptr); }
"#;

/// Compiles the files of a folder, of which the first is the source, for the CPU.
fn compile(folder: &Path, files: &[(&str, &str)], clang: &str) -> Output {
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let mut command = Command::new(command());
    command.current_dir(folder).args(["cc", files[0].0, "--clang", clang, "-o", "image"]);
    command.output().unwrap()
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut run = Command::new(command());
    run.current_dir(folder).args(["run", "image", "--backend", "host", "-i", "4"]);
    run.args(arguments).output().unwrap()
}

#[test]
fn names_of_missing_libraries_keep_neither_kernels_nor_launches_from_being_compiled() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", SOURCE), ("common.h", HEADER)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{clang}: {said}");
        for part in ["cudnn.h, thrust/device_vector.h", "void host_only()", "int main()"] {
            assert!(said.contains(part), "{clang}: '{part}' is not in: {said}");
        }
        for part in ["does not have Thrust: line 6: __device__ int sum", "line 7: __global__ void"]
        {
            assert!(said.contains(part), "{clang}: '{part}' is not in: {said}");
        }
        for (kernel, expected) in [("scale<int>", "0 2 4 6"), ("shift<int>", "3 4 5 6")] {
            let ran = run(folder.path(), &["-k", kernel, "-a", "out:i32[4]=iota"]);
            let printed = String::from_utf8_lossy(&ran.stdout).replace(", ", " ");
            assert!(printed.contains(expected), "{clang} {kernel}: {printed}");
        }
    }
}

const SAMPLE: &str = r#"
#include <helper_cuda.h>
#include <helper_timer.h>
template <class T> __global__ void scale(T *x, T by) { x[threadIdx.x] *= by; }
int main(int argc, char **argv) {
  StopWatchInterface *timer = nullptr;
  sdkCreateTimer(&timer);
  int device = findCudaDevice(argc, (const char **)argv);
  float *x;
  checkCudaErrors(cudaMalloc(&x, 16));
  if (!checkCmdLineFlag(argc, (const char **)argv, "none")) scale<<<1, 4>>>(x, 2.0f);
  getLastCudaError("scale");
}
"#;

/// The compiler finds the arguments of such a template in `main` alone.
#[test]
fn kernels_of_samples_are_compiled_without_the_headers_beside_the_samples() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", SAMPLE)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{clang}: {said}");
        assert!(!said.contains("int main"), "{clang}: {said}");
        let ran =
            run(folder.path(), &["-k", "scale<float>", "-a", "out:f32[4]=iota", "-a", "f32=2"]);
        let printed = String::from_utf8_lossy(&ran.stdout).replace(", ", " ");
        assert!(printed.contains("f32[4] = 0 2 4 6"), "{clang}: {printed}");
    }
}

/// Each source has headers of its own: one is missing, and one has a part that clang refuses.
#[test]
fn sources_of_one_name_are_reduced_apart() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let sources = ["a/k.cu", "b/k.cu", "b/k.hip"];
        for (number, source) in sources.into_iter().enumerate() {
            let header = format!("named_{number}.h");
            let text = format!(
                "#include <none_{number}.h>\n#include \"{header}\"\n\
                 __global__ void k{number}(int *x) {{ x[threadIdx.x] = N{number}; }}\n"
            );
            let path = folder.path().join(source);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            let text =
                format!("#define N{number} 1{number}\ninline void f{number}() {{ no(); }}\n");
            std::fs::write(path.with_file_name(header), text).unwrap();
        }
        let mut compile = Command::new(command());
        compile.current_dir(folder.path()).arg("cc").args(sources);
        let compiled = compile.args(["--clang", clang, "-o", "image"]).output().unwrap();
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{clang}: {said}");
        for number in 0..sources.len() {
            let kernel = format!("k{number}");
            let ran = run(folder.path(), &["-k", &kernel, "-a", "out:i32[4]"]);
            let printed = String::from_utf8_lossy(&ran.stdout);
            let expected = format!("= 1{number}, 1{number}");
            assert!(printed.contains(&expected), "{clang} {kernel}: {said}{printed}");
        }
    }
}

const FOR_ONE_GPU: &str = r#"
#define WAIT asm volatile("bar.sync 1, 64;" ::: "memory")
__device__ unsigned size() { unsigned r; asm("mov.u32 %0, %%total_smem_size;" : "=r"(r)); return r; }
__global__ void sizes(unsigned *x) { x[threadIdx.x] = size(); }
__global__ void waits(unsigned *x) { WAIT; x[0] = 1; }
__global__ void moves(int *x) { x[0] = __builtin_amdgcn_mov_dpp(x[0], 1, 15, 15, false); }
__global__ void scales(cufftComplex *x) { x[threadIdx.x].y *= 2; }
__global__ void fills(unsigned *x) { asm volatile("" ::: "memory"); x[threadIdx.x] = 7; }
__global__ void launches(unsigned *x) { fills<<<1, 4>>>(x); }
__global__ void adds(int *x) {
  asm("add.s32 %0, %0, 1;" : "+r"(x[0]));
  asm("add.s32 %0, %0, 1; add.s3 %0, %0, 1;" : "+r"(x[0]));
}
"#;

#[test]
fn kernels_for_one_kind_of_gpu_are_left_out_for_other_targets() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", FOR_ONE_GPU)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{clang}: {said}");
        for part in [
            "translation of inline assembly: line 3: __device__ unsigned size() (inline assembly in \
             line 3: 'mov.u32')",
            "translation of inline assembly: line 4: __global__ void sizes",
            "translation of inline assembly: line 5: __global__ void waits(unsigned *x) (inline \
             assembly in line 5: 'bar.sync')",
            "translation of inline assembly: line 10: __global__ void adds(int *x) (inline assembly \
             in line 12: 'add.s3')",
            "AMD GPUs on other devices: line 6: __global__ void moves",
            "kernels by kernels: line 9: __global__ void launches",
        ] {
            assert!(said.contains(part), "{clang}: '{part}' is not in: {said}");
        }
        let ran = run(folder.path(), &["-k", "fills", "-a", "out:u32[4]"]);
        let printed = String::from_utf8_lossy(&ran.stdout);
        assert!(printed.contains("u32[4] = 7, 7, 7, 7\n"), "{clang}: {printed}");
    }
}

#[test]
fn a_source_without_kernels_makes_an_image_without_kernels() {
    let functions = "__device__ int total;\n__device__ int f(int x) { return x + threadIdx.x; }\n";
    let template = "template <class T> __global__ void k(T *x) { x[threadIdx.x] = 1; }\n";
    for clang in compilers() {
        for (more, has_hint) in [("", false), (template, true)] {
            let folder = tempfile::tempdir().unwrap();
            let source = format!("{functions}{more}");
            let compiled = compile(folder.path(), &[("main.cu", &source)], clang);
            let said = String::from_utf8_lossy(&compiled.stderr);
            assert!(compiled.status.success(), "{clang}: {said}");
            assert!(said.contains("the image has no kernels"), "{clang}: {said}");
            assert_eq!(said.contains("templates become kernels"), has_hint, "{clang}: {said}");
            let listed = run(folder.path(), &["--list"]);
            let errors = String::from_utf8_lossy(&listed.stderr);
            let printed = String::from_utf8_lossy(&listed.stdout);
            assert!(listed.status.success() && !printed.contains("kernel "), "{clang}: {errors}");
        }
    }
}

const DEFAULTS: &str = r#"
template <class T, class R = float> __device__ T twice(T x) { return x + x; }
__global__ void bad(float *x) { thrust::fill(x, x + 1, 0.f); }
__global__ void good(float *x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
template <class T, int N = 7> __global__ void fill(T *x) { x[threadIdx.x] = N; }
int main() { float *x = 0; not_declared(x); fill<float><<<1, 4>>>(x); }
"#;

#[test]
fn templates_with_defaults_end_where_their_bodies_do() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", DEFAULTS)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{clang}: {said}");
        assert!(said.contains("Thrust: line 3: __global__ void bad"), "{clang}: {said}");
        for (kernel, expected) in [("good", "0 2 4 6"), ("fill<float, 7>", "7 7 7 7")] {
            let ran = run(folder.path(), &["-k", kernel, "-a", "out:f32[4]=iota"]);
            let printed = String::from_utf8_lossy(&ran.stdout).replace(", ", " ");
            assert!(printed.contains(expected), "{clang} {kernel}: {printed}");
        }
    }
}

const DRIVER: &str = r#"
#include "reference.h"
template <class T> __global__ void fill(T *x) { x[threadIdx.x] = 5; }
template <class T> __global__ void scale(T *x) { x[threadIdx.x] *= 2; }
template <class T> void eval(T *x) { fill<T><<<1, 4>>>(x); }
template <class T> bool driver(int n) {
  T *x = 0;
  auto right = reference<T>(x);
  if (right.fits(n)) {
    eval<T>(x);
  } else {
    scale<T><<<1, 4>>>(x);
  }
  for (auto y : right) { printf("%d\n", y); eval((double *)x); }
  return right.fits(n);
}
void host_only() { reference(3); }
int main() {
  Reference all;
  all.run();
  return driver<float>(4);
}
"#;

#[test]
fn functions_of_the_host_instantiate_kernels_without_the_statements_that_clang_refuses() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", DRIVER)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{clang}: {said}");
        for part in [
            "line 6: template <class T> bool driver(int n) (only lines 8, 9, 11, 14, 15)",
            "line 18: int main() (only lines 19, 20)",
            "line 17: void host_only();",
        ] {
            assert!(said.contains(part), "{clang}: '{part}' is not in: {said}");
        }
        let listed = run(folder.path(), &["--list"]);
        let printed = String::from_utf8_lossy(&listed.stdout);
        for kernel in ["fill<double>", "fill<float>", "scale<float>"] {
            assert!(printed.contains(kernel), "{clang}: {printed}");
        }
    }
}

/// Clang refuses the kernel that `run` instantiates when only its first statement is left out.
#[test]
fn a_function_is_left_out_whole_where_its_other_statements_cause_errors() {
    let source = "template <class T> __global__ void k(T *x) { x[0] = T::none; }\n\
                  __global__ void good(int *x) { x[threadIdx.x] = 7; }\n\
                  void run(int *x) {\n  unknown();\n  k<<<1, 1>>>(x);\n}\n";
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", source)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{clang}: {said}");
        assert!(said.contains("line 3: void run(int *x)\n"), "{clang}: {said}");
    }
}

const TYPES: &str = r#"
#include <cub/cub.cuh>
using Sort = cub::WarpNothing<int, 4, 32>;
typedef cub::WarpNothing<int, 4, 32> Sorted;
struct Op { using result = thrust::nothing<float, float>; };
template <class T> struct Bits { typename cub::Nothing<T>::Bits bits; };
template <class T> struct More : Bits<T> { };
__global__ void first(int *x) { __shared__ Sort::TempStorage t; }
__global__ void second(int *x) { __shared__ Sorted::TempStorage t; }
__global__ void third(int *x) { Op::result t; }
template <class T> __global__ void fourth(T *x) { More<T> t; }
template <> __global__ void fourth<int>(int *x) { More<int> t; }
template __global__ void fourth<float>(float *);
__global__ void good(int *x) { x[threadIdx.x] = 7; }
"#;

#[test]
fn types_that_need_a_library_are_left_out_with_the_kernels_that_use_them() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", TYPES)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{clang}: {said}");
        for part in [
            "does not have a part of CUB: line 3: using Sort",
            "does not have a part of CUB: line 9: __global__ void second",
            "does not have Thrust: line 10: __global__ void third",
            "does not have a part of CUB: line 11: template <class T> __global__ void fourth",
        ] {
            assert!(said.contains(part), "{clang}: '{part}' is not in: {said}");
        }
        let listed = run(folder.path(), &["--list"]);
        let printed = String::from_utf8_lossy(&listed.stdout);
        assert_eq!(printed.matches("kernel ").count(), 1, "{clang}: {printed}");
        assert!(printed.contains("good"), "{clang}: {printed}");
    }
}

/// Headers of C have these words, and the vendors' compilers know them in C++.
const OF_VENDORS: &str = r#"
#include <cooperative_groups.h>
#include <cublas_v2.h>
#include <mma.h>
struct Handles { cublasLtHandle_t handle; cudaGraphConditionalHandle graph; cublasStatus_t status; int n; };
__global__ void copies(const cuComplex *x, cuComplex *y) { y[threadIdx.x] = cuCmulf(x[0], x[1]); }
__global__ void halves(half *x, float *y) { y[threadIdx.x] = (float)x[threadIdx.x] * 2; }
__global__ void sizes(int *x) { x[threadIdx.x] = (int)sizeof(Handles); }
__global__ void pitches(cudaPitchedPtr p, cudaExtent e, cudaPos at) { ((int *)p.ptr)[at.x] = (int)(p.pitch + e.depth); }
__global__ void addresses(CUdeviceptr p) { reinterpret_cast<int *>(p)[threadIdx.x] = 3; }
__global__ void unknown(const cufftFoo *x, cufftFoo *y) { y[0] = x[0]; }
__global__ void waits(int *x) { x[0] = 1; cudaDeviceSynchronize(); }
__global__ void clusters(int *x) { x[0] = cooperative_groups::this_cluster().block_rank(); }
__global__ void functions(int *x) { nvstd::function<int(int)> f = [](int y) { return y; }; x[0] = f(2); }
void host(cufftFoo *x) { cufftFooCreate(x); }
"#;

#[test]
fn kernels_with_unknown_types_of_vendors_are_left_out() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", OF_VENDORS)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{clang}: {said}");
        for part in [
            "the vendors' libraries: line 11: __global__ void unknown",
            "the vendors' libraries: line 12: __global__ void waits",
            "clusters of blocks: line 13: __global__ void clusters",
            "nvstd::function: line 14: __global__ void functions",
        ] {
            assert!(said.contains(part), "{clang}: '{part}' is not in: {said}");
        }
        assert_eq!(said.matches("left out, because").count(), 4, "{clang}: {said}");
        let complex = ["-k", "copies", "-a", "f32[4]=iota", "-a", "out:f32[8]"];
        let sizes = ["-k", "sizes", "-a", "out:i32[4]"];
        let products = ["-3, 2, -3, 2, -3, 2, -3, 2", "24, 24, 24, 24"];
        for (arguments, expected) in [complex.as_slice(), &sizes].into_iter().zip(products) {
            let ran = run(folder.path(), arguments);
            let printed = String::from_utf8_lossy(&ran.stdout);
            assert!(printed.contains(expected), "{clang}: {printed}");
        }
    }
}

const LAUNCHES: &str = r#"
#include <iostream>
#include <string>
template <class T> __global__ void scale(T *x) { x[threadIdx.x] *= 2; }
template <class T> void run(T *x, bool is_turned) {
  cublasStatus_t status = cublasFoo(x);
  switch (status) { case CUBLAS_STATUS_SUCCESS: case CUBLAS_STATUS_OTHER: break; default: exit(EXIT_WAIVED); }
  cudaError_t error = cudaSuccess;
  switch (error) { case cudaErrorInvalidDevice: case cudaErrorFoo: break; default: return; }
  int n = 0;
  n |= CU_EVENT_DEFAULT;
  n += -cudaFooCount(1) / 2 - cudaFooCount(1) % 4;
  n = is_turned ? CUBLAS_OP_T : 0;
  cublasOperation_t operation = is_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  std::string text;
  text += status;
  std::cerr << cublasFoo(operation) << " x " << CUBLAS_OP_T << std::endl;
  cudaDeviceProp properties;
  cudaMemcpy3DParms copy = {0};
  copy.extent = make_cudaExtent(properties.persistingL2CacheMaxSize, 1, n);
  cudaResourceDesc resource;
  resource.resType = cudaResourceTypeLinear;
  cudaMemPoolProps pool = {};
  pool.location.type = cudaMemLocationTypeDevice;
  scale<<<1, 4>>>(x);
}
int main() { run((float *)nullptr, true); }
"#;

#[test]
fn unknown_values_are_operands_of_all_operators() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", LAUNCHES)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success() && !said.contains("left out"), "{clang}: {said}");
        let ran = run(folder.path(), &["-k", "scale<float>", "-a", "out:f32[4]=iota"]);
        let printed = String::from_utf8_lossy(&ran.stdout);
        assert!(printed.contains("0, 2, 4, 6"), "{clang}: {printed}");
    }
}

const ROLES: &str = r#"
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <cuda_awbarrier_primitives.h>
__global__ void stages(int *x) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ int tiles[2][2];
  const bool produces = threadIdx.x < 2;
  auto role = produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state, role);
  int sum = 0;
  for (int i = 0; i < 5; ++i) {
    if (produces) {
      pipe.producer_acquire();
      tiles[i % 2][threadIdx.x] = i + threadIdx.x;
      pipe.producer_commit();
    } else {
      pipe.consumer_wait();
      sum = sum * 2 + tiles[i % 2][3 - threadIdx.x];
      pipe.consumer_release();
    }
  }
  __shared__ __mbarrier_t barrier;
  if (threadIdx.x == 0) __mbarrier_init(&barrier, 4);
  __syncthreads();
  if (!produces) tiles[0][3 - threadIdx.x] = sum;
  const __mbarrier_token_t token = __mbarrier_arrive(&barrier);
  while (!__mbarrier_test_wait(&barrier, token)) {}
  x[threadIdx.x] = tiles[0][threadIdx.x % 2];
}
"#;

#[test]
fn threads_of_a_pipeline_have_roles() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", ROLES)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{clang}: {said}");
        let ran = run(folder.path(), &["-a", "out:i32[4]"]);
        let printed = String::from_utf8_lossy(&ran.stdout);
        // The sum of i * 2^(4 - i), and of (i + 1) * 2^(4 - i).
        assert!(printed.contains("26, 57, 26, 57"), "{clang}: {printed}");
    }
}

/// Headers of C have these words, and the vendors' compilers know them in C++.

#[test]
fn extensions_of_gnu_are_known_by_default() {
    let source = "#include <stdbool.h>\n__global__ void k(_Bool *x, int n) {\n  \
                  typeof(n) y = n;\n  x[0] = y > 3;\n}\n";
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", source)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{clang}: {said}");
    }
}

#[test]
fn a_source_with_the_header_of_hip_is_hip() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", HIP)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success() && !said.contains("left out"), "{clang}: {said}");
        let ran = run(folder.path(), &["-k", "fill", "-a", "out:f32[16]"]);
        let printed = String::from_utf8_lossy(&ran.stdout);
        let results = ["2.5"; 16].join(", ");
        assert!(printed.contains(&results), "{clang}: {printed}");
        let ran = run(folder.path(), &["-k", "count<int>", "-a", "out:i32[4]"]);
        let printed = String::from_utf8_lossy(&ran.stdout).replace(", ", " ");
        assert!(printed.contains("0 1 2 3"), "{clang}: {printed}");
    }
}

#[test]
fn an_error_of_a_source_in_another_language_names_the_option() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cpp", HIP)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr);
        let is_named = said.contains("-x cuda or -x hip");
        assert!(!compiled.status.success() && is_named, "{clang}: {said}");
    }
}

#[test]
fn an_error_in_a_kernel_with_a_known_library_stays_an_error() {
    let source = "#include <cub/cub.cuh>\nstruct A { int b; };\n__global__ void k(int *x, A a) {\n  \
                  x[0] = cub::Max()(x[1], a.c);\n}\n__global__ void z() {}\n";
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", source)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr);
        let is_error = said.contains("main.cu:4:29: error");
        assert!(!compiled.status.success() && is_error, "{clang}: {said}");
    }
}

#[test]
fn a_kernel_with_a_missing_overload_of_a_known_library_is_left_out() {
    let source = "#include <cub/cub.cuh>\n__global__ void k(int *x) {\n  \
                  using S = cub::BlockScan<int, 64>;\n  __shared__ S::TempStorage t;\n  \
                  S(t).ExclusiveSum(1, 2, 3, 4, 5);\n}\n__global__ void z() {}\n";
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("main.cu", source)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr);
        let is_named = said.contains("a part of CUB") && said.contains("line 2: __global__ void k");
        assert!(compiled.status.success() && is_named, "{clang}: {said}");
    }
}

const OVERLOADED: &str = r#"
template <class T> __global__ void fill(T *x) { x[threadIdx.x] = 5; }
template <class T> __global__ void fill(T *x, T value) { x[threadIdx.x] = value; }
template <class T> __global__ void scale(T *x) { x[threadIdx.x] *= 2; }
void run(int *x, unknown_type y) {
  fill<int><<<1, 4>>>(x);
  fill<int><<<1, 4>>>(x, 3);
  scale<int><<<1, 4>>>(x);
}
"#;

#[test]
fn a_launch_of_an_overloaded_kernel_does_not_keep_the_others_from_being_compiled() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let compiled = compile(folder.path(), &[("fill.cu", OVERLOADED)], clang);
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(compiled.status.success(), "{clang}: {said}");
        assert!(said.contains("several kernels have its name: fill<int>"), "{clang}: {said}");
        let ran = run(folder.path(), &["-k", "scale<int>", "-a", "out:i32[4]=iota"]);
        let printed = String::from_utf8_lossy(&ran.stdout).replace(", ", " ");
        assert!(printed.contains("0 2 4 6"), "{clang}: {printed}");
    }
}

#[test]
fn the_parameters_choose_one_of_the_kernels_of_a_name() {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("fill.cu"), OVERLOADED).unwrap();
        let mut command = Command::new(command());
        command.current_dir(folder.path()).args(["cc", "fill.cu", "--clang", clang, "-o", "image"]);
        let compiled = command.args(["--kernel", "(void (*)(int *))fill<int>"]).output().unwrap();
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{clang}: {said}");
        let ran = run(folder.path(), &["-k", "fill<int>", "-a", "out:i32[4]"]);
        let printed = String::from_utf8_lossy(&ran.stdout).replace(", ", " ");
        assert!(printed.contains("5 5 5 5"), "{clang}: {printed}");
    }
}
