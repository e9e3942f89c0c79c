//! The linker's output, compared with the output of system linkers for the same objects at the same
//! addresses.
//!
//! Objects of both instruction sets are linked at chosen addresses, on any machine. A script makes
//! the system's linkers put every section of every object at the same address as here, and then
//! every byte must be the same. References to slots of the global offset table are compared by
//! their targets: linkers choose the slots themselves, and may do without.

mod compare;
mod ours;
mod program;
mod theirs;
mod tools;

use longshore_jitlink::Architecture::{Aarch64, X86_64};

use program::{FIXED, generated};
use theirs::Linker;
use tools::{Target, World};

const AARCH64_LINUX: Target = Target {
    architecture: Aarch64,
    gcc: "aarch64-linux-gnu-gcc",
    clang: "--target=aarch64-linux-gnu",
    objcopy: "aarch64-linux-gnu-objcopy",
    ld: "aarch64-linux-gnu-ld",
};
const X86_64_LINUX: Target = Target {
    architecture: X86_64,
    gcc: "x86_64-linux-gnu-gcc",
    clang: "--target=x86_64-linux-gnu",
    objcopy: "x86_64-linux-gnu-objcopy",
    ld: "x86_64-linux-gnu-ld",
};

/// Compiler flags, and whether the code then has to lie in the first 2 GiB.
const WAYS: [(&[&str], bool); 4] = [
    (&["-O0", "-fPIC"], false),
    (&["-O2", "-fPIC", "-ffunction-sections", "-fdata-sections", "-g"], false),
    (&["-O0", "-fno-pic", "-g"], true),
    (&["-O2", "-fno-pic", "-ffunction-sections"], true),
];

#[test]
fn aarch64_objects_of_gcc_are_linked_as_gnu_ld_links_them() {
    compare_all(AARCH64_LINUX, AARCH64_LINUX.gcc, Linker::Gnu);
}

#[test]
fn aarch64_objects_of_clang_are_linked_as_gnu_ld_links_them() {
    compare_all(AARCH64_LINUX, "clang", Linker::Gnu);
}

#[test]
fn aarch64_objects_of_gcc_are_linked_as_lld_links_them() {
    compare_all(AARCH64_LINUX, AARCH64_LINUX.gcc, Linker::Lld);
}

#[test]
fn aarch64_objects_of_clang_are_linked_as_lld_links_them() {
    compare_all(AARCH64_LINUX, "clang", Linker::Lld);
}

#[test]
fn x86_64_objects_of_gcc_are_linked_as_gnu_ld_links_them() {
    compare_all(X86_64_LINUX, X86_64_LINUX.gcc, Linker::Gnu);
}

#[test]
fn x86_64_objects_of_clang_are_linked_as_lld_links_them() {
    compare_all(X86_64_LINUX, "clang", Linker::Lld);
}

fn compare_all(target: Target, compiler: &str, linker: Linker) {
    for (flags, low) in WAYS {
        let Some(world) = World::new(target, compiler, linker) else { return };
        let mut objects: Vec<_> = FIXED.iter().map(|source| world.compile(source, flags)).collect();
        for seed in 1..=2 {
            objects.extend(generated(seed).iter().map(|source| world.compile(source, flags)));
        }
        let image = ours::link(target.architecture, &objects, low);
        let expected = theirs::link(&world, &image);
        let compared = compare::compare(&image, &expected);
        assert!(compared.bytes > 10_000 && compared.fields > 500, "{compared:?}");
    }
}
