//! Damaged images, and files that are not images: each gives an error or a load, never a crash.

use crate::is_all;
use crate::support::{build, load, run_compiler};
use longshore_plugin_api::{ErrorCode, Module};
use longshore_plugin_host::elf;
use std::ops::Range;

/// An image with every table: exports, imports with versions, thread-local storage, pointers.
const MANY: &str = r#"#include <math.h>
    #include <stdlib.h>
    int number = 3; int *pointer = &number; static __thread int mine = 1; __thread int shown = 2;
    __attribute__((constructor)) static void in(void) { number++; }
    __attribute__((destructor)) static void out(void) { number--; }
    void helper(void **a) { number += mine + shown; }
    void kernel(void **a) { helper(a); number += (int)cos(*(double *)a[0]) + abs(number); }
    void (*table[])(void **) = { helper, kernel };
"#;

fn refusal(bytes: &[u8]) -> String {
    let error = load(bytes).err().expect("the image is refused");
    assert_eq!(error.code(), ErrorCode::InvalidBinary, "{error}");
    error.message().to_owned()
}

fn changed(image: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    image[at..at + bytes.len()].copy_from_slice(bytes);
    image
}

#[test]
fn other_files_than_images_are_called_by_their_kind() {
    assert!(refusal(b"").contains("empty"));
    assert!(refusal(b"#!/bin/sh\n").contains("expected an ELF file"));
    assert!(refusal(b"\x7fELF").contains("4 bytes"));
    let image = build(MANY, &[]);
    let other = changed(&image, 18, &190u16.to_le_bytes());
    assert!(refusal(&other).contains("NVIDIA CUDA (machine 190), this device is"));
    assert!(refusal(&changed(&image, 16, &[2])).contains("ET_EXEC"));
    assert!(refusal(&changed(&image, 4, &[1])).contains("class 1"));
    assert!(refusal(&changed(&image, 5, &[2])).contains("little-endian"));
    assert!(refusal(b"BC\xc0\xde\x35\x14\0\0").contains("LLVM bitcode"));
    let program = run_compiler("cc", "c", "int main(void) { return 0; }", &["-pie"]).unwrap();
    assert!(refusal(&program).contains("executable"));
}

#[test]
fn images_by_which_the_loader_changes_the_process_are_refused() {
    let stack = build(MANY, &["-Wl,-z,execstack"]);
    assert!(refusal(&stack).contains("executable stack"));
    let source = "int x; __asm__(\".text\\n.globl k\\nk: movabs $x, %rax\\nret\");";
    if cfg!(target_arch = "x86_64") {
        assert!(refusal(&build(source, &["-Wl,-z,notext"])).contains("relocations of code"));
    }
    assert!(refusal(&build(MANY, &["-Wl,-f,libm.so.6"])).contains("DT_AUXILIARY"));
    assert!(refusal(&build(MANY, &["-Wl,-F,libm.so.6"])).contains("DT_FILTER"));
    assert!(refusal(&build(MANY, &["-Wl,--audit,x.so"])).contains("DT_AUDIT"));
    let image = build(MANY, &["-lm"]);
    let writable = segment_headers(&image).find(|&at| image[at] == 1 && image[at + 4] == 6);
    let both = changed(&image, writable.unwrap() + 4, &[7]);
    assert!(refusal(&both).contains("both writable and executable"));
}

#[test]
fn address_space_that_no_image_needs_is_refused() {
    let image = build(MANY, &["-lm"]);
    let last = segment_headers(&image).filter(|&at| image[at] == 1).last().unwrap();
    let huge = changed(&image, last + 40, &(1u64 << 60).to_le_bytes());
    assert!(refusal(&huge).contains("0x1000000000000000 bytes"));
}

#[test]
fn an_image_cut_off_anywhere_is_refused_or_loads() {
    let image = build(MANY, &["-lm"]);
    for length in (0..image.len()).step_by(64) {
        if let Ok(module) = load(&image[..length]) {
            module.unload().expect("what loads unloads");
        }
    }
}

#[test]
fn no_single_bit_makes_the_loader_crash() {
    let mut images = vec![
        build(MANY, &["-lm", "-Wl,-s"]),
        build(MANY, &["-lm", "-Wl,--hash-style=sysv", "-Wl,-z,now", "-Wl,-s"]),
    ];
    let relr = ["-shared", "-fPIC", "-O1", "-lm", "-fuse-ld=lld", "-Wl,-z,pack-relative-relocs"];
    images.extend(run_compiler("clang-19", "c", MANY, &relr));
    for image in &images {
        let module = load(image).expect("the image itself loads");
        module.unload().expect("and unloads");
        let (loaded, refused) = flip_each_bit(image);
        eprintln!("{} bytes: {loaded} flips load, {refused} are refused", image.len());
        assert!(loaded > 0 && refused > 0);
    }
}

/// Loads and unloads the image once for each flipped bit. In the parts that the loader reads, flips
/// each bit, or every 7th bit unless tests try all. In the rest, flips every 61st bit.
fn flip_each_bit(image: &[u8]) -> (u32, u32) {
    let tables = loader_reads(image);
    let step = if is_all() { 1 } else { 7 };
    let is_read = |bit: usize| tables.iter().any(|table| table.contains(&(bit / 8)));
    let (mut loaded, mut refused) = (0, 0);
    let mut image = image.to_vec();
    for bit in 0..image.len() * 8 {
        if bit % 61 != 0 && !(bit % step == 0 && is_read(bit)) {
            continue;
        }
        image[bit / 8] ^= 1 << (bit % 8);
        match load_and_unload(&image) {
            true => loaded += 1,
            false => refused += 1,
        }
        image[bit / 8] ^= 1 << (bit % 8);
    }
    (loaded, refused)
}

/// Returns whether the image passes the check and the loader. Does not load an image with
/// resolvers: that would run code, which a flip may have changed arbitrarily.
fn load_and_unload(image: &[u8]) -> bool {
    let Ok(checked) = elf::validate(image) else {
        return false;
    };
    if checked.has_resolvers {
        return true;
    }
    let Ok(module) = load(image) else {
        return false;
    };
    module.symbols().expect("symbols can be listed");
    module.profile().expect("profiles can be read");
    module.unload().expect("what loads unloads");
    true
}

/// Returns the parts that the loader reads. They are the headers and all of the first segment
/// (hash, symbols, strings, versions, relocations, notes), and the start of the last segment
/// (pointers, dynamic section).
fn loader_reads(image: &[u8]) -> [Range<usize>; 2] {
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap()) as usize;
    let first = segment_headers(image).find(|&at| image[at] == 1).unwrap();
    let dynamic = segment_headers(image).find(|&at| image[at] == 2).unwrap();
    [
        0..word(first + 8) + word(first + 32),
        word(dynamic + 8).saturating_sub(64)..word(dynamic + 8) + word(dynamic + 32),
    ]
}

#[test]
fn random_damage_does_not_make_the_loader_crash() {
    let image = build(MANY, &["-lm", "-Wl,-s"]);
    let tables = loader_reads(&image);
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below
    };
    for _ in 0..if is_all() { 20_000 } else { 5_000 } {
        let mut damaged = image.clone();
        for _ in 0..1 + random(3) {
            let table = &tables[random(2)];
            let at = (table.start + random(table.len())) / 4 * 4;
            let values = [0, 1, 0xffff_ffff, 0x8000_0000, random(0x5000) as u32, random(64) as u32];
            let value = values[random(values.len())];
            damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        load_and_unload(&damaged);
    }
}

/// Returns the offset of each program header; the first byte of a usual header has its type.
fn segment_headers(image: &[u8]) -> impl Iterator<Item = usize> + use<> {
    let count = u16::from_le_bytes([image[56], image[57]]) as usize;
    (0..count).map(|index| 64 + index * 56)
}
