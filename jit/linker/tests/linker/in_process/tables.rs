//! The global offset table and stubs: only the needed entries.

use std::sync::{Arc, Mutex};

use longshore_jitlink::graph::LinkGraph;
use longshore_jitlink::memory::Placement;
use longshore_jitlink::session::{Passes, SessionBuilder, Stage};
use longshore_jitlink::{Library, Session};

use crate::in_process::support::{c, library_of, value};

/// Names of the entries of the GOT, and of the stubs, of each object.
type Entries = Arc<Mutex<Vec<(String, Vec<String>, Vec<String>)>>>;

fn recording_entries(session: SessionBuilder) -> (SessionBuilder, Entries) {
    let entries = Entries::default();
    let noted = Arc::clone(&entries);
    let mut passes = Passes::default();
    passes.add(Stage::PostFixup, move |graph: &mut LinkGraph| {
        let names = |entries: Vec<longshore_jitlink::graph::TableEntry>| {
            let mut names: Vec<String> = entries.iter().map(|e| e.target.to_string()).collect();
            names.sort();
            names
        };
        let entry =
            (graph.name().to_string(), names(graph.got_entries()), names(graph.stub_entries()));
        noted.lock().unwrap().push(entry);
        Ok(())
    });
    (session.with_passes(passes), entries)
}

fn entries_of(entries: &Entries, object: &str) -> (Vec<String>, Vec<String>) {
    let entries = entries.lock().unwrap();
    let entry = entries.iter().find(|(name, ..)| name == object).unwrap();
    (entry.1.clone(), entry.2.clone())
}

const USES_TARGETS: &str = "
    static long local_data = 1;
    long exported_data = 2;
    static long local(void) { return local_data; }
    __attribute__((noipa)) long exported(void) { return exported_data + local(); }
    extern long near_data, far_data;
    long near(void), far(void);
    long f(void) { return exported() + near() + near_data + far() + far_data; }
";

const NEAR: &str = "long near_data = 10; long near(void) { return 20; }";

/// A variable of this program which, like the function below, is far from the first 2 GiB.
static FAR_DATA: i64 = 300;

extern "C" fn far() -> i64 {
    1000
}

fn define_far(library: &Library) {
    library.define_absolute("far", far as *const () as u64).unwrap();
    library.define_absolute("far_data", &raw const FAR_DATA as u64).unwrap();
}

#[test]
fn the_got_and_the_stubs_hold_only_targets_out_of_reach() {
    for flags in ["-fPIC -O1", "-fPIC -O1 -fno-plt"] {
        let low = Session::builder().with_placement(Placement::Low);
        let (session, entries) = recording_entries(low);
        let library = library_of(session, &[c(flags, USES_TARGETS), c("-fPIC", NEAR)]);
        define_far(&library);
        assert_eq!(value(&library, "f"), 1333);
        let (got, stubs) = entries_of(&entries, "0.o");
        let expected_stubs: &[&str] = if flags.contains("no-plt") { &[] } else { &["far"] };
        assert_eq!(got, ["far", "far_data"], "{flags}");
        assert_eq!(stubs, expected_stubs, "{flags}");
        assert_eq!(entries_of(&entries, "1.o"), (vec![], vec![]));
    }
}

#[test]
fn targets_within_reach_need_no_entries() {
    let (session, entries) = recording_entries(Session::builder().with_placement(Placement::Low));
    let library = library_of(session, &[c("-fPIC -O1", USES_TARGETS), c("-fPIC", NEAR)]);
    // The addresses are fixed, and within reach of the first 2 GiB.
    let provider = library_of(
        Session::builder().with_placement(Placement::Low),
        &[c("-fPIC", "long far_data = 300; long far(void) { return 1000; }")],
    );
    for name in ["far", "far_data"] {
        library.define_absolute(name, provider.lookup(name).unwrap()).unwrap();
    }
    assert_eq!(value(&library, "f"), 1333);
    assert_eq!(entries_of(&entries, "0.o"), (vec![], vec![]));
}

#[test]
fn loads_that_cannot_be_relaxed_keep_their_entries() {
    let (session, entries) = recording_entries(Session::builder().with_placement(Placement::Low));
    let unrelaxed = "-fPIC -O1 -Wa,-mrelax-relocations=no";
    let library = library_of(session, &[c(unrelaxed, USES_TARGETS), c("-fPIC", NEAR)]);
    define_far(&library);
    assert_eq!(value(&library, "f"), 1333);
    assert_eq!(entries_of(&entries, "0.o").0, ["exported_data", "far", "far_data", "near_data"]);
}
