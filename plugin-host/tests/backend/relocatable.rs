//! Relocatable objects and archives of them, as compilers make them.

use crate::support::{Loaded, load, run_compiler};
use longshore_plugin_api::{Error, Module};
use std::process::Command;

/// Thread-local variables at a fixed place are the executable's to give, so that code that is not
/// position-independent has ordinary ones here.
pub(crate) const FIXED: &[&str] = &["-fno-pic", "-D__thread="];

/// Returns an object of C, position-independent unless the flags say otherwise.
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

/// Why an image is refused.
pub(crate) fn error(image: &[u8]) -> Error {
    load(image).err().expect("the image is refused")
}

/// Returns the source in C, compiled in every way.
pub(crate) fn in_every_way(source: &str) -> Vec<(String, Vec<u8>)> {
    let positions = [&["-fPIC"][..], &["-fPIE", "-D__thread="], FIXED];
    let sections = [&[][..], &["-ffunction-sections", "-fdata-sections"]];
    let ways = positions.iter().flat_map(|position| sections.map(|more| [position, more].concat()));
    let ways: Vec<_> = ways.collect();
    let objects = compiled(["gcc", "clang-19"], "c", source, &ways);
    assert!(!objects.is_empty(), "a C compiler is there");
    objects
}

/// Returns the source in C++, compiled with each of these flags by the compilers that there are.
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

/// Returns a static archive of members with these contents.
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
