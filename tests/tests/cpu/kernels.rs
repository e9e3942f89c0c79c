//! The kernels of `kernels/kernels.c` on the CPU, compared with plain Rust: for each way of
//! compilation, all kernels, sizes and group sizes, on one thread and on several.
//!
//! Every run tests a few ways, and all with `LONGSHORE_TEST_ALL`.

mod checks;
mod rig;

use checks::CHECKS;
use longshore_tests::effort;
use longshore_tests::kernels::{Build, Language, Shape};
use longshore_tests::programs::Position;
use rig::rig;

const VERSIONS: [u32; 4] = [14, 16, 19, 22];
const NATIVE: &[&str] = &["-O3", "-march=native"];
const FAST: &[&str] = &["-O3"];
const PLAIN: &[&str] = &["-O0"];
const INDEPENDENT: Shape = Shape::Object(Position::Independent);
const FIXED: Shape = Shape::Object(Position::Fixed);

/// Returns the numbers of threads for every run: one thread does all work, or several steal work
/// from each other.
fn threads() -> &'static [u32] {
    if effort::is_all() { &[1, 2, 5] } else { &[1, 5] }
}

/// Runs all checks with each of these numbers of threads.
fn check(build: Build, threads: &[u32]) {
    if !build.is_available() {
        println!("clang-{} is not installed", build.clang);
        return;
    }
    let image = build.image();
    for threads in threads {
        let rig = rig(&image, *threads);
        for (name, check) in CHECKS {
            println!("{build}, {threads} threads: {name}");
            check(&rig);
        }
    }
}

macro_rules! always {
    ($($name:ident: $clang:literal, $language:ident, $flags:ident, $shape:expr;)*) => { $(
        #[test]
        fn $name() {
            let (language, flags) = (Language::$language, $flags);
            check(Build { clang: $clang, language, flags, shape: $shape }, threads());
        }
    )* };
}

always! {
    kernels_of_clang_14_are_right_for_this_cpu: 14, C, NATIVE, FIXED;
    kernels_of_clang_14_are_right_in_a_shared_object: 14, C, FAST, Shape::Shared;
    kernels_of_clang_19_are_right_unoptimised: 19, Cpp, PLAIN, Shape::Shared;
    kernels_of_clang_19_are_right_for_any_cpu: 19, C, FAST, INDEPENDENT;
    kernels_of_clang_19_are_right_in_cpp: 19, Cpp, NATIVE, Shape::Shared;
}

/// Returns all ways, or one that has no test of its own.
fn other_ways() -> Vec<Build> {
    if !effort::is_all() {
        return vec![Build { clang: 22, language: Language::C, flags: NATIVE, shape: INDEPENDENT }];
    }
    let mut ways = Vec::new();
    for clang in VERSIONS {
        for language in [Language::C, Language::Cpp] {
            for flags in [PLAIN, FAST, NATIVE] {
                let shapes = [INDEPENDENT, FIXED, Shape::Shared];
                ways.extend(shapes.map(|shape| Build { clang, language, flags, shape }));
            }
        }
    }
    ways
}

#[test]
fn kernels_are_right_however_they_are_compiled() {
    for build in other_ways() {
        check(build, threads());
    }
}
