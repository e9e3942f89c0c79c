//! Raw version 9 of profiles. Its compiler is clang 18, which few machines have; with clang 18 the
//! other tests check the version too. This test writes the sections by hand, and converts the file
//! to version 10 for `llvm-profdata-19`: each version of the tool reads only its own format.

use super::ProfiledImage;
use super::compilers::{COMPILERS, Form};

/// A kernel and its record in the layout of clang 18: two kinds of value sites, then the size of
/// the bitmap.
const SOURCE: &str = r#"
asm(".section __llvm_prf_cnts, \"aw\"\n .balign 8\n counters: .quad 0, 5\n"
    ".section __llvm_prf_data, \"aw\"\n .balign 8\n"
    "record: .quad 0x3b220e78042a94e2, 0x18, counters - record, bits - record, 0, 0\n"
    " .long 2\n .short 0, 0\n .long 3, 0\n"
    ".section __llvm_prf_bits, \"aw\"\n bits: .byte 1, 2, 3\n"
    ".section __llvm_prf_names, \"a\"\n .byte 5, 0\n .ascii \"count\"\n .text");
const unsigned long __llvm_profile_raw_version = 9;
extern unsigned long counters[2];
void count(void **args) { __atomic_fetch_add(&counters[0], *(unsigned long *)args[0], 0); }
"#;
const HEADER_WORDS: usize = 14;
const RECORD_BYTES: usize = 64;

#[test]
fn a_profile_of_version_9_has_what_version_10_has_under_a_shorter_header() {
    let Some(compiler) = COMPILERS.iter().find(|it| it.version == 19 && it.is_there()) else {
        return;
    };
    let counted = ProfiledImage::plain(compiler, Form::Object, SOURCE);
    let report = counted.run(1).pop().unwrap();
    let counts = vec![super::THREADS * super::LAUNCHES * super::STEPS, 5];
    assert_eq!(report.counters().unwrap()[0].counts, counts);
    let file = std::fs::read(&counted.profile).unwrap();
    std::fs::write(&counted.profile, as_version_10(&file)).unwrap();
    assert_eq!(counted.shown()["count"], counts);
}

fn as_version_10(file: &[u8]) -> Vec<u8> {
    let (header, rest) = file.split_at(HEADER_WORDS * 8);
    let mut header: Vec<u64> =
        header.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    assert_eq!((header[1], header[3], header[5], header[7], header[8]), (9, 1, 2, 3, 5));
    assert_eq!(header[9], 7, "bytes of names");
    assert_eq!(header[13], 1, "the last kind of values");
    header[1] = 10;
    // The file has no virtual tables and no names of them.
    header.splice(13.., [0, 0, 2]);
    let (record, rest) = rest.split_at(RECORD_BYTES);
    let mut record = record.to_vec();
    // The size of the bitmap follows a third kind of value sites.
    record.copy_within(56..60, 60);
    record[56..60].fill(0);
    let header: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    [&header, &record, rest].concat()
}
