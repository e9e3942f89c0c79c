//! Constructors of what is linked at first calls.

use std::cell::Cell;
use std::sync::Arc;

use parking_lot::{Mutex, ReentrantMutex};

use super::source::Source;
use crate::Result;
use crate::session::{Library, MainArguments};

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

/// Whose turn it is to run constructors: one thread's at a time, whatever they are of, as for libraries that are opened. A constructor
/// may call entries, which is the same turn.
#[derive(Default)]
pub(super) struct Turns(ReentrantMutex<Cell<u32>>);

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

    /// Runs the constructors that have not run, now and whenever [`Self::construct`] is called.
    ///
    /// # Safety
    /// As for [`Library::initialize`], for all that is linked later too.
    pub(super) unsafe fn initialize(&self, turns: &Turns, arguments: MainArguments) -> Result<()> {
        self.add_initial_objects()?;
        turns.take(|_| {
            *self.constructors.lock() = Some(Constructors { arguments, seen: usize::MAX });
            self.construct()
        })
    }

    /// Adds what is to be linked though nothing asks for it, the first time.
    pub(super) fn add_initial_objects(&self) -> Result<()> {
        let mut has_initial = self.has_initial.lock();
        if *has_initial {
            return Ok(());
        }
        let mut objects = Vec::new();
        for source in &self.sources {
            objects.extend(source.initial_objects()?);
        }
        self.implementations.add_objects(objects)?;
        *has_initial = true;
        Ok(())
    }

    /// Runs the constructors of what has been linked since they were run. To be called in a turn.
    pub(super) fn construct(&self) -> Result<()> {
        let linked = self.implementations.objects_linked();
        let arguments = match &mut *self.constructors.lock() {
            Some(constructors) if constructors.seen != linked => {
                constructors.seen = linked;
                constructors.arguments
            }
            _ => return Ok(()),
        };
        // SAFETY: promised by who had constructors run.
        unsafe { self.implementations.initialize(arguments) }
    }
}

impl Turns {
    /// Waits for a turn, and says whether it is a new one, not part of one of this thread.
    pub(super) fn take<T>(&self, run: impl FnOnce(bool) -> T) -> T {
        let depth = self.0.lock();
        let before = depth.replace(depth.get() + 1);
        let result = run(before == 0);
        depth.set(before);
        result
    }
}
