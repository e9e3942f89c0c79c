//! Messages and failures of kernels in CUDA, by `longshore run`.

use longshore_tests::cuda_kernels::{compilers, path, succeed};
use longshore_tests::world::command;
use std::process::{Command, Output};

/// The sources of these tests.
pub(super) const FILES: [&str; 1] = ["messages.cu"];

/// Compiles the source, and runs one of its kernels, by each compiler and with each set of flags.
fn run_each(arguments: &[&str], check: impl Fn(&str, &str, &Output)) {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image");
    for clang in compilers() {
        for flags in [&["-O0", "-g"][..], &["-O3"]] {
            let mut compile = Command::new(command());
            compile.arg("cc").arg(path(FILES[0])).args(["--clang", clang, "--target", "host"]);
            succeed(compile.arg("-o").arg(&image).args(flags));
            let mut run = Command::new(command());
            let ran = run.arg("run").arg(&image).args(["--backend", "host"]).args(arguments);
            let ran = ran.output().unwrap();
            let about = format!("{clang} {}", flags.join(" "));
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            check(&about, &said, &ran);
        }
    }
}

#[test]
fn printf_writes_all_kinds_of_values() {
    let launch = ["-k", "hello", "-g", "2", "-i", "2", "-a", "i32=3", "-a", "i8=120"];
    run_each(&launch, |about, said, ran| {
        let line = |at: u32| {
            let (block, thread, half) = (at / 2, at % 2, f64::from(at) * 0.5);
            format!(
                "block {block}, thread {thread}: x text {half:5.2} 1099511627776 {:#x}",
                at + 255
            )
        };
        let printed = String::from_utf8_lossy(&ran.stdout);
        let mut lines: Vec<&str> = printed.lines().filter(|it| it.starts_with("block")).collect();
        lines.sort_unstable();
        assert_eq!(lines, [line(0), line(1), line(2)], "{about}: {said}");
        assert!(ran.status.success(), "{about}: {said}");
    });
}

#[test]
fn a_failed_assertion_names_its_thread_and_its_line() {
    let launch = ["-k", "check_all", "-g", "1", "-i", "4", "-a", "i32[4]=iota"];
    run_each(&[&launch[..], &["-a", "i32=2"]].concat(), |about, said, ran| {
        let is_named = said.contains("values[i] < limit && \"a value is too large\"");
        assert!(!ran.status.success() && is_named, "{about}: {said}");
        assert!(said.contains("(2, 0, 0)") && said.contains("messages.cu"), "{about}: {said}");
    });
}

#[test]
fn a_trap_ends_the_launch_with_an_error() {
    let launch = ["-k", "trap_at", "-g", "1", "-i", "4", "-a", "i32=2"];
    run_each(&launch, |about, said, ran| {
        assert!(ran.status.code().is_some_and(|code| code > 0), "{about}: {said}");
        assert!(said.contains("trap_at"), "{about}: {said}");
    });
}
