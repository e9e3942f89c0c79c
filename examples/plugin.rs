//! A whole backend on the safe traits: a device with the host's memory and a thread for each queue.
//! The one image that it takes is a line of text, with the one kernel `saxpy`.
//!
//! `cargo build --package longshore-examples --examples` makes
//! `target/debug/examples/liblongshore_plugin_example.so`. For a backend of your own, call the
//! driver where this one does the work itself.

use longshore_plugin_api::{
    Acceptance, Arguments, Backend, Connected, CopyRequest, Description, Device, DeviceInfo,
    DeviceType, Error, ErrorCode, Event, HostFunction, ImageBytes, InfoValue, KernelAttributes,
    LaunchShape, Loading, MemoryKind, Module, Platform, PlatformInfo, Plugin, Queue, Result,
    Services, Span, SymbolKind, export_plugin,
};
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

const IMAGE: &[u8] = b"longshore-example: saxpy\n";
const MEMORY_BYTES: u64 = 1 << 30;

struct Example;

export_plugin!(Example);

impl Backend for Example {
    type Platform = Example;
    type Device = Memory;
    type Module = Image;
    type Kernel = Saxpy;
    type Queue = Line;
    type Event = Marker;
}

impl Plugin for Example {
    const DESCRIPTION: Description = Description {
        backend: "example",
        name: "An example",
        version: "1.0.0",
        vendor: "Longshore",
        image_formats: "example",
        driver: "",
        unloadable: false,
    };

    fn connect(_: Services) -> Result<Connected<Example>> {
        Ok(Connected::Platform(Example))
    }
}

impl Platform<Example> for Example {
    fn info(&self, query: PlatformInfo) -> Result<String> {
        let Description { name, vendor, version, .. } = Example::DESCRIPTION;
        Ok(match query {
            PlatformInfo::Name => name.to_owned(),
            PlatformInfo::VendorName => vendor.to_owned(),
            PlatformInfo::Version => version.to_owned(),
        })
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, _: u32, query: DeviceInfo) -> Result<InfoValue> {
        Ok(match query {
            DeviceInfo::Type => DeviceType::Gpu.into(),
            DeviceInfo::Name | DeviceInfo::ProductName => "example".into(),
            DeviceInfo::Uid => "example-0".into(),
            DeviceInfo::Vendor => "Longshore".into(),
            DeviceInfo::DriverVersion => "1.0.0".into(),
            DeviceInfo::NumComputeUnits => 1u32.into(),
            DeviceInfo::AddressBits => 64u32.into(),
            DeviceInfo::MaxWorkGroupSize => 1024u32.into(),
            DeviceInfo::GlobalMemSize | DeviceInfo::MaxMemAllocSize => MEMORY_BYTES.into(),
            _ => return Err(query.unanswered_by("the example")),
        })
    }

    fn open(&self, _: u32) -> Result<Memory> {
        Ok(Memory::default())
    }
}

/// A device: the allocations on it, by kind and address, each with room for its alignment.
#[derive(Default)]
struct Memory(Mutex<HashMap<(MemoryKind, u64), Vec<u8>>>);

impl Device<Example> for Memory {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        let refused = || Acceptance::Refused("the image is not the example's".to_owned());
        Ok(if image == IMAGE { Acceptance::Accepted } else { refused() })
    }

    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        if bytes.max(alignment) > MEMORY_BYTES {
            let message = format!("no room for {bytes} bytes");
            return Err(Error::new(ErrorCode::OutOfResources, message));
        }
        let mut memory = vec![0u8; (bytes + alignment) as usize];
        let address = (memory.as_mut_ptr() as u64).next_multiple_of(alignment);
        self.0.lock().unwrap().insert((kind, address), memory);
        Ok(address)
    }

    fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        let message = || format!("no {kind:?} allocation begins at {address:#x}");
        let unknown = || Error::new(ErrorCode::InvalidArgument, message());
        self.0.lock().unwrap().remove(&(kind, address)).map(drop).ok_or_else(unknown)
    }

    fn load(&self, image: ImageBytes, _: Loading) -> Result<Image> {
        match self.accepts(image.get())? {
            Acceptance::Refused(reason) => Err(Error::new(ErrorCode::InvalidBinary, reason)),
            _ => Ok(Image),
        }
    }

    fn create_queue(&self) -> Result<Line> {
        let (work, queued) = channel::<Work>();
        std::thread::spawn(move || queued.into_iter().for_each(|work| work()));
        Ok(Line { work, last: Mutex::new(Arc::new(Instant::now().into())) })
    }

    fn create_event(&self, timing: bool) -> Result<Marker> {
        Ok(Marker { timing, last: Mutex::default() })
    }
}

/// A loaded image.
struct Image;
/// The kernel (u64 n, f32 a, const f32 *x, f32 *y), in which each launch does all `n` elements.
struct Saxpy;

impl Module<Example> for Image {
    fn kernel(&self, name: &str) -> Result<(Arc<Saxpy>, KernelAttributes)> {
        if name != "saxpy" {
            let message = format!("there is no kernel '{name}', expected 'saxpy'");
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let argument_sizes = Some(vec![8, 4, 8, 8]);
        Ok((Arc::new(Saxpy), KernelAttributes { argument_sizes, ..Default::default() }))
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        Ok(vec![("saxpy".to_owned(), SymbolKind::Kernel)])
    }
}

type Work = Box<dyn FnOnce() + Send>;
/// A place behind some work in a queue, and when it was reached.
type Record = Arc<OnceLock<Instant>>;

/// A queue: the way to its thread, and its last place. The thread ends when the queue is dropped and
/// all work is done.
struct Line {
    work: Sender<Work>,
    last: Mutex<Record>,
}

impl Line {
    /// Queues work, and waits for it if `wait` is set. Returns the place behind it.
    fn push(&self, wait: bool, work: impl FnOnce() + Send + 'static) -> Result<Record> {
        let record = Record::default();
        let reached = Arc::clone(&record);
        let work = Box::new(move || {
            work();
            _ = reached.set(Instant::now());
        });
        let mut last = self.last.lock().unwrap();
        let ended = |_| Error::new(ErrorCode::Unknown, "the thread of the queue has ended");
        self.work.send(work).map_err(ended)?;
        *last = Arc::clone(&record);
        drop(last);
        if wait {
            record.wait();
        }
        Ok(record)
    }
}

impl Queue<Example> for Line {
    fn launch(&self, _: &Saxpy, shape: &LaunchShape, arguments: Arguments<'_>) -> Result<()> {
        shape.refuse_clusters()?;
        let a = f32::from_ne_bytes(arguments.bytes(1)?);
        let [n, x, y] = [arguments.bytes(0)?, arguments.bytes(2)?, arguments.bytes(3)?];
        let [n, x, y] = [n, x, y].map(usize::from_ne_bytes);
        let saxpy = move || {
            for i in 0..n {
                // SAFETY: the program that launches it promises `n` elements at `x` and `y`.
                unsafe { *(y as *mut f32).add(i) += a * *(x as *const f32).add(i) };
            }
        };
        self.push(shape.wait, saxpy).map(drop)
    }

    fn copy(&self, copy: &CopyRequest<'_, Memory>) -> Result<()> {
        let (to, from) = (copy.destination, copy.source);
        let copied = move || {
            let from = from.address() as *const u8;
            // SAFETY: the spans, memory of this process, are valid until the copy is done.
            unsafe { (to.address() as *mut u8).copy_from(from, to.bytes() as usize) };
        };
        self.push(copy.wait, copied).map(drop)
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        let bytes = pattern.repeat(destination.bytes() as usize / pattern.len());
        let filled = move || {
            // SAFETY: the span, as long as the repeated pattern, is valid until the fill is done.
            unsafe { (destination.address() as *mut u8).copy_from(bytes.as_ptr(), bytes.len()) };
        };
        self.push(wait, filled).map(drop)
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        self.push(false, move || function.call()).map(drop)
    }

    fn wait_event(&self, event: &Marker) -> Result<()> {
        match event.last() {
            Some(record) => self.push(false, move || _ = record.wait()).map(drop),
            None => Ok(()),
        }
    }

    fn record_event(&self, event: &Marker) -> Result<()> {
        let mut last = event.last.lock().unwrap();
        *last = Some(self.push(false, || ())?);
        Ok(())
    }

    fn is_idle(&self) -> Result<bool> {
        Ok(self.last.lock().unwrap().get().is_some())
    }

    fn synchronize(&self) -> Result<()> {
        let last = self.last.lock().unwrap().clone();
        last.wait();
        Ok(())
    }
}

/// An event: the place that it was last recorded at.
struct Marker {
    timing: bool,
    last: Mutex<Option<Record>>,
}

impl Marker {
    fn last(&self) -> Option<Record> {
        self.last.lock().unwrap().clone()
    }

    fn reached(&self) -> Result<Instant> {
        if !self.timing {
            let message = "the event was made without timing";
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let reached = self.last().and_then(|record| record.get().copied());
        reached.ok_or_else(|| Error::new(ErrorCode::InvalidEvent, "the event was not reached"))
    }
}

impl Event<Example> for Marker {
    fn is_complete(&self) -> Result<bool> {
        Ok(self.last().is_none_or(|record| record.get().is_some()))
    }

    fn synchronize(&self) -> Result<()> {
        if let Some(record) = self.last() {
            record.wait();
        }
        Ok(())
    }

    fn elapsed_ns(&self, end: &Marker) -> Result<i64> {
        let (start, end) = (self.reached()?, end.reached()?);
        let ns = |later: Instant, earlier| later.duration_since(earlier).as_nanos() as i64;
        Ok(ns(end, start) - ns(start, end))
    }
}
