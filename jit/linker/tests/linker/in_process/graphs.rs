//! The link graph, and passes over it.

use std::sync::{Arc, Mutex};

use longshore_jitlink::graph::{
    Content, Definition, Edge, EdgeKind, LinkGraph, Linkage, NewSymbol, Scope, SymbolId,
};
use longshore_jitlink::memory::{Lifetime, Protection};
use longshore_jitlink::session::{Passes, Removal, SessionBuilder, Stage};
use longshore_jitlink::{Architecture, Library, Session};

use crate::in_process::support::{assembly, c, failure, library_of, session, value, variable};

const R_X86_64_64: EdgeKind = EdgeKind(1);
const R_X86_64_PLT32: EdgeKind = EdgeKind(4);

/// Returns the code `mov $number, %eax; ret`.
fn returning(number: u32) -> Vec<u8> {
    [&[0xb8][..], &number.to_le_bytes(), &[0xc3]].concat()
}

pub(crate) fn passes(
    stage: Stage,
    pass: impl Fn(&mut LinkGraph) + Send + Sync + 'static,
) -> Passes {
    let mut passes = Passes::default();
    passes.add(stage, move |graph| {
        pass(graph);
        Ok(())
    });
    passes
}

pub(crate) fn with_pass(
    source: &str,
    stage: Stage,
    pass: impl Fn(&mut LinkGraph) + Send + Sync + 'static,
) -> Library {
    library_of(Session::builder().with_passes(passes(stage, pass)), &[c("-O1 -fPIC", source)])
}

/// Adds a function that returns a number to a graph.
fn add_function(graph: &mut LinkGraph, name: &str, number: u32) -> SymbolId {
    let section = graph.add_section(".text.added", Protection::ReadExecute, Lifetime::Standard);
    let block = graph.add_block(section, Content::Bytes(returning(number)), 16);
    graph.add_symbol(NewSymbol {
        name,
        definition: Definition::Block(block, 0),
        size: 6,
        linkage: Linkage::Strong,
        scope: Scope::Default,
        callable: true,
    })
}

fn section_of(graph: &LinkGraph, symbol: &str) -> String {
    match graph.symbol_named(symbol.as_bytes()).unwrap().definition {
        Definition::Block(block, _) => {
            let section = graph.section(graph.block(block).section);
            String::from_utf8(section.name.to_vec()).unwrap()
        }
        other => panic!("{symbol} is {other:?}"),
    }
}

#[test]
fn a_graph_has_the_symbols_of_its_object_with_their_scope_and_linkage() {
    let object = c(
        "-O1 -fPIC -fcommon",
        "extern long external, maybe __attribute__((weak));
         long common[5];
         __attribute__((weak)) long weak = 1;
         __attribute__((visibility(\"hidden\"))) long hidden = 2;
         static long local = 3;
         __asm__(\".globl absolute; .set absolute, 42\");
         long *defined(void) { local++; return external + &local + maybe + hidden; }",
    );
    let graph = LinkGraph::read("it.o", object).unwrap();
    let symbol = |name: &str| graph.symbol_named(name.as_bytes()).unwrap();

    assert_eq!(symbol("external").definition, Definition::External);
    assert_eq!(symbol("external").linkage, Linkage::Strong);
    assert_eq!(symbol("maybe").definition, Definition::External);
    assert_eq!(symbol("maybe").linkage, Linkage::Weak);
    assert_eq!(symbol("absolute").definition, Definition::Absolute(42));
    assert_eq!(symbol("weak").linkage, Linkage::Weak);
    assert_eq!(symbol("hidden").scope, Scope::Hidden);
    assert_eq!(symbol("local").scope, Scope::Local);
    assert_eq!(symbol("defined").scope, Scope::Default);
    assert!(symbol("defined").callable && !symbol("local").callable);
    assert_eq!(section_of(&graph, "defined"), ".text");
    assert_eq!(section_of(&graph, "local"), ".data");
    let Definition::Block(common, 0) = symbol("common").definition else { panic!() };
    assert!(graph.block(common).zero_fill);
    assert_eq!(graph.block(common).size, 40);
    assert!(graph.symbol_named(b"no such symbol").is_none());
}

#[test]
fn the_sections_of_a_graph_say_what_memory_they_want() {
    let object = c(
        "-O1 -fPIC -g",
        "const long constant = 1; long data = 2; long zero[9]; __thread long thread = 3;
         static int f(void) { return 1; } int (*const table[])(void) = { f };",
    );
    let graph = LinkGraph::read("it.o", object).unwrap();
    let section = |name: &str| graph.sections().find(|s| s.name == name.as_bytes()).unwrap();
    assert_eq!(section(".text").protection, Protection::ReadExecute);
    assert_eq!(section(".rodata").protection, Protection::Read);
    assert_eq!(section(".data").protection, Protection::ReadWrite);
    assert_eq!(section(".data.rel.ro.local").protection, Protection::Read);
    assert!(section(".bss").zero_fill);
    assert!(section(".tdata").thread_local);
    assert_eq!(section(".text").lifetime, Lifetime::Standard);
    assert_eq!(section(".debug_info").lifetime, Lifetime::NoAlloc);
}

#[test]
fn an_edge_has_a_place_a_kind_a_target_and_an_addend() {
    let object = assembly(".data; .quad 0; .quad target + 24; .long target - . - 4");
    let graph = LinkGraph::read("it.o", object).unwrap();
    let data = graph.blocks().find(|b| graph.section(b.section).name == b".data").unwrap();
    let edges: Vec<Edge> = graph.edges(data.id).collect();
    let target = graph.symbol_named(b"target").unwrap().id;
    assert_eq!(edges[0], Edge { offset: 8, kind: R_X86_64_64, target, addend: 24 });
    assert_eq!((edges[1].offset, edges[1].addend, edges.len()), (16, -4, 2));
}

#[test]
fn a_graph_can_be_printed() {
    let object = c(
        "-O1 -fPIC -fcommon",
        "extern long far(long); long common; static long local[4]; __attribute__((weak)) long weak;
         long near(void) { local[1]++; return far(local[2]); }",
    );
    let text = format!("{:?}", LinkGraph::read("it.o", object).unwrap());
    for part in [
        "link graph it.o (x86_64-unknown-linux-gnu)",
        "section .text (r-x, standard)",
        "section COMMON (rw-, standard)",
        "0x40 bytes zeroes",
        "+0x0: near",
        "+0x0: weak weak",
        "+0x20: local local",
        "R_X86_64_PLT32 far -0x4",
        "  external: far",
    ] {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
}

#[test]
fn passes_run_at_their_stages_in_their_order() {
    let stages =
        [Stage::PostFixup, Stage::PreFixup, Stage::PostAllocation, Stage::PostPrune, Stage::Prune];
    for prune in [false, true] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut passes = Passes::default();
        for (stage, number) in stages.into_iter().flat_map(|stage| [(stage, 1), (stage, 2)]) {
            let seen = Arc::clone(&seen);
            passes.add(stage, move |graph| {
                let allocated =
                    graph.symbol_address(graph.symbol_named(b"f").unwrap().id) != Some(0);
                seen.lock().unwrap().push((stage, number, allocated));
                Ok(())
            });
        }
        let builder = Session::builder().with_passes(passes);
        let builder = if prune { builder.with_pruning() } else { builder };
        let library = library_of(builder, &[c("-O1", "long f(void) { return 5; }")]);
        assert_eq!(value(&library, "f"), 5);
        let expected: Vec<_> = stages
            .into_iter()
            .rev()
            .flat_map(|stage| [(stage, 1), (stage, 2)])
            .map(|(stage, number)| {
                (stage, number, stage != Stage::Prune && stage != Stage::PostPrune)
            })
            .collect();
        assert_eq!(*seen.lock().unwrap(), expected);
    }
}

#[test]
fn a_pass_can_add_a_function_and_redirect_a_call_to_it() {
    for stage in [Stage::Prune, Stage::PostPrune] {
        let source = "long callee(void) { return 1; } long caller(void) { return callee() + 1; }";
        let library = with_pass(
            &source.replace("long callee", "__attribute__((noipa)) long callee"),
            stage,
            |graph| {
                let added = add_function(graph, "added", 100);
                let callee = graph.symbol_named(b"callee").unwrap().id;
                let text =
                    graph.blocks().find(|b| graph.section(b.section).name == b".text").unwrap();
                let mut edges: Vec<Edge> = graph.edges(text.id).collect();
                let call = edges.iter_mut().find(|edge| edge.kind == R_X86_64_PLT32).unwrap();
                assert_eq!(call.target, callee);
                call.target = added;
                graph.set_edges(text.id, edges);
            },
        );
        assert_eq!(value(&library, "caller"), 101);
        assert_eq!(value(&library, "callee"), 1);
    }
}

#[test]
fn a_pass_can_change_content_before_and_after_fix_up() {
    let source = "long number = 3; long f(void) { return *(volatile long *)&number; }";
    for stage in [Stage::Prune, Stage::PostPrune, Stage::PostFixup] {
        let library = with_pass(source, stage, |graph| {
            let Definition::Block(data, 0) = graph.symbol_named(b"number").unwrap().definition
            else {
                panic!()
            };
            let content = graph.content_mut(data);
            assert_eq!(content, 3_i64.to_le_bytes());
            content[0] = 7;
        });
        assert_eq!(value(&library, "f"), 7, "{stage:?}");
    }
}

#[test]
fn content_that_a_pass_changes_after_allocation_is_what_is_linked() {
    let source = "long number = 3; long f(void) { return *(volatile long *)&number; }";
    for stage in [Stage::PostAllocation, Stage::PreFixup] {
        let library = with_pass(source, stage, |graph| {
            let Definition::Block(data, 0) = graph.symbol_named(b"number").unwrap().definition
            else {
                panic!()
            };
            graph.content_mut(data).copy_from_slice(&7_i64.to_le_bytes());
        });
        assert_eq!(value(&library, "f"), 7, "{stage:?}");
    }
}

#[test]
fn a_pass_sees_final_addresses_and_fields_after_fix_up() {
    let source = "static long number = 3; long *pointer = &number;";
    let seen = Arc::new(Mutex::new(None));
    let library = {
        let seen = Arc::clone(&seen);
        with_pass(source, Stage::PostFixup, move |graph| {
            let number = graph.symbol_named(b"number").unwrap().id;
            let Definition::Block(block, offset) =
                graph.symbol_named(b"pointer").unwrap().definition
            else {
                panic!()
            };
            let expected = graph.symbol_address(number).unwrap();
            let content = graph.content_mut(block);
            let found = u64::from_le_bytes(content[offset as usize..][..8].try_into().unwrap());
            *seen.lock().unwrap() = Some((found, expected));
        })
    };
    let pointer = variable(&library, "pointer") as u64;
    assert_eq!(*seen.lock().unwrap(), Some((pointer, pointer)));
}

#[test]
fn a_symbol_that_a_pass_has_removed_is_not_found() {
    let source = "long gone(void) { return 1; } long kept(void) { return 2; }";
    let library = with_pass(source, Stage::Prune, |graph| {
        let gone = graph.symbol_named(b"gone").unwrap().id;
        graph.redefine(gone, Definition::External);
    });
    assert_eq!(value(&library, "kept"), 2);
    assert_eq!(failure(library.lookup("gone")), "undefined symbols: gone");
    // A look-up that links the object itself has the same result.
    let library = with_pass(source, Stage::Prune, |graph| {
        let gone = graph.symbol_named(b"gone").unwrap().id;
        graph.redefine(gone, Definition::External);
    });
    assert_eq!(failure(library.lookup("gone")), "undefined symbols: gone");
}

#[test]
fn a_pass_that_fails_fails_the_link_and_changes_nothing() {
    for stage in
        [Stage::Prune, Stage::PostPrune, Stage::PostAllocation, Stage::PreFixup, Stage::PostFixup]
    {
        let attempts = Arc::new(Mutex::new(0));
        let mut passes = Passes::default();
        let counted = Arc::clone(&attempts);
        passes.add(stage, move |graph| {
            let mut attempts = counted.lock().unwrap();
            *attempts += 1;
            if *attempts > 1 {
                return Ok(());
            }
            Err(longshore_jitlink::Error::Unsupported {
                file: graph.name().to_string(),
                problem: "not today".into(),
            })
        });
        let library = library_of(
            Session::builder().with_passes(passes),
            &[c("-O1", "long f(void) { return 5; }")],
        );
        assert_eq!(failure(library.lookup("f")), "0.o: not today");
        assert_eq!(value(&library, "f"), 5);
    }
}

#[test]
fn a_pass_that_keeps_or_drops_a_graph_fails_the_link() {
    for keeps in [true, false] {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let taking = Arc::clone(&kept);
        let source = "long f(void) { return 1; }";
        let library = with_pass(source, Stage::PostFixup, move |graph| {
            let empty = LinkGraph::new("empty", graph.architecture());
            let taken = std::mem::replace(graph, empty);
            if keeps {
                taking.lock().unwrap().push(taken);
            }
        });
        let error = failure(library.lookup("f"));
        assert!(error.contains("a pass has taken away its graph"), "{error}");
    }
}

/// Links code that is not position-independent, which lies low, far from the earlier code that it
/// calls.
fn link_out_of_reach(session: SessionBuilder) {
    let library = library_of(
        session,
        &[
            c("-fPIC", "long g(void) { return 3; }"),
            c(
                "-fno-pic",
                "static long x = 5; long g(void); long f(void) { return g() + *(volatile long *)&x; }",
            ),
        ],
    );
    assert_eq!((value(&library, "g"), value(&library, "f")), (3, 8));
    let distance = library.lookup("g").unwrap().abs_diff(library.lookup("f").unwrap());
    assert!(distance > 1 << 31, "{distance:#x}");
}

#[test]
fn code_out_of_reach_is_called_through_stubs() {
    link_out_of_reach(Session::builder());
}

#[test]
fn passes_run_once_when_a_link_is_laid_out_again() {
    // Code that is not position-independent lies low, out of reach of earlier code. The linker
    // detects that only after the allocation of memory.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let stages =
        [Stage::Prune, Stage::PostPrune, Stage::PostAllocation, Stage::PreFixup, Stage::PostFixup];
    let mut passes = Passes::default();
    for stage in stages {
        let noted = Arc::clone(&noted);
        passes.add(stage, move |graph| {
            if &**graph.name() == "1.o" {
                noted.lock().unwrap().push(stage);
            }
            Ok(())
        });
    }
    link_out_of_reach(Session::builder().with_passes(passes));
    assert_eq!(*seen.lock().unwrap(), stages);
}

#[test]
fn an_edge_of_a_kind_that_keeps_alive_has_no_field() {
    let mut graph = LinkGraph::new("it", Architecture::X86_64);
    let section = graph.add_section(".text", Protection::ReadExecute, Lifetime::Standard);
    let [used, unused, user] =
        [1, 2, 3].map(|number| graph.add_block(section, Content::Bytes(returning(number)), 16));
    let symbol = |graph: &mut LinkGraph, name, block| {
        graph.add_symbol(NewSymbol {
            name,
            definition: Definition::Block(block, 0),
            size: 6,
            linkage: Linkage::Strong,
            scope: Scope::Local,
            callable: true,
        })
    };
    let target = symbol(&mut graph, "used", used);
    let root = symbol(&mut graph, "user", user);
    graph.add_edge(user, Edge { offset: 0, kind: EdgeKind::KEEP_ALIVE, target, addend: 0 });
    graph.prune(&[root]).unwrap();
    let live = |block| graph.block(block).live;
    assert_eq!([live(used), live(unused), live(user)], [true, false, true]);
}

fn made_graph(callee: &str) -> LinkGraph {
    let mut graph = LinkGraph::new("made", Architecture::X86_64);
    add_function(&mut graph, "hundred", 100);
    let target = graph.add_symbol(NewSymbol {
        name: callee,
        definition: Definition::External,
        size: 0,
        linkage: Linkage::Strong,
        scope: Scope::Default,
        callable: true,
    });
    let section = graph.add_section(".text.jump", Protection::ReadExecute, Lifetime::Standard);
    // `jmp callee`
    let block = graph.add_block(section, Content::Bytes(vec![0xe9, 0, 0, 0, 0]), 16);
    graph.add_edge(block, Edge { offset: 1, kind: R_X86_64_PLT32, target, addend: -4 });
    graph.add_symbol(NewSymbol {
        name: "jump",
        definition: Definition::Block(block, 0),
        size: 5,
        linkage: Linkage::Strong,
        scope: Scope::Default,
        callable: true,
    });
    graph
}

#[test]
fn a_graph_made_by_hand_is_linked_like_an_object() {
    let library = library_of(
        Session::builder(),
        &[c("-O1 -fPIC", "long hundred(void); long f(void) { return hundred() + 1; }")],
    );
    let _made = library.add_graph(|| made_graph("f")).unwrap();
    assert_eq!(value(&library, "jump"), 101);
    assert_eq!(value(&library, "hundred"), 100);
    let again = failure(library.add_graph(|| made_graph("f")));
    assert!(again.contains("hundred is defined in made"), "{again}");
}

#[test]
fn a_graph_made_by_hand_is_made_again_when_its_link_has_failed() {
    let library = session().create_library("program");
    let object = library.add_graph(|| made_graph("later")).unwrap();
    assert_eq!(failure(library.lookup("jump")), "undefined symbols: later (used by made)");
    let _later =
        library.add_object("it.o", c("-O1 -fPIC", "long later(void) { return 9; }")).unwrap();
    assert_eq!(value(&library, "jump"), 9);
    object.remove(Removal::Unused).unwrap();
    assert_eq!(failure(library.lookup("hundred")), "undefined symbols: hundred");
}

#[test]
fn a_graph_for_another_architecture_is_refused() {
    let library = session().create_library("program");
    let error = failure(library.add_graph(|| LinkGraph::new("made", Architecture::Aarch64)));
    assert!(error.contains("made: it is for Aarch64"), "{error}");
}

#[test]
fn the_constructors_of_a_graph_made_by_hand_run() {
    let made = || {
        let mut graph = LinkGraph::new("made", Architecture::X86_64);
        let target = graph.add_symbol(NewSymbol {
            name: "trace",
            definition: Definition::External,
            size: 0,
            linkage: Linkage::Strong,
            scope: Scope::Default,
            callable: true,
        });
        let section = graph.add_section(".init_array", Protection::Read, Lifetime::Standard);
        let block = graph.add_block(section, Content::Bytes(vec![0; 8]), 8);
        graph.add_edge(block, Edge { offset: 0, kind: R_X86_64_64, target, addend: 0 });
        graph
    };
    for builder in [Session::builder(), Session::builder().with_pruning()] {
        let library = library_of(builder, &[]);
        crate::in_process::support::define_trace(&library);
        let _made = library.add_graph(made).unwrap();
        crate::in_process::support::initialize(&library);
        // The first argument of a constructor is the number of arguments.
        assert_eq!(crate::in_process::support::traced(), "0 ");
    }
}

#[test]
fn a_large_number_of_sections_is_read() {
    // Section numbers above `0xff00` are in a table of their own.
    let mut source = String::new();
    for index in 0..66_000 {
        source +=
            &format!(".section .data.{index},\"aw\"; .globl s{index}; s{index}: .quad {index}\n");
    }
    let library = library_of(Session::builder(), &[assembly(&source)]);
    for index in [0, 65_000, 65_536, 65_999] {
        assert_eq!(variable(&library, &format!("s{index}")), index);
    }
}

#[test]
fn edges_can_be_added_one_by_one() {
    let object = c("-O1 -fPIC", "long one = 1, two = 2; long *table[100] = { &one };");
    let mut graph = LinkGraph::read("it.o", object).unwrap();
    let target = graph.symbol_named(b"two").unwrap().id;
    let Definition::Block(block, start) = graph.symbol_named(b"table").unwrap().definition else {
        panic!()
    };
    for index in 1..100 {
        let offset = start + 8 * index;
        graph.add_edge(block, Edge { offset, kind: R_X86_64_64, target, addend: 0 });
    }
    assert_eq!(graph.edges(block).count(), 100);
    assert!(graph.edges(block).skip(1).all(|edge| edge.target == target));
}
