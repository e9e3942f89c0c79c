//! Bounds of sections: `__start_x` and `__stop_x`.

use bytes::Bytes;
use longshore_jitlink::graph::{Content, Definition, LinkGraph};
use longshore_jitlink::memory::{Lifetime, Protection};
use longshore_jitlink::session::{Passes, Stage};
use longshore_jitlink::{Library, Session};

use crate::support::{assembly, failure, library, library_of, value};

/// These sections, and a function that returns how many bytes lie between the bounds of those named `x`.
fn measured(function: &str, sections: &str) -> Bytes {
    assembly(&format!(
        "{sections}
        .section .text.{function},\"ax\"
        .globl {function}
        {function}: lea __stop_x(%rip), %rax
        lea __start_x(%rip), %rcx
        sub %rcx, %rax
        ret
        "
    ))
}

/// A session that prunes or not, with a pass.
fn with_pass(
    prunes: bool,
    stage: Stage,
    pass: impl Fn(&mut LinkGraph) + Send + Sync + 'static,
    object: Bytes,
) -> Library {
    let mut passes = Passes::default();
    passes.add(stage, move |graph| {
        pass(graph);
        Ok(())
    });
    let session = Session::builder().passes(passes);
    library_of(if prunes { session.prune() } else { session }, &[object])
}

#[test]
fn nothing_lies_between_the_bounds_of_a_section_that_another_object_has() {
    let group =
        ".section x,\"aG\",@progbits,signature,comdat; .globl signature; signature: .quad 1";
    for session in [Session::builder(), Session::builder().prune()] {
        let objects = [measured("first", group), measured("second", group)];
        let library = library_of(session, &objects);
        assert_eq!(value(&library, "first"), 8);
        assert_eq!(value(&library, "second"), 0);
    }
}

#[test]
fn sections_of_zeroes_have_bounds() {
    let zeroes = ".data; .quad 1; .bss; .zero 5
        .section x,\"aw\",@nobits,unique,1; .zero 24; .section x,\"aw\",@nobits,unique,2; .zero 8";
    for session in [Session::builder(), Session::builder().prune()] {
        let library = library_of(session, &[measured("length", zeroes)]);
        assert_eq!(value(&library, "length"), 32);
    }
}

#[test]
fn sections_without_a_byte_are_not_between_bounds() {
    let sections = ".section y,\"a\"; .zero 64
        .section x,\"a\",@progbits,unique,1; .section x,\"a\",@progbits,unique,2; .quad 1
        .section x,\"a\",@progbits,unique,3";
    assert_eq!(value(&library(&[measured("length", sections)]), "length"), 8);
    let empty = measured("length", ".section x,\"a\"");
    assert_eq!(value(&library(&[empty]), "length"), 0);
}

#[test]
fn a_section_that_a_pass_adds_is_between_the_bounds() {
    let add = |graph: &mut LinkGraph| {
        let section = graph.add_section("x", Protection::Read, Lifetime::Standard);
        graph.add_block(section, Content::Bytes(vec![1; 16]), 8);
    };
    for prunes in [false, true] {
        let object = measured("length", ".section x,\"a\"; .quad 1");
        let library = with_pass(prunes, Stage::Prune, add, object);
        assert_eq!(value(&library, "length"), 24);
    }
}

#[test]
fn a_block_that_a_pass_takes_out_is_not_between_the_bounds() {
    let take_out = |graph: &mut LinkGraph| match graph.symbol_named(b"gone").unwrap().definition {
        Definition::Block(block, _) => graph.set_live(block, false),
        other => panic!("{other:?}"),
    };
    let sections = ".section x,\"a\",@progbits,unique,1; .quad 1
        .section x,\"a\",@progbits,unique,2; gone: .quad 2";
    for (prunes, stage) in [(false, Stage::Prune), (true, Stage::Prune), (true, Stage::PostPrune)] {
        let library = with_pass(prunes, stage, take_out, measured("length", sections));
        assert_eq!(value(&library, "length"), 8);
    }
}

#[test]
fn sections_that_cannot_lie_together_have_no_bounds() {
    for other in ["\"aw\",@progbits", "\"a\",@nobits", "\"awT\",@progbits"] {
        let sections = format!(
            ".section x,\"a\",@progbits,unique,1; .quad 1; .section x,{other},unique,2; .quad 0"
        );
        let error = failure(library(&[measured("length", &sections)]).lookup("length"));
        assert!(error.contains("its sections named x cannot lie together"), "{error}");
    }
}

#[test]
fn bounds_may_be_read_through_slots() {
    let library = library(&[assembly(
        "
        .section x,\"a\"; .quad 5, 6
        .text; .globl first, length
        first: mov __start_x@GOTPCREL(%rip), %rax; mov (%rax), %rax; ret
        length: movabs $__stop_x@GOT, %rax; lea _GLOBAL_OFFSET_TABLE_(%rip), %rcx; mov (%rcx, %rax), %rax
        sub __start_x@GOTPCREL(%rip), %rax; ret",
    )]);
    assert_eq!((value(&library, "first"), value(&library, "length")), (5, 16));
}

#[test]
fn each_of_many_sections_has_its_own_bounds() {
    const COUNT: i64 = 5_000;
    let mut source = String::from(".data; .globl table; table:\n");
    for index in 0..COUNT {
        source += &format!(".quad __stop_x{index} - .\n.quad __start_x{index} - . + 8\n");
    }
    for index in 0..COUNT {
        source += &format!(".section x{index},\"a\"; .zero {}\n", index % 7);
    }
    for session in [Session::builder(), Session::builder().prune()] {
        let library = library_of(session, &[assembly(&source)]);
        let table = library.lookup("table").unwrap() as *const i64;
        for index in 0..COUNT {
            // SAFETY: the object above has so many numbers there.
            let (stop, start) =
                unsafe { (*table.add(2 * index as usize), *table.add(2 * index as usize + 1)) };
            assert_eq!(stop - start, index % 7, "x{index}");
        }
    }
}
