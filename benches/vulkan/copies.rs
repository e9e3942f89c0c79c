//! The time of copies and allocations.

use crate::ours::Ours;
use crate::plain::{Memory, Plain, Signal};
use anyhow::{Context, Result, ensure};
use ash::vk;
use longshore::MemoryKind;
use longshore_benches::report::{Limit, Report};
use longshore_benches::rounds::{Contender, in_rounds};
use std::cell::RefCell;
use std::hint::black_box;
use std::time::Duration;

const BYTES: usize = 64 << 20;
/// Size in bytes of a piece of a copy through staging memory, which holds two pieces.
const PIECE: usize = 4 << 20;
const MIB: u64 = 1 << 20;
const ALLOCATE_AND_FREE: Duration = Duration::from_nanos(150);

/// A way to copy between the host and memory of the device.
pub(crate) trait CopyMethod {
    fn upload(&self, from: &[u8]);
    fn download(&self, to: &mut [u8]);
}

/// A mapping that the host reads as fast as its own memory.
struct Mapped(Memory);

/// Staging memory in two halves, so that host and device copy at the same time.
struct Staged<'a> {
    plain: &'a Plain,
    staging: Memory,
    /// Command buffers, one for each piece of the copy.
    uploads: Vec<vk::CommandBuffer>,
    downloads: Vec<vk::CommandBuffer>,
    /// Fences, one for each half.
    fences: [Signal; 2],
}

/// Returns the best method on this device.
pub(crate) fn best(plain: &Plain) -> Result<(&'static str, Box<dyn CopyMethod + '_>)> {
    use vk::MemoryPropertyFlags as Flags;
    let flags = Flags::DEVICE_LOCAL | Flags::HOST_CACHED | Flags::HOST_COHERENT;
    Ok(match plain.memory_type(flags) {
        Some(kind) => ("mapped", Box::new(Mapped(plain.memory(kind, BYTES as u64)?))),
        None => ("staged", staged(plain)?),
    })
}

/// Returns the method through staging memory, on any device.
pub(crate) fn staged(plain: &Plain) -> Result<Box<dyn CopyMethod + '_>> {
    use vk::MemoryPropertyFlags as Flags;
    let of_device = plain.memory_type(Flags::DEVICE_LOCAL).context("a device has memory")?;
    let cached = Flags::HOST_VISIBLE | Flags::HOST_COHERENT | Flags::HOST_CACHED;
    let of_host = plain.memory_type(cached).context("the host reaches no cached memory")?;
    let target = plain.memory(of_device, BYTES as u64)?;
    let staging = plain.memory(of_host, 2 * PIECE as u64)?;
    let (mut uploads, mut downloads) = (Vec::new(), Vec::new());
    for piece in 0..BYTES / PIECE {
        let (half, at) = ((piece % 2 * PIECE) as u64, (piece * PIECE) as u64);
        let (staged, of_target) = ((staging.buffer, half), (target.buffer, at));
        uploads.push(copy(plain, staged, of_target)?);
        downloads.push(copy(plain, of_target, staged)?);
    }
    let fences = [plain.fence()?, plain.fence()?];
    Ok(Box::new(Staged { plain, staging, uploads, downloads, fences }))
}

/// Measures copies of 64 MiB in each direction.
pub(crate) fn copies(
    ours: &Ours,
    (name, floor): (&str, &dyn CopyMethod),
    report: &mut Report,
) -> Result<()> {
    let source: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
    let buffer = ours.device.buffer_of(&ours.queue, &source)?;
    let upload = || buffer.write(&ours.queue, black_box(&source)).unwrap();
    let times = in_rounds([
        Some(Contender::new(1, || floor.upload(black_box(&source)))),
        Some(Contender::new(1, upload)),
    ]);
    let [Some(theirs), Some(took)] = times else { unreachable!("every contender ran") };
    let limit = Limit::share(0.95, &theirs);
    report.row(&format!("64 MiB to the device, {name}"), Some(&theirs), &took, limit);
    // Both use the same memory, as its place makes a difference, too.
    let target = RefCell::new(vec![0; BYTES]);
    let by_floor = || floor.download(black_box(&mut target.borrow_mut()));
    let by_ours = || buffer.read(&ours.queue, black_box(&mut target.borrow_mut())).unwrap();
    for download in [&by_floor as &dyn Fn(), &by_ours] {
        target.borrow_mut().fill(0);
        download();
        ensure!(*target.borrow() == source, "copied bytes differ");
    }
    let times = in_rounds([Some(Contender::new(1, by_floor)), Some(Contender::new(1, by_ours))]);
    let [Some(theirs), Some(took)] = times else { unreachable!("every contender ran") };
    let limit = Limit::share(0.95, &theirs);
    report.row(&format!("64 MiB from the device, {name}"), Some(&theirs), &took, limit);
    Ok(())
}

/// Measures memory of the device from Longshore's cache.
pub(crate) fn allocations(ours: &Ours, plain: &Plain, report: &mut Report) -> Result<()> {
    let of_device = plain.memory_type(vk::MemoryPropertyFlags::DEVICE_LOCAL);
    let of_device = of_device.context("a device has memory")?;
    let allocate = || {
        drop(ours.device.allocate(MemoryKind::Device, black_box(MIB), 64).unwrap());
    };
    let driver = || {
        let memory = plain.allocate(of_device, black_box(MIB)).unwrap();
        // SAFETY: nothing uses it.
        unsafe { plain.raw.free_memory(memory, None) };
    };
    let times =
        in_rounds([Some(Contender::new(100, driver)), Some(Contender::new(10_000, allocate))]);
    let [Some(driver), Some(ours)] = times else { unreachable!("every contender ran") };
    let limit = Limit::new("150 ns", ALLOCATE_AND_FREE, ALLOCATE_AND_FREE);
    report.row("1 MiB allocated and freed, cached", None, &ours, limit);
    report.note("vkAllocateMemory and vkFreeMemory of 1 MiB", &driver);
    Ok(())
}

impl CopyMethod for Mapped {
    fn upload(&self, from: &[u8]) {
        // SAFETY: the mapping has this size and no other code uses it.
        unsafe { self.0.mapped.copy_from_nonoverlapping(from.as_ptr(), from.len()) }
    }

    fn download(&self, to: &mut [u8]) {
        // SAFETY: as above.
        unsafe { self.0.mapped.copy_to_nonoverlapping(to.as_mut_ptr(), to.len()) }
    }
}

impl Staged<'_> {
    fn submit(&self, commands: &[vk::CommandBuffer], piece: usize) {
        if let Some(commands) = commands.get(piece) {
            self.plain.submit(*commands, self.fences[piece % 2], 0);
        }
    }

    fn wait(&self, piece: usize) {
        self.plain.wait(self.fences[piece % 2], 0);
    }

    fn half(&self, piece: usize) -> *mut u8 {
        // SAFETY: staging memory has two halves.
        unsafe { self.staging.mapped.add(piece % 2 * PIECE) }
    }
}

impl CopyMethod for Staged<'_> {
    fn upload(&self, from: &[u8]) {
        for (piece, bytes) in from.chunks(PIECE).enumerate() {
            if piece >= 2 {
                self.wait(piece);
            }
            // SAFETY: the half is mapped, and the device does not use it: its last copy was waited
            // for.
            unsafe { self.half(piece).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            self.submit(&self.uploads, piece);
        }
        self.wait(0);
        self.wait(1);
    }

    fn download(&self, to: &mut [u8]) {
        self.submit(&self.downloads, 0);
        self.submit(&self.downloads, 1);
        for (piece, bytes) in to.chunks_mut(PIECE).enumerate() {
            self.wait(piece);
            // SAFETY: the half is mapped, and the device has filled it before the wait ended.
            unsafe { self.half(piece).copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
            self.submit(&self.downloads, piece + 2);
        }
    }
}

/// Returns a command buffer with a copy of a piece, and a barrier for the host.
fn copy(
    plain: &Plain,
    from: (vk::Buffer, u64),
    to: (vk::Buffer, u64),
) -> Result<vk::CommandBuffer> {
    let commands = plain.command_buffer()?;
    let region = vk::BufferCopy { src_offset: from.1, dst_offset: to.1, size: PIECE as u64 };
    let barrier = vk::MemoryBarrier::default()
        .src_access_mask(vk::AccessFlags::TRANSFER_WRITE)
        .dst_access_mask(vk::AccessFlags::HOST_READ);
    let (transfer, host) = (vk::PipelineStageFlags::TRANSFER, vk::PipelineStageFlags::HOST);
    let none = vk::DependencyFlags::empty();
    // SAFETY: the command buffer is recording; the ranges lie in live buffers.
    plain.record(commands, vk::CommandBufferUsageFlags::empty(), || unsafe {
        plain.raw.cmd_copy_buffer(commands, from.0, to.0, &[region]);
        plain.raw.cmd_pipeline_barrier(commands, transfer, host, none, &[barrier], &[], &[]);
    })?;
    Ok(commands)
}
