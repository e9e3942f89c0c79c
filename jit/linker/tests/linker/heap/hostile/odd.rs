//! Objects that no compiler writes: sound ones that must link, and unsound ones that must be
//! refused.

use bytes::Bytes;
use longshore_jitlink::Error;

use super::exercise::{MODES, link};
use super::fixtures::{Fixture, assemble};
use crate::heap::usage::Usage;

#[track_caller]
fn links(source: &str) {
    let Some(object) = assemble(source) else { return };
    for mode in MODES {
        if let Err(error) = link(&Bytes::copy_from_slice(&object), mode) {
            panic!("{error}");
        }
    }
}

#[track_caller]
fn is_refused(source: &str, problem: &str) {
    let Some(object) = assemble(source) else { return };
    let error = link(&object.into(), MODES[0]).expect_err("it was linked").to_string();
    assert!(error.contains(problem), "{error}");
}

#[test]
fn an_object_without_anything_links() {
    links("");
}

#[test]
fn thread_local_zeroes_beside_data_link() {
    links(
        ".section .tbss,\"awT\",@nobits\nx: .zero 8\n.type x, STT_TLS\n.data\n.globl d\nd: .quad 0\n",
    );
}

#[test]
fn thread_local_zeroes_beside_code_link() {
    links(
        ".globl f\nf: mov %fs:x@tpoff, %eax\n.section .tbss,\"awT\",@nobits\nx: .zero 8\n.type x, STT_TLS\n",
    );
}

#[test]
fn an_empty_thread_local_section_needs_no_memory() {
    links(".globl f\nf: ret\n.section .tdata,\"awT\"\nx:\n.type x, STT_TLS\n");
}

#[test]
fn thread_local_code_is_refused() {
    is_refused(
        ".section .odd,\"axT\",@nobits\n.globl x\nx: .zero 8\n",
        "thread-local and executable",
    );
}

/// Returns an object with one relocation, which `change` alters.
fn with_relocation(change: impl FnOnce(&mut [u8])) -> Option<Vec<u8>> {
    let bytes = assemble(".data\n.globl x\nx: .quad y\n")?;
    let mut fixture = Fixture { name: "one relocation".to_owned(), bytes };
    let first = fixture.content_of(&[4])[0];
    change(&mut fixture.bytes[first..first + 24]);
    Some(fixture.bytes)
}

#[test]
fn a_relocation_with_the_number_of_an_edge_without_field_is_refused() {
    let Some(object) = with_relocation(|relocation| relocation[8..12].fill(0xff)) else { return };
    let error = link(&object.into(), MODES[0]).expect_err("it was linked");
    assert!(matches!(error, Error::UnsupportedRelocation { .. }), "{error}");
}

#[test]
fn a_relocation_behind_the_end_of_its_section_is_refused() {
    for offset in [1, 8, 0xffff_ffff, 1 << 60, u64::MAX - 7, u64::MAX] {
        let object = with_relocation(|field| field[..8].copy_from_slice(&u64::to_le_bytes(offset)));
        let Some(object) = object else { return };
        let error = link(&object.into(), MODES[0]).expect_err("it was linked");
        assert!(matches!(error, Error::Relocation(_)), "{error}");
    }
}

#[test]
fn names_of_members_that_overlap_are_refused() {
    let mut long = [b'a'; 0x10000];
    long[0xfffe..].copy_from_slice(b"/\n");
    let header = |name: &str, size: usize| format!("{name:16}{:32}{size:<10}`\n", "");
    let mut archive = b"!<arch>\n".to_vec();
    archive.extend(header("//", long.len()).bytes());
    archive.extend(long);
    archive.extend((0..500).flat_map(|place| header(&format!("/{place}"), 0).into_bytes()));
    let archive = Bytes::from(archive);
    let usage = Usage::measure(|| {
        let error = link(&archive, MODES[0]).expect_err("it was linked").to_string();
        assert!(error.contains("expected a file's name"), "{error}");
    });
    assert!(usage.peak < 4 * archive.len(), "{} bytes", usage.peak);
}
