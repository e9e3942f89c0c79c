//! A complete backend on the safe traits: a device with the host's memory and a thread for each
//! queue. It accepts one image, a line of text, with one kernel, `saxpy`.
//!
//! `cargo build --package longshore-examples --examples` builds
//! `target/debug/examples/liblongshore_plugin_example.so`. A real backend calls its driver where
//! this one does the work itself.

use longshore_plugin_api::software::{SoftwareBackend, SoftwareEvent, SoftwareQueue, Work};
use longshore_plugin_api::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const IMAGE: &[u8] = b"longshore-example: saxpy\n";
const MEMORY_BYTES: u64 = 1 << 30;

struct Example;

export_plugin!(Example);

impl Backend for Example {
    type Platform = Example;
    type Device = Memory;
    type Module = Image;
    type Kernel = Saxpy;
    type Queue = SoftwareQueue;
    type Event = SoftwareEvent;
}

impl Plugin for Example {
    const DESCRIPTION: Description = Description::new("example")
        .with_name("An example")
        .with_version("1.0.0")
        .with_vendor("Longshore")
        .with_image_formats("example");

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
            query => return Err(query.unanswered_by(name)),
        })
    }

    fn device_count(&self) -> u32 {
        1
    }

    fn device_info(&self, _: u32, query: DeviceInfo) -> Result<InfoValue> {
        Ok(match query {
            DeviceInfo::Type => DeviceType::Gpu.into(),
            DeviceInfo::Name | DeviceInfo::ProductName | DeviceInfo::Uid => "example-0".into(),
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

/// A device: its allocations by kind and address, each with space for its alignment.
#[derive(Default)]
struct Memory(Mutex<HashMap<(MemoryKind, u64), Vec<u8>>>);

impl Device<Example> for Memory {
    fn accepts(&self, image: &[u8]) -> Result<Acceptance> {
        let refused = || Acceptance::Refused("the image is not that of the example".to_owned());
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
        let Acceptance::Refused(reason) = self.accepts(image.get())? else { return Ok(Image) };
        Err(Error::new(ErrorCode::InvalidBinary, reason))
    }

    fn create_queue(&self) -> Result<SoftwareQueue> {
        SoftwareQueue::new()
    }

    fn create_event(&self, timing: bool) -> Result<SoftwareEvent> {
        Ok(SoftwareEvent::new(0, timing))
    }
}

/// A loaded image.
struct Image;
/// The kernel (u64 n, f32 a, const f32 *x, f32 *y); each launch computes all `n` elements.
struct Saxpy;

impl Module<Example> for Image {
    fn kernel(&self, name: &str) -> Result<(Arc<Saxpy>, KernelAttributes)> {
        if name != "saxpy" {
            let message = format!("unknown kernel '{name}', expected 'saxpy'");
            return Err(Error::new(ErrorCode::NotFound, message));
        }
        let mut attributes = KernelAttributes::default();
        attributes.argument_sizes = Some(vec![8, 4, 8, 8]);
        Ok((Arc::new(Saxpy), attributes))
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        Ok(vec![("saxpy".to_owned(), SymbolKind::Kernel)])
    }
}

impl SoftwareBackend for Example {
    fn launch(_: &Saxpy, shape: &LaunchShape, arguments: Arguments<'_>) -> Result<Work> {
        shape.refuse_clusters()?;
        let a = f32::from_ne_bytes(arguments.bytes(1)?);
        let [n, x, y] = [arguments.bytes(0)?, arguments.bytes(2)?, arguments.bytes(3)?];
        let [n, x, y] = [n, x, y].map(usize::from_ne_bytes);
        Ok(Box::new(move || {
            for i in 0..n {
                // SAFETY: the program that launches the kernel promises `n` elements at `x` and
                // `y`.
                unsafe { *(y as *mut f32).add(i) += a * *(x as *const f32).add(i) };
            }
            Ok(())
        }))
    }

    fn copy(copy: &CopyRequest<'_, Memory>) -> Result<Work> {
        let (to, from) = (copy.destination.address(), copy.source.address());
        let bytes = copy.source.bytes() as usize;
        Ok(Box::new(move || {
            // SAFETY: the spans are memory of this process, and valid until the end of the copy.
            unsafe { (to as *mut u8).copy_from(from as *const u8, bytes) };
            Ok(())
        }))
    }

    fn fill(destination: Span, pattern: &[u8]) -> Result<Work> {
        let bytes = pattern.repeat(destination.bytes() as usize / pattern.len());
        Ok(Box::new(move || {
            let to = destination.address() as *mut u8;
            // SAFETY: the span is as long as the repeated pattern, and valid until the end of the
            // fill.
            unsafe { to.copy_from(bytes.as_ptr(), bytes.len()) };
            Ok(())
        }))
    }
}
