//! The plugin's objects, by number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use longshore_plugin_api::{Backend, Device as _, Error, ErrorCode, MemoryKind, Result};
use parking_lot::{Mutex, RwLock};

use super::images::ImageBuffer;
use super::records::Records;
use crate::plugin::channel::PIECE;
use crate::plugin::protocol::Id;

/// Objects of one kind. A number consists of a place and the count of its uses, so an old number
/// finds nothing.
pub(in crate::plugin) struct Table<T> {
    places: RwLock<Places<T>>,
}

struct Places<T> {
    all: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    uses: u32,
    object: Option<Arc<T>>,
}

/// An open device.
pub(in crate::plugin) struct Device<B: Backend> {
    /// Queues for work in no queue of the host, while none uses them; dropped before the device.
    own_queues: Mutex<Vec<B::Queue>>,
    /// Queues for signals to other processes; dropped before the device.
    signallers: Mutex<Vec<Signaller<B>>>,
    pub(in crate::plugin) device: B::Device,
    /// Addresses of host memory for pieces of copies, while none uses them.
    pub(super) staging: Mutex<Vec<u64>>,
    /// Addresses of host memory that is pinned because the plugin cannot import it.
    pub(super) pinned: Mutex<Vec<u64>>,
    /// Whether this process may read and write the device's memory at its addresses.
    pub(super) is_accessible: bool,
    /// Whether a channel may transfer the device's memory at its addresses.
    pub(super) is_transferable: bool,
}

/// A queue that waits for one event at a time, and whether it has no work.
struct Signaller<B: Backend> {
    queue: B::Queue,
    is_free: Arc<AtomicBool>,
}

impl<B: Backend> Device<B> {
    pub(super) fn new(device: B::Device, is_accessible: bool, is_transferable: bool) -> Self {
        let (own_queues, signallers) = (Mutex::default(), Mutex::default());
        let (staging, pinned) = (Mutex::default(), Mutex::default());
        Self { own_queues, signallers, device, staging, pinned, is_accessible, is_transferable }
    }

    /// Takes a queue for work in no queue of the host.
    ///
    /// # Errors
    /// The driver's errors.
    pub(super) fn own_queue(&self) -> Result<B::Queue> {
        let kept = self.own_queues.lock().pop();
        kept.map_or_else(|| self.device.create_queue(), Ok)
    }

    /// Takes memory of this process for a piece of a copy, page-locked for the device; `None` if
    /// the device has no such memory.
    pub(super) fn take_staging(&self) -> Option<u64> {
        let kept = self.staging.lock().pop();
        kept.or_else(|| self.device.allocate(MemoryKind::Host, PIECE as u64, 1).ok())
    }

    /// Keeps a queue whose work is done for the next [`Device::own_queue`].
    pub(super) fn keep_own(&self, queue: Arc<Queue<B>>) {
        if let Some(Queue { queue, .. }) = Arc::into_inner(queue) {
            self.own_queues.lock().push(queue);
        }
    }

    /// Calls `run` with a queue that has no work, and with its flag, which is set when it has none
    /// again.
    ///
    /// # Errors
    /// The driver's errors, and every error of `run`.
    pub(super) fn with_signaller(
        &self,
        run: impl FnOnce(&B::Queue, Arc<AtomicBool>) -> Result<()>,
    ) -> Result<()> {
        let mut signallers = self.signallers.lock();
        let mut all = signallers.iter();
        let index = all.position(|signaller| signaller.is_free.swap(false, Ordering::Acquire));
        let index = match index {
            Some(index) => index,
            None => {
                let queue = self.device.create_queue()?;
                signallers.push(Signaller { queue, is_free: Arc::default() });
                signallers.len() - 1
            }
        };
        let Signaller { queue, is_free } = &signallers[index];
        run(queue, Arc::clone(is_free)).inspect_err(|_| is_free.store(true, Ordering::Release))
    }

    /// Closes the device after its own queues and memory.
    ///
    /// # Errors
    /// The driver's errors.
    pub(super) fn close(self) -> Result<()> {
        drop((self.own_queues, self.signallers));
        for address in self.staging.into_inner() {
            if let Err(error) = self.device.free(MemoryKind::Host, address) {
                log::warn!("freeing staging memory: {error}");
            }
        }
        self.device.close()
    }
}

// An object keeps its device alive and is dropped before it: the order of the fields matters.

/// A loaded image.
pub(in crate::plugin) struct Module<B: Backend> {
    pub(in crate::plugin) module: B::Module,
    pub(super) kernels: Mutex<Vec<Id>>,
    pub(super) _image: ImageBuffer,
    pub(super) device: Arc<Device<B>>,
}

/// A kernel of a module.
pub(in crate::plugin) struct Kernel<B: Backend> {
    pub(in crate::plugin) kernel: Arc<B::Kernel>,
    pub(super) _module: Arc<Module<B>>,
}

/// A queue.
pub(in crate::plugin) struct Queue<B: Backend> {
    pub(in crate::plugin) queue: B::Queue,
    /// The first error of a posted request that was not yet reported.
    deferred: Mutex<Option<Error>>,
    #[allow(dead_code, reason = "it outlives the queue")]
    device: Arc<Device<B>>,
}

/// An event.
pub(in crate::plugin) struct Event<B: Backend> {
    pub(in crate::plugin) event: B::Event,
    pub(super) device: Arc<Device<B>>,
    pub(super) records: Arc<Records>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { places: RwLock::new(Places { all: Vec::new(), free: Vec::new() }) }
    }
}

impl<T> Table<T> {
    /// Adds an object and returns its number.
    pub(in crate::plugin) fn put(&self, object: T) -> Id {
        let mut places = self.places.write();
        let index = match places.free.pop() {
            Some(index) => index,
            None => {
                places.all.push(Place { uses: 0, object: None });
                u32::try_from(places.all.len() - 1).expect("memory ends before numbers do")
            }
        };
        let place = &mut places.all[index as usize];
        place.uses += 1;
        place.object = Some(Arc::new(object));
        u64::from(place.uses) << 32 | u64::from(index)
    }

    /// Returns the object with a number.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such object.
    pub(in crate::plugin) fn get(&self, id: Id) -> Result<Arc<T>> {
        let places = self.places.read();
        let (uses, index) = ((id >> 32) as u32, id as u32);
        let place = places.all.get(index as usize).filter(|place| place.uses == uses);
        place.and_then(|place| place.object.clone()).ok_or_else(|| absent(id))
    }

    /// Removes the object with a number and returns it.
    ///
    /// # Errors
    /// As for [`Table::get`].
    pub(in crate::plugin) fn take(&self, id: Id) -> Result<Arc<T>> {
        let mut places = self.places.write();
        let (uses, index) = ((id >> 32) as u32, id as u32);
        let place = places.all.get_mut(index as usize).filter(|place| place.uses == uses);
        let object = place.and_then(|place| place.object.take()).ok_or_else(|| absent(id))?;
        // A place whose count of uses cannot grow is not reused.
        if uses < u32::MAX {
            places.free.push(index);
        }
        Ok(object)
    }
}

impl<B: Backend> Queue<B> {
    pub(super) fn new(queue: B::Queue, device: &Arc<Device<B>>) -> Self {
        Self { queue, deferred: Mutex::default(), device: Arc::clone(device) }
    }

    /// Keeps an error for the next waiting call, unless an earlier error is kept.
    pub(super) fn defer(&self, error: Error) {
        self.deferred.lock().get_or_insert(error);
    }

    /// Returns the error kept for a waiting call, else the call's own result.
    pub(in crate::plugin) fn or_deferred<T>(&self, result: Result<T>) -> Result<T> {
        match self.deferred.lock().take() {
            Some(error) => Err(error),
            None => result,
        }
    }
}

/// Unwraps an object that nothing else uses.
///
/// # Errors
/// `InvalidArgument` if the object is in use elsewhere.
pub(super) fn sole<T>(object: Arc<T>, what: &str) -> Result<T> {
    Arc::into_inner(object).ok_or_else(|| {
        Error::new(ErrorCode::InvalidArgument, format!("the {what} is still in use"))
    })
}

fn absent(id: Id) -> Error {
    Error::new(ErrorCode::InvalidArgument, format!("there is no object {id:#x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_finds_its_object_until_that_is_taken_and_never_another() {
        let table = Table::default();
        let (a, b) = (table.put("a"), table.put("b"));
        assert_eq!((*table.get(a).unwrap(), *table.get(b).unwrap()), ("a", "b"));
        assert_eq!(*table.take(a).unwrap(), "a");
        assert!(table.get(a).is_err() && table.take(a).is_err());
        let c = table.put("c");
        assert_ne!(a, c);
        assert!(table.get(a).is_err());
        for wrong in [0, u64::MAX, c + 1, c ^ 1 << 32] {
            assert!(table.get(wrong).is_err(), "{wrong:#x}");
        }
    }
}
