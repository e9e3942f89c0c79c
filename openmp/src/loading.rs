//! The images of a library on a device: loading, the variables and functions that exist on both
//! sides, unloading.

use crate::device::{Kernels, OmpDevice};
use crate::entries::{Entry, EntryKind};
use crate::gpu::GpuImage;
use crate::kernel::{ImageFacts, RegionKernel};
use crate::library::{Library, Loaded};
use crate::mapping::Failure;
use crate::mapping::table;
use crate::settings::info as kinds;
use crate::{compiler, dump, gpu, info, ompt, runtime, settings};
use longshore::{Acceptance, Image, Program};
use std::ffi::c_char;
use std::sync::Arc;

/// Loads the images of all libraries that were registered since the last call. Blocks.
///
/// # Errors
/// Errors of the images; the remaining libraries are loaded by the next call.
#[inline]
pub(crate) fn make_ready(device: &OmpDevice) -> Result<(), Failure> {
    match device.backlog.count() {
        0 => Ok(()),
        _ => load_pending(device),
    }
}

#[cold]
fn load_pending(device: &OmpDevice) -> Result<(), Failure> {
    let mut loaded = device.loaded.lock();
    let count = device.backlog.count();
    if count == 0 {
        return Ok(());
    }
    ompt::connect();
    device.events.initialize(device.number, &device.device);
    for library in runtime::libraries() {
        if loaded.iter().any(|known| known.descriptor == library.descriptor) {
            continue;
        }
        loaded.push(load(device, &library)?);
    }
    device.backlog.settle(count);
    Ok(())
}

/// Unloads a library's image, if a device has loaded it. Blocks.
pub(crate) fn unload(device: &OmpDevice, library: &Library) {
    let mut loaded = device.loaded.lock();
    let place = loaded.iter().position(|known| known.descriptor == library.descriptor);
    let Some(place) = place else { return };
    let image = loaded.remove(place);
    drop(loaded);
    unload_image(device, library, image);
}

/// Loads the image of a library that the device accepts, if there is one.
///
/// # Errors
/// Errors of the image, and of variables that it lacks.
fn load(device: &OmpDevice, library: &Library) -> Result<Loaded, Failure> {
    let mut loaded = Loaded {
        descriptor: library.descriptor,
        program: None,
        mapped: Vec::new(),
        destructors: Vec::new(),
        gpu: None,
    };
    let Some(image) = suitable(device, library)? else { return Ok(loaded) };
    let mut serving = None;
    let prepare = |program: &Program| {
        if let Some(gpu) = &device.gpu {
            loaded.gpu = Some(GpuImage::prepare(device, gpu, library, program)?);
            // Constructors of the image may call the host.
            serving = gpu.users.begin();
        }
        Ok(())
    };
    // SAFETY: the image is code of the running program, which its user trusts as the program.
    let program = unsafe { device.device.load_prepared(Image::from(image), prepare)? };
    drop(serving);
    device.events.load(device.number, image);
    loaded.program = Some(program.clone());
    let may_fork = may_fork(image);
    let passes_environment = compiler::passes_environment(image);
    let facts = ImageFacts { is_recent: library.is_recent, may_fork, passes_environment };
    add_kernels(device, library, (facts, image), &program);
    for entry in &library.entries {
        match entry.kind {
            EntryKind::Variable | EntryKind::Link => {
                add_variable(device, entry, &program, &mut loaded)?;
            }
            EntryKind::IndirectFunction => add_function(device, entry, &program, &mut loaded)?,
            EntryKind::Destructor => loaded.destructors.push(entry.name.clone()),
            _ => {}
        }
    }
    if settings::settings().dump_entries == Some(device.number as i64) {
        dump::entries(device.number, &library.entries);
    }
    let constructors = library.entries.iter().filter(|e| e.kind == EntryKind::Constructor);
    for entry in constructors {
        call(device, &program, &entry.name)?;
    }
    Ok(loaded)
}

/// Returns whether kernels of an image may have a parallel region: the names of functions that an
/// image calls are in its table of symbols.
fn may_fork(image: &[u8]) -> bool {
    let contains = |name: &[u8]| memchr::memmem::find(image, name).is_some();
    contains(b"__kmpc_fork_") || contains(b"__kmpc_parallel_")
}

/// Unloads an image of a library. The image stays if a region of it runs: a thread of the region's
/// team may have called `exit`, and the region does not end before that thread.
fn unload_image(device: &OmpDevice, library: &Library, loaded: Loaded) {
    if loaded.program.as_ref().is_some_and(Program::is_in_use) {
        log::debug!("device {}: an image of a running region stays loaded", device.number);
        std::mem::forget(loaded);
        return;
    }
    if let Some(program) = &loaded.program {
        for name in &loaded.destructors {
            call(device, program, name).unwrap_or_else(|failure| failure.report());
        }
    }
    device.kernels.rcu(|kernels| {
        let mut kernels = Kernels::clone(kernels);
        for entry in &library.entries {
            kernels.remove(&(entry.address as usize));
        }
        kernels
    });
    for begin in &loaded.mapped {
        let (mut locked, found) = device.table.lock_settled(*begin, 1);
        if let Some(range) = found.range.filter(|range| range.begin == *begin) {
            table::remove(&mut locked, range.entry as u32);
        }
    }
    // Destructors of the image may call the host.
    let _serving = device.gpu.as_ref().and_then(|gpu| gpu.users.begin());
    if let Some(program) = loaded.program {
        program.unload().map(drop).unwrap_or_else(|error| log::error!("{error}"));
    }
}

/// Returns the first image of a library that a device accepts.
fn suitable<'a>(device: &OmpDevice, library: &'a Library) -> Result<Option<&'a [u8]>, Failure> {
    for bytes in library.images() {
        if !matches!(device.device.suits(bytes)?, Acceptance::Refused(_)) {
            return Ok(Some(bytes));
        }
    }
    Ok(None)
}

fn add_kernels(
    device: &OmpDevice,
    library: &Library,
    (facts, image): (ImageFacts, &[u8]),
    program: &Program,
) {
    let described = gpu::described_kernels(image);
    let regions = library.entries.iter().filter(|entry| entry.kind == EntryKind::Kernel);
    let new: Vec<_> = regions
        .map(|entry| {
            let (name, program) = (entry.name.clone(), program.clone());
            let description = described.iter().find(|kernel| kernel.name == name).cloned();
            let kernel = RegionKernel::new(name, facts, description, program);
            (entry.address as usize, Arc::new(kernel))
        })
        .collect();
    device.kernels.rcu(|kernels| {
        let mut kernels = Kernels::clone(kernels);
        kernels.extend(new.iter().cloned());
        kernels
    });
}

/// Maps a variable of the program to the image's variable for as long as the image is loaded.
fn add_variable(
    device: &OmpDevice,
    entry: &Entry,
    program: &Program,
    loaded: &mut Loaded,
) -> Result<(), Failure> {
    let global = program.global(&entry.name)?;
    if !add_mapping(device, entry, global.pointer().address(), loaded) {
        return Ok(());
    }
    if runtime::uses_host_memory(device) {
        // The device's pointer leads to the host's variable.
        let queue = device.device.queue()?;
        // SAFETY: the entry describes a variable of the program, and the image's variable of the
        // same name has the same size.
        unsafe {
            queue.copy_from_host(global.pointer(), entry.address as *const _, entry.bytes)?;
        }
        queue.synchronize()?;
    }
    Ok(())
}

/// Maps a function of the program to the image's function, whose address is in a variable of the
/// image, for as long as the image is loaded.
fn add_function(
    device: &OmpDevice,
    entry: &Entry,
    program: &Program,
    loaded: &mut Loaded,
) -> Result<(), Failure> {
    if table::lookup(&device.table.lock(), entry.address, entry.bytes).overlaps() {
        return Ok(());
    }
    let global = program.global(&entry.name)?;
    let target = gpu::pointer(&device.device.queue()?, &global, &entry.name)?;
    if settings::wants(kinds::TRANSFERS) {
        let host = (&raw const target) as u64;
        info::unmapped_to_host(device, host, global.pointer().address(), entry.bytes);
    }
    add_mapping(device, entry, target, loaded);
    Ok(())
}

/// Maps the host's range of an entry to `target`, unless a part of it is mapped. Returns whether
/// the range is new.
fn add_mapping(device: &OmpDevice, entry: &Entry, target: u64, loaded: &mut Loaded) -> bool {
    let mut locked = device.table.lock();
    if table::lookup(&locked, entry.address, entry.bytes).overlaps() {
        return false;
    }
    let range = (entry.address, entry.address + entry.bytes);
    let name = entry.name_address as *const c_char;
    table::insert(&mut locked, table::Entry { name, ..table::Entry::associated(range, target) });
    drop(locked);
    loaded.mapped.push(entry.address);
    true
}

/// Runs a kernel without arguments, with one team of one thread.
fn call(device: &OmpDevice, program: &Program, name: &str) -> Result<(), Failure> {
    let kernel = program.kernel(name)?;
    let queue = device.device.queue()?;
    let _serving = device.gpu.as_ref().and_then(|gpu| gpu.users.begin());
    // SAFETY: a constructor or destructor of the image takes no arguments.
    unsafe { queue.launch_and_wait(&kernel, longshore::Grid::default(), ())? };
    Ok(())
}
