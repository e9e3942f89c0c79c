//! Functions that are redirected by name.

use std::sync::atomic::{AtomicBool, Ordering};

use longshore_jitlink::lazy::{LinkedRedirectables, Redirections, ThisProcess};
use longshore_jitlink::session::Removal;

use crate::in_process::support::{c, call, failure, library, value};

const VERSIONS: &str = "long one(void) { return 1; } long two(void) { return 2; }";

#[test]
fn calls_arrive_where_the_function_leads_at_the_time_also_by_its_address() {
    let library = library(&[c("-O1 -fPIC", VERSIONS)]);
    let [one, two] = ["one", "two"].map(|name| library.lookup(name).unwrap());
    let symbols = LinkedRedirectables::<ThisProcess>::default();
    let functions = [("f".to_owned(), one), ("g".to_owned(), two)];
    let redirections = Redirections::define(&library, symbols, functions).unwrap();
    let caller =
        c("-O1 -fPIC", "long f(void), g(void); long caller(void) { return 10 * f() + g(); }");
    let caller = library.add_object("caller.o", caller).unwrap();
    let address = library.lookup("f").unwrap();
    assert_eq!((value(&library, "caller"), call(address)), (12, 1));
    redirections.redirect("f", two).unwrap();
    assert_eq!((value(&library, "caller"), call(address)), (22, 2));
    redirections.redirect("g", one).unwrap();
    assert_eq!((value(&library, "caller"), library.lookup("f").unwrap()), (21, address));
    assert_eq!(
        failure(redirections.redirect("h", one)),
        "undefined symbols: h (used by a redirection)"
    );
    caller.remove(Removal::Unused).unwrap();
    redirections.remove(Removal::Unused).unwrap();
    assert_eq!(failure(library.lookup("f")), "undefined symbols: f");
}

#[test]
fn threads_that_call_while_a_function_is_redirected_arrive_at_the_one_or_the_other() {
    let library = library(&[c("-O1 -fPIC", VERSIONS)]);
    let versions = ["one", "two"].map(|name| library.lookup(name).unwrap());
    let symbols = LinkedRedirectables::<ThisProcess>::default();
    let functions = [("f".to_owned(), versions[0])];
    let redirections = Redirections::define(&library, symbols, functions).unwrap();
    let address = library.lookup("f").unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert!([1, 2].contains(&call(address)));
                }
            });
        }
        for round in 0..20_000 {
            redirections.redirect("f", versions[round % 2]).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn names_that_the_library_has_are_refused_and_nothing_has_changed() {
    let library = library(&[c("-O1 -fPIC", VERSIONS)]);
    let define = |names: [&str; 2]| {
        let symbols = LinkedRedirectables::<ThisProcess>::default();
        Redirections::define(&library, symbols, names.map(|name| (name.to_owned(), 1)))
    };
    assert_eq!(
        failure(define(["f", "one"])),
        "symbol one is defined in 0.o and again in __slots_of_f"
    );
    assert_eq!(failure(library.lookup("f")), "undefined symbols: f");
    let _redirections = define(["f", "g"]).unwrap();
}
