//! Thread-local storage of linked objects.

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::services;
use crate::static_tls::module_and_offset;
use crate::{Error, Result, StaticTls, StaticTlsBlock, TlsModule};

services! {
    /// Makes storage for objects: for all of them or, if that fails, for none. An error comes with the index of the one that it is
    /// about.
    CREATE_THREAD_LOCALS = "__longshore_create_thread_locals",
        fn(Vec<NewThreadLocals>) -> Result<Vec<ThreadLocals>, (u64, Error)>, create;
    /// Gives static storage its content, each by its number, in threads that start from now on, in the one that makes the
    /// call and in those that are [attached](crate::static_tls::attach_thread).
    INITIALISE_THREAD_LOCALS = "__longshore_initialise_thread_locals",
        fn(Vec<(u64, ByteBuf)>) -> Result<()>, initialise;
}

/// The thread-local variables of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewThreadLocals {
    /// The address of their initial content, which is there until the storage is released. Static storage does not look at it.
    pub template: u64,
    /// Bytes of content.
    pub content_size: u64,
    /// Bytes of all, with the zeroes after the content.
    pub size: u64,
    /// A power of two.
    pub alignment: u64,
    /// The address of the [`StaticTls`] from which they get a fixed offset from the thread pointer. Otherwise each thread gets its
    /// block when it first uses it.
    pub reserve: Option<u64>,
}

/// Where thread-local variables are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadLocals {
    /// What the other services know them by.
    pub number: u64,
    /// The first word of a general-dynamic pair.
    pub module: u64,
    /// What is added to a variable's offset in the second word of a pair.
    pub module_offset: u64,
    /// Where they begin, if that is the same in every thread.
    pub from_thread_pointer: Option<i64>,
}

static LIVE: Mutex<Live> = Mutex::new(Live { storage: Vec::new(), unused: Vec::new() });

/// The storage that services have made and that was not released. Its number is its place here.
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
/// Reserves must be addresses of reserves, and templates what [`TlsModule::new`] wants.
unsafe fn create(wanted: Vec<NewThreadLocals>) -> Result<Vec<ThreadLocals>, (u64, Error)> {
    let made = wanted.into_iter().zip(0..).map(|(wanted, index)| {
        // SAFETY: promised by the caller.
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
    // SAFETY: promised by the caller; reserves live as long as their code is loaded.
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

/// Frees storage, of all threads.
pub(super) fn release(numbers: &[u64]) {
    let released: Vec<Storage> = {
        let mut live = LIVE.lock();
        numbers.iter().filter_map(|number| live.remove(*number)).collect()
    };
    drop(released);
}

/// Whether an address, which a thread has used that has this thread pointer, is in the storage of any thread.
pub(super) fn contains(number: u64, address: u64, thread_pointer: u64) -> bool {
    match LIVE.lock().get(number) {
        Some(Storage::Dynamic(module)) => module.contains(address),
        Some(Storage::Static(block)) => block.contains(address, thread_pointer),
        None => false,
    }
}
