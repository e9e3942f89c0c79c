//! Programs as the vendors' compilers accept them, and kernels by the names in their sources.

use longshore_tests::cuda_kernels::compilers;
use longshore_tests::world::command;
use std::path::Path;
use std::process::Command;

/// Compiles a source by each compiler. `check` gets the folder with the image, and the messages.
fn compile_each(source: &str, arguments: &[&str], check: impl Fn(&Path, &str)) {
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("main.cu"), source).unwrap();
        let mut command = Command::new(command());
        command.current_dir(folder.path()).args(["cc", "main.cu", "--clang", clang, "-o", "image"]);
        let compiled = command.args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{clang}: {said}");
        check(folder.path(), &said);
    }
}

/// Returns the output and the messages of a launch of 4 threads.
fn run(folder: &Path, kernel: &str, arguments: &[&str]) -> String {
    let mut run = Command::new(command());
    run.current_dir(folder).args(["run", "image", "--backend", "host", "-i", "4", "-k", kernel]);
    let ran = run.args(arguments).output().unwrap();
    let printed = [ran.stdout, ran.stderr].concat();
    String::from_utf8_lossy(&printed).replace(", ", " ")
}

#[test]
fn the_names_of_cudas_compiler_are_defined() {
    let source = "#if defined(__NVCC__) || defined(__HIPCC__)\n#define BOTH __host__ __device__\n\
                  #else\n#define BOTH\n#endif\nBOTH int version() {\n  \
                  return __CUDACC_VER_MAJOR__ * 10 + (__CUDACC_VER_BUILD__ > 0);\n}\n\
                  __global__ void k(int *x) { x[threadIdx.x] = version(); }\n";
    compile_each(source, &[], |folder, said| {
        let printed = run(folder, "k", &["-a", "out:i32[4]"]);
        assert!(printed.contains("121 121 121 121"), "{said}{printed}");
    });
}

/// The array has no type that the parameters of a template could have.
#[test]
fn functions_with_arrays_of_variable_length_launch_kernels() {
    let source = "#include <cufft.h>\n\
                  template <class T> __global__ void twice(T *x) { x[threadIdx.x] *= 2; }\n\
                  template <class T> void run(T *x, int n) {\n  T host[n];\n  \
                  cudaMemcpy(host, x, n * sizeof(T), cudaMemcpyDeviceToHost);\n  \
                  cufftExecOther(x, host);\n  twice<T><<<1, n>>>(x);\n}\n\
                  void calls(int *x) { run(x, 4); }\n";
    compile_each(source, &[], |folder, said| {
        assert!(!said.contains("left out"), "{said}");
        let printed = run(folder, "twice<int>", &["-a", "out:i32[4]=iota"]);
        assert!(printed.contains("0 2 4 6"), "{said}{printed}");
    });
}

const SPELLINGS: &str = r#"
#include <cuda_fp16.h>
#include <cstdint>
template <class T> __global__ void k(T x) { x[threadIdx.x] = 3; }
template <class T> __global__ void sum(const T *in, T *out) { out[threadIdx.x] = in[threadIdx.x]; }
__global__ void scale(int *x) { x[threadIdx.x] = 5; }
__global__ void scale(const int *in, int *x) { x[threadIdx.x] = 2 * in[threadIdx.x]; }
template __global__ void k<uint32_t *>(uint32_t *);
template __global__ void sum<half>(const half *, half *);
"#;

#[test]
fn kernels_are_found_by_the_spellings_of_their_sources() {
    compile_each(SPELLINGS, &["--kernel", "sum<unsigned long>"], |folder, said| {
        let out = ["-a", "out:u32[4]"];
        let both = ["-a", "i32[4]=iota", "-a", "out:i32[4]"];
        let halves = ["-a", "u16[4]=iota", "-a", "out:u16[4]"];
        let longs = ["-a", "u64[4]=iota", "-a", "out:u64[4]"];
        let cases: [(&str, &[&str], &str); 7] = [
            ("k<unsigned *>", &out, "3 3 3 3"),
            ("k<uint32_t*>", &out, "3 3 3 3"),
            ("scale(const int*, int*)", &both, "0 2 4 6"),
            ("scale(int const *, int *)", &both, "0 2 4 6"),
            ("sum<half>", &halves, "0 1 2 3"),
            ("sum<size_t>", &longs, "0 1 2 3"),
            ("sum<half>(const half *, half *)", &halves, "0 1 2 3"),
        ];
        for (kernel, arguments, expected) in cases {
            let printed = run(folder, kernel, arguments);
            assert!(printed.contains(expected), "{kernel}: {said}{printed}");
        }
        let printed = run(folder, "scales", &out);
        for kernel in ["scale(int*)", "scale(int const* int*)"] {
            assert!(printed.contains(kernel), "{kernel}: {said}{printed}");
        }
    });
}

/// The compiler gets a copy of such a source, with a line for the kernel. The last source begins
/// with a byte order mark.
#[test]
fn kernels_of_templates_are_made_in_folders_of_any_name() {
    let text = "#include \"five.h\"\n\
                template <class T> __global__ void k(T *x) { x[threadIdx.x] = FIVE; }\n";
    for clang in compilers() {
        for (name, begin) in [("q\"x", ""), ("bs\\x", ""), ("a b", "\u{feff}")] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join(name)).unwrap();
            let source = Path::new(name).join("main.cu");
            std::fs::write(folder.path().join(&source), format!("{begin}{text}")).unwrap();
            std::fs::write(folder.path().join(name).join("five.h"), "#define FIVE 5\n").unwrap();
            let mut compile = Command::new(command());
            compile.current_dir(folder.path()).arg("cc").arg(&source);
            let arguments = ["--kernel", "k<int>", "--clang", clang, "-o", "image"];
            let compiled = compile.args(arguments).output().unwrap();
            let said = String::from_utf8_lossy(&compiled.stderr);
            assert!(compiled.status.success(), "{clang} {name}: {said}");
            let printed = run(folder.path(), "k<int>", &["-a", "out:i32[4]"]);
            assert!(printed.contains("5 5 5 5"), "{clang} {name}: {said}{printed}");
        }
    }
}

#[test]
fn only_a_function_of_the_name_main_is_code_of_the_host() {
    let kernel = "__global__ void k(int *x) { x[0] = 1; }\n";
    for (function, is_of_host) in
        [("__device__ int domain(int x) { return x; }\n", false), ("int main() {}\n", true)]
    {
        compile_each(&format!("{function}{kernel}"), &[], |_, said| {
            let is_named = said.contains("the code of the host is ignored");
            assert_eq!(is_named, is_of_host, "{said}");
        });
    }
}

#[test]
fn loops_that_stay_as_they_are_print_no_warning() {
    let source = "__global__ void k(float *x, int n) {\n#pragma unroll\n  \
                  for (int i = threadIdx.x; i < n; i += 32) x[i] += 2;\n}\n";
    let targets = ["--target", "host,nvptx64:sm_52,amdgcn:gfx90a"];
    compile_each(source, &targets, |_, said| assert_eq!(said, ""));
}

const WITHOUT_KEYWORDS: &str = r#"
#include "sums.h"
template <class T> struct Add {
  template <int N> static __device__ void number(T *p) { *p += N; }
  template <class U> __device__ U as(T v) { return (U)v; }
};
template <class T, int N> __device__ void add(T *p) { Add<T>::number<N>(p); }
template <class T> __device__ int rounded(T v) { Add<T> it; return it.as<int>(v); }
__global__ void k(float *x) {
  add<float, 3>(x + threadIdx.x);
  x[threadIdx.x] = rounded(x[threadIdx.x] + 0.5f) + sum<Add<float>>();
}
"#;

/// In a header too.
#[test]
fn members_of_templates_need_no_keyword() {
    let header = "template <class A> __device__ float sum() {\n  float x = 1;\n  \
                  A::number<10>(&x);\n  return x;\n}\n";
    let headers = tempfile::tempdir().unwrap();
    std::fs::write(headers.path().join("sums.h"), header).unwrap();
    let include = headers.path().to_str().unwrap();
    compile_each(WITHOUT_KEYWORDS, &["-I", include], |folder, said| {
        let printed = run(folder, "k", &["-a", "out:f32[4]=iota"]);
        assert!(printed.contains("14 15 16 17"), "{said}{printed}");
    });
}

#[test]
fn functions_that_no_source_defines_are_named() {
    let source = "__device__ int f(int);\nnamespace ns { __device__ int g(const int *); }\n\
                  __device__ int h(int);\n\
                  __global__ void k(int *x) { x[0] = f(3) + ns::g(x); }\n";
    for target in ["host", "nvptx64:sm_52"] {
        compile_each(source, &["--target", target], |_, said| {
            let is_named = said.contains("functions: f(int), ns::g(int const*).");
            assert!(is_named, "{target}: {said}");
        });
    }
    let defined = "__device__ int f(int x) { return x; }\n\
                   __global__ void k(int *x) { x[0] = f(3); }\n";
    compile_each(defined, &[], |_, said| assert_eq!(said, ""));
}
