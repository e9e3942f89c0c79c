//! Entries of code that another side executes: the tests replace the parts as for another process,
//! though it is this one. Re-entry and writes are messages to and from a thread that acts as the
//! controller.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use longshore_jitlink::Error;
use longshore_jitlink::graph::LinkGraph;
use longshore_jitlink::lazy::{
    LazyReexports, LinkCalls, LinkedRedirectables, LinkedTrampolines, PointerWriter,
    TrampolineBatch, TrampolineEmitter, Trampolines,
};
use longshore_orc_rt::reentry::{Hook, ReentryCall, TrampolineHeader, reenter_function};

use super::World;
use crate::in_process::support::{c, session, value_of};

const CONTEXT: u64 = 0xc0de;

/// A call that needs its target, with the channel for the reply.
type Message = (u64, ReentryCall, Sender<u64>);

static CONTROLLER: OnceLock<Mutex<Sender<Message>>> = OnceLock::new();

/// Sends a call to the controller, and waits for its target.
///
/// # Safety
/// The same as for [`Hook`].
unsafe extern "C" fn hook(header: *const TrampolineHeader, trampoline: u64) -> u64 {
    // SAFETY: the trampoline's code passes its header.
    let header = unsafe { header.read() };
    let (sender, answer) = channel();
    let message = (header.context, header.call_of(trampoline), sender);
    CONTROLLER.get().unwrap().lock().unwrap().send(message).unwrap();
    answer.recv().unwrap()
}

/// A writer that records its writes.
#[derive(Default)]
struct Writes {
    seen: Arc<Mutex<Vec<(u64, u64)>>>,
    /// Whether the next write gets lost.
    fails: Arc<AtomicBool>,
}

impl PointerWriter for Writes {
    fn write(&self, address: u64, value: u64) -> Result<(), Error> {
        if self.fails.swap(false, Ordering::Relaxed) {
            let problem = "the message was lost".to_owned();
            return Err(Error::Memory { name: "a slot".to_owned(), problem });
        }
        self.seen.lock().unwrap().push((address, value));
        // SAFETY: the address is a slot of code that was linked for this process.
        unsafe { AtomicU64::from_ptr(address as *mut u64) }.store(value, Ordering::Release);
        Ok(())
    }
}

/// An emitter of trampolines whose calls arrive as messages.
struct ByMessages {
    linked: LinkedTrampolines,
    calls: Arc<OnceLock<Weak<dyn LinkCalls>>>,
}

impl TrampolineEmitter for ByMessages {
    fn connect(&mut self, calls: Weak<dyn LinkCalls>) -> Result<(), Error> {
        self.calls.set(calls).map_err(|_| unreachable!("it is connected once"))
    }

    fn emit(&self, graph: &mut LinkGraph, batch: TrampolineBatch) -> Trampolines {
        self.linked.emit(graph, batch)
    }
}

#[test]
fn re_entry_and_redirection_work_alike_by_messages_and_in_process() {
    let writes = Writes::default();
    let (seen, fails) = (Arc::clone(&writes.seen), Arc::clone(&writes.fails));
    let hook: Hook = hook;
    let linked = LinkedTrampolines::with_hook(reenter_function(), hook as usize as u64, CONTEXT);
    let connected = Arc::new(OnceLock::new());
    let trampolines = ByMessages { linked, calls: Arc::clone(&connected) };
    let lazy = LazyReexports::new(trampolines, LinkedRedirectables::new(writes), None).unwrap();
    let reenter =
        |call| connected.get().unwrap().upgrade().unwrap().link_call(call).unwrap().target;
    let object =
        c("-O1 -fPIC", "long twice(long n) { return 2 * n; } long half(long n) { return n / 2; }");
    let world = World::with(session(), lazy, &[object]);
    let _entries = world.add(&["twice", "half"]);
    let (sender, calls) = channel::<Message>();
    CONTROLLER.set(Mutex::new(sender)).unwrap();
    let mut asked = Vec::new();
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            // The first write is lost, so the second call comes to the controller too.
            fails.store(true, Ordering::Relaxed);
            let results = [21, 22, 23].map(|n| value_of(&world.library, "e_twice", n));
            (results, value_of(&world.library, "e_half", 8))
        });
        for _ in 0..3 {
            let (context, call, answer) = calls.recv().unwrap();
            assert_eq!(context, CONTEXT);
            asked.push((call.index, call.slot));
            answer.send(reenter(call)).unwrap();
        }
        assert_eq!(caller.join().unwrap(), ([42, 44, 46], 4));
    });
    let slot = asked[0].1;
    assert_eq!(asked, [(0, slot), (0, slot), (1, slot + 8)]);
    let [twice, half] = ["twice", "half"].map(|name| world.implementations.lookup(name).unwrap());
    assert_eq!(*seen.lock().unwrap(), [(slot, twice), (slot + 8, half)]);
}
