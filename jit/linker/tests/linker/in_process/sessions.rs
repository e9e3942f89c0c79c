//! Sessions: several threads, several sessions, other machines.

use std::collections::HashMap;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use longshore_jitlink::memory::SlabMemory;
use longshore_jitlink::session::{Lookup, Passes, Stage, StaticArchive};
use longshore_jitlink::{Architecture, Error, Library, Session};

use crate::in_process::support::{
    archive, assembly, c, compile, failure, library, library_of, session, value, value_of, variable,
};

/// Returns objects in a chain: each calls the next, and has data and strings.
fn chain(length: usize) -> Vec<bytes::Bytes> {
    (0..length)
        .map(|n| {
            assembly(&format!(
                ".globl f{n}, d{n}; f{n}: sub $8, %rsp; call f{}@PLT; add $8, %rsp
                 mov d{n}@GOTPCREL(%rip), %rcx; add (%rcx), %rax; ret
                 .data; d{n}: .quad {n}",
                n + 1
            ))
        })
        .chain([assembly(&format!(".globl f{length}; f{length}: mov $1000, %eax; ret"))])
        .collect()
}

#[test]
fn several_threads_link_the_same() {
    let objects = chain(20);
    let contents = |threads: usize, prune: bool| {
        let contents = Arc::new(Mutex::new(HashMap::new()));
        let noted = Arc::clone(&contents);
        let mut passes = Passes::default();
        passes.add(Stage::PostFixup, move |graph| {
            let entries = (graph.got_entries().len(), graph.stub_entries().len());
            let blocks: Vec<_> = graph.blocks().map(|block| (block.size, block.live)).collect();
            noted.lock().unwrap().insert(graph.name().to_string(), (entries, blocks));
            Ok(())
        });
        let builder = Session::builder().with_threads(threads).with_passes(passes);
        let library = library_of(if prune { builder.with_pruning() } else { builder }, &objects);
        assert_eq!(value(&library, "f0"), 1000 + (0..20).sum::<i64>());
        std::mem::take(&mut *contents.lock().unwrap())
    };
    for prune in [false, true] {
        let one = contents(1, prune);
        assert_eq!(one.len(), 21);
        assert_eq!(contents(4, prune), one);
    }
}

#[test]
fn notes_of_a_link_are_taken_once_and_delivered_if_it_succeeds() {
    let links: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
    let (delivered, taken) = (Arc::clone(&links), Arc::new(Mutex::new(0)));
    let counted = Arc::clone(&taken);
    let mut passes = Passes::default();
    passes.add_notes(move |graphs| {
        *counted.lock().unwrap() += 1;
        let names = graphs.map(|graph| graph.name().to_string()).collect();
        let delivered = Arc::clone(&delivered);
        Ok(move || delivered.lock().unwrap().push(names))
    });
    let objects = [
        c("-fPIC", "long two(void); long one(void) { return 1 + two(); }"),
        c("-fPIC", "long two(void) { return 2; }"),
        c("-fPIC", "long nowhere(void); long three(void) { return nowhere(); }"),
    ];
    let library = library_of(Session::builder().with_threads(2).with_passes(passes), &objects);
    assert_eq!(value(&library, "one"), 3);
    assert_eq!(*links.lock().unwrap(), [["0.o", "1.o"]]);
    failure(library.lookup("three"));
    assert_eq!((*taken.lock().unwrap(), links.lock().unwrap().len()), (1, 1));
}

#[test]
fn notes_that_are_errors_fail_the_link_and_nothing_is_delivered() {
    let mut passes = Passes::default();
    passes.add_notes(|_| Ok(|| unreachable!("the link fails")));
    passes.add_notes(|graphs| {
        let file = graphs.map(|graph| graph.name().to_string()).collect();
        Err::<fn(), _>(Error::Unsupported { file, problem: "it is not wanted".to_owned() })
    });
    let objects = [c("-fPIC", "long one(void) { return 1; }")];
    let library = library_of(Session::builder().with_passes(passes), &objects);
    for _ in 0..2 {
        assert_eq!(failure(library.lookup("one")), "0.o: it is not wanted");
    }
}

#[test]
fn several_threads_report_the_same_errors() {
    let mut objects = chain(6);
    objects.pop();
    objects.push(assembly(".globl f6; f6: call nowhere; .data; .quad nor_here"));
    let errors = [1, 4].map(|threads| {
        failure(library_of(Session::builder().with_threads(threads), &objects).lookup("f0"))
    });
    assert_eq!(errors[0], errors[1]);
    assert!(
        errors[0].contains("nowhere (used by 6.o)") && errors[0].contains("nor_here (used by 6.o)")
    );
}

#[test]
fn look_ups_from_several_threads_at_once_find_the_same() {
    for threads in [1, 4] {
        let library = library_of(Session::builder().with_threads(threads), &chain(16));
        let start = Barrier::new(8);
        let found: Vec<Vec<u64>> = thread::scope(|scope| {
            let look_up = |thread: usize| {
                let (library, start) = (&library, &start);
                scope.spawn(move || {
                    start.wait();
                    let mut found: Vec<(usize, u64)> = (0..16)
                        .map(|n| (n * 7 + thread * 3) % 16)
                        .map(|n| (n, library.lookup(&format!("f{n}")).unwrap()))
                        .collect();
                    assert_eq!(value(library, "f8"), 1000 + (8..16).sum::<i64>());
                    found.sort_unstable();
                    found.into_iter().map(|(_, address)| address).collect()
                })
            };
            let threads: Vec<_> = (0..8).map(look_up).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|addresses| *addresses == found[0]));
    }
}

#[test]
fn objects_are_added_linked_and_removed_from_several_threads() {
    let library = library(&[]);
    let objects: Vec<_> =
        (0..8).map(|n| assembly(&format!(".globl g{n}; g{n}: mov ${n}, %eax; ret"))).collect();
    thread::scope(|scope| {
        for (number, object) in objects.iter().enumerate() {
            let library = &library;
            scope.spawn(move || {
                for _ in 0..20 {
                    let added = library.add_object("g.o", object.clone()).unwrap();
                    assert_eq!(value(library, &format!("g{number}")), number as i64);
                    added.remove(longshore_jitlink::session::Removal::Unused).unwrap();
                }
            });
        }
    });
}

#[test]
fn sessions_know_nothing_of_each_other() {
    let libraries = [1, 2].map(|n| {
        library(&[c("-fPIC", &format!("long f(void) {{ return {n}; }} long counter = {n};"))])
    });
    assert_eq!(libraries.each_ref().map(|library| value(library, "f")), [1, 2]);
    let [one, two] = libraries;
    drop(one);
    assert_eq!((value(&two, "f"), variable(&two, "counter")), (2, 2));
}

#[test]
fn several_names_are_looked_up_together_in_their_order() {
    let library = library(&chain(3));
    let names = ["d2", "f0", "d1"];
    let found = library.lookup_all(&names.map(|name| (name, Lookup::Required))).unwrap();
    assert_eq!(found, names.map(|name| Some(library.lookup(name).unwrap())));
}

#[test]
fn clones_of_a_library_are_the_same_library() {
    let session = session();
    let library = session.create_library("program");
    let copy: Library = library.clone();
    let _f = copy.add_object("f.o", c("-fPIC", "long f(long n) { return n + 1; }")).unwrap();
    assert_eq!(value_of(&library, "f", 1), 2);
    assert_eq!(library.name(), copy.name());
}

#[test]
fn an_object_for_another_architecture_is_refused() {
    let session = Session::builder()
        .with_architecture(Architecture::Aarch64)
        .build_without_execution()
        .unwrap();
    let library = session.create_library("program");
    let error = failure(library.add_object("x.o", assembly(".globl f; f: ret")));
    assert_eq!(error, "x.o: it is for X86_64, the session links for Aarch64");
}

#[test]
fn code_of_another_architecture_is_linked_at_the_addresses_of_its_memory() {
    let source = "long number = 5; extern long near(long); long f(void) { return near(number); }";
    let near = "long near(long n) { return n + 1; }";
    let compilers =
        [("clang-19", "--target=aarch64-linux-gnu -O1"), ("aarch64-linux-gnu-gcc", "-O1")];
    for (compiler, flags) in compilers {
        if !crate::in_process::support::is_installed(compiler) {
            continue;
        }
        let memory = Arc::new(SlabMemory::new(0x10_0000_0000, 1 << 20, 4096).unwrap());
        let session =
            Session::builder().with_architecture(Architecture::Aarch64).with_memory(memory.clone());
        let library = session.build_without_execution().unwrap().create_library("program");
        for (name, source) in [("f.o", source), ("near.o", near)] {
            let _object = library.add_object(name, compile(compiler, "c", flags, source)).unwrap();
        }
        let [f, number] = ["f", "number"].map(|name| library.lookup(name).unwrap());
        assert!((0x10_0000_0000..0x10_0010_0000).contains(&f), "{f:#x}");
        assert_eq!(memory.read(number, 8).unwrap(), 5_i64.to_le_bytes());
    }
}

#[test]
fn stubs_of_another_architecture_are_made_only_for_targets_out_of_reach() {
    if !crate::in_process::support::is_installed("clang-19") {
        return;
    }
    let source = "long near(void), far(void), beside(void); extern long far_data, near_data;
        long f(void) { return near() + far() + beside() + far_data + near_data; }";
    let object = |source| compile("clang-19", "c", "--target=aarch64-linux-gnu -O1 -fPIC", source);
    let entries = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&entries);
    let mut passes = Passes::default();
    passes.add(Stage::PostFixup, move |graph| {
        if &**graph.name() == "f.o" {
            let names = |entries: Vec<longshore_jitlink::graph::TableEntry>| {
                entries.iter().map(|entry| entry.target.to_string()).collect::<Vec<_>>()
            };
            *noted.lock().unwrap() =
                Some((names(graph.got_entries()), names(graph.stub_entries())));
        }
        Ok(())
    });
    let memory = Arc::new(SlabMemory::new(0x10_0000_0000, 1 << 20, 4096).unwrap());
    let session = Session::builder()
        .with_architecture(Architecture::Aarch64)
        .with_memory(memory)
        .with_passes(passes);
    let library = session.build_without_execution().unwrap().create_library("program");
    let _f = library.add_object("f.o", object(source)).unwrap();
    let _near = library
        .add_object("near.o", object("long near(void) { return 1; } long near_data;"))
        .unwrap();
    library.define_absolute("beside", 0x10_0010_0000).unwrap();
    library.define_absolute("far", 0x20_0000_0000).unwrap();
    library.define_absolute("far_data", 0x30_0000_0000).unwrap();
    library.lookup("f").unwrap();
    let (got, stubs) = entries.lock().unwrap().take().unwrap();
    assert_eq!(stubs, ["far"]);
    assert!(got.contains(&"far".to_owned()) && got.contains(&"far_data".to_owned()), "{got:?}");
    assert!(!got.contains(&"beside".to_owned()) && !got.contains(&"near".to_owned()), "{got:?}");
}

#[test]
fn an_archive_serves_several_libraries() {
    let session = session();
    let bytes =
        archive(&[("count.o", c("-fPIC", "long count; long next(void) { return ++count; }"))]);
    let libraries = ["one", "two"].map(|name| {
        let library = session.create_library(name);
        library.add_generator(StaticArchive::new("it.a", bytes.clone()).unwrap());
        library
    });
    assert_eq!(value(&libraries[0], "next"), 1);
    assert_eq!(value(&libraries[0], "next"), 2);
    assert_eq!(value(&libraries[1], "next"), 1);
}
