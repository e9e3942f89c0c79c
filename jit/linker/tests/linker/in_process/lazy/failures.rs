//! Calls whose implementation is not available.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::World;
use crate::in_process::support::{add_cpp_runtime, c, cpp, failure, value, value_of};

extern "C" fn instead() -> i64 {
    -7
}

#[test]
fn the_handler_is_asked_each_time_until_the_implementation_is_there() {
    let world = World::new(&[]);
    let _entries = world.add(&["late"]);
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failures);
    world.lazy.on_failure(move |call| {
        assert_eq!((&*call.entry, &*call.implementation), ("e_late", "late"));
        assert_eq!(call.error.to_string(), "undefined symbols: late");
        counted.fetch_add(1, Ordering::Relaxed);
        instead as *const () as u64
    });
    assert_eq!(value(&world.library, "e_late"), -7);
    assert_eq!(value(&world.library, "e_late"), -7);
    assert_eq!(failures.load(Ordering::Relaxed), 2);
    let late = c("-O1 -fPIC", "long late(void) { return 9; }");
    let _object = world.implementations.add_object("late.o", late).unwrap();
    assert_eq!((value(&world.library, "e_late"), value(&world.library, "e_late")), (9, 9));
    assert_eq!(failures.load(Ordering::Relaxed), 2);
}

#[test]
fn missing_symbols_of_an_implementation_are_in_the_error() {
    let source = "long nowhere(void); long needs(void) { return nowhere(); }";
    let world = World::new(&[c("-O1 -fPIC", source)]);
    let _entries = world.add(&["needs"]);
    world.lazy.on_failure(|call| {
        assert_eq!(call.error.to_string(), "undefined symbols: nowhere (used by 0.o)");
        instead as *const () as u64
    });
    assert_eq!(value(&world.library, "e_needs"), -7);
}

#[test]
fn a_handler_can_have_the_caller_get_an_exception() {
    let world = World::new(&[]);
    let _entries = world.add(&["missing"]);
    let source = "extern \"C\" long e_missing(long);
        extern \"C\" long thrower() { throw 17; }
        extern \"C\" long catcher(long n) { try { return e_missing(n); } catch (int caught) { return caught + n; } }";
    let _object = world.library.add_object("catcher.o", cpp("-O1 -fPIC", source)).unwrap();
    add_cpp_runtime(&world.library);
    let thrower = world.library.lookup("thrower").unwrap();
    world.lazy.on_failure(move |_| thrower);
    assert_eq!(value_of(&world.library, "catcher", 3), 20);
}

#[test]
fn an_implementation_is_looked_for_in_its_library_alone() {
    let world = World::new(&[]);
    // If the entries' library were searched too, the entry would be its own implementation.
    world.implementations.set_link_order(&[&world.library]);
    let _entries =
        world.try_add([longshore_jitlink::lazy::Reexport::new("circular", "circular")]).unwrap();
    world.lazy.on_failure(|_| instead as *const () as u64);
    assert_eq!(value(&world.library, "circular"), -7);
    assert_eq!(failure(world.library.lookup("another")), "undefined symbols: another");
}

/// The variable that makes this test run its fatal part, in a process of its own.
const ENDS: &str = "LONGSHORE_TEST_ENDS";

fn ends_saying(test: &str, said: &str) {
    use std::os::unix::process::ExitStatusExt;
    let program = std::env::current_exe().unwrap();
    let output = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env(ENDS, "1")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains(said), "{stderr}");
    assert_eq!(output.status.signal(), Some(6));
}

#[test]
fn without_a_handler_the_process_ends_with_a_message() {
    if std::env::var_os(ENDS).is_none() {
        return ends_saying(
            "in_process::lazy::failures::without_a_handler_the_process_ends_with_a_message",
            "longshore: e_gone was called, and its implementation gone is not available: undefined symbols: gone",
        );
    }
    let world = World::new(&[]);
    let _entries = world.add(&["gone"]);
    value(&world.library, "e_gone");
}

#[test]
fn a_first_call_after_the_manager_is_gone_ends_the_process_with_a_message() {
    if std::env::var_os(ENDS).is_none() {
        return ends_saying(
            "in_process::lazy::failures::a_first_call_after_the_manager_is_gone_ends_the_process_with_a_message",
            "was called, and its emitter is gone; keep the emitter while its code is called",
        );
    }
    let world = World::new(&[c("-O1 -fPIC", "long it(void) { return 1; }")]);
    let _entries = world.add(&["it"]);
    let World { library, lazy, .. } = world;
    drop(lazy);
    value(&library, "e_it");
}
