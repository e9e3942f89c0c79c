//! Removal of entries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longshore_jitlink::lazy::{
    LazyReexports, LinkedRedirectables, LinkedTrampolines, Listener, Reexport, ThisProcess,
};
use longshore_jitlink::session::{Generated, Removal, Request};

use super::World;
use crate::in_process::support::{self, c, failure, session, value};

#[test]
fn the_name_is_free_again_and_the_implementation_stays() {
    let world = World::new(&[c("-O1 -fPIC", "long it(void) { return 3; }")]);
    let entries = world.add(&["it"]);
    assert_eq!(value(&world.library, "e_it"), 3);
    entries.remove(Removal::Unused).unwrap();
    assert_eq!(failure(world.library.lookup("e_it")), "undefined symbols: e_it");
    let linked = world.linked();
    let entries = world.add(&["it"]);
    assert_eq!(value(&world.library, "e_it"), 3);
    assert_eq!(world.linked(), linked + 1);
    entries.remove(Removal::Unused).unwrap();
}

#[test]
fn entries_that_were_never_linked_go_too() {
    let world = World::new(&[]);
    world.add(&["it"]).remove(Removal::Unused).unwrap();
    assert_eq!(failure(world.library.lookup("e_it")), "undefined symbols: e_it");
}

#[test]
fn entries_in_use_stay_and_work_unless_their_users_go_too() {
    let world = World::new(&[c("-O1 -fPIC", "long it(void) { return 3; }")]);
    let entries = world.add(&["it"]);
    let user = c("-O1 -fPIC", "long e_it(void); long user(void) { return e_it() + 1; }");
    let user = world.library.add_object("user.o", user).unwrap();
    world.library.lookup("user").unwrap();
    assert_eq!(failure(entries.remove(Removal::Unused)), "lazy entries, batch 1 is used by user.o");
    assert_eq!(value(&world.library, "user"), 4);
    user.remove(Removal::Unused).unwrap();
}

#[test]
fn a_destructor_of_a_user_that_goes_too_can_still_call_an_entry_first() {
    let source = "void trace(int); void last(void) { trace(5); }";
    let world = World::new(&[c("-O1 -fPIC", source)]);
    support::define_trace(&world.implementations);
    let entries = world.add(&["last"]);
    let user = "void e_last(void); __attribute__((destructor)) static void end(void) { e_last(); }
                __attribute__((constructor)) static void begin(void) { }";
    let _user = world.library.add_object("user.o", c("-O1 -fPIC", user)).unwrap();
    support::initialize(&world.library);
    support::traced();
    entries.remove(Removal::WithUsers).unwrap();
    assert_eq!(support::traced(), "5 ");
}

/// A listener that blocks calls until it is opened.
#[derive(Default)]
struct Gate {
    called: AtomicBool,
    open: AtomicBool,
}

impl Gate {
    fn wait_for(flag: &AtomicBool) {
        while !flag.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

impl Listener for Gate {
    fn reexport_called(&self, _name: &str) {
        self.called.store(true, Ordering::Release);
        Self::wait_for(&self.open);
    }
}

#[test]
fn a_call_that_waits_for_its_implementation_goes_on_there_when_the_entries_are_gone() {
    let gate = Arc::new(Gate::default());
    let listener: Arc<dyn Listener> = Arc::clone(&gate) as _;
    let symbols = LinkedRedirectables::new(ThisProcess);
    let lazy = LazyReexports::new(LinkedTrampolines::new(), symbols, Some(listener)).unwrap();
    let object = c("-O1 -fPIC", "long it(void) { return 3; }");
    let world = World::with(session(), lazy, &[object]);
    let entries = world.add(&["it"]);
    let entry = world.library.lookup("e_it").unwrap();
    std::thread::scope(|scope| {
        let call = scope.spawn(move || support::call(entry));
        Gate::wait_for(&gate.called);
        entries.remove(Removal::Unused).unwrap();
        // The call must work whether or not the memory is reused.
        let filling = (0..64).map(|index| Reexport::new(format!("f{index}"), "it"));
        let _filling = world.try_add(filling).unwrap();
        world.library.lookup("f0").unwrap();
        gate.open.store(true, Ordering::Release);
        // The call may have continued before or after the removal of the batch: it held the batch.
        assert_eq!(call.join().unwrap(), 3);
    });
}

#[test]
fn a_thousand_rounds_of_entries_leave_nothing_behind() {
    let world = World::new(&[c("-O1 -fPIC", "long it(void) { return 3; }")]);
    world.implementations.add_generator(|_: &[Request<'_>]| Ok(Vec::<Generated>::new()));
    let mut addresses = std::collections::HashSet::new();
    for _ in 0..1000 {
        let entries = world.add(&["it"]);
        addresses.insert(world.library.lookup("e_it").unwrap());
        assert_eq!(value(&world.library, "e_it"), 3);
        entries.remove(Removal::Unused).unwrap();
    }
    assert!(addresses.len() < 100, "{} places", addresses.len());
}

#[test]
fn a_session_goes_with_the_last_handle_of_it_and_of_its_entries() {
    /// A generator that lives as long as the session.
    struct Witness(Arc<AtomicBool>);
    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let world = World::new(&[c("-O1 -fPIC", "long it(void) { return 3; }")]);
    let gone = Arc::new(AtomicBool::new(false));
    let witness = Witness(Arc::clone(&gone));
    world.library.add_generator(move |_: &[Request<'_>]| {
        assert!(!witness.0.load(Ordering::Relaxed));
        Ok(Vec::<Generated>::new())
    });
    let entries = world.add(&["it"]);
    let member = c("-O1 -fPIC", "long lazily(void) { return 4; }");
    let file = world.lazy.add_lazily(&world.library, "it.o", member).unwrap();
    assert_eq!(value(&world.library, "e_it") + value(&world.library, "lazily"), 7);
    let World { session, library, implementations, lazy } = world;
    drop((session, library, implementations, entries, file));
    assert!(!gone.load(Ordering::Relaxed));
    drop(lazy);
    assert!(gone.load(Ordering::Relaxed));
}
