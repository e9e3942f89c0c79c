//! Failing compilers, and modules that cannot be compiled.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::{Bitcode, Compiler, Limits};
use longshore_jitlink::{Architecture, Session};

use super::support::{Scripts, World, bitcode, compiler, session};

const SOURCE: &str = "long fine(long n) { return n + 1; }
    long wrong(long n) { __asm__(\"no_such_instruction\"); return n; }
    long another(long n) { return n + 2; }";

/// Returns the error of a call of `function`.
fn failure(world: &World, function: &str) -> String {
    extern "C" fn instead(_: i64) -> i64 {
        -77
    }
    let said: Arc<Mutex<String>> = Arc::default();
    let heard = Arc::clone(&said);
    world.lazy.on_failure(move |call| {
        *heard.lock().unwrap() = call.error.to_string();
        instead as extern "C" fn(i64) -> i64 as usize as u64
    });
    assert_eq!(world.call(function, 1), -77);
    said.lock().unwrap().clone()
}

#[test]
fn a_function_that_cannot_be_compiled_is_an_error_of_its_call() {
    let Some(world) = World::from_texts(&[("c", "-O1 -fPIC", SOURCE)]) else { return };
    let error = failure(&world, "wrong");
    assert!(error.starts_with("0.bc: wrong could not be made"), "{error}");
    assert!(error.contains("no_such_instruction") && error.contains("clang"), "{error}");
    assert_eq!((world.call("fine", 1), world.call("another", 1)), (2, 3));
    // The next call tries again.
    assert_eq!(failure(&world, "wrong"), error);
}

#[test]
fn a_compiler_that_is_not_there_is_an_error_that_says_what_to_install() {
    let nowhere = Scripts::new();
    let error = Compiler::find(nowhere.path().as_os_str()).unwrap_err().to_string();
    assert!(error.contains("clang and llvm-extract") && error.contains("install"), "{error}");
    let error = Compiler::new("/nowhere/clang", "/nowhere/llvm-extract").unwrap_err().to_string();
    assert!(error.contains("/nowhere/clang") && error.contains("No such file"), "{error}");
}

#[test]
fn programs_that_are_not_of_one_llvm_are_refused() {
    let scripts = Scripts::new();
    let program = |name: &str, says: &str| scripts.script(name, &format!("echo '{says}'"));
    let clang = program("clang", "Debian clang version 19.1.7");
    let error = |clang, extract| Compiler::new(clang, extract).unwrap_err().to_string();
    let other = program("llvm-extract", "Debian LLVM version 16.0.6");
    assert!(error(clang.clone(), other).contains("of LLVM 19"));
    let old = program("old", "clang version 9.0.1");
    assert!(error(old.clone(), old).contains("expected 14 or later"));
    let none = program("none", "hello");
    assert!(error(clang, none).contains("\"hello\""));
}

#[test]
fn the_newest_of_several_versions_is_taken_of_which_all_is_there() {
    let scripts = Scripts::new();
    for name in
        ["clang-14", "clang-16", "clang-22", "llvm-extract-14", "llvm-extract-16", "clang-99x"]
    {
        scripts.script(name, "exit 1");
    }
    assert_eq!(Compiler::find(scripts.path().as_os_str()).unwrap().version(), 16);
}

/// Returns a compiler of this version, with scripts as its clang and its `llvm-extract`.
fn made_up(scripts: &Scripts, version: u32, clang: &str, extract: &str) -> Compiler {
    let program = |name: &str, script: &str| {
        let says = format!("if [ \"$1\" = --version ]; then exec {name}-{version} --version; fi\n");
        scripts.script(name, &format!("{says}{script}"))
    };
    let clang = program("clang", clang);
    Compiler::new(clang, program("llvm-extract", extract)).unwrap()
}

#[test]
fn a_compiler_that_goes_wrong_is_an_error_of_the_call_that_says_how() {
    let Some(version) = compiler().map(|compiler| compiler.version()) else { return };
    let extract = format!("exec llvm-extract-{version} \"$@\"");
    let clang = format!("exec clang-{version} \"$@\"");
    for (with, by, says) in [
        ("cat >/dev/null; echo garbage", &*extract, "not a 64-bit relocatable object"),
        ("cat >/dev/null", &extract, "0 bytes"),
        ("cat >/dev/null; kill -SEGV $$", &extract, "signal: 11"),
        ("cat >/dev/null; echo something about it >&2; exit 3", &extract, "something about it"),
        ("exit 4", &extract, "exit status: 4"),
        (&clang, "echo of the module >&2; exit 5", "of the module"),
        (&clang, "kill -ABRT $$", "signal: 6"),
    ] {
        let scripts = Scripts::new();
        let world = World::by(&made_up(&scripts, version, with, by), &[("c", "-O1 -fPIC", SOURCE)]);
        let error = failure(&world, "fine");
        assert!(error.starts_with("0.bc: fine") && error.contains(says), "{with} {by}: {error}");
    }
}

#[test]
fn a_compiler_that_does_not_end_is_killed_with_its_children() {
    let Some(version) = compiler().map(|compiler| compiler.version()) else { return };
    let scripts = Scripts::new();
    let folder = scripts.path().display().to_string();
    let hangs = format!("sleep 1000 & echo $! > {folder}/child; wait");
    let extract = format!("exec llvm-extract-{version} \"$@\"");
    let limits = Limits { time: Duration::from_secs(1), ..Limits::default() };
    let compiler = made_up(&scripts, version, &hangs, &extract).with_limits(limits);
    let world = World::by(&compiler, &[("c", "-O1 -fPIC", SOURCE)]);
    let begin = Instant::now();
    let error = failure(&world, "fine");
    assert!(error.contains("did not end within 1s"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(20));
    let child = std::fs::read_to_string(format!("{folder}/child")).unwrap();
    let status = format!("/proc/{}/status", child.trim());
    let is_gone = || match std::fs::read_to_string(&status) {
        Ok(status) => status.contains("State:\tZ"),
        Err(_) => true,
    };
    while !is_gone() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{child} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn output_without_end_is_not_kept() {
    let Some(version) = compiler().map(|compiler| compiler.version()) else { return };
    let scripts = Scripts::new();
    let extract = format!("exec llvm-extract-{version} \"$@\"");
    let limits = Limits { output: 1 << 20, ..Limits::default() };
    for (endless, says) in [("yes", "more than 1048576 bytes"), ("yes >&2", "did not end")] {
        let limits = match endless {
            "yes" => limits,
            _ => Limits { time: Duration::from_secs(1), ..limits },
        };
        let compiler = made_up(&scripts, version, endless, &extract).with_limits(limits);
        let world = World::by(&compiler, &[("c", "-O1 -fPIC", SOURCE)]);
        let error = failure(&world, "fine");
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_module_of_a_newer_llvm_is_refused_with_what_to_install() {
    let Some(compiler) = compiler() else { return };
    let scripts = Scripts::new();
    let old = scripts.script("llvm-extract", "echo LLVM version 14.0.6");
    let old = Compiler::new(scripts.script("clang", "echo clang version 14.0.6"), old).unwrap();
    let version = compiler.version();
    if version <= 14 {
        return eprintln!("skipped: there is no newer clang");
    }
    let bytes = bitcode(version, ("c", "-O1", SOURCE));
    let error = Bitcode::for_session(&session(), &old, "it.bc", &bytes).err().unwrap().to_string();
    for part in
        ["it.bc", &format!("LLVM{version}"), "LLVM 14 and earlier", &format!("clang-{version}")]
    {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_module_for_another_machine_is_refused_with_both() {
    let Some(compiler) = compiler() else { return };
    let session = Session::builder().with_architecture(Architecture::Aarch64);
    let session = session.build_without_execution().unwrap();
    for target in ["x86_64-unknown-linux-gnu", "aarch64-apple-darwin", "aarch64_be-linux-gnu"] {
        let flags = format!("-O1 --target={target}");
        let bytes =
            bitcode(compiler.version(), ("c", &flags, "long fine(long n) { return n + 1; }"));
        let error = Bitcode::for_session(&session, &compiler, "it.bc", &bytes).err().unwrap();
        let error = error.to_string();
        let architecture = target.split('-').next().unwrap();
        assert!(error.contains(architecture), "{error}");
        assert!(error.contains("--target=aarch64-unknown-linux-gnu"), "{error}");
    }
}

#[test]
fn other_bytes_than_bitcode_are_an_error() {
    let Some(compiler) = compiler() else { return };
    let whole = bitcode(compiler.version(), ("c", "-O1", SOURCE));
    let session = session();
    let read = |bytes: &[u8]| Bitcode::for_session(&session, &compiler, "it.bc", bytes);
    for bytes in [&b""[..], b"BC", b"\x7fELF", b"BC\xc0\xde", b"\xde\xc0\x17\x0b\0\0\0\0"] {
        let error = read(bytes).err().unwrap().to_string();
        assert!(error.starts_with("it.bc: "), "{error}");
    }
    let error = read(&[&whole[..], &whole[4..]].concat()).err().unwrap().to_string();
    assert!(error.contains("several modules"), "{error}");
    assert!(read(&whole[..whole.len() / 2]).is_err());
}
