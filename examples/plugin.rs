//! A whole backend on the safe traits: a device with the host's memory and a thread for each queue. Its images are text,
//! `longshore-example` and a line for each kernel; the one kernel that it can run is `saxpy`.
//!
//! `cargo build --package longshore-examples --examples` makes `target/debug/examples/liblongshore_plugin_example.so`. For a
//! backend of your own, call the driver where this one does the work itself.

use longshore_plugin_api::{
    Acceptance, Arguments, Backend, Connected, CopyRequest, Description, Device, DeviceInfo,
    DeviceType, Error, ErrorCode, Event, GlobalAddress, HostFunction, ImageBytes, InfoValue,
    KernelAttributes, LaunchShape, Loading, MemoryKind, Module, Platform, PlatformInfo, Plugin,
    Queue, Result, Services, Span, SymbolKind, export_plugin,
};
use std::alloc::{Layout, alloc, dealloc};
use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

const HEAD: &str = "longshore-example\n";
const ALIGNMENT: u64 = 256;

struct Example;

export_plugin!(Example);

impl Backend for Example {
    type Platform = Example;
    type Device = Memory;
    type Module = Kernels;
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
        Ok(match query {
            PlatformInfo::Name => "An example".to_owned(),
            PlatformInfo::VendorName => "Longshore".to_owned(),
            PlatformInfo::Version => "1.0.0".to_owned(),
        })
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, _: u32, query: DeviceInfo) -> Result<InfoValue> {
        Ok(match query {
            DeviceInfo::Type => InfoValue::U32(DeviceType::Gpu as u32),
            DeviceInfo::Name | DeviceInfo::ProductName => InfoValue::Text("example".to_owned()),
            DeviceInfo::Uid => InfoValue::Text("example-0".to_owned()),
            DeviceInfo::Vendor => InfoValue::Text("Longshore".to_owned()),
            DeviceInfo::DriverVersion => InfoValue::Text("1.0.0".to_owned()),
            DeviceInfo::AddressBits => InfoValue::U32(64),
            DeviceInfo::NumComputeUnits => InfoValue::U32(1),
            DeviceInfo::GlobalMemSize | DeviceInfo::MaxMemAllocSize => InfoValue::U64(1 << 30),
            DeviceInfo::MaxWorkGroupSize => InfoValue::U32(1024),
            _ => return Err(Error::new(ErrorCode::Unimplemented, format!("{query:?} is unknown"))),
        })
    }

    fn open(&self, _: u32) -> Result<Memory> {
        Ok(Memory::default())
    }
}

/// A device: the allocations on it, by address.
#[derive(Default)]
struct Memory(Mutex<HashMap<u64, (MemoryKind, Layout)>>);

impl Device<Example> for Memory {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        Ok(match kernels_of(image) {
            Ok(_) => Acceptance::Accepted,
            Err(error) => Acceptance::Refused(error.message().to_owned()),
        })
    }

    fn allocate(&self, kind: MemoryKind, bytes: u64, alignment: u64) -> Result<u64> {
        let refused =
            || Error::new(ErrorCode::OutOfResources, format!("no room for {bytes} bytes"));
        let size = usize::try_from(bytes.max(1)).ok().filter(|size| *size <= 1 << 30);
        let layout =
            Layout::from_size_align(size.ok_or_else(refused)?, alignment.max(ALIGNMENT) as usize);
        let layout = layout.map_err(|_| refused())?;
        // SAFETY: the size is not 0.
        let address = unsafe { alloc(layout) } as u64;
        if address == 0 {
            return Err(refused());
        }
        self.0.lock().unwrap().insert(address, (kind, layout));
        Ok(address)
    }

    fn free(&self, kind: MemoryKind, address: u64) -> Result<()> {
        let mut live = self.0.lock().unwrap();
        let Some((_, layout)) = live.get(&address).filter(|(known, _)| *known == kind).copied()
        else {
            let message = format!("no allocation of this kind begins at {address:#x}");
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        };
        live.remove(&address);
        // SAFETY: `allocate` returned the address for this layout, and the table had it until now.
        unsafe { dealloc(address as *mut u8, layout) };
        Ok(())
    }

    fn load(&self, image: ImageBytes, _: Loading) -> Result<Kernels> {
        kernels_of(image.get()).map(Kernels)
    }

    fn create_queue(&self) -> Result<Line> {
        Ok(Line::start())
    }

    fn create_event(&self, timing: bool) -> Result<Marker> {
        Ok(Marker { timing, last: Mutex::default() })
    }
}

/// Returns the names of an image's kernels.
fn kernels_of(image: &[u8]) -> Result<Vec<String>> {
    let invalid = |message: &str| Error::new(ErrorCode::InvalidBinary, message);
    let text = std::str::from_utf8(image).map_err(|_| invalid("the image is no text"))?;
    let names =
        text.strip_prefix(HEAD).ok_or_else(|| invalid("the image has another first line"))?;
    match names.lines().find(|name| *name != "saxpy") {
        Some(name) => Err(invalid(&format!("there is no kernel '{name}', expected 'saxpy'"))),
        None => Ok(names.lines().map(str::to_owned).collect()),
    }
}

/// A loaded image.
struct Kernels(Vec<String>);
/// The kernel (u64 n, f32 a, const f32 *x, f32 *y).
struct Saxpy;

impl Module<Example> for Kernels {
    fn kernel(&self, name: &str) -> Result<(Arc<Saxpy>, KernelAttributes)> {
        let missing =
            || Error::new(ErrorCode::NotFound, format!("the image has no kernel '{name}'"));
        self.0.iter().find(|known| *known == name).ok_or_else(missing)?;
        let argument_sizes = Some(vec![8, 4, 8, 8]);
        Ok((Arc::new(Saxpy), KernelAttributes { argument_sizes, ..KernelAttributes::default() }))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        Err(Error::new(ErrorCode::NotFound, format!("the image has no global '{name}'")))
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        Ok(self.0.iter().map(|name| (name.clone(), SymbolKind::Kernel)).collect())
    }

    fn run_constructors(&self) -> Result<()> {
        Ok(())
    }

    fn run_destructors(&self) -> Result<()> {
        Ok(())
    }
}

type Work = Box<dyn FnOnce() + Send>;

/// A queue: work for a thread, in order. The thread ends when the queue is dropped and all its work is done.
struct Line {
    work: Sender<Work>,
    pending: Arc<(Mutex<usize>, Condvar)>,
}

impl Line {
    fn start() -> Line {
        let (work, queued) = channel::<Work>();
        std::thread::spawn(move || queued.into_iter().for_each(|work| work()));
        Line { work, pending: Arc::default() }
    }

    fn push(&self, work: impl FnOnce() + Send + 'static, wait: bool) -> Result<()> {
        let pending = Arc::clone(&self.pending);
        *pending.0.lock().unwrap() += 1;
        let work = Box::new(move || {
            work();
            *pending.0.lock().unwrap() -= 1;
            pending.1.notify_all();
        });
        let ended = |_| Error::new(ErrorCode::Unknown, "the thread of the queue has ended");
        self.work.send(work).map_err(ended)?;
        if wait { self.synchronize() } else { Ok(()) }
    }
}

impl Queue<Example> for Line {
    fn launch(&self, _: &Saxpy, shape: &LaunchShape, arguments: Arguments<'_>) -> Result<()> {
        // The host has compared the sizes with those of the kernel.
        let [n, x, y] = [0, 2, 3].map(|at| arguments.values().nth(at).unwrap().try_into().unwrap());
        let [n, x, y] = [n, x, y].map(u64::from_le_bytes);
        let a = f32::from_le_bytes(arguments.values().nth(1).unwrap().try_into().unwrap());
        let count = shape.groups.iter().chain(&shape.items).map(|size| u64::from(*size)).product();
        let saxpy = move || {
            for i in 0..n.min(count) as usize {
                // SAFETY: whoever launches the kernel promises `n` elements behind both pointers.
                unsafe { *(y as *mut f32).add(i) += a * *(x as *const f32).add(i) };
            }
        };
        self.push(saxpy, shape.wait)
    }

    fn copy(&self, copy: &CopyRequest<'_, Memory>) -> Result<()> {
        let (to, from) = (copy.destination, copy.source);
        let copied = move || {
            // SAFETY: the spans are valid until the copy is done, and all places are memory of this process.
            unsafe {
                std::ptr::copy(
                    from.address() as *const u8,
                    to.address() as *mut u8,
                    to.bytes() as usize,
                )
            };
        };
        self.push(copied, copy.wait)
    }

    fn fill(&self, destination: Span, pattern: &[u8], wait: bool) -> Result<()> {
        let pattern = pattern.to_vec();
        let filled = move || {
            let (start, bytes) = (destination.address() as *mut u8, destination.bytes() as usize);
            for at in (0..bytes).step_by(pattern.len()) {
                // SAFETY: the span is valid until the fill is done; the host has seen that the pattern divides it.
                unsafe { start.add(at).copy_from(pattern.as_ptr(), pattern.len()) };
            }
        };
        self.push(filled, wait)
    }

    fn host_function(&self, function: HostFunction) -> Result<()> {
        self.push(move || function.call(), false)
    }

    fn wait_event(&self, event: &Marker) -> Result<()> {
        let record = event.last();
        self.push(move || record.into_iter().for_each(|record| record.wait()), false)
    }

    fn record_event(&self, event: &Marker) -> Result<()> {
        let record = Arc::new(Record::default());
        *event.last.lock().unwrap() = Some(Arc::clone(&record));
        self.push(move || record.reach(), false)
    }

    fn is_idle(&self) -> Result<bool> {
        Ok(*self.pending.0.lock().unwrap() == 0)
    }

    fn synchronize(&self) -> Result<()> {
        let pending = self.pending.0.lock().unwrap();
        drop(self.pending.1.wait_while(pending, |pending| *pending > 0).unwrap());
        Ok(())
    }
}

/// A place in a queue, and when it was reached.
#[derive(Default)]
struct Record(Mutex<Option<Instant>>, Condvar);

impl Record {
    fn reach(&self) {
        *self.0.lock().unwrap() = Some(Instant::now());
        self.1.notify_all();
    }

    fn wait(&self) {
        drop(self.1.wait_while(self.0.lock().unwrap(), |reached| reached.is_none()).unwrap());
    }
}

/// An event: the place that it was last recorded at.
struct Marker {
    timing: bool,
    last: Mutex<Option<Arc<Record>>>,
}

impl Marker {
    fn last(&self) -> Option<Arc<Record>> {
        self.last.lock().unwrap().clone()
    }

    fn reached(&self) -> Result<Instant> {
        if !self.timing {
            return Err(Error::new(
                ErrorCode::InvalidArgument,
                "the event was made without timing",
            ));
        }
        let reached = self.last().and_then(|record| *record.0.lock().unwrap());
        reached.ok_or_else(|| Error::new(ErrorCode::InvalidEvent, "the event was not reached"))
    }
}

impl Event<Example> for Marker {
    fn is_complete(&self) -> Result<bool> {
        Ok(self.last().is_none_or(|record| record.0.lock().unwrap().is_some()))
    }

    fn synchronize(&self) -> Result<()> {
        self.last().into_iter().for_each(|record| record.wait());
        Ok(())
    }

    fn elapsed_ns(&self, end: &Marker) -> Result<i64> {
        let (start, end) = (self.reached()?, end.reached()?);
        let ns = |time: std::time::Duration| time.as_nanos() as i64;
        Ok(ns(end.saturating_duration_since(start)) - ns(start.saturating_duration_since(end)))
    }
}
