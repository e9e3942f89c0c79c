//! Constructors of what is linked at first calls.

use std::sync::Arc;
use std::time::Duration;

use longshore_orc_rt::reentry::{self, ReentryCall};
use parking_lot::{Condvar, Mutex};

use super::source::Source;
use crate::session::{Library, MainArguments};
use crate::{Error, Result};

/// The library with the definitions of an addition, and whether its constructors are run as it is linked.
pub(super) struct Addition {
    pub(super) implementations: Library,
    pub(super) sources: Box<[Arc<dyn Source>]>,
    constructors: Mutex<Option<Constructors>>,
    /// Whether the library has the objects that are linked without being asked for.
    has_initial: Mutex<bool>,
}

#[derive(Clone, Copy)]
struct Constructors {
    arguments: MainArguments,
    /// How many objects the session had linked when these were looked for.
    seen: usize,
}

// SAFETY: the pointers are passed on to constructors, which who gave them vouched for.
unsafe impl Send for Constructors {}

/// Whose turn it is to run constructors: one at a time, whatever they are of, as for libraries that are opened. A constructor may call
/// entries, which is the same turn: whoever calls is known by a [number](reentry::turn).
#[derive(Default)]
pub(super) struct Turns {
    taken: Mutex<Taken>,
    free: Condvar,
}

#[derive(Default)]
struct Taken {
    by: u64,
    /// How often: 0 if it is nobody's turn.
    times: u32,
}

/// A turn, or a part of one, which ends when this is dropped.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Addition {
    pub(super) fn new(implementations: Library, sources: Vec<Arc<dyn Source>>) -> Self {
        Self {
            implementations,
            sources: sources.into(),
            constructors: Mutex::new(None),
            has_initial: Mutex::new(false),
        }
    }

    /// Has the source that defines a name do what takes long before a look-up of it.
    pub(super) fn prepare(&self, name: &str) -> Result<()> {
        for source in &self.sources {
            if source.defined(name)?.is_some() {
                return source.prepare(name);
            }
        }
        Ok(())
    }

    /// Whether constructors are to be run.
    pub(super) fn constructs(&self) -> bool {
        self.constructors.lock().is_some()
    }

    /// Links what has constructors, though nothing asks for it.
    pub(super) fn link_constructors(&self) -> Result<()> {
        self.add_initial_objects()?;
        self.implementations.link_constructors()
    }

    /// Links what has constructors together with what defines a name, whose address it says, and other names.
    pub(super) fn link_with_constructors(&self, name: &str, also: &[&str]) -> Result<u64> {
        self.add_initial_objects()?;
        self.implementations.link_own_program(name, also)
    }

    /// Has constructors run from now on, with these arguments.
    ///
    /// # Safety
    /// As for [`Library::initialize`], for all that is linked later too.
    pub(super) unsafe fn construct_with(&self, arguments: MainArguments) {
        *self.constructors.lock() = Some(Constructors { arguments, seen: usize::MAX });
    }

    /// The constructors of what has been linked since they were last asked for, and what they are called with; nothing if there are none.
    /// To be called in a turn, which ends when they have run.
    pub(super) fn take_constructors(&self) -> Option<(Vec<u64>, MainArguments)> {
        let linked = self.implementations.objects_linked();
        let mut constructors = self.constructors.lock();
        let constructors =
            constructors.as_mut().filter(|constructors| constructors.seen != linked)?;
        constructors.seen = linked;
        let functions = self.implementations.new_constructors();
        (!functions.is_empty()).then_some((functions, constructors.arguments))
    }

    /// Runs these constructors now.
    pub(super) fn construct(&self, turn: &Turn<'_>) -> Result<()> {
        let Some((functions, arguments)) = self.take_constructors() else { return Ok(()) };
        // SAFETY: promised by who had constructors run.
        unsafe { self.implementations.run_in_turn(turn.number, functions, arguments) }
    }

    /// Adds what is to be linked though nothing asks for it, the first time.
    fn add_initial_objects(&self) -> Result<()> {
        let mut has_initial = self.has_initial.lock();
        if *has_initial {
            return Ok(());
        }
        for source in &self.sources {
            for (name, bytes) in source.initial_objects()? {
                match self.implementations.add_object(&name, bytes) {
                    // It is there already, as something has asked for it.
                    Err(Error::Duplicate { first, second, .. }) if first == second => {}
                    added => drop(added?),
                }
            }
        }
        *has_initial = true;
        Ok(())
    }
}

/// How often who waits for a turn looks whether the process lives that has it.
const LOOKS: Duration = Duration::from_secs(1);

impl Turns {
    /// Waits for the turn of a thread that executes the library's code, or for a part of it if it has it.
    ///
    /// # Errors
    /// If the process that executes it is gone: the turn may be one that does not end any more.
    pub(super) fn take(&self, number: u64, library: &Library) -> Result<Turn<'_>> {
        let mut taken = self.taken.lock();
        while taken.times > 0 && taken.by != number {
            if self.free.wait_for(&mut taken, LOOKS).timed_out() && !library.is_executed_here() {
                drop(taken);
                library.reach_process()?;
                taken = self.taken.lock();
            }
        }
        taken.by = number;
        taken.times += 1;
        Ok(Turn { turns: self, number })
    }

    /// The same for a call whose constructors are run from here: by this thread, if that executes the library's code.
    pub(super) fn take_for(&self, call: ReentryCall, library: &Library) -> Result<Turn<'_>> {
        let number = if library.is_executed_here() { reentry::turn() } else { call.turn };
        self.take(number, library)
    }

    /// The same for what this thread has to do with the library, which is not called by its code.
    pub(super) fn take_here(&self, library: &Library) -> Result<Turn<'_>> {
        /// Tells threads of this process from those of another.
        const CONTROLLER: u64 = 1 << 63;
        let of_other = if library.is_executed_here() { 0 } else { CONTROLLER };
        self.take(reentry::turn() | of_other, library)
    }

    /// The part of a turn that was [kept](Turn::keep); nothing if it is another's.
    pub(super) fn resume(&self, number: u64) -> Option<Turn<'_>> {
        let taken = self.taken.lock();
        (taken.times > 0 && taken.by == number).then_some(Turn { turns: self, number })
    }
}

impl Turn<'_> {
    /// Whether this is not a part of a turn.
    pub(super) fn is_whole(&self) -> bool {
        self.turns.taken.lock().times == 1
    }

    /// Leaves it taken, until it is [resumed](Turns::resume).
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.taken.lock().times -= 1;
        self.turns.free.notify_one();
    }
}
