//! Constructors of objects linked on first calls.

use std::sync::Arc;
use std::time::Duration;

use longshore_orc_rt::reentry::{self, ReentryCall};
use parking_lot::{Condvar, Mutex};

use super::source::Source;
use crate::session::{Library, MainArguments};
use crate::{Error, Result};

/// The library with the definitions of an addition, and the state of its constructors.
pub(super) struct Addition {
    pub(super) implementations: Library,
    pub(super) sources: Box<[Arc<dyn Source>]>,
    constructors: Mutex<Option<Constructors>>,
    /// Whether the library has the objects that are linked without a request.
    has_initial: Mutex<bool>,
}

#[derive(Clone, Copy)]
struct Constructors {
    arguments: MainArguments,
    /// Number of objects that the session had linked when constructors were last collected.
    seen: usize,
}

// SAFETY: the pointers are only passed on to constructors; the caller that gave them vouches for
// them.
unsafe impl Send for Constructors {}

/// The lock under which constructors run: one thread at a time, for all libraries, as for libraries
/// that are opened. A constructor may call entries, which reenters the lock. The owner is
/// identified by a [number](reentry::lock_owner).
#[derive(Default)]
pub(super) struct InitializerLock {
    taken: Mutex<LockState>,
    free: Condvar,
}

#[derive(Default)]
struct LockState {
    by: u64,
    /// Number of times that the owner holds the lock; 0 if it is free.
    times: u32,
}

/// A hold of the initializer lock, released on drop.
pub(super) struct InitializerGuard<'a> {
    initializer_lock: &'a InitializerLock,
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

    /// Lets the source that defines a name do its long work before a look-up of the name.
    pub(super) fn prepare(&self, name: &str) -> Result<()> {
        for source in &self.sources {
            if source.defined(name)?.is_some() {
                return source.prepare(name);
            }
        }
        Ok(())
    }

    /// Returns whether the addition runs constructors.
    pub(super) fn constructs(&self) -> bool {
        self.constructors.lock().is_some()
    }

    /// Links the objects that have constructors, although nothing refers to them.
    pub(super) fn link_constructors(&self) -> Result<()> {
        self.add_initial_objects()?;
        self.implementations.link_constructors()
    }

    /// Links the objects that have constructors together with the objects that define a name and
    /// further names. Returns the address of the name.
    pub(super) fn link_with_constructors(&self, name: &str, also: &[&str]) -> Result<u64> {
        self.add_initial_objects()?;
        self.implementations.link_own_program(name, also)
    }

    /// Enables constructors from now on, with these arguments.
    ///
    /// # Safety
    /// The same as for [`Library::initialize`], for all code that is linked later too.
    pub(super) unsafe fn construct_with(&self, arguments: MainArguments) {
        *self.constructors.lock() = Some(Constructors { arguments, seen: usize::MAX });
    }

    /// Returns the constructors of objects linked since the last call, and their arguments; `None`
    /// without new constructors. The caller must hold the initializer lock until they have run.
    pub(super) fn take_constructors(&self) -> Option<(Vec<u64>, MainArguments)> {
        let linked = self.implementations.objects_linked();
        let mut constructors = self.constructors.lock();
        let constructors =
            constructors.as_mut().filter(|constructors| constructors.seen != linked)?;
        constructors.seen = linked;
        let functions = self.implementations.new_constructors();
        (!functions.is_empty()).then_some((functions, constructors.arguments))
    }

    /// Runs the new constructors now.
    pub(super) fn construct(&self, guard: &InitializerGuard<'_>) -> Result<()> {
        let Some((functions, arguments)) = self.take_constructors() else { return Ok(()) };
        // SAFETY: promised by the caller that enabled constructors.
        unsafe { self.implementations.run_as_lock_owner(guard.number, functions, arguments) }
    }

    /// Adds the objects that are linked without a request, the first time.
    fn add_initial_objects(&self) -> Result<()> {
        let mut has_initial = self.has_initial.lock();
        if *has_initial {
            return Ok(());
        }
        for source in &self.sources {
            for (name, bytes) in source.initial_objects()? {
                match self.implementations.add_object(&name, bytes) {
                    // The object is there already, because a reference needed it.
                    Err(Error::Duplicate { first, second, .. }) if first == second => {}
                    added => drop(added?),
                }
            }
        }
        *has_initial = true;
        Ok(())
    }
}

/// The interval at which a thread that waits for the lock checks that the owner's process lives.
const LOOKS: Duration = Duration::from_secs(1);

impl InitializerLock {
    /// Waits for the lock, and takes it for a thread that executes the library's code. A thread
    /// that already holds the lock takes it again without waiting.
    ///
    /// # Errors
    /// An error if the executing process is gone, since its thread may never release the lock.
    pub(super) fn take(&self, number: u64, library: &Library) -> Result<InitializerGuard<'_>> {
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
        Ok(InitializerGuard { initializer_lock: self, number })
    }

    /// Takes the lock as [`Self::take`] does, for a call whose constructors run from here: on this
    /// thread, if this process executes the library's code.
    pub(super) fn take_for(
        &self,
        call: ReentryCall,
        library: &Library,
    ) -> Result<InitializerGuard<'_>> {
        let number =
            if library.is_executed_here() { reentry::lock_owner() } else { call.lock_owner };
        self.take(number, library)
    }

    /// Takes the lock as [`Self::take`] does, for this thread's own work on the library, which is
    /// not a call from its code.
    pub(super) fn take_here(&self, library: &Library) -> Result<InitializerGuard<'_>> {
        /// A bit that distinguishes threads of this process from threads of the executing one.
        const CONTROLLER: u64 = 1 << 63;
        let of_other = if library.is_executed_here() { 0 } else { CONTROLLER };
        self.take(reentry::lock_owner() | of_other, library)
    }

    /// Returns a hold that was [kept](InitializerGuard::keep); `None` if the lock is free or owned
    /// by another thread.
    pub(super) fn resume(&self, number: u64) -> Option<InitializerGuard<'_>> {
        let taken = self.taken.lock();
        (taken.times > 0 && taken.by == number)
            .then_some(InitializerGuard { initializer_lock: self, number })
    }
}

impl InitializerGuard<'_> {
    /// Returns whether this is the outermost hold.
    pub(super) fn is_whole(&self) -> bool {
        self.initializer_lock.taken.lock().times == 1
    }

    /// Keeps the lock taken until [`InitializerLock::resume`].
    pub(super) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for InitializerGuard<'_> {
    fn drop(&mut self) {
        self.initializer_lock.taken.lock().times -= 1;
        self.initializer_lock.free.notify_one();
    }
}
