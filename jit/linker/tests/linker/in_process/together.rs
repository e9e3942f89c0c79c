//! Properties that hold among the objects of one link.

use longshore_jitlink::Session;
use longshore_jitlink::graph::{Edge, EdgeKind, Linkage, NewSymbol, Scope};
use longshore_jitlink::session::{Passes, Stage};

use crate::in_process::support::{assembly, c, failure, library, library_of, value};

#[test]
fn a_resolver_may_call_functions_of_every_object_of_the_link() {
    let resolver = "long chosen(void); long one(void) { return 1; } long two(void) { return 2; }
        void *choose(void) { return chosen() == 2 ? (void *)two : (void *)one; }
        long f(void) __attribute__((ifunc(\"choose\")));
        long g(void) { return f(); }";
    let chosen = "static long number = 2; long chosen(void) { return number; }";
    for objects in [[resolver, chosen], [chosen, resolver]] {
        let library = library(&objects.map(|source| c("-O0 -fPIC", source)));
        assert_eq!(value(&library, "g"), 2);
    }
}

#[test]
fn functions_with_clones_for_processors_are_linked_with_what_chooses_among_them() {
    let clones = "__attribute__((target_clones(\"avx2\", \"default\"))) long f(void) { return 7; }
        long g(void) { return f(); }";
    let library = library(&[c("-O1 -fPIC", clones)]);
    let libgcc = std::process::Command::new("gcc").arg("-print-libgcc-file-name").output().unwrap();
    let path = String::from_utf8(libgcc.stdout).unwrap();
    let bytes = std::fs::read(path.trim()).unwrap();
    library.add_generator(
        longshore_jitlink::session::StaticArchive::new("libgcc.a", bytes.into()).unwrap(),
    );
    assert_eq!(value(&library, "g"), 7);
}

#[test]
fn a_variable_of_threads_and_a_plain_one_are_not_mistaken_for_each_other() {
    let plain = c("-fPIC", "long number = 1;");
    let user = c("-fPIC", "extern __thread long number; long f(void) { return number; }");
    let error = failure(library(&[plain, user]).lookup("f"));
    assert!(error.contains("1.o: it takes number for a symbol that is thread-local"), "{error}");

    let variable = c("-fPIC", "__thread long number = 1;");
    let user = c("-fPIC", "extern long number; long f(void) { return number; }");
    let error = failure(library(&[variable, user]).lookup("f"));
    assert!(
        error.contains("1.o: it takes number for a symbol that is not thread-local"),
        "{error}"
    );
}

#[test]
fn a_variable_of_threads_has_no_address_to_look_up() {
    let error = failure(library(&[c("-fPIC", "__thread long number = 1;")]).lookup("number"));
    assert_eq!(error, "number: it is thread-local: it has an address in each thread, and no other");
}

#[test]
fn a_reference_that_a_pass_adds_after_pruning_is_refused() {
    let mut passes = Passes::default();
    passes.add(Stage::PostPrune, |graph| {
        let symbol = NewSymbol {
            name: "added_late",
            definition: longshore_jitlink::graph::Definition::External,
            size: 0,
            linkage: Linkage::Strong,
            scope: Scope::Default,
            callable: true,
        };
        let target = graph.add_symbol(symbol);
        let block = graph.blocks().find(|block| block.live && block.size > 0).unwrap().id;
        graph.add_edge(block, Edge { offset: 0, kind: EdgeKind(1), target, addend: 0 });
        Ok(())
    });
    let object = assembly(".globl f\nf: .quad 0\n.quad 0");
    let error = failure(
        library_of(Session::builder().with_pruning().with_passes(passes), &[object]).lookup("f"),
    );
    assert!(error.contains("a pass has added a reference after pruning"), "{error}");
}
