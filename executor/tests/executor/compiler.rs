//! Bitcode that a process of its own compiles.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use longshore_compiler::{
    Compile, CompileError, Compiled, Level, LibraryChoice, Module, Options, Part, Request, Target,
};
use longshore_executor::compiler::{CompilerProcess, Limits};
use longshore_executor::controller::Spawn;

const SOURCE: &str =
    "static int inner(int n) { return n * 3; } int fine(int n) { return inner(n) + 1; }";

/// A kernel's module in text that no version of LLVM can compile: the target lacks the intrinsic.
const FATAL: &str = "target triple = \"nvptx64-nvidia-cuda\"
    declare i64 @llvm.x86.rdtsc()
    define i64 @wrong() { %r = call i64 @llvm.x86.rdtsc() ret i64 %r }";

fn process() -> CompilerProcess {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    CompilerProcess::new(Spawn::new(env!("CARGO_BIN_EXE_longshore-executor"))).with_folders(folders)
}

/// Versions of LLVM for which both the library and clang are installed. In CI there must be one.
fn versions(process: &CompilerProcess) -> Vec<u32> {
    let is_there = |version: &u32| {
        let mut clang = Command::new(format!("clang-{version}"));
        let clang = clang.arg("--version").stdout(Stdio::null()).status();
        let library = process.version(&LibraryChoice::Major(*version));
        clang.is_ok_and(|status| status.success()) && library.is_ok()
    };
    let found: Vec<u32> = [14, 16, 19, 22].into_iter().filter(is_there).collect();
    if found.is_empty() {
        assert!(std::env::var_os("CI").is_none(), "no libLLVM with its clang");
        eprintln!("skipped: no libLLVM with its clang");
    }
    found
}

fn bitcode(version: u32, flags: &str, source: &str) -> Module {
    let mut command = Command::new(format!("clang-{version}"));
    command.args(["-x", "c"]).args(flags.split_whitespace());
    command.args(["-c", "-emit-llvm", "-o", "-", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?}");
    Module::new(output.stdout)
}

/// Returns bitcode whose compilation takes seconds.
fn endless(version: u32) -> Module {
    let body = |number| {
        let lines =
            (0..400).map(|line| format!("a[{line}] = a[{line}] * a[a[{}] & 511] + n;", line + 1));
        format!(
            "void f{number}(int *a, int n) {{ for (int i = 0; i < n; i++) {{ {} }} }}",
            lines.collect::<String>()
        )
    };
    let source: String = (0..60).map(body).collect();
    bitcode(version, "-O1 -Xclang -disable-llvm-passes", &source)
}

fn compile(
    process: &CompilerProcess,
    version: u32,
    module: &Module,
    part: &Part<'_>,
) -> Result<Compiled, CompileError> {
    let options = Options { library: LibraryChoice::Major(version), ..Options::default() };
    let target = Target::default();
    process.compile(&Request { module, part, target: &target, options: &options })
}

#[test]
fn modules_and_their_parts_are_compiled_in_one_process() {
    for process in [process(), {
        CompilerProcess::new(
            Spawn::new(env!("CARGO_BIN_EXE_longshore-executor")).with_shared_memory(false),
        )
    }] {
        for version in versions(&process) {
            let module = bitcode(version, "-O0", SOURCE);
            let started = process.id();
            let whole = compile(&process, version, &module, &Part::Whole).unwrap();
            assert!(
                whole.bytes.starts_with(b"\x7fELF") && whole.facts.library.version[0] == version
            );
            let part = Part::Only { functions: vec![b"fine"], aliases: vec![] };
            for _ in 0..2 {
                let part = compile(&process, version, &module, &part).unwrap();
                assert!(part.bytes.windows(6).any(|it| it == b"inner\0"));
                process.forget(&module);
            }
            assert_eq!(process.id(), started);
        }
    }
}

#[test]
fn large_modules_and_code_pass_through_shared_memory() {
    let process = process();
    let Some(version) = versions(&process).last().copied() else { return };
    let data: String = (0..300_000).map(|number| format!("{number},")).collect();
    let module = bitcode(version, "-O1", &format!("int table[] = {{ {data} }};"));
    let object = compile(&process, version, &module, &Part::Whole).unwrap().bytes;
    assert!(module.bytes().len() > 300_000 && object.len() > 1_200_000);
    let table: Vec<u8> = (299_000_u32..299_010).flat_map(u32::to_le_bytes).collect();
    assert!(object.windows(table.len()).any(|it| it == table));
    let small = self::process().with_limits(Limits { output: 1 << 20, ..Limits::default() });
    let error = compile(&small, version, &module, &Part::Whole).unwrap_err().to_string();
    assert!(error.contains("expected at most 1048576"), "{error}");
}

#[test]
fn an_end_of_llvm_is_an_error_with_its_reason() {
    let process = process();
    for version in versions(&process) {
        let error = compile(&process, version, &Module::new(FATAL), &Part::Whole).unwrap_err();
        assert!(matches!(error, CompileError::Process(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("LLVM ended it") && text.contains("rdtsc"), "{text}");
        let module = bitcode(version, "-O1", SOURCE);
        assert!(compile(&process, version, &module, &Part::Whole).is_ok());
    }
}

#[test]
fn a_process_that_is_killed_while_it_compiles_is_an_error_that_names_the_signal() {
    let process = process();
    for version in versions(&process) {
        let module = endless(version);
        let (killed, pid) = thread::scope(|scope| {
            let compiling = scope.spawn(|| compile(&process, version, &module, &Part::Whole));
            thread::sleep(Duration::from_millis(300));
            let pid = process.id().unwrap();
            Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
            (compiling.join().unwrap(), pid)
        });
        let error = killed.unwrap_err().to_string();
        assert!(error.contains("SIGKILL"), "{error}");
        let module = bitcode(version, "-O1", SOURCE);
        assert!(compile(&process, version, &module, &Part::Whole).is_ok());
        assert_ne!(process.id(), Some(pid));
    }
}

#[test]
fn a_process_that_does_not_end_in_time_is_killed() {
    let limits = Limits { time: Duration::from_millis(500), ..Limits::default() };
    let process = process().with_limits(limits);
    for version in versions(&process) {
        let begin = Instant::now();
        let error = compile(&process, version, &endless(version), &Part::Whole).unwrap_err();
        assert!(error.to_string().contains("did not end within 500ms"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn requests_beside_one_that_ends_the_process_succeed() {
    let process = process();
    for version in versions(&process) {
        let (fine, fatal) = (bitcode(version, "-O1", SOURCE), Module::new(FATAL));
        thread::scope(|scope| {
            for thread in 0..16 {
                let (process, fine, fatal) = (&process, &fine, &fatal);
                scope.spawn(move || {
                    for round in 0..4 {
                        if thread == 0 && round < 2 {
                            assert!(compile(process, version, fatal, &Part::Whole).is_err());
                            continue;
                        }
                        let part = Part::Only { functions: vec![b"fine"], aliases: vec![] };
                        let compiled = compile(process, version, fine, &part);
                        assert!(compiled.is_ok(), "{compiled:?}");
                    }
                });
            }
        });
    }
}

#[test]
fn damaged_bitcode_is_an_error_or_compiled() {
    let process = process();
    for version in versions(&process) {
        let module = bitcode(version, "-O1 -g", SOURCE);
        let (mut errors, mut ends) = (0, 0);
        for number in 0..150 {
            let mut bytes = module.bytes().to_vec();
            let place = bytes.len() * number / 150;
            bytes[place] ^= 1 << (number % 8);
            match compile(&process, version, &Module::new(bytes), &Part::Whole) {
                Err(CompileError::Process(_)) => ends += 1,
                Err(_) => errors += 1,
                Ok(_) => {}
            }
        }
        println!("LLVM {version}: {errors} errors, {ends} ends of the process");
        assert!(errors > 0);
        assert!(compile(&process, version, &module, &Part::Whole).is_ok());
    }
}

#[test]
fn a_library_that_is_not_there_is_an_error_with_its_package() {
    let error = process().version(&LibraryChoice::Major(99)).unwrap_err();
    assert!(
        matches!(&error, CompileError::Library(text) if text.contains("libllvm99")),
        "{error:?}"
    );
    let missing = CompilerProcess::new(Spawn::new("/nowhere/executor"));
    let error = missing.version(&LibraryChoice::Newest).unwrap_err().to_string();
    assert!(error.contains("/nowhere/executor"), "{error}");
}

#[test]
fn the_process_ends_with_its_compiler() {
    let (send, receive) = channel();
    let process = process();
    let _ = process.version(&LibraryChoice::Newest);
    let id = process.id().unwrap();
    // The process is no child of the program, and neither is its parent.
    let parent_of = |id: u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
        line.trim().parse::<u32>().unwrap()
    };
    let parent = parent_of(id);
    assert!(![parent, parent_of(parent)].contains(&std::process::id()));
    thread::spawn(move || {
        drop(process);
        send.send(()).unwrap();
    });
    receive.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(!PathBuf::from(format!("/proc/{id}")).exists());
}

#[test]
fn every_optimisation_level_is_possible() {
    let process = process();
    for version in versions(&process) {
        let module = bitcode(version, "-O0", SOURCE);
        for level in (0..4).filter_map(Level::from_number) {
            let library = LibraryChoice::Major(version);
            let options = Options { level, library, ..Options::default() };
            let (part, target) = (Part::Whole, Target::default());
            let request =
                Request { module: &module, part: &part, target: &target, options: &options };
            assert!(process.compile(&request).is_ok());
        }
    }
}

#[test]
fn code_for_gpus_comes_from_the_process_too() {
    let process = process();
    for version in versions(&process) {
        let nvidia = bitcode(version, "-O1 --target=nvptx64-nvidia-cuda", SOURCE);
        let ptx = compile(&process, version, &nvidia, &Part::Whole).unwrap().bytes;
        assert!(String::from_utf8(ptx).unwrap().contains(".func"));
        let flags = "-x cl -O1 -nogpulib --target=amdgcn-amd-amdhsa -mcpu=gfx90a";
        let amd = bitcode(version, flags, "kernel void store(global int *to) { *to = 1; }");
        match compile(&process, version, &amd, &Part::Whole) {
            Ok(code) => assert!(code.bytes.starts_with(b"\x7fELF")),
            // LLD is a package of its own.
            Err(CompileError::Linker(error)) => assert!(error.contains("lld"), "{error}"),
            Err(error) => panic!("{error}"),
        }
    }
}
