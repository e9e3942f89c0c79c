//! Members of archives that are added on demand, and their removal and return.

use longshore_jitlink::session::{Lookup, Removal, SessionBuilder, StaticArchive};
use longshore_jitlink::{Library, Session};

use crate::in_process::support::{archive, c, call, failure, library, library_of, value};

/// Returns a library with an archive of one object `m.o`.
fn with_member(library: Library, source: &str) -> Library {
    let members = archive(&[("m.o", c("-fPIC", source))]);
    library.add_generator(StaticArchive::new("it.a", members).unwrap());
    library
}

#[test]
fn a_member_that_was_removed_is_given_again() {
    let base = c("-fPIC", "long base(void) { return 3; }");
    let library = with_member(library(&[]), "long base(void); long m(void) { return base(); }");
    for _ in 0..2 {
        let base = library.add_object("base.o", base.clone()).unwrap();
        assert_eq!(value(&library, "m"), 3);
        base.remove(Removal::WithUsers).unwrap();
    }
}

#[test]
fn a_member_goes_again_when_the_link_that_needed_it_fails() {
    let library = with_member(library(&[]), "long nobody(void); long m(void) { return nobody(); }");
    for _ in 0..2 {
        let error = failure(library.lookup("m"));
        assert_eq!(error, "undefined symbols: nobody (used by it.a(m.o))");
    }
    let _own = library.add_object("own.o", c("-fPIC", "long m(void) { return 1; }")).unwrap();
    assert_eq!(value(&library, "m"), 1);
}

#[test]
fn a_member_goes_again_when_linking_everything_fails() {
    let user = c("-fPIC", "long m(void), nobody(void); long f(void) { return m() + nobody(); }");
    let library = with_member(library(&[user]), "long m(void) { return 2; }");
    assert_eq!(failure(library.link_all()), "undefined symbols: nobody (used by 0.o)");
    let _own = library.add_object("own.o", c("-fPIC", "long m(void) { return 1; }")).unwrap();
    let _nobody = library.add_object("n.o", c("-fPIC", "long nobody(void) { return 5; }")).unwrap();
    assert_eq!(value(&library, "f"), 6);
}

#[test]
fn symbols_that_the_linker_defines_go_with_the_failed_link() {
    let user = c(
        "-fPIC",
        "int atexit(void (*)(void)); void nobody(void); int f(void) { return atexit(nobody); }",
    );
    let library = library(&[user]);
    assert_eq!(failure(library.lookup("f")), "undefined symbols: nobody (used by 0.o)");
    let own = "int atexit(void (*f)(void)) { return f ? 8 : 9; } void nobody(void) {}";
    let _own = library.add_object("own.o", c("-fPIC", own)).unwrap();
    assert_eq!(value(&library, "f") as i32, 8);
}

#[test]
fn a_member_that_cannot_be_added_says_so_each_time() {
    let member = "long taken(void) { return 1; } long m(void) { return 1; }";
    let library = with_member(library(&[c("-fPIC", "long taken(void) { return 2; }")]), member);
    for _ in 0..2 {
        let error = failure(library.lookup("m"));
        assert_eq!(error, "symbol taken is defined in 0.o and again in it.a(m.o)");
    }
}

#[test]
fn a_weak_reference_takes_no_member() {
    let weak = "__attribute__((weak)) long m(void); long g(void) { return m ? m() : 0; }";
    let library = with_member(library(&[c("-fPIC", weak)]), "long m(void) { return 1; }");
    assert_eq!(value(&library, "g"), 0);
}

#[test]
fn a_weak_reference_is_to_the_member_that_another_reference_takes() {
    let weak = "__attribute__((weak)) long m(void); long g(void) { return m ? m() : 0; }";
    let strong = "long m(void), g(void); long both(void) { return 10 * g() + m(); }";
    for prune in [false, true] {
        let session = Session::builder();
        let session = if prune { session.with_pruning() } else { session };
        let objects = [c("-fPIC", weak), c("-fPIC", strong)];
        let library = with_member(library_of(session, &objects), "long m(void) { return 1; }");
        assert_eq!(value(&library, "both"), 11);
    }
}

#[test]
fn a_member_that_was_pruned_is_no_second_definition() {
    let library = with_member(
        library_of(Session::builder().with_pruning(), &[]),
        "long m(void) { return 1; } __attribute__((section(\".text.x\"))) long x(void) { return 2; }",
    );
    assert_eq!(value(&library, "m"), 1);
    assert_eq!(library.lookup_all(&[("x", Lookup::Optional)]).unwrap(), [None]);
}

/// Returns a library with a weak `foo`, and an archive with a strong one, whose member is needed
/// for another symbol.
fn displaced(session: SessionBuilder) -> Library {
    const SECTIONS: &str = "-fPIC -O1 -ffunction-sections";
    let objects = [
        "long foo(void), baz(void); long both(void) { return (long)&foo + 0 * baz(); }",
        "__attribute__((weak)) long foo(void) { return 1; } long here(void) { return (long)&foo; }",
        "long bar(void); long baz(void) { return bar(); }",
    ];
    let library = library_of(session, &objects.map(|source| c(SECTIONS, source)));
    let member = c(SECTIONS, "long foo(void) { return 2; } long bar(void) { return 3; }");
    library.add_generator(StaticArchive::new("it.a", archive(&[("m.o", member)])).unwrap());
    library
}

#[test]
fn a_strong_definition_of_a_member_counts_for_all_of_the_link() {
    let library = displaced(Session::builder());
    let both = value(&library, "both");
    assert_eq!((call(both as u64), value(&library, "here")), (2, both));
}

#[test]
fn a_strong_definition_of_a_member_is_not_pruned() {
    let library = displaced(Session::builder().with_pruning());
    assert_eq!(call(value(&library, "both") as u64), 2);
}

#[test]
fn a_root_that_a_member_displaces_is_found() {
    for session in [Session::builder(), Session::builder().with_pruning()] {
        let library = displaced(session);
        let names = [("foo", Lookup::Required), ("baz", Lookup::Required)];
        let found = library.lookup_all(&names).unwrap();
        assert_eq!(call(found[0].unwrap()), 2);
    }
}

#[test]
fn a_member_is_taken_for_its_common_symbol() {
    let library = library_of(
        Session::builder(),
        &[c("-fPIC", "extern int common[]; long f(void) { return common[9]; }")],
    );
    let member = c("-fPIC -fcommon", "int common[10];");
    library.add_generator(StaticArchive::new("it.a", archive(&[("m.o", member)])).unwrap());
    assert_eq!(value(&library, "f"), 0);
}
