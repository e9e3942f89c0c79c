//! Thread-local storage of linked objects.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::services;
use crate::static_tls::module_and_offset;
use crate::{Error, Result, StaticTls, StaticTlsBlock, TlsModule};

services! {
    /// The service that creates storage for objects: for all of them or, after a failure, for none.
    /// An error has the index of its object.
    CREATE_THREAD_LOCALS = "__longshore_create_thread_locals",
        fn(Vec<NewThreadLocals>) -> Result<Vec<ThreadLocals>, (u64, Error)>, create;
    /// The service that sets the contents of static storage, by number. The contents apply to
    /// threads that start from now on, to the calling thread, and to
    /// [attached](crate::static_tls::attach_thread) threads.
    INITIALISE_THREAD_LOCALS = "__longshore_initialise_thread_locals",
        fn(Vec<(u64, ByteBuf)>) -> Result<()>, initialise;
}

/// The thread-local variables of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewThreadLocals {
    /// The address of the initial contents, which must be valid until the storage is released.
    /// Static storage does not use it.
    pub template: u64,
    /// Size of the contents in bytes.
    pub content_size: u64,
    /// Total size in bytes, including the zeroes after the contents.
    pub size: u64,
    /// Alignment in bytes, a power of two.
    pub alignment: u64,
    /// The address of the [`StaticTls`] that gives the variables a fixed offset from the thread
    /// pointer. Without one, each thread gets its block at its first use.
    pub reserve: Option<u64>,
}

/// The location of thread-local variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadLocals {
    /// The number of the storage, for the other services.
    pub number: u64,
    /// The first word of a general-dynamic pair.
    pub module: u64,
    /// The number added to a variable's offset in the second word of a pair.
    pub module_offset: u64,
    /// The offset of the variables' start from the thread pointer, if it is the same in every
    /// thread.
    pub from_thread_pointer: Option<i64>,
}

static LIVE: Mutex<Live> = Mutex::new(Live { storage: Vec::new(), unused: Vec::new() });

/// The storage created by services and not yet released. Its number is its index here.
struct Live {
    storage: Vec<Option<Storage>>,
    unused: Vec<u64>,
}

impl Live {
    fn insert(&mut self, storage: Storage) -> u64 {
        if let Some(number) = self.unused.pop() {
            self.storage[number as usize] = Some(storage);
            return number;
        }
        self.storage.push(Some(storage));
        self.storage.len() as u64 - 1
    }

    fn get(&self, number: u64) -> Option<&Storage> {
        self.storage.get(usize::try_from(number).ok()?)?.as_ref()
    }

    fn remove(&mut self, number: u64) -> Option<Storage> {
        let removed = self.storage.get_mut(usize::try_from(number).ok()?)?.take();
        self.unused.extend(removed.is_some().then_some(number));
        removed
    }
}

enum Storage {
    Dynamic(TlsModule),
    Static(StaticTlsBlock),
}

/// # Safety
/// Reserves must be addresses of reserves, and templates must meet the conditions of
/// [`TlsModule::new`].
unsafe fn create(wanted: Vec<NewThreadLocals>) -> Result<Vec<ThreadLocals>, (u64, Error)> {
    let made = wanted.into_iter().zip(0..).map(|(wanted, index)| {
        // SAFETY: guaranteed by the caller.
        unsafe { storage_for(wanted) }.map_err(|error| (index, error))
    });
    let made: Vec<(Storage, ThreadLocals)> = made.collect::<Result<_, _>>()?;
    let mut live = LIVE.lock();
    let number = |(storage, place)| ThreadLocals { number: live.insert(storage), ..place };
    Ok(made.into_iter().map(number).collect())
}

/// # Safety
/// As for [`create`].
unsafe fn storage_for(wanted: NewThreadLocals) -> Result<(Storage, ThreadLocals)> {
    let Some(reserve) = wanted.reserve else {
        let NewThreadLocals { template, content_size, size, alignment, .. } = wanted;
        let module = TlsModule::new(template, content_size, size, alignment)?;
        let place = ThreadLocals {
            number: 0,
            module: module.handle(),
            module_offset: 0,
            from_thread_pointer: None,
        };
        return Ok((Storage::Dynamic(module), place));
    };
    // SAFETY: guaranteed by the caller; reserves live as long as their code is loaded.
    let reserve: &'static StaticTls = unsafe { &*(reserve as *const StaticTls) };
    let block = reserve.allocate(wanted.size, wanted.alignment)?;
    let offset = block.offset_from_thread_pointer();
    let (module, module_offset) = module_and_offset(offset);
    let place =
        ThreadLocals { number: 0, module, module_offset, from_thread_pointer: Some(offset) };
    Ok((Storage::Static(block), place))
}

fn initialise(contents: Vec<(u64, ByteBuf)>) -> Result<()> {
    let live = LIVE.lock();
    contents.iter().try_for_each(|(number, content)| match live.get(*number) {
        Some(Storage::Static(block)) => block.initialise(content),
        _ => Ok(()),
    })
}

/// Frees storage of all threads.
pub(super) fn release(numbers: &[u64]) {
    let released: Vec<Storage> = {
        let mut live = LIVE.lock();
        numbers.iter().filter_map(|number| live.remove(*number)).collect()
    };
    drop(released);
}

/// Returns whether an address, used by the thread with this thread pointer, is in the storage of
/// any thread.
pub(super) fn contains(number: u64, address: u64, thread_pointer: u64) -> bool {
    match LIVE.lock().get(number) {
        Some(Storage::Dynamic(module)) => module.contains(address),
        Some(Storage::Static(block)) => block.contains(address, thread_pointer),
        None => false,
    }
}
