//! Failing compilers, and modules that cannot be compiled.

use std::sync::{Arc, Mutex};

use crate::{Bitcode, Compiler};
use longshore_compiler::{Compile, CompileError, Compiled, Compiler as InProcess, LibraryChoice};
use longshore_jitlink::{Architecture, Session};

use super::support::{Compilation, World, bitcode, changed, compiler, session};

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
    assert!(error.contains("invalid instruction"), "{error}");
    assert_eq!((world.call("fine", 1), world.call("another", 1)), (2, 3));
    // The next call tries again.
    assert_eq!(failure(&world, "wrong"), error);
}

#[test]
fn a_library_that_is_not_there_is_an_error_that_says_what_to_install() {
    // SAFETY: no library has this version.
    let llvm = Arc::new(unsafe { InProcess::in_process([]) });
    let error = Compiler::new(llvm, LibraryChoice::Major(99)).unwrap_err().to_string();
    assert!(error.contains("libllvm99") && error.contains("install"), "{error}");
}

#[test]
fn a_compiler_that_goes_wrong_is_an_error_of_the_call_that_says_how() {
    for (bytes, says) in [(&b"garbage"[..], "not a 64-bit relocatable object"), (b"", "0 bytes")] {
        let instead = |_: &[&[u8]], _: Compilation<'_>| {
            Ok(Compiled { bytes: bytes.to_vec(), ..Compiled::default() })
        };
        let Some(compiler) = changed(instead) else { return };
        let world = World::by(&compiler, &[("c", "-O1 -fPIC", SOURCE)]);
        let error = failure(&world, "fine");
        assert!(error.starts_with("0.bc: fine") && error.contains(says), "{error}");
    }
    let ended = |_: &[&[u8]], _: Compilation<'_>| {
        Err(CompileError::Process("killed by signal 11 (SIGSEGV)".to_owned()))
    };
    let Some(compiler) = changed(ended) else { return };
    let world = World::by(&compiler, &[("c", "-O1 -fPIC", SOURCE)]);
    let error = failure(&world, "fine");
    assert!(error.starts_with("0.bc: fine") && error.contains("SIGSEGV"), "{error}");
}

#[test]
fn a_module_of_a_newer_llvm_is_refused_with_what_to_install() {
    let Some(newest) = compiler() else { return };
    let version = newest.version();
    // SAFETY: the system's libLLVM is LLVM's.
    let llvm = Arc::new(unsafe { InProcess::in_process([]) });
    let mut older = (14..version).filter_map(|version| {
        Compiler::new(Arc::clone(&llvm) as Arc<dyn Compile>, LibraryChoice::Major(version)).ok()
    });
    let Some(old) = older.next() else {
        return eprintln!("skipped: there is no older libLLVM");
    };
    let bytes = bitcode(version, ("c", "-O1", SOURCE));
    let error = Bitcode::for_session(&session(), &old, "it.bc", &bytes).err().unwrap().to_string();
    let reads = format!("LLVM {} and earlier", old.version());
    for part in ["it.bc", &format!("LLVM{version}"), &reads, &format!("libllvm{version}")] {
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
