//! Pruning: the removal of all parts that no root reaches, and of no others.

use std::sync::{Arc, Mutex};

use longshore_jitlink::graph::{Block, Definition, Edge, EdgeKind, LinkGraph};
use longshore_jitlink::session::{Lookup, Passes, Stage};
use longshore_jitlink::{Library, Session};

use crate::in_process::support::{
    add_cpp_runtime, assembly, c, call, cpp, define_trace, failure, initialize, library_of, traced,
    value,
};

const SECTIONS: &str = "-fPIC -O1 -ffunction-sections -fdata-sections";

/// Names and sizes of the live sections of the graphs.
type Live = Arc<Mutex<Vec<(String, u64)>>>;

fn pruned(objects: &[bytes::Bytes]) -> (Library, Live) {
    let live = Live::default();
    let noted = Arc::clone(&live);
    let mut passes = Passes::default();
    passes.add(Stage::PostFixup, move |graph: &mut LinkGraph| {
        let blocks = graph.blocks().filter(|block| block.live && block.address != 0);
        let named = blocks.map(|block| {
            (String::from_utf8_lossy(graph.section(block.section).name).into_owned(), block.size)
        });
        noted.lock().unwrap().extend(named);
        Ok(())
    });
    (library_of(Session::builder().with_pruning().with_passes(passes), objects), live)
}

fn is_live(live: &Live, section: &str) -> bool {
    live.lock().unwrap().iter().any(|(name, size)| name == section && *size > 0)
}

#[test]
fn only_blocks_that_the_roots_reach_are_linked() {
    let (library, live) = pruned(&[c(
        SECTIONS,
        "
        long used_data = 1, unused_data = 2; extern long nowhere;
        __attribute__((noipa)) static long helper(void) { return used_data; }
        long root(void) { return helper() + 1; }
        long second_root(void) { return 10; }
        long unused(void) { return unused_data + nowhere; }",
    )]);
    let found = library
        .lookup_all(&[("root", Lookup::Required), ("second_root", Lookup::Required)])
        .unwrap();
    assert_eq!(
        found.into_iter().map(|f| crate::in_process::support::call(f.unwrap())).collect::<Vec<_>>(),
        [2, 10]
    );
    for section in [".text.root", ".text.second_root", ".text.helper", ".data.used_data"] {
        assert!(is_live(&live, section), "{section}");
    }
    for section in [".text.unused", ".data.unused_data"] {
        assert!(!is_live(&live, section), "{section}");
    }
    assert_eq!(failure(library.lookup("unused")), "undefined symbols: unused");
}

#[test]
fn a_root_that_is_pruned_by_an_earlier_look_up_is_not_found() {
    let (library, _) =
        pruned(&[c(SECTIONS, "long f(void) { return 1; } long g(void) { return 2; }")]);
    assert_eq!(value(&library, "f"), 1);
    assert_eq!(failure(library.lookup("g")), "undefined symbols: g");
    assert_eq!(library.lookup_all(&[("g", Lookup::Optional)]).unwrap(), [None]);
}

#[test]
fn roots_are_followed_through_other_objects_and_back() {
    let (library, live) = pruned(&[
        c(
            SECTIONS,
            "long second(void), unused_callee(void); long root(void) { return second(); }
            long third(void) { return 3; } long unused_one(void) { return unused_callee(); }",
        ),
        c(
            SECTIONS,
            "long third(void), unused_one(void); long second(void) { return third(); }
            long unused_callee(void) { return unused_one(); }",
        ),
        c(SECTIONS, "long unrelated(void) { return 1; }"),
    ]);
    assert_eq!(value(&library, "root"), 3);
    for (section, expected) in [
        (".text.root", true),
        (".text.second", true),
        (".text.third", true),
        (".text.unused_one", false),
        (".text.unused_callee", false),
        (".text.unrelated", false),
    ] {
        assert_eq!(is_live(&live, section), expected, "{section}");
    }
}

#[test]
fn frames_of_dead_functions_go_and_frames_of_live_ones_keep_their_tables() {
    let source = "
        extern \"C\" void trace(int);
        struct Guard { ~Guard() { trace(1); } };
        __attribute__((noinline)) static void thrower(long n) { if (n) throw n; }
        extern \"C\" long root(void) {
            try { Guard guard; thrower(6); } catch (long n) { return n; } return 0; }
        extern \"C\" long unused(void) {
            try { Guard guard; thrower(7); } catch (char n) { return n; } return 0; }";
    let frames = |prune: bool| {
        let objects = [cpp(SECTIONS, source)];
        let (library, live) = pruned(&objects);
        add_cpp_runtime(&library);
        define_trace(&library);
        if prune {
            assert_eq!(value(&library, "root"), 6);
            assert_eq!(traced(), "1 ");
            assert!(is_live(&live, ".gcc_except_table.root"));
            assert!(!is_live(&live, ".gcc_except_table.unused"));
        } else {
            library.lookup_all(&["root", "unused"].map(|name| (name, Lookup::Required))).unwrap();
        }
        let live = live.lock().unwrap();
        live.iter().filter(|(name, _)| name == ".eh_frame").map(|(_, size)| size).sum::<u64>()
    };
    let (some, all) = (frames(true), frames(false));
    assert!(some > 0 && some < all, "{some} of {all} bytes of frames");
}

#[test]
fn constructors_are_kept_with_all_that_they_reach() {
    let (library, live) = pruned(&[c(
        SECTIONS,
        "
        void trace(int);
        __attribute__((noipa)) static void reached(void) { trace(1); }
        __attribute__((constructor)) static void start(void) { reached(); }
        __attribute__((destructor)) static void end(void) { trace(2); }
        long root(void) { return 4; }
        void unused(void) { trace(3); }",
    )]);
    define_trace(&library);
    assert_eq!(value(&library, "root"), 4);
    initialize(&library);
    crate::in_process::support::deinitialize(&library);
    assert_eq!(traced(), "1 2 ");
    assert!(is_live(&live, ".text.reached") && !is_live(&live, ".text.unused"));
}

#[test]
fn sections_whose_bounds_are_used_are_kept() {
    let (library, live) = pruned(&[c(SECTIONS, "
        static long one __attribute__((section(\"table\"), used)) = 10;
        static long two __attribute__((section(\"table\"), used)) = 20;
        static long third __attribute__((section(\"other\"), used)) = 30;
        extern long __start_table[], __stop_table[];
        long root(void) { long sum = 0; for (long *p = __start_table; p != __stop_table; p++) sum += *p; return sum; }")]);
    assert_eq!(value(&library, "root"), 30);
    assert!(is_live(&live, "table") && !is_live(&live, "other"));
}

#[test]
fn sections_to_be_retained_are_kept() {
    let (library, live) = pruned(&[assembly(
        "
        .section .text.root,\"ax\"; .globl root; root: mov $1, %eax; ret
        .section .data.kept,\"awR\"; .quad reached
        .section .data.reached,\"aw\"; reached: .quad 0
        .section .data.gone,\"aw\"; .quad 0",
    )]);
    assert_eq!(value(&library, "root"), 1);
    assert!(is_live(&live, ".data.kept") && is_live(&live, ".data.reached"));
    assert!(!is_live(&live, ".data.gone"));
}

#[test]
fn thread_local_variables_that_are_not_used_are_taken_out() {
    let (library, live) = pruned(&[c(SECTIONS, "
        __thread long used = 5, unused = 6; long root(void) { return used++; } long other(void) { return unused; }")]);
    assert_eq!((value(&library, "root"), value(&library, "root")), (5, 6));
    assert!(is_live(&live, ".tdata.used") && !is_live(&live, ".tdata.unused"));
}

#[test]
fn sections_for_tools_stay_and_keep_nothing() {
    let seen = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&seen);
    let mut passes = Passes::default();
    passes.add(Stage::PostFixup, move |graph: &mut LinkGraph| {
        let live = |name: &[u8]| {
            graph.blocks().any(|block| block.live && graph.section(block.section).name == name)
        };
        *noted.lock().unwrap() = Some((live(b".debug_info"), live(b".text.unused")));
        Ok(())
    });
    let library = library_of(
        Session::builder().with_pruning().with_passes(passes),
        &[c(
            &format!("{SECTIONS} -g"),
            "long root(void) { return 1; } long unused(void) { return 2; }",
        )],
    );
    assert_eq!(value(&library, "root"), 1);
    assert_eq!(*seen.lock().unwrap(), Some((true, false)));
}

#[test]
fn a_block_that_a_pass_keeps_alive_is_linked() {
    let mut passes = Passes::default();
    passes.add(Stage::Prune, |graph: &mut LinkGraph| {
        let block_of =
            |graph: &LinkGraph, name: &[u8]| match graph.symbol_named(name).unwrap().definition {
                Definition::Block(block, _) => block,
                other => panic!("{other:?}"),
            };
        let target = graph.symbol_named(b"kept").unwrap().id;
        let kind = longshore_jitlink::graph::EdgeKind::KEEP_ALIVE;
        let edge = longshore_jitlink::graph::Edge { offset: 0, kind, target, addend: 0 };
        graph.add_edge(block_of(graph, b"root"), edge);
        Ok(())
    });
    let library = library_of(
        Session::builder().with_pruning().with_passes(passes),
        &[c(
            SECTIONS,
            "long root(void) { return 1; } long kept(void) { return 2; } long gone(void) { return 3; }",
        )],
    );
    assert_eq!(value(&library, "root"), 1);
    assert_eq!(value(&library, "kept"), 2);
    assert_eq!(failure(library.lookup("gone")), "undefined symbols: gone");
}

#[test]
fn an_undefined_symbol_of_a_dead_function_does_not_matter() {
    let (library, _) = pruned(&[c(
        SECTIONS,
        "long nowhere(void); long f(void) { return nowhere(); } long g(void) { return 2; }",
    )]);
    assert_eq!(value(&library, "g"), 2);
}

#[test]
fn a_comdat_function_that_the_first_object_has_pruned_is_still_there_for_others() {
    let source = "inline __attribute__((noinline)) long answer() { return 4; }";
    let (library, _) = pruned(&[
        cpp(
            SECTIONS,
            &format!(
                "{source} extern \"C\" long root() {{ return 1; }} extern \"C\" long unused() {{ return answer(); }}"
            ),
        ),
        cpp(SECTIONS, &format!("{source} extern \"C\" long second() {{ return answer(); }}")),
    ]);
    let both =
        library.lookup_all(&[("root", Lookup::Required), ("second", Lookup::Required)]).unwrap();
    assert_eq!(crate::in_process::support::call(both[0].unwrap()), 1);
    assert_eq!(crate::in_process::support::call(both[1].unwrap()), 4);
}

#[test]
fn a_section_for_another_one_lives_with_it() {
    let (library, live) = pruned(&[assembly(
        "
        .section .text.root,\"ax\"; .globl root; root: mov $1, %eax; ret
        .section .text.gone,\"ax\"; ret
        .section .data.reached,\"aw\"; reached: .quad 0
        .section .entries.root,\"awo\",@progbits,.text.root; .quad root, reached
        .section .entries.gone,\"awo\",@progbits,.text.gone; .quad .text.gone, nowhere",
    )]);
    assert_eq!(value(&library, "root"), 1);
    assert!(is_live(&live, ".entries.root") && is_live(&live, ".data.reached"));
    assert!(!is_live(&live, ".entries.gone"));
}

#[test]
fn the_sections_of_a_group_live_together() {
    for kind in ["", ",comdat"] {
        let (library, live) = pruned(&[assembly(&format!(
            "
            .section .text.root,\"axG\",@progbits,one{kind}; .globl root; root: mov $1, %eax; ret
            .section .data.first,\"awG\",@progbits,one{kind}; .quad reached
            .section .data.second,\"awG\",@progbits,one{kind}; .quad 1
            .section .data.reached,\"aw\"; reached: .quad 0
            .section .data.other,\"awG\",@progbits,two{kind}; .quad nowhere
            .section .note.other,\"aG\",@note,two{kind}; .quad nowhere"
        ))]);
        assert_eq!(value(&library, "root"), 1);
        for section in [".data.first", ".data.second", ".data.reached"] {
            assert!(is_live(&live, section), "{section}");
        }
        assert!(!is_live(&live, ".data.other") && !is_live(&live, ".note.other"));
    }
}

#[test]
fn notes_are_kept_and_names_that_only_look_like_initializers_are_not() {
    let (library, live) = pruned(&[assembly(
        "
        .section .text.root,\"ax\"; .globl root; root: mov $1, %eax; ret
        .section .note.mine,\"a\",@note; .quad 1
        .section .initfoo,\"aw\"; .quad nowhere
        .section .dtorsx,\"aw\"; .quad nowhere
        .section .ctors.00010,\"aw\"; .quad root",
    )]);
    assert_eq!(value(&library, "root"), 1);
    assert!(is_live(&live, ".note.mine") && is_live(&live, ".ctors.00010"));
    assert!(!is_live(&live, ".initfoo") && !is_live(&live, ".dtorsx"));
}

#[test]
fn the_frames_of_a_long_chain_of_functions_are_kept_with_it() {
    const COUNT: usize = 2_000;
    let mut source = String::from(".cfi_sections .eh_frame\n");
    for index in 0..2 * COUNT {
        // The handler data of each function's frame leads to the next function.
        let next = if index % COUNT + 1 < COUNT { format!("f{}", index + 1) } else { "0".into() };
        source += &format!(
            ".section .text.f{index},\"ax\"; .globl f{index}; f{index}: .cfi_startproc
            .cfi_lsda 0x1b, t{index}; mov ${index}, %eax; ret; .cfi_endproc
            .section .gcc_except_table.f{index},\"a\"; t{index}: .quad {next}\n"
        );
    }
    let (library, live) = pruned(&[assembly(&source)]);
    assert_eq!(value(&library, "f0"), 0);
    assert_eq!(value(&library, &format!("f{}", COUNT - 1)), COUNT as i64 - 1);
    let frames: u64 = live
        .lock()
        .unwrap()
        .iter()
        .filter(|(name, _)| name == ".eh_frame")
        .map(|(_, size)| size)
        .sum();
    assert!((COUNT as u64 * 24..COUNT as u64 * 36).contains(&frames), "{frames}");
    assert_eq!(
        failure(library.lookup(&format!("f{COUNT}"))),
        format!("undefined symbols: f{COUNT}")
    );
}

/// Returns the functions of the live frames of a graph by name, and checks every frame's pointer to
/// its CIE.
fn framed(graph: &LinkGraph) -> Vec<String> {
    let is_frames = |section| graph.section(section).name == b".eh_frame";
    let block = graph.blocks().find(|block| block.live && is_frames(block.section)).unwrap();
    let content = graph.content(block.id);
    assert_eq!(content.len() as u64, block.size);
    let word = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut functions) = (0, Vec::new());
    while at < content.len() {
        if word(at + 4) != 0 {
            assert_eq!(word(at + 4 - word(at + 4) + 4), 0, "the frame at {at:#x} has no CIE");
            let edge = graph.edges(block.id).find(|edge| edge.offset as usize == at + 8).unwrap();
            functions.push(String::from_utf8_lossy(graph.symbol(edge.target).name).into_owned());
        }
        at += 4 + word(at);
    }
    functions
}

#[test]
fn a_pass_sees_and_changes_the_frames_that_are_left() {
    let function = |index: usize| {
        // Every third function has a CIE of its own kind.
        let signal = if index.is_multiple_of(3) { ".cfi_signal_frame" } else { "" };
        format!(
            ".section .text.f{index},\"ax\"; .globl f{index}; f{index}: .cfi_startproc
            {signal}; ret; .cfi_endproc\n"
        )
    };
    let source: String = (0..9).map(function).collect();
    let object = assembly(&format!(".cfi_sections .eh_frame\n{source}"));
    let mut graph = LinkGraph::read("frames", object).unwrap();
    assert_eq!(framed(&graph).len(), 9);
    let roots = [b"f1", b"f2", b"f5", b"f6"].map(|name| graph.symbol_named(name).unwrap().id);
    graph.prune(&roots).unwrap();
    let left = framed(&graph);
    assert_eq!(left, [".text.f1", ".text.f2", ".text.f5", ".text.f6"]);

    let is_frames = |block: &Block| graph.section(block.section).name == b".eh_frame";
    let block = graph.blocks().find(|block| block.live && is_frames(block)).unwrap().id;
    let (content, count) = (graph.content(block).to_vec(), graph.edges(block).count());
    assert_eq!(graph.content_mut(block), content);
    let edge = Edge { offset: 0, kind: EdgeKind::KEEP_ALIVE, target: roots[0], addend: 0 };
    graph.add_edge(block, edge);
    assert_eq!(graph.edges(block).count(), count + 1);
    assert_eq!(framed(&graph), left);
}

const INLINE: &str = "inline __attribute__((noinline)) long answer() { return 4; }";

/// Returns an object in which only unused code calls the copy of an inline function.
fn hardly_using() -> bytes::Bytes {
    let source =
        "extern \"C\" long root() { return 1; } extern \"C\" long unused() { return answer(); }";
    cpp(SECTIONS, &format!("{INLINE} {source}"))
}

fn using() -> bytes::Bytes {
    cpp(SECTIONS, &format!("{INLINE} extern \"C\" long function() {{ return (long)&answer; }}"))
}

#[test]
fn an_inline_function_that_an_earlier_link_has_pruned_is_taken_from_another_object() {
    let library = library_of(Session::builder().with_pruning(), &[hardly_using(), using()]);
    assert_eq!(value(&library, "root"), 1);
    assert_eq!(call(value(&library, "function") as u64), 4);
}

#[test]
fn an_object_that_is_added_after_a_group_was_pruned_brings_it() {
    let library = library_of(Session::builder().with_pruning(), &[hardly_using()]);
    assert_eq!(value(&library, "root"), 1);
    let _late = library.add_object("late.o", using()).unwrap();
    assert_eq!(call(value(&library, "function") as u64), 4);
}

#[test]
fn a_weak_function_that_an_earlier_link_has_pruned_is_taken_from_another_object() {
    let weak = "__attribute__((weak)) long answer(void) { return 4; }";
    let objects =
        ["long root(void) { return 1; }", "long function(void) { return (long)&answer; }"]
            .map(|source| c(SECTIONS, &format!("{weak} {source}")));
    let library = library_of(Session::builder().with_pruning(), &objects);
    assert_eq!(value(&library, "root"), 1);
    assert_eq!(call(value(&library, "function") as u64), 4);
}
