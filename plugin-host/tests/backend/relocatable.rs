//! Relocatable objects and archives of them, from real compilers.

use crate::support::{Loaded, load, run_compiler};
use longshore_plugin_api::{Error, Module};
use std::process::Command;

/// Flags without position independence. Only an executable can have thread-local variables at a
/// fixed place, so such code has ordinary variables here.
pub(crate) const FIXED: &[&str] = &["-fno-pic", "-D__thread="];

/// Compiles an object from C, position-independent unless the flags differ.
pub(crate) fn object(source: &str, flags: &[&str]) -> Vec<u8> {
    run_compiler("cc", "c", source, &[&["-c", "-fPIC", "-O1"], flags].concat())
        .expect("a C compiler is there")
}

/// Returns a loaded image whose constructors have run.
pub(crate) fn ran(image: &[u8]) -> Loaded {
    let module = load(image).expect("the image loads");
    module.run_constructors().expect("its constructors run");
    module
}

/// Returns the error of a refused image.
pub(crate) fn error(image: &[u8]) -> Error {
    load(image).err().expect("the image is refused")
}

/// Compiles the source in C in every combination of compiler, level and flags.
pub(crate) fn in_every_way(source: &str) -> Vec<(String, Vec<u8>)> {
    let positions = [&["-fPIC"][..], &["-fPIE", "-D__thread="], FIXED];
    let sections = [&[][..], &["-ffunction-sections", "-fdata-sections"]];
    let ways = positions.iter().flat_map(|position| sections.map(|more| [position, more].concat()));
    let ways: Vec<_> = ways.collect();
    let objects = compiled(["gcc", "clang-19"], "c", source, &ways);
    assert!(!objects.is_empty(), "a C compiler is there");
    objects
}

/// Compiles the source in C++ with each of these flags by the installed compilers.
pub(crate) fn compile_cpp(source: &str, ways: &[&[&'static str]]) -> Vec<(String, Vec<u8>)> {
    let ways: Vec<_> = ways.iter().map(|way| way.to_vec()).collect();
    let objects = compiled(["g++", "clang++-19"], "cc", source, &ways);
    if objects.is_empty() {
        eprintln!("skipped: no compiler for C++");
    }
    objects
}

fn compiled(
    compilers: [&str; 2],
    extension: &str,
    source: &str,
    ways: &[Vec<&str>],
) -> Vec<(String, Vec<u8>)> {
    let mut objects = Vec::new();
    for compiler in compilers {
        for (way, level) in ways.iter().flat_map(|way| [(way, "-O0"), (way, "-O2")]) {
            let flags = [&["-c", level][..], way].concat();
            let made = run_compiler(compiler, extension, source, &flags);
            objects.extend(made.map(|made| (format!("{compiler} {flags:?}"), made)));
        }
    }
    objects
}

/// Creates a static archive of members with these contents.
pub(crate) fn archive(members: &[&[u8]]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut ar = Command::new("ar");
    ar.arg("rcs").arg(folder.path().join("image.a"));
    for (index, member) in members.iter().enumerate() {
        let path = folder.path().join(format!("part{index}.o"));
        std::fs::write(&path, member).unwrap();
        ar.arg(path);
    }
    assert!(ar.status().unwrap().success());
    std::fs::read(folder.path().join("image.a")).unwrap()
}
