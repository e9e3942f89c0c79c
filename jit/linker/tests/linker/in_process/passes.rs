//! Permitted and refused changes by passes.

use longshore_jitlink::Session;
use longshore_jitlink::graph::{Definition, LinkGraph};
use longshore_jitlink::memory::Lifetime;
use longshore_jitlink::session::Stage;

use crate::in_process::graphs::{passes, with_pass};
use crate::in_process::support::{assembly, failure, library_of, value};

#[test]
fn frames_that_a_pass_gives_another_lifetime_are_not_given_to_the_unwinder() {
    for lifetime in [Lifetime::NoAlloc, Lifetime::Finalize] {
        let library = with_pass("long answer(void) { return 4; }", Stage::Prune, move |graph| {
            let frames = graph.sections().find(|section| section.name == b".eh_frame").unwrap().id;
            graph.set_lifetime(frames, lifetime);
        });
        assert_eq!(value(&library, "answer"), 4);
        assert!(std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(1))).is_err());
    }
}

#[test]
fn thread_local_variables_live_as_long_as_the_code() {
    let source = "__thread long variable = 4; long get(void) { return variable; }";
    let library = with_pass(source, Stage::Prune, |graph| {
        let variables = graph.sections().find(|section| section.thread_local).unwrap().id;
        graph.set_lifetime(variables, Lifetime::Finalize);
    });
    let error = failure(library.lookup("get"));
    assert!(error.contains("thread-local variables another lifetime"), "{error}");
}

#[test]
fn a_call_to_a_block_that_a_pass_takes_out_is_an_error() {
    let source = "
        .text; .globl f
        f: lea _GLOBAL_OFFSET_TABLE_(%rip), %rax; movabs $gone@PLTOFF, %rcx; ret
        .section .text.gone,\"ax\"; gone: ret";
    let take_out = |graph: &mut LinkGraph| match graph.symbol_named(b"gone").unwrap().definition {
        Definition::Block(block, _) => graph.set_live(block, false),
        other => panic!("{other:?}"),
    };
    let session = Session::builder().with_passes(passes(Stage::Prune, take_out));
    let error = failure(library_of(session, &[assembly(source)]).lookup("f"));
    assert!(error.contains("R_X86_64_PLTOFF64"), "{error}");
}
