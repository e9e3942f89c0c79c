//! Removal of objects.

use longshore_jitlink::session::{Object, Removal};
use longshore_jitlink::{Error, Library};

use crate::in_process::support::{c, cpp, failure, library, session, value, variable};

fn add(library: &Library, name: &str, source: &str) -> Object {
    library.add_object(name, c("-fPIC", source)).unwrap()
}

#[test]
fn a_removed_object_takes_its_symbols_along_and_nothing_else() {
    let library = library(&[]);
    let f = add(&library, "f.o", "long f(void) { return 1; } long data = 3;");
    let _g = add(&library, "g.o", "long g(void) { return 2; }");
    assert_eq!((value(&library, "f"), value(&library, "g")), (1, 2));
    let address = library.lookup("g").unwrap();
    f.remove(Removal::Unused).unwrap();
    assert_eq!(failure(library.lookup("f")), "undefined symbols: f");
    assert_eq!(failure(library.lookup("data")), "undefined symbols: data");
    assert_eq!((library.lookup("g").unwrap(), value(&library, "g")), (address, 2));
}

#[test]
fn a_removed_symbol_can_be_defined_again() {
    let library = library(&[]);
    for number in 0..5 {
        let f = add(&library, "f.o", &format!("long f(void) {{ return {number}; }}"));
        assert_eq!(value(&library, "f"), number);
        f.remove(Removal::Unused).unwrap();
    }
    library.define_absolute("f", 0x1000).unwrap();
    assert_eq!(library.lookup("f").unwrap(), 0x1000);
}

#[test]
fn an_object_that_is_not_linked_yet_can_be_removed() {
    let library = library(&[]);
    let f = add(&library, "f.o", "long f(void) { return 1; }");
    assert_eq!(f.name(), "f.o");
    f.remove(Removal::Unused).unwrap();
    assert_eq!(failure(library.lookup("f")), "undefined symbols: f");
}

#[test]
fn an_object_in_use_is_not_removed_and_its_users_are_named() {
    let library = library(&[]);
    let f = add(&library, "f.o", "long f(void) { return 1; }");
    let _g = add(&library, "g.o", "long f(void); long g(void) { return f() + 1; }");
    let _h = add(&library, "h.o", "long g(void); long h(void) { return g() + 1; }");
    let _other = add(&library, "other.o", "long other(void) { return 9; }");
    assert_eq!((value(&library, "h"), value(&library, "other")), (3, 9));
    let Err(Error::InUse { object, mut users }) = f.remove(Removal::Unused) else { panic!() };
    users.sort();
    assert_eq!((object.as_str(), users), ("f.o", vec!["g.o".to_owned(), "h.o".to_owned()]));
    assert_eq!((value(&library, "h"), value(&library, "f")), (3, 1));
}

#[test]
fn an_object_is_removed_with_its_users() {
    let library = library(&[]);
    let f = add(&library, "f.o", "long f(void) { return 1; }");
    let g = add(&library, "g.o", "long f(void); long g(void) { return f() + 1; }");
    let _h = add(&library, "h.o", "long g(void); long h(void) { return g() + 1; }");
    let _other = add(&library, "other.o", "long other(void) { return 9; }");
    assert_eq!((value(&library, "h"), value(&library, "other")), (3, 9));
    f.remove(Removal::WithUsers).unwrap();
    for name in ["f", "g", "h"] {
        assert_eq!(failure(library.lookup(name)), format!("undefined symbols: {name}"));
    }
    assert_eq!(value(&library, "other"), 9);
    // The object has gone with the first one; another object may have its place.
    let _new = add(&library, "new.o", "long g(void) { return 5; }");
    g.remove(Removal::WithUsers).unwrap();
    assert_eq!(value(&library, "g"), 5);
}

#[test]
fn objects_that_use_each_other_are_removed_together() {
    let library = library(&[]);
    let one =
        add(&library, "one.o", "long two(long); long one(long n) { return n ? two(n - 1) : 1; }");
    let _two =
        add(&library, "two.o", "long one(long); long two(long n) { return n ? one(n - 1) : 2; }");
    assert_eq!(crate::in_process::support::value_of(&library, "one", 5), 2);
    let error = match one.remove(Removal::Unused) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("it is in use"),
    };
    assert_eq!(error, "one.o is used by two.o");
}

#[test]
fn users_in_other_libraries_are_users() {
    let session = session();
    let [provider, user] = ["provider", "user"].map(|name| session.create_library(name));
    let f = add(&provider, "f.o", "long f(void) { return 1; }");
    let _g = add(&user, "g.o", "long f(void); long g(void) { return f() + 1; }");
    user.set_link_order(&[&provider]);
    assert_eq!(value(&user, "g"), 2);
    let Err(Error::InUse { users, .. }) = f.remove(Removal::Unused) else { panic!() };
    assert_eq!(users, ["g.o"]);
}

#[test]
fn a_user_can_be_removed_and_then_the_object_it_used() {
    let library = library(&[]);
    let f = add(&library, "f.o", "long f(void) { return 1; }");
    let g = add(&library, "g.o", "long f(void); long g(void) { return f() + 1; }");
    assert_eq!(value(&library, "g"), 2);
    g.remove(Removal::Unused).unwrap();
    assert_eq!(value(&library, "f"), 1);
    f.remove(Removal::Unused).unwrap();
}

#[test]
fn a_handle_that_is_dropped_leaves_the_object() {
    let library = library(&[]);
    drop(add(&library, "f.o", "long f(void) { return 1; }"));
    assert_eq!(value(&library, "f"), 1);
}

#[test]
fn an_object_can_be_replaced_with_others_that_keep_state() {
    let library = library(&[]);
    let _state = add(&library, "state.o", "long state = 0;");
    for step in 1..4 {
        let code = add(
            &library,
            "code.o",
            &format!("extern long state; long f(void) {{ return state += {step}; }}"),
        );
        value(&library, "f");
        code.remove(Removal::Unused).unwrap();
    }
    assert_eq!(variable(&library, "state"), 6);
}

#[test]
fn when_the_owner_of_a_comdat_group_is_removed_later_objects_bring_it() {
    let source = "inline __attribute__((noinline)) long answer() { return VALUE; } extern \"C\" long NAME() { return answer(); }";
    let library = library(&[]);
    let object =
        |name: &str, n: &str| cpp("-fPIC -O1", &source.replace("NAME", name).replace("VALUE", n));
    let first = library.add_object("first.o", object("first", "1")).unwrap();
    assert_eq!(value(&library, "first"), 1);
    first.remove(Removal::Unused).unwrap();
    let _second = library.add_object("second.o", object("second", "2")).unwrap();
    assert_eq!(value(&library, "second"), 2);
}

#[test]
fn an_object_that_has_lost_a_group_to_one_that_is_removed_has_it_back() {
    let source = "inline __attribute__((noinline)) long answer() { return VALUE; } extern \"C\" long NAME() { return answer(); }";
    let library = library(&[]);
    let object =
        |name: &str, n: &str| cpp("-fPIC -O1", &source.replace("NAME", name).replace("VALUE", n));
    let first = library.add_object("first.o", object("first", "1")).unwrap();
    let _second = library.add_object("second.o", object("second", "2")).unwrap();
    first.remove(Removal::Unused).unwrap();
    assert_eq!(value(&library, "second"), 2);
}

#[test]
fn a_weak_definition_counts_again_when_the_strong_one_is_removed() {
    let library = library(&[]);
    let _weak = add(
        &library,
        "weak.o",
        "__attribute__((weak)) long f(void) { return 1; } long g(void) { return f(); }",
    );
    let strong = add(&library, "strong.o", "long f(void) { return 2; }");
    strong.remove(Removal::Unused).unwrap();
    assert_eq!(value(&library, "g"), 1);
}
