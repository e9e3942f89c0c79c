//! Checks of kernels: a collection of wrong kernels, each with the lines of its errors, and of
//! right kernels that look suspicious.

use longshore::{Environment, Grid, Image};
use longshore_conformance::TrustedImages;
use longshore_tests::checks::{Case, cases};
use longshore_tests::device_code::Workshop;
use longshore_tests::effort;
use longshore_tests::world::{command, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Least numbers of wrong and of right kernels.
const LEAST: usize = 60;

#[test]
fn wrong_kernels_are_reported_at_their_lines_and_right_kernels_are_not() {
    let sources = sources();
    let all: Vec<Case> = sources.iter().flat_map(|file| cases(file)).collect();
    let wrong = all.iter().filter(|case| case.is_wrong()).count();
    assert!(wrong >= LEAST && all.len() - wrong >= LEAST, "{wrong} of {} are wrong", all.len());
    for case in &all {
        assert_eq!(case.bugs.is_empty(), !case.is_wrong(), "{case:?}");
    }
    for clang in compilers() {
        for (form, make) in FORMS {
            let problems = with_compiler(clang, &sources, make);
            let (shown, count) = (problems.join("\n\n"), problems.len());
            assert!(problems.is_empty(), "{clang}, {form}: {count} of {}:\n{shown}", all.len());
        }
    }
}

#[test]
fn wrong_kernels_in_cuda_are_reported_at_their_lines() {
    let source = root().join("tests/kernels/cuda_checks.cu");
    for clang in compilers() {
        let problems = with_compiler(clang, std::slice::from_ref(&source), checked_image);
        assert!(problems.is_empty(), "{clang}:\n{}", problems.join("\n\n"));
    }
}

/// Function that makes an image of a source for the checks, by a compiler, in a folder.
type Make = fn(&str, &Path, &Path) -> Image;

/// The forms of images that can be checked.
const FORMS: [(&str, Make); 2] = [("object", checked_image), ("bitcode", bitcode_image)];

const PAST: &str = r#"
#include <longshore_device.h>
LONGSHORE_KERNEL(set, (uint32_t *x, uint64_t at)) { x[at] = 1; }
LONGSHORE_KERNEL(get, (uint32_t *x, uint64_t at, uint32_t *y)) { *y = x[at]; }
"#;

#[test]
fn an_access_one_element_past_a_buffer_of_any_size_is_reported() {
    let workshop = Workshop::new();
    let image = past_image();
    let device = workshop.device(Environment::empty().with("LONGSHORE_HOST_CHECK", "memory"));
    let program = device.load_trusted(image).unwrap();
    let queue = device.queue().unwrap();
    let [set, get] = ["set", "get"].map(|name| program.kernel(name).unwrap());
    let result = device.buffer_of(&queue, &[0_u32]).unwrap();
    for count in counts() {
        // SAFETY: the kernels access nothing outside of buffers: the check ends such accesses.
        let (buffer, wrote, read) = unsafe {
            let buffer = device.buffer_uninit::<u32>(count).unwrap();
            let (grid, at) = (Grid::linear(1, 1), count as u64);
            let wrote = queue.launch_and_wait(&set, grid, (&buffer, at));
            (buffer.pointer(), wrote, queue.launch_and_wait(&get, grid, (&buffer, at, &result)))
        };
        let bytes = 4 * count;
        let place = format!(
            "0 bytes past the end of the allocation of {bytes} bytes at {:#x}",
            buffer.address()
        );
        for result in [wrote, read] {
            let message = result.unwrap_err().to_string();
            assert!(message.contains(&place) && message.contains("past.c:"), "{place}: {message}");
        }
    }
}

#[test]
fn a_write_one_element_past_a_buffer_without_the_check_leaves_the_heap_intact() {
    let workshop = Workshop::new();
    let image = workshop.image("clang-19", "past", PAST, &["-O1"]);
    let device = workshop.device(Environment::empty());
    let program = device.load_trusted(image).unwrap();
    let (queue, set) = (device.queue().unwrap(), program.kernel("set").unwrap());
    let counts: Vec<usize> = counts().collect();
    let own = |count: usize| vec![7_u8; 4 * count.min(10_000)];
    let mut heap: Vec<Vec<u8>> = counts.iter().map(|count| own(*count)).collect();
    for round in 0..rounds(1000) {
        let count = counts[round % counts.len()];
        // SAFETY: the kernel writes one word into memory of the device, or to unmapped memory.
        let result = unsafe {
            let buffer = device.buffer_uninit::<u32>(count).unwrap();
            queue.launch_and_wait(&set, Grid::linear(1, 1), (&buffer, count as u64))
        };
        // Behind some buffers is unmapped memory.
        let is_fault = |error: longshore::Error| error.message().contains("segmentation fault");
        assert!(result.err().is_none_or(is_fault), "{count}");
        let place = round % heap.len();
        assert!(heap[place].iter().all(|byte| *byte == 7), "{count}");
        heap[place] = own(count);
    }
    assert!(heap.iter().flatten().all(|byte| *byte == 7));
}

const PARTLY: &str = r#"
#include <longshore_device.h>
LONGSHORE_KERNEL(inside, (uint32_t *x, int32_t from, int32_t to)) {
  int32_t i = (int32_t)longshore_global_id(0);
  if (i >= from && i < to) x[i] += 1;
}
LONGSHORE_KERNEL(around, (uint32_t *x, uint32_t from)) {
  x[(longshore_global_id(0) + from) % 192u] += 1;
}
"#;

#[test]
fn items_of_a_checked_image_that_leave_out_an_access_do_so_with_and_without_checks() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("partly.c");
    std::fs::write(&source, PARTLY).unwrap();
    for clang in compilers() {
        let image = checked_image(clang, &source, folder.path());
        let workshop = Workshop::new();
        for checks in ["", "all"] {
            let device = workshop.device(Environment::empty().with("LONGSHORE_HOST_CHECK", checks));
            let program = device.load_trusted(image.clone()).unwrap();
            let queue = device.queue().unwrap();
            let [inside, around] = ["inside", "around"].map(|name| program.kernel(name).unwrap());
            for (from, to) in [(0, 192), (0, 150), (1, 191), (70, 71), (-5, 64), (190, 500)] {
                let buffer = device.buffer_of(&queue, &[7_u32; 192]).unwrap();
                let grid = Grid::linear(3, 64);
                // SAFETY: the kernels access the 192 elements of the buffer alone.
                unsafe {
                    queue.launch_and_wait(&inside, grid, (&buffer, from, to)).unwrap();
                    queue.launch_and_wait(&around, grid, (&buffer, 60_u32)).unwrap();
                }
                let expected: Vec<u32> =
                    (0..192).map(|index| 8 + u32::from((from..to).contains(&index))).collect();
                let got = buffer.to_vec(&queue).unwrap();
                assert_eq!(got, expected, "{clang}, checks '{checks}', {from} to {to}");
            }
        }
    }
}

/// Returns the number of rounds: `usual`, or that of `LONGSHORE_ROUNDS`.
fn rounds(usual: usize) -> usize {
    let asked = std::env::var("LONGSHORE_ROUNDS").ok();
    asked.map_or(usual, |text| text.parse().expect("LONGSHORE_ROUNDS: a number"))
}

/// Returns numbers of words, from 4 bytes to 64 MiB.
fn counts() -> impl Iterator<Item = usize> {
    let powers = (0..=24).map(|power| 1_usize << power);
    let near = |power: usize| [power - 1, power, power + 1, power + power / 2];
    powers.flat_map(near).filter(|count| (1..=16 << 20).contains(count))
}

fn past_image() -> Image {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("past.c");
    std::fs::write(&source, PAST).unwrap();
    checked_image("clang-19", &source, folder.path())
}

/// Returns the differences between the reports and the sources.
fn with_compiler(clang: &str, sources: &[PathBuf], make: Make) -> Vec<String> {
    let workshop = Workshop::new();
    let folder = tempfile::tempdir().unwrap();
    let images: Vec<Image> = std::thread::scope(|scope| {
        let folder = folder.path();
        let compile = |source: &PathBuf| {
            let source = source.clone();
            scope.spawn(move || make(clang, &source, folder))
        };
        let running: Vec<_> = sources.iter().map(compile).collect();
        running.into_iter().map(|running| running.join().unwrap()).collect()
    });
    let environment = Environment::empty().with("LONGSHORE_HOST_CHECK", "all");
    let device = workshop.device(environment.with("LONGSHORE_JIT_PROCESS", "own"));
    let queue = device.queue().unwrap();
    let mut problems = Vec::new();
    for (source, image) in sources.iter().zip(images) {
        let program = device.load_trusted(image).unwrap();
        for case in cases(source) {
            let kernel = program.kernel(&case.kernel).unwrap();
            problems.extend(case.compare(case.run(&device, &queue, &kernel)).err());
        }
    }
    problems
}

fn sources() -> Vec<PathBuf> {
    let files = std::fs::read_dir(root().join("tests/kernels/checks")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// Returns the compilers to try: one, and another one if all tests are wanted.
fn compilers() -> Vec<&'static str> {
    let wanted =
        if effort::is_all() { &["clang-19", "clang-14", "clang-22"][..] } else { &["clang-19"] };
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let there: Vec<&'static str> = wanted.iter().copied().filter(is_there).collect();
    assert!(!there.is_empty(), "none of {wanted:?} is installed");
    there
}

fn checked_image(clang: &str, source: &Path, folder: &Path) -> Image {
    let name = source.file_stem().unwrap().to_string_lossy();
    let image = folder.join(format!("{name}-{clang}.img"));
    let mut compile = Command::new(command());
    compile.args(["cc", "--check"]).arg(source).args(["--clang", clang, "-o"]).arg(&image);
    let output = compile.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Image::read(image).unwrap()
}

/// Compiles a source to bitcode, without the compiler's own passes.
fn bitcode_image(clang: &str, source: &Path, folder: &Path) -> Image {
    let name = source.file_stem().unwrap().to_string_lossy();
    let image = folder.join(format!("{name}-{clang}.bc"));
    let mut compile = Command::new(clang);
    compile.args(["-O3", "-Xclang", "-disable-llvm-passes", "-gline-tables-only", "-fPIC"]);
    compile.args(["-DLONGSHORE_CHECK", "-fvisibility=hidden", "-w", "-emit-llvm", "-c", "-I"]);
    compile.arg(root().join("include")).arg(source).arg("-o").arg(&image);
    let output = compile.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Image::read(image).unwrap()
}
