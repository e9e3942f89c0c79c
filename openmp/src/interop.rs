//! Interoperability objects: the foreign runtime behind a device, and its handles.

mod property;

pub(crate) use property::{Property, ReturnCode, Value};

use crate::device::OmpDevice;
use longshore::Queue;
use parking_lot::Mutex;
use property::{ForeignRuntime, Vendor};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A type of interoperability objects. LLVM: `kmp_interop_type_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InteropType {
    /// `target`: the device and its context.
    Target,
    /// `targetsync`: a stream of the device.
    TargetSync,
}

/// A preference of a program for a foreign runtime. LLVM: `interop_spec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InteropPreference {
    /// The foreign runtime's number in the OpenMP Additional Definitions.
    pub runtime: i32,
    /// Attributes: bit 0 for a stream that runs work in order.
    pub attributes: u32,
    /// Attributes of the implementation.
    pub own_attributes: i64,
}

/// A function that a program adds to an object. LLVM: `ompx_interop_cb_t`.
pub(crate) type Completion = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// An interoperability object. Programs see its address only. LLVM: `omp_interop_val_t`.
pub(crate) struct InteropObject {
    kind: InteropType,
    device: &'static OmpDevice,
    preference: InteropPreference,
    /// The thread of libomp that the object belongs to, for an object of this library.
    owner: Option<i32>,
    /// The stream of the object; `None` if the backend's streams have no handle.
    stream: OnceLock<Option<Stream>>,
    /// Whether the object was handed out since it was synchronized.
    is_dirty: AtomicBool,
    /// Functions that follow the next synchronization, with the addresses of their data.
    completions: Mutex<Vec<(Completion, usize)>>,
}

/// A queue, with the driver's handle of its stream.
struct Stream {
    queue: Queue,
    handle: u64,
}

/// The objects of `dispatch` constructs, which this library owns.
static OWNED: Mutex<Vec<&'static InteropObject>> = Mutex::new(Vec::new());
/// Number of elements of [`OWNED`].
static OWNED_COUNT: AtomicUsize = AtomicUsize::new(0);

impl InteropObject {
    /// Creates an object of a program. It takes the first preference that the device has; without
    /// one, the device's own foreign runtime.
    pub(crate) fn new(
        kind: InteropType,
        device: &'static OmpDevice,
        preferences: &[InteropPreference],
    ) -> InteropObject {
        let backend = device.device.backend();
        let preference = ForeignRuntime::choose(backend, preferences);
        InteropObject {
            kind,
            device,
            preference,
            owner: None,
            stream: OnceLock::new(),
            is_dirty: AtomicBool::new(false),
            completions: Mutex::default(),
        }
    }

    /// Returns this library's object for a thread. The first call for a kind creates it.
    pub(crate) fn for_thread(
        kind: InteropType,
        device: &'static OmpDevice,
        preferences: &[InteropPreference],
        thread: i32,
    ) -> &'static InteropObject {
        let mut new = InteropObject::new(kind, device, preferences);
        new.owner = Some(thread);
        let mut owned = OWNED.lock();
        let known = owned.iter().find(|known| known.is_like(&new)).copied();
        let object = known.unwrap_or_else(|| {
            let object = &*Box::leak(Box::new(new));
            owned.push(object);
            OWNED_COUNT.store(owned.len(), Ordering::Release);
            object
        });
        object.is_dirty.store(true, Ordering::Relaxed);
        object
    }

    fn is_like(&self, other: &InteropObject) -> bool {
        self.kind == other.kind
            && self.device.number == other.device.number
            && self.preference == other.preference
            && self.owner == other.owner
    }

    /// Returns whether this library owns the object.
    pub(crate) fn is_owned(&self) -> bool {
        self.owner.is_some()
    }

    /// Returns whether the object waits for dependences.
    pub(crate) fn has_dependences(&self) -> bool {
        self.kind == InteropType::TargetSync
    }

    /// Adds a function that the next synchronization calls.
    pub(crate) fn add_completion(&self, function: Completion, data: *mut c_void) {
        self.completions.lock().push((function, data as usize));
    }

    /// Waits for the object's stream, then calls the added functions. Blocks.
    ///
    /// # Errors
    /// Errors of the work in the stream.
    pub(crate) fn synchronize(&self) -> longshore::Result<()> {
        self.is_dirty.store(false, Ordering::Relaxed);
        let result = match self.stream.get() {
            Some(Some(stream)) => stream.queue.synchronize(),
            _ => Ok(()),
        };
        let completions = std::mem::take(&mut *self.completions.lock());
        for (function, data) in completions {
            let object = std::ptr::from_ref(self).cast_mut();
            // SAFETY: the program has added the function for this data.
            unsafe { function(object.cast(), data as *mut c_void) };
        }
        result
    }

    /// Returns the value of a property.
    ///
    /// # Errors
    /// `Other` for a property that objects of this type lack, `NoValue` for one that the backend
    /// lacks.
    pub(crate) fn property(&self, property: Property) -> Result<Value, ReturnCode> {
        let runtime = ForeignRuntime(self.preference.runtime);
        let vendor = Vendor::for_backend(self.device.device.backend());
        match property {
            Property::RuntimeId => Ok(Value::Integer(i64::from(runtime.0))),
            Property::RuntimeName => Ok(Value::Text(runtime.name())),
            Property::Vendor => Ok(Value::Integer(vendor as i64)),
            Property::VendorName => Ok(Value::Text(vendor.name())),
            Property::DeviceNumber => Ok(Value::Integer(self.device.number as i64)),
            Property::Platform => Err(ReturnCode::NoValue),
            Property::Device | Property::DeviceContext if self.kind == InteropType::TargetSync => {
                Err(ReturnCode::Other)
            }
            Property::Device => handle(self.device.device.driver_device()),
            Property::DeviceContext => match self.device.device.driver_context() {
                Ok(0) => Err(ReturnCode::NoValue),
                context => handle(context),
            },
            Property::TargetSync => {
                let stream = self.stream.get_or_init(|| self.open_stream()).as_ref();
                stream.map(|stream| Value::Handle(stream.handle)).ok_or(ReturnCode::NoValue)
            }
        }
    }

    fn open_stream(&self) -> Option<Stream> {
        let opened = self.device.device.queue().and_then(|queue| {
            let handle = queue.driver_stream()?;
            Ok(Stream { queue, handle })
        });
        opened.inspect_err(|error| log::debug!("no stream for an interop object: {error}")).ok()
    }
}

fn handle(handle: longshore::Result<u64>) -> Result<Value, ReturnCode> {
    handle.map(Value::Handle).map_err(|_| ReturnCode::NoValue)
}

/// Synchronizes the objects of this library that a thread has used. Blocks.
pub(crate) fn synchronize_thread(thread: i32) {
    if OWNED_COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    let owned = OWNED.lock().clone();
    let of_thread = owned.iter().filter(|object| object.owner == Some(thread));
    for object in of_thread.filter(|object| object.is_dirty.load(Ordering::Relaxed)) {
        object.synchronize().unwrap_or_else(|error| log::error!("{error}"));
    }
}
