//! The search for the definition of a name.

use std::sync::{Arc, Mutex};

use longshore_jitlink::session::{ExtraObjects, Listing, Lookup};
use longshore_jitlink::{Error, Session, Undefined};

use crate::in_process::support::{
    assembly, c, cpp, failure, library, library_of, session, system_linked, value, variable,
};

const F_IS_1: &str = "long f(void) { return 1; }";
const F_IS_2: &str = "long f(void) { return 2; }";
const G_CALLS_F: &str = "long f(void); long g(void) { return f(); }";

extern "C" fn five() -> i64 {
    5
}

#[test]
fn libraries_are_searched_in_link_order() {
    let session = session();
    let [user, first, second] =
        ["user", "first", "second"].map(|name| session.create_library(name));
    let _g = user.add_object("g.o", c("-fPIC", G_CALLS_F)).unwrap();
    let _one = first.add_object("1.o", c("-fPIC", F_IS_1)).unwrap();
    let _two = second.add_object("2.o", c("-fPIC", F_IS_2)).unwrap();
    user.set_link_order(&[&second, &first]);
    assert_eq!(value(&user, "g"), 2);
    assert_eq!(value(&first, "f"), 1);
}

#[test]
fn a_library_finds_its_own_definition_first() {
    let session = session();
    let [user, other] = ["user", "other"].map(|name| session.create_library(name));
    let _g = user.add_object("g.o", c("-fPIC", G_CALLS_F)).unwrap();
    let _one = user.add_object("1.o", c("-fPIC", F_IS_1)).unwrap();
    let _two = other.add_object("2.o", c("-fPIC", F_IS_2)).unwrap();
    user.set_link_order(&[&other]);
    assert_eq!(value(&user, "g"), 1);
}

#[test]
fn a_link_order_is_not_inherited() {
    let session = session();
    let [user, middle, far] = ["user", "middle", "far"].map(|name| session.create_library(name));
    let _g = user.add_object("g.o", c("-fPIC", G_CALLS_F)).unwrap();
    let _one = far.add_object("1.o", c("-fPIC", F_IS_1)).unwrap();
    user.set_link_order(&[&middle]);
    middle.set_link_order(&[&far]);
    assert_eq!(failure(user.lookup("g")), "undefined symbols: f (used by g.o)");
}

#[test]
fn symbols_that_another_library_needs_are_looked_up_from_there() {
    let session = session();
    let [user, middle, far] = ["user", "middle", "far"].map(|name| session.create_library(name));
    let _h = user
        .add_object(
            "h.o",
            c("-fPIC", "long g(void); long f(void) { return 5; } long h(void) { return g(); }"),
        )
        .unwrap();
    let _g = middle.add_object("g.o", c("-fPIC", G_CALLS_F)).unwrap();
    let _one = far.add_object("1.o", c("-fPIC", F_IS_1)).unwrap();
    user.set_link_order(&[&middle]);
    middle.set_link_order(&[&far]);
    assert_eq!(value(&user, "h"), 1);
}

#[test]
fn hidden_symbols_are_found_only_in_their_library() {
    let session = session();
    let [user, other] = ["user", "other"].map(|name| session.create_library(name));
    let hidden = c("-fPIC -fvisibility=hidden", F_IS_1);
    let _g = user.add_object("g.o", c("-fPIC", G_CALLS_F)).unwrap();
    let _one = other.add_object("1.o", hidden.clone()).unwrap();
    user.set_link_order(&[&other]);
    assert_eq!(failure(user.lookup("g")), "undefined symbols: f (used by g.o)");
    let _own = user.add_object("own.o", hidden).unwrap();
    assert_eq!(value(&user, "g"), 1);
}

#[test]
fn a_weak_reference_that_nothing_defines_is_null() {
    let source = "
        extern long f(void) __attribute__((weak)), data __attribute__((weak));
        long (*const pointer)(void) = f;
        long g(void) { return (f ? f() : 10) + (&data ? 100 : 0) + (pointer ? 1000 : 0); }";
    for flags in ["-fPIC -O1", "-fno-pic -O1", "-fPIE -O1", "-fPIC -mcmodel=large"] {
        assert_eq!(value(&library(&[c(flags, source)]), "g"), 10, "{flags}");
        let defined = c(flags, "long f(void) { return 1; } long data = 1;");
        assert_eq!(value(&library(&[c(flags, source), defined]), "g"), 1101, "{flags}");
    }
}

#[test]
fn all_missing_symbols_are_reported_together_with_the_files_that_use_them() {
    let library = library(&[
        c(
            "-fPIC",
            "long one(void), two(void), b(void); long a(void) { return one() + two() + b(); }",
        ),
        c("-fPIC", "long two(void), three(void); long b(void) { return two() + three(); }"),
    ]);
    let names =
        [("a", Lookup::Required), ("nothing", Lookup::Required), ("nor_this", Lookup::Optional)];
    let Err(Error::Undefined(mut missing)) = library.lookup_all(&names) else { panic!() };
    missing.sort_by(|a, b| (&a.file, &a.symbol).cmp(&(&b.file, &b.symbol)));
    let expected =
        [("nothing", ""), ("one", "0.o"), ("two", "0.o"), ("three", "1.o"), ("two", "1.o")]
            .map(|(symbol, file)| Undefined { symbol: symbol.into(), file: file.into() });
    assert_eq!(missing, expected);
}

#[test]
fn optional_names_may_be_missing() {
    let library = library(&[c("-fPIC", F_IS_1)]);
    let found =
        library.lookup_all(&[("nothing", Lookup::Optional), ("f", Lookup::Optional)]).unwrap();
    assert_eq!(found, [None, Some(library.lookup("f").unwrap())]);
}

#[test]
fn after_a_failed_link_the_missing_symbol_can_be_defined() {
    let library = library(&[
        c("-fPIC", "long f(void), h(void); long g(void) { return f() + h(); }"),
        c("-fPIC", "long h(void) { return 10; }"),
    ]);
    assert_eq!(failure(library.lookup("g")), "undefined symbols: f (used by 0.o)");
    assert_eq!(failure(library.lookup("g")), "undefined symbols: f (used by 0.o)");
    let _f = library.add_object("f.o", c("-fPIC", F_IS_1)).unwrap();
    assert_eq!(value(&library, "g"), 11);
}

#[test]
fn a_second_strong_definition_is_an_error_with_both_files_and_changes_nothing() {
    let library = library(&[c("-fPIC", F_IS_1)]);
    let second = c(
        "-fPIC",
        "long before(void) { return 1; } long f(void) { return 2; } long after(void) { return 3; }",
    );
    let error = failure(library.add_object("second.o", second));
    assert_eq!(error, "symbol f is defined in 0.o and again in second.o");
    for name in ["before", "after"] {
        assert_eq!(failure(library.lookup(name)), format!("undefined symbols: {name}"));
    }
    assert_eq!(value(&library, "f"), 1);
    let _before =
        library.add_object("before.o", c("-fPIC", "long before(void) { return 9; }")).unwrap();
    assert_eq!(value(&library, "before"), 9);
}

#[test]
fn a_strong_definition_takes_the_place_of_a_weak_one() {
    let weak =
        c("-fPIC", "__attribute__((weak)) long f(void) { return 1; } long w(void) { return f(); }");
    let strong = c("-fPIC", "long f(void) { return 2; } long s(void) { return f(); }");
    for objects in [[weak.clone(), strong.clone()], [strong, weak]] {
        let library = library(&objects);
        assert_eq!(["f", "w", "s"].map(|name| value(&library, name)), [2, 2, 2]);
    }
}

#[test]
fn the_first_of_two_weak_definitions_is_used() {
    let objects = [1, 2].map(|n| {
        c("-fPIC", &format!("__attribute__((weak)) long f(void) {{ return {n}; }} long f{n}(void) {{ return f(); }}"))
    });
    let library = library(&objects);
    assert_eq!(["f", "f1", "f2"].map(|name| value(&library, name)), [1, 1, 1]);
}

#[test]
fn a_strong_definition_does_not_replace_a_weak_one_that_is_linked() {
    let library = library(&[c("-fPIC", "__attribute__((weak)) long f(void) { return 1; }")]);
    assert_eq!(value(&library, "f"), 1);
    let error = failure(library.add_object("late.o", c("-fPIC", F_IS_2)));
    assert_eq!(error, "symbol f is defined in 0.o and again in late.o");
    assert_eq!(value(&library, "f"), 1);
}

#[test]
fn common_symbols_are_one_and_as_large_as_the_largest() {
    let small = c("-fPIC -fcommon", "long common[2]; long *first(void) { return common; }");
    let large = c(
        "-fPIC -fcommon",
        "long common[1000]; long *second(void) { return common; } long last(void) { return common[999]; }",
    );
    let print = c(
        "",
        "#include <stdio.h>
        extern long common[]; long *first(void), *second(void);
        int main(void) { printf(\"%d\", first() == second() && second() == common); }",
    );
    assert_eq!(system_linked(&[small.clone(), large.clone(), print]), "1");
    for objects in [[small.clone(), large.clone()], [large, small]] {
        let library = library(&objects);
        assert_eq!(value(&library, "first"), value(&library, "second"));
        let end = value(&library, "first") as u64 + 8000;
        let neighbour =
            c("-fPIC -fcommon", "long neighbour[100]; long *third(void) { return neighbour; }");
        let _neighbour = library.add_object("neighbour.o", neighbour).unwrap();
        let third = value(&library, "third") as u64;
        assert!(third >= end || third + 800 <= end - 8000, "{third:#x} is within the large symbol");
        assert_eq!(value(&library, "last"), 0);
    }
}

#[test]
fn a_common_symbol_has_the_largest_alignment_that_any_object_wants() {
    let larger = c("-fPIC -fcommon", "char other; char x[100]; char *first(void) { return x; }");
    let aligned = c("-fPIC -fcommon", "char x[8] __attribute__((aligned(512)));");
    for objects in [[larger.clone(), aligned.clone()], [aligned, larger]] {
        let library = library(&objects);
        assert_eq!(library.lookup("x").unwrap() % 512, 0);
    }
}

#[test]
fn a_definition_takes_the_place_of_a_common_symbol() {
    let common = c("-fPIC -fcommon", "long x; long f(void) { return x; }");
    let defined = c("-fPIC", "long x = 6; long g(void) { return x; }");
    for objects in [[common.clone(), defined.clone()], [defined, common]] {
        let library = library(&objects);
        assert_eq!(
            (value(&library, "f"), value(&library, "g"), variable(&library, "x")),
            (6, 6, 6)
        );
    }
}

#[test]
fn the_first_of_two_comdat_groups_is_used() {
    let source =
        "struct S { static long count; long next() { static long own = START; return own++; } };
        inline long answer() { return START; }
        extern \"C\" long NAME() { return answer() * 1000 + S().next(); }";
    let objects = [("one", "5"), ("two", "7")].map(|(name, start)| {
        cpp("-fPIC -O0", &source.replace("NAME", name).replace("START", start))
    });
    let print = c("", "#include <stdio.h>
        long one(void), two(void); int main(void) { long a = one(), b = two(); printf(\"%ld %ld\", a, b); }");
    let library = library(&objects);
    crate::in_process::support::add_cpp_runtime(&library);
    let found = format!("{} {}", value(&library, "one"), value(&library, "two"));
    assert_eq!(found, system_linked(&[objects[0].clone(), objects[1].clone(), print]));
    assert_eq!(found, "5005 5006");
}

#[test]
fn discarded_groups_take_their_sections_and_frames_along() {
    use longshore_jitlink::session::{Passes, Stage};
    let source = "struct E { ~E(); }; void may_throw();
        inline long answer() { E e; may_throw(); return 4; }
        extern \"C\" long NAME() { return answer(); }";
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&sizes);
    let mut passes = Passes::default();
    passes.add(Stage::PostFixup, move |graph| {
        let live = |name: &[u8]| {
            let blocks = graph
                .blocks()
                .filter(|b| b.live && graph.section(b.section).name.starts_with(name));
            blocks.map(|block| block.size).sum::<u64>()
        };
        noted.lock().unwrap().push([
            live(b".text._Z6answerv"),
            live(b".eh_frame"),
            live(b".gcc_except_table._Z6answerv"),
        ]);
        Ok(())
    });
    let objects = ["one", "two"].map(|name| cpp("-fPIC -O0", &source.replace("NAME", name)));
    let others = cpp("-fPIC", "struct E { ~E(); }; E::~E() {} void may_throw() {}");
    let library = crate::in_process::support::library_of(
        Session::builder().with_passes(passes),
        &[objects[0].clone(), objects[1].clone(), others],
    );
    crate::in_process::support::add_cpp_runtime(&library);
    assert_eq!((value(&library, "one"), value(&library, "two")), (4, 4));
    let sizes = sizes.lock().unwrap();
    let (first, second) = (sizes[0], *sizes.last().unwrap());
    assert!(first[0] > 0 && first[2] > 0, "{sizes:?}");
    assert_eq!((second[0], second[2]), (0, 0), "{sizes:?}");
    assert!(second[1] > 0 && second[1] < first[1], "{sizes:?}");
}

#[test]
fn data_that_refers_to_a_local_symbol_of_a_discarded_group_is_an_error_that_names_it() {
    let group =
        ".section .text.g,\"axG\",@progbits,g,comdat; .weak g; g: local: mov $1, %eax; ret;";
    let library = library(&[
        assembly(group),
        assembly(&format!("{group} .data; .globl it; it: .quad local")),
    ]);
    let error = failure(library.lookup("it"));
    assert!(error.contains("1.o(.data+0x0)") && error.contains("local"), "{error}");
}

#[test]
fn debug_information_may_refer_to_a_discarded_group() {
    let source = "inline long answer() { return 4; } extern \"C\" long NAME() { return answer(); }";
    let objects = ["one", "two"].map(|name| cpp("-fPIC -O0 -g", &source.replace("NAME", name)));
    let library = library(&objects);
    assert_eq!((value(&library, "one"), value(&library, "two")), (4, 4));
}

#[test]
fn absolute_symbols_are_defined_once() {
    let library = library(&[c("-fPIC", G_CALLS_F)]);
    library.define_absolute("f", five as *const () as u64).unwrap();
    assert_eq!(value(&library, "g"), 5);
    assert_eq!(library.lookup("f").unwrap(), five as *const () as u64);
    let again = failure(library.define_absolute("f", 1));
    assert_eq!(
        again,
        "symbol f is defined in an absolute definition and again in an absolute definition"
    );
    assert_eq!(value(&library, "f"), 5);
    let object = failure(library.add_object("f.o", c("-fPIC", F_IS_1)));
    assert_eq!(object, "symbol f is defined in an absolute definition and again in f.o");
}

#[test]
fn an_alias_is_the_same_symbol() {
    let library = library(&[
        c("-fPIC", F_IS_1),
        c("-fPIC", "long other(void); long g(void) { return other(); }"),
    ]);
    library.define_alias("other", "f").unwrap();
    assert_eq!(value(&library, "g"), 1);
    assert_eq!(library.lookup("other").unwrap(), library.lookup("f").unwrap());
}

#[test]
fn damaged_objects_are_errors_that_name_the_file() {
    let library = library(&[]);
    let sound = c("-fPIC", F_IS_1);
    for (bytes, part) in [
        (
            bytes::Bytes::from_static(
                b"not an object at all, but long enough for a header of one.....................",
            ),
            "expected an ELF object",
        ),
        (sound.slice(..40), "too short"),
        (sound.slice(..sound.len() - 100), "outside of the file"),
    ] {
        let error = failure(library.add_object("bad.o", bytes));
        assert!(error.starts_with("bad.o: ") && error.contains(part), "{error}");
    }
    let error = failure(library.add("bad.a", bytes::Bytes::from_static(b"!<thin>\n")));
    assert!(error.starts_with("bad.a: it is a thin archive"), "{error}");
    assert_eq!(failure(library.lookup("f")), "undefined symbols: f");
}

#[test]
fn exports_of_a_program_are_found_in_the_process_until_the_session_ends() {
    let of_process = || {
        // SAFETY: the name is a C string.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"exported_by_a_test".as_ptr()) as u64 }
    };
    let source = "long exported_by_a_test(void) { return 1; } long entry(void) { return 2; }";
    for (listing, is_found) in [(Listing::Names, false), (Listing::Exports, true)] {
        let session = Session::builder().with_program_listing(listing);
        let library = library_of(session, &[c("-fPIC", source)]);
        library.link_program(("entry", Lookup::Required), &[], ExtraObjects::All).unwrap();
        assert_eq!(of_process() != 0, is_found);
        if is_found {
            assert_eq!(of_process(), library.lookup("exported_by_a_test").unwrap());
        }
    }
    assert_eq!(of_process(), 0);
}
