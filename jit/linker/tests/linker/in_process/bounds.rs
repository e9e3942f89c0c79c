//! Bounds of sections: `__start_x` and `__stop_x`.

use bytes::Bytes;
use longshore_jitlink::graph::{Content, Definition, LinkGraph};
use longshore_jitlink::memory::{Lifetime, Protection};
use longshore_jitlink::session::{ExtraObjects, Lookup, Passes, Removal, Stage};
use longshore_jitlink::{Error, Library, Session};

use crate::in_process::support::{assembly, c, call, failure, library, library_of, value};

/// Returns an object with these sections, and a function that returns the number of bytes between
/// the bounds of the sections named `x`.
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

/// Returns an object that measures and has no section itself, and two objects with sections of 8
/// and 4 bytes, aligned to 8 bytes.
fn scattered() -> [Bytes; 3] {
    let listed = |function: &str, bytes: usize| {
        assembly(&format!(
            ".section x,\"a\"; .p2align 3; .skip {bytes}, {bytes}
            .text; .globl {function}; {function}: mov ${bytes}, %eax; ret"
        ))
    };
    [measured("size", ""), listed("eight", 8), listed("four", 4)]
}

#[test]
fn bounds_enclose_the_sections_of_all_objects() {
    let [size, eight, four] = scattered();
    assert_eq!(value(&linked(&[size, eight, four]), "size"), 12);
    let [_, eight, four] = scattered();
    let own = measured("size", ".section x,\"a\"; .p2align 3; .skip 1");
    assert_eq!(value(&linked(&[eight, own.clone(), four]), "size"), 8 + 8 + 4);
    assert_eq!(value(&linked(&[own]), "size"), 1);
}

/// Links all objects together.
fn linked(objects: &[Bytes]) -> Library {
    let library = library(objects);
    library.link_all().unwrap();
    library
}

#[test]
fn sections_of_all_objects_lie_in_the_order_of_the_objects() {
    let element = |name: &str, n: u32| {
        c("-fPIC", &format!("__attribute__((section(\"list\"))) int {name} = {n};"))
    };
    let sum = c(
        "-fPIC",
        "extern int __start_list[], __stop_list[];
        long digits(void) { long n = 0; for (int *i = __start_list; i < __stop_list; i++) n = 10 * n + *i; return n; }",
    );
    let library = linked(&[element("a", 1), sum, element("b", 2), element("c", 3)]);
    assert_eq!(value(&library, "digits"), 123);
}

#[test]
fn weak_bounds_of_other_objects_sections_are_found() {
    let weak = c(
        "-fPIC",
        "extern char __start_x[] __attribute__((weak)), __stop_x[] __attribute__((weak));
        long size(void) { return __start_x ? __stop_x - __start_x : -1; }",
    );
    let [_, eight, four] = scattered();
    assert_eq!(value(&linked(&[weak.clone(), eight, four]), "size"), 12);
    assert_eq!(value(&linked(&[weak]), "size"), -1);
}

#[test]
fn bounds_of_missing_sections_are_undefined() {
    let [size, ..] = scattered();
    let error = failure(library(&[size]).link_all());
    assert!(error.contains("__start_x") && error.contains("__stop_x"), "{error}");
}

#[test]
fn an_object_with_a_part_of_the_sections_is_in_use() {
    let [size, eight, four] = scattered();
    let library = library(&[]);
    let eight = library.add_object("eight.o", eight).unwrap();
    let four = library.add_object("four.o", four).unwrap();
    let _size = library.add_object("size.o", size).unwrap();
    library.link_all().unwrap();
    assert!(matches!(eight.remove(Removal::Unused), Err(Error::InUse { .. })));
    four.remove(Removal::WithUsers).unwrap();
    assert_eq!(value(&library, "eight"), 8);
    assert_eq!(failure(library.lookup("size")), "undefined symbols: size");
}

#[test]
fn sections_of_several_objects_must_have_one_protection() {
    let [size, eight, _] = scattered();
    let written = assembly(".section x,\"aw\"; .quad 1");
    let error = failure(library(&[size, eight, written]).link_all());
    assert!(error.contains("cannot lie together") && error.contains("__start_x"), "{error}");
}

#[test]
fn objects_that_are_linked_later_have_bounds_of_their_own() {
    let [size, eight, four] = scattered();
    let library = linked(&[size, eight]);
    let _later = library.add_object("four.o", four).unwrap();
    let _again = library.add_object("again.o", measured("again", "")).unwrap();
    library.link_all().unwrap();
    assert_eq!((value(&library, "size"), value(&library, "again")), (8, 4));
}

/// Returns a session with a pass, which prunes on request.
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
    let session = Session::builder().with_passes(passes);
    library_of(if prunes { session.with_pruning() } else { session }, &[object])
}

#[test]
fn nothing_lies_between_the_bounds_of_a_section_that_another_object_has() {
    let group =
        ".section x,\"aG\",@progbits,signature,comdat; .globl signature; signature: .quad 1";
    for session in [Session::builder(), Session::builder().with_pruning()] {
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
    for session in [Session::builder(), Session::builder().with_pruning()] {
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
    for session in [Session::builder(), Session::builder().with_pruning()] {
        let library = library_of(session, &[assembly(&source)]);
        let table = library.lookup("table").unwrap() as *const i64;
        for index in 0..COUNT {
            // SAFETY: the object above has two numbers there for each index.
            let (stop, start) =
                unsafe { (*table.add(2 * index as usize), *table.add(2 * index as usize + 1)) };
            assert_eq!(stop - start, index % 7, "x{index}");
        }
    }
}

#[test]
fn pruning_keeps_the_sections_of_all_objects_whose_bounds_something_live_refers_to() {
    let with_part = |function: &str, bytes: usize, data: &str| {
        assembly(&format!(
            ".section x,\"a\"; {data}.skip {bytes}, 1
            .section .text.{function},\"ax\"; .globl {function}; {function}: mov ${bytes}, %eax; ret"
        ))
    };
    // Only a section needs `needed`, and it is linked after the first roots were followed.
    let needed = with_part("needed", 4, "");
    let root = assembly(
        ".text; .globl root; root: call eight; call size@PLT; ret
        .section .text.unused,\"ax\"; .globl unused; unused: lea __start_y(%rip), %rax; ret
        .section y,\"a\"; .quad nowhere",
    );
    let eight = with_part("eight", 8, ".quad needed; ");
    let objects = [measured("size", ""), root, eight, needed];
    let library = library_of(Session::builder().with_pruning(), &objects);
    assert_eq!(value(&library, "root"), 8 + 8 + 4);
}

#[test]
fn objects_with_constructors_are_linked_together_with_the_looked_up_symbols() {
    let constructed = |bytes: usize| {
        assembly(&format!(
            ".section x,\"a\"; .skip {bytes}, 1; .section .init_array,\"aw\"; .quad begin{bytes}
            .text; begin{bytes}: ret; .globl other{bytes}; other{bytes}: call nowhere{bytes}; ret"
        ))
    };
    for session in [Session::builder(), Session::builder().with_pruning()] {
        let own = measured("size", ".section x,\"a\"; .skip 1");
        let defined = assembly(
            ".text; .globl nowhere2, nowhere4; nowhere2: ret
            nowhere4: ret",
        );
        let objects = [constructed(2), own, constructed(4), defined];
        let library = library_of(session, &objects);
        let found =
            library.link_program(("size", Lookup::Required), &[], ExtraObjects::Constructors);
        assert_eq!(call(found.unwrap().unwrap()), 2 + 1 + 4);
    }
}

#[test]
fn sections_lie_in_the_order_of_the_objects_whichever_needs_which() {
    let element = |name: &str, n: u32, needed: &str| {
        let source = format!(
            "extern int {needed}; int *use_{name} = &{needed};
            __attribute__((section(\"list\"))) int {name} = {n};"
        );
        c("-fPIC", &source)
    };
    let sum = c(
        "-fPIC",
        "extern int __start_list[], __stop_list[], c; int *last = &c;
        long digits(void) { long n = 0; for (int *i = __start_list; i < __stop_list; i++) n = 10 * n + *i; return n; }",
    );
    let objects = [element("a", 1, "b"), sum, element("b", 2, "a"), element("c", 3, "a")];
    assert_eq!(value(&library(&objects), "digits"), 123);
}
