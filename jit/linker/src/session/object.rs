//! Objects of a library: addition and removal.

use std::sync::Arc;

use super::entry::{LibraryId, ObjectId};
use super::object_state::{GraphSource, Linked, Phase, Source};
use super::state::State;
use super::{Library, Shared};
use crate::elf::ElfObject;
use crate::error::for_message;
use crate::graph::LinkGraph;
use crate::{Architecture, Error, Result};
use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use longshore_orc_rt::service::Released;

/// An object of a library (ORC's `ResourceTracker`). Dropping the handle leaves the object where it
/// is.
#[must_use = "without it the object cannot be removed before its session ends"]
pub struct Object {
    pub(super) session: Arc<Shared>,
    pub(super) id: ObjectId,
    /// Generation of the index; a later object with the same index has another one.
    pub(super) generation: u32,
}

/// The treatment of the users of a removed object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// A removal that fails if the object has users.
    Unused,
    /// A removal together with all direct and indirect users.
    WithUsers,
}

impl Object {
    /// Returns the name with which the object was added.
    pub fn name(&self) -> String {
        self.session.state.lock().object(self.id).name.to_string()
    }

    /// Removes the object's symbols, memory, frames and destructors, and nothing else. Destructors
    /// and exit handlers that it has registered run first, if its constructors have run. None of
    /// its code may be running. Blocks until the memory is given back. An object that was already
    /// removed with another one is not an error.
    ///
    /// # Errors
    /// [`Error::InUse`] if other objects use it and `removal` is [`Removal::Unused`]; nothing has
    /// changed then.
    ///
    /// [`Error::Action`] for a failed action, and the errors of a
    /// [process](crate::process::TargetProcess). The object is removed all the same. But its memory
    /// stays in a process that lives and has not completed the earlier steps, since its code may
    /// still be called there.
    pub fn remove(self, removal: Removal) -> Result<()> {
        self.session.remove(&self, removal)
    }
}

impl Shared {
    /// Adds an ELF object and its definitions to a library. Returns its index and its generation.
    pub(super) fn add_elf(
        &self,
        state: &mut State,
        library: LibraryId,
        name: &str,
        bytes: Bytes,
    ) -> Result<(ObjectId, u32)> {
        let object = ElfObject::read(name, bytes)?;
        self.check_room(state, name, object.architecture())?;
        let id = state.new_object(Arc::clone(object.name()), library, Source::Elf(object.clone()));
        let defined = state.define_object(id, object.view());
        state.keep_if(id, defined)
    }

    /// Adds a graph made by hand, and its definitions, to a library.
    pub(super) fn add_made(
        &self,
        state: &mut State,
        library: LibraryId,
        make: impl Fn() -> LinkGraph + Send + Sync + 'static,
    ) -> Result<(ObjectId, u32)> {
        let graph = make();
        self.check_room(state, graph.name(), graph.architecture())?;
        check_names(&graph)?;
        let source = Source::Made(GraphSource::new(&graph, make));
        let id = state.new_object(Arc::clone(graph.name()), library, source);
        let defined = state.define_symbols_of_graph(id, &graph);
        state.keep_if(id, defined)
    }

    /// Checks whether an object of this architecture can be added.
    fn check_room(&self, state: &State, name: &str, architecture: Architecture) -> Result<()> {
        let problem = if architecture != self.architecture {
            format!("it is for {architecture:?}, the session links for {:?}", self.architecture)
        } else if state.is_full() {
            "the session has as many objects as it can".to_owned()
        } else {
            return Ok(());
        };
        Err(Error::Unsupported { file: name.to_owned(), problem })
    }

    fn remove(&self, object: &Object, removal: Removal) -> Result<()> {
        let mut state = self.state.lock();
        let known = state.object(object.id);
        if known.generation != object.generation || matches!(known.phase, Phase::Removed) {
            return Ok(());
        }
        let order = state.with_users(object.id);
        if removal == Removal::Unused && order.len() > 1 {
            let users =
                order[1..].iter().map(|user| state.object(*user).name.to_string()).collect();
            return Err(Error::InUse { object: known.name.to_string(), users });
        }
        // From here on no look-up finds the objects. Users go first.
        let (mut leaving, mut ends) = (Vec::new(), Vec::new());
        let mut libraries = Vec::new();
        for id in order.into_iter().rev() {
            ends.extend(state.end_of(id));
            let forgotten = state.forget_object(id);
            libraries.push(forgotten.library);
            if let Phase::Linked(linked) = forgotten.phase {
                leaving.push(*linked);
            }
        }
        state.reclaim(libraries);
        leaving.extend(state.forget_unused_copies());
        drop(state);
        // Destructors may call each other and look symbols up, so all objects still have their
        // memory, and the session is not locked.
        let ended = match &self.runtime {
            Some(runtime) if !ends.is_empty() => runtime.end_objects(ends),
            _ => Ok(()),
        };
        unless_alive(&ended)?;
        ended.and(self.give_back(leaving, Released::default()))
    }

    /// Gives back the resources of linked objects in the process, together with the ones in
    /// `released`. Memory comes last: if an earlier step fails in a process that lives, the memory
    /// stays, since its code may still be called.
    pub(super) fn give_back(&self, objects: Vec<Linked>, mut released: Released) -> Result<()> {
        let mut allocations = Vec::with_capacity(objects.len());
        for linked in objects {
            drop(linked.debug);
            released.thread_locals.extend(linked.tls.and_then(|tls| tls.number));
            released.dso_handles.extend(linked.dso_handle);
            released.code_libraries.extend(linked.code_library);
            allocations.push(linked.allocation);
        }
        released.code_libraries.dedup();
        let released = self.runtime.as_ref().map_or(Ok(()), |runtime| runtime.release(released));
        unless_alive(&released)?;
        if allocations.is_empty() {
            return released;
        }
        released.and(crate::wait(self.memory.deallocate(allocations)))
    }
}

/// Returns the error of a process that lives. For a dead process, the session continues to release
/// its own resources.
fn unless_alive(result: &Result<()>) -> Result<()> {
    match result {
        Ok(()) | Err(Error::ProcessGone { .. }) => Ok(()),
        Err(error) => Err(error.clone()),
    }
}

impl State {
    /// Removes the objects that are not linked.
    pub(super) fn forget_pending(&mut self, objects: Vec<ObjectId>) {
        let is_pending = |id: &ObjectId| matches!(self.object(*id).phase, Phase::Pending(_));
        let pending: Vec<ObjectId> = objects.into_iter().filter(is_pending).collect();
        let libraries = pending.into_iter().map(|id| self.forget_object(id).library).collect();
        self.reclaim(libraries);
    }

    /// Gives the unowned definitions and groups of these libraries to pending objects that lost
    /// them earlier, in the order in which the objects were added.
    pub(super) fn reclaim(&mut self, mut libraries: Vec<LibraryId>) {
        libraries.sort_unstable();
        libraries.dedup();
        for library in libraries {
            let mut gave_way: Vec<(u64, ObjectId)> = self
                .objects_of(library)
                .filter(|(_, object)| matches!(object.phase, Phase::Pending(_)))
                .filter(|(_, object)| !object.lost.is_empty() || !object.lost_groups.is_empty())
                .map(|(id, object)| (object.serial, id))
                .collect();
            gave_way.sort_unstable();
            for (_, id) in gave_way {
                if let Err(error) = self.reclaim_for(id) {
                    log::warn!("reclaiming released names: {error}");
                }
            }
        }
    }

    /// Returns an object that was added; after a failure, removes it and leaves everything as
    /// before.
    fn keep_if(&mut self, id: ObjectId, added: Result<()>) -> Result<(ObjectId, u32)> {
        match added {
            Ok(()) => Ok((id, self.object(id).generation)),
            Err(error) => {
                self.forget_object(id);
                Err(error)
            }
        }
    }

    /// Returns an object and its direct and indirect users, in the order in which they are found.
    fn with_users(&self, object: ObjectId) -> Vec<ObjectId> {
        let mut users: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
        for (id, linked) in self.linked() {
            linked.uses.iter().for_each(|used| users.entry(*used).or_default().push(id));
        }
        let mut found = vec![object];
        let mut known: HashSet<ObjectId> = HashSet::from_iter([object]);
        let mut next = 0;
        while let Some(used) = found.get(next) {
            let users = users.get(used).into_iter().flatten().copied();
            found.extend(users.filter(|user| known.insert(*user)));
            next += 1;
        }
        found
    }
}

/// Refuses a graph with names that a symbol table cannot store.
fn check_names(graph: &LinkGraph) -> Result<()> {
    let Some(symbol) = graph.symbols().find(|symbol| symbol.name.contains(&0)) else {
        return Ok(());
    };
    let problem = format!(
        "the name of symbol {:?} has a zero in it, expected a name without one",
        for_message(symbol.name)
    );
    Err(Error::Malformed { file: graph.name().to_string(), problem })
}

impl Library {
    /// Adds objects, by their names and bytes: all of them, or none.
    pub(crate) fn add_objects(&self, objects: Vec<(String, Bytes)>) -> Result<Vec<Object>> {
        let mut state = self.session.state.lock();
        let mut added: Vec<(ObjectId, u32)> = Vec::with_capacity(objects.len());
        for (name, bytes) in objects {
            match self.session.add_elf(&mut state, self.id, &name, bytes) {
                Ok(object) => added.push(object),
                Err(error) => {
                    state.forget_pending(added.into_iter().map(|(id, _)| id).collect());
                    return Err(error);
                }
            }
        }
        Ok(added.into_iter().map(|object| self.session.handle(object)).collect())
    }

    /// Returns the library's name.
    pub fn name(&self) -> Arc<str> {
        Arc::clone(&self.session.state.lock().library(self.id).name)
    }
}
