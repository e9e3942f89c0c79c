//! Sources with many kernels, which `longshore cc` compiles in parts: the parts work together as
//! one image.

use longshore::{Grid, Image, SymbolKind};
use longshore_conformance::TrustedImages;
use longshore_tests::cuda_kernels::compilers;
use longshore_tests::device_code::{Workshop, threads};
use longshore_tests::world::command;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// Variables that kernels of several parts use, in all kinds of linkage.
const VARIABLES: &str = r#"
#include <cuda_runtime.h>
__constant__ int table[4] = {5, 7, 11, 13};
__device__ int counter = 100;
static __device__ int own = 1000;
inline __device__ int common = 10000;
static __device__ const int fixed[4] = {1, 2, 3, 4};
__device__ int *last() {
  static __device__ int value = 100000;
  return &value;
}
__global__ void total(int *out) { out[0] = counter + own + common + *last(); }
"#;

/// The number of kernels of a template in the sources.
const INSTANCES: usize = 48;

/// Returns a source with kernels that have a number of statements, in a function that they share so
/// that it compiles in little time.
fn source(statements: usize) -> String {
    let mut source = VARIABLES.to_owned();
    source.push_str("__noinline__ __device__ int work(int x) {\n");
    for number in 0..statements {
        let _ = writeln!(source, "  x = x * 3 + fixed[(x >> {}) & 3];", number % 7);
    }
    source.push_str(
        "  return x;\n}\n\
         template <int N> __global__ void step(int *out) {\n\
           __shared__ int values[64];\n\
           int i = threadIdx.x + threadIdx.y * blockDim.x;\n\
           values[i] = (work(out[i] & 3) + N) * table[N & 3];\n\
           __syncthreads();\n\
           int next = values[(i + 1) % (blockDim.x * blockDim.y)];\n\
           out[i] = next + __shfl_xor_sync(~0u, next, 1);\n\
           if (i == 0) counter += N, own += N, common += N, *last() += N;\n\
         }\n",
    );
    for number in 0..INSTANCES {
        let _ = writeln!(source, "template __global__ void step<{number}>(int *);");
    }
    source
}

/// Returns the results of a kernel for items that begin with their own numbers.
fn expected(number: usize, statements: usize, items: usize) -> Vec<i32> {
    let table = [5, 7, 11, 13];
    let work = |item: usize| {
        let step = |x: i32, at: usize| x.wrapping_mul(3).wrapping_add(1 + ((x >> (at % 7)) & 3));
        let x = (0..statements).fold(item as i32 & 3, step);
        x.wrapping_add(number as i32).wrapping_mul(table[number & 3])
    };
    let next = |item: usize| work((item + 1) % items);
    (0..items).map(|item| next(item).wrapping_add(next(item ^ 1))).collect()
}

/// Compiles a source, and returns the image with the messages.
fn compile(folder: &Path, source: &str, clang: &str) -> (Image, String) {
    let (file, image) = (folder.join("many.cu"), folder.join("image"));
    std::fs::write(&file, source).unwrap();
    let mut command = Command::new(command());
    command.args(["-v", "cc", "--clang", clang]).arg(file).arg("-o").arg(&image);
    let compiled = command.output().unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
    assert!(compiled.status.success(), "{clang}: {said}");
    (Image::read(image).unwrap(), said)
}

/// Runs some kernels of a source, in regular groups and in others, and compares their results and
/// the variables.
fn check(image: &Image, statements: usize) {
    let workshop = Workshop::new();
    let device = workshop.device(threads(1));
    let program = device.load_trusted(image.clone()).unwrap();
    let queue = device.queue().unwrap();
    let begin: Vec<i32> = (0..64).collect();
    let out = device.buffer_of(&queue, &begin).unwrap();
    let launch = |name: &str, [x, y]: [u32; 2]| {
        let kernel = program.kernel(name).unwrap();
        // SAFETY: the buffer has an element for each item.
        unsafe { queue.launch(&kernel, Grid::new([1, 1, 1], [x, y, 1]), (&out,)) }.unwrap();
        let mut got = vec![0; 64];
        out.read(&queue, &mut got).unwrap();
        got
    };
    let mut added = 0;
    for number in [0, 1, 17, 30, INSTANCES - 1] {
        for group in [[32, 2], [8, 4], [64, 1]] {
            out.write(&queue, &begin).unwrap();
            let items = group.iter().product::<u32>() as usize;
            let got = launch(&format!("step<{number}>"), group);
            assert_eq!(got[..items], expected(number, statements, items), "{number}, {group:?}");
            added += number as i32;
        }
    }
    assert_eq!(launch("total", [1, 1])[0], 111_100 + 4 * added);
    let counter = program.global("counter").unwrap();
    assert_eq!(counter.read::<i32>(&queue).unwrap(), 100 + added);
    counter.write(&queue, 0_i32).unwrap();
    assert_eq!(launch("total", [1, 1])[0], 111_000 + 3 * added);
    let kernels = program.symbols().unwrap().into_iter();
    let kernels = kernels.filter(|(_, kind)| *kind == SymbolKind::Kernel);
    assert_eq!(kernels.count(), INSTANCES + 1);
}

#[test]
fn kernels_in_parts_are_right_and_share_their_variables() {
    const STATEMENTS: usize = 80;
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let (image, said) = compile(folder.path(), &source(STATEMENTS), clang);
        assert!(said.contains("the kernels compile in"), "{clang}: {said}");
        assert!(!said.contains("takes minutes"), "{clang}: {said}");
        check(&image, STATEMENTS);
    }
}

#[test]
fn hundreds_of_kernels_are_right_and_a_warning_names_the_limits() {
    const STATEMENTS: usize = 500;
    for clang in compilers() {
        let folder = tempfile::tempdir().unwrap();
        let (image, said) = compile(folder.path(), &source(STATEMENTS), clang);
        assert!(said.contains("takes minutes"), "{clang}: {said}");
        check(&image, STATEMENTS);
    }
}
