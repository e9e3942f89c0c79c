//! Execution of linked AArch64 code: the example `run`, compiled for AArch64, below an emulator.

use std::env::consts::ARCH;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const CC: &str = "aarch64-linux-gnu-gcc";
const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];
/// The folder of Debian's C library for AArch64.
const ROOT: &str = "/usr/aarch64-linux-gnu";

const C: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int order, initialized;
void in_init(void) { initialized++; }
__asm__(".pushsection .init,\"ax\"; bl in_init; .popsection");
static __thread int counted = 5, uncounted;
__attribute__((constructor)) static void begin(int argc) { order = argc * 10; }
__attribute__((destructor)) static void end(void) { puts("destroyed"); }
static void at_exit(void) { puts("at exit"); }
static int chosen(void) { return 3; }
static void *resolve(void) { return chosen; }
int indirect(void) __attribute__((ifunc("resolve")));
static void *in_thread(void *from) { counted += *(int *)from; return (void *)(long)(counted + ++uncounted); }
int main(int argc, char **argv)
{
    void *result;
    pthread_t thread;
    counted = 100;
    pthread_create(&thread, 0, in_thread, &order);
    pthread_join(thread, &result);
    atexit(at_exit);
    printf("%d %d %ld %s %.2f %d %d\n", counted, order, (long)result, argv[1], atof("2.5"), indirect(), initialized);
    return 7;
}
"#;

const CXX: &str = r#"
#include <cstdio>
#include <stdexcept>
#include <string>
struct Global { Global() { std::puts("constructed"); } ~Global() { std::puts("destroyed"); } } global;
struct Local { ~Local() { std::puts("unwound"); } };
static int thrower(int n)
{
    Local local;
    if (n > 0)
        throw std::runtime_error("thrown " + std::to_string(n));
    return n;
}
int main(int argc, char **)
{
    try {
        return thrower(argc);
    } catch (const std::exception &exception) {
        std::puts(exception.what());
    }
    return 5;
}
"#;

#[test]
fn a_c_program_has_its_constructors_its_arguments_and_its_threads_variables() {
    let Some(machine) = Machine::new() else { return };
    for flags in [["-O0", "-fPIC"], ["-O2", "-fPIC"]] {
        for lazy in [false, true] {
            let output = machine.run("c", C, &flags, &[], lazy);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said, "100 20 26 argument 2.50 3 1\nat exit\ndestroyed\n", "{output:?}");
            assert_eq!(output.status.code(), Some(7), "{flags:?}");
        }
    }
}

#[test]
fn a_cxx_program_catches_its_exceptions() {
    let Some(machine) = Machine::new() else { return };
    if !installed("aarch64-linux-gnu-g++") {
        return eprintln!("skipped: there is no aarch64-linux-gnu-g++");
    }
    for flags in [["-O0", "-fPIC"], ["-O2", "-fno-pic"]] {
        for lazy in [false, true] {
            let preload = ["-E", "LD_PRELOAD=libstdc++.so.6"];
            let output = machine.run("c++", CXX, &flags, &preload, lazy);
            let said = String::from_utf8_lossy(&output.stdout);
            assert_eq!(said, "constructed\nunwound\nthrown 2\ndestroyed\n", "{output:?}");
            assert_eq!(output.status.code(), Some(5), "{flags:?}");
        }
    }
}

/// An emulated machine, and the example on it.
struct Machine {
    emulator: &'static str,
    example: PathBuf,
}

impl Machine {
    /// Creates a machine; prints a message and returns `None` if a part is not installed.
    fn new() -> Option<Self> {
        let emulator = EMULATORS.into_iter().find(|emulator| installed(emulator));
        let problem = match emulator {
            _ if ARCH == "aarch64" => "this machine needs no emulator",
            None => "there is no qemu-aarch64",
            Some(_) if !installed(CC) => "there is no aarch64-linux-gnu-gcc",
            Some(emulator) => {
                return Some(Self { emulator, example: example()?.to_owned() });
            }
        };
        eprintln!("skipped: {problem}");
        None
    }

    /// Compiles a program, links it in memory there, lazily or not, and runs it with one argument.
    fn run(
        &self,
        language: &str,
        source: &str,
        flags: &[&str],
        emulation: &[&str],
        lazy: bool,
    ) -> Output {
        let directory = tempfile::tempdir().unwrap();
        let object = directory.path().join("program.o");
        let mut compiler = Command::new(CC);
        compiler.args(["-x", language, "-c", "-", "-o"]).arg(&object).args(flags);
        let mut child = compiler.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{compiler:?}");
        let mut command = Command::new(self.emulator);
        command.args(["-L", ROOT]).args(emulation).arg(&self.example);
        command.args(lazy.then_some("--lazy")).arg(&object);
        command.args(["--", "argument"]).output().unwrap()
    }
}

/// Returns the example, compiled once; `None` without a standard library of Rust to compile it
/// with.
fn example() -> Option<&'static Path> {
    static EXAMPLE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        // The workspace's own target folder has the build for this machine.
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let output = Command::new(env!("CARGO"))
            // One command for two test programs: dependencies have the same features in both.
            .args(["build", "-p", "longshore-executor", "-p", "longshore-jitlink", "--bins"])
            .args(["--example", "run", "--target", TARGET, "--target-dir"])
            .arg(directory)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", CC)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("error[E0463]") {
            eprintln!("skipped: there is no standard library for {TARGET}; `rustup target add` it");
            return None;
        }
        assert!(output.status.success(), "{said}");
        Some(directory.join(TARGET).join("debug/examples/run"))
    };
    EXAMPLE.get_or_init(build).as_deref()
}

fn installed(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}
