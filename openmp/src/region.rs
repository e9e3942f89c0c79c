//! The execution of target regions.

use crate::abi::{self, Ident, KernelArguments, LaunchRequest, MapArguments, MapType};
use crate::debug::debug;
use crate::gpu;
use crate::kernel::RegionKernel;
use crate::mapping::begin::{self, Beginning};
use crate::mapping::{Failure, attach, end};
use crate::memory::Memory;
use crate::settings::{info as kinds, wants};
use crate::stream::{After, Stream};
use crate::{info, ompt, profile};
use longshore::{ArgumentPassing, Grid, RawArguments};
use smallvec::SmallVec;
use std::ffi::c_void;

/// A target region to run.
#[derive(Clone)]
pub(crate) struct Region {
    /// The source location; may be null.
    pub(crate) location: *const Ident,
    /// Address of the region's identity on the host.
    pub(crate) address: usize,
    /// Version of the structure of arguments; it decides how the host kernel takes them.
    pub(crate) version: u32,
    /// Number of teams; -1 without a `teams` construct, 0 if unspecified.
    pub(crate) teams: i32,
    /// Greatest number of threads of a team; 0 if unspecified.
    pub(crate) thread_limit: i32,
    /// Number of iterations of the region's loop; 0 if unknown.
    pub(crate) trip_count: u64,
    pub(crate) request: LaunchRequest,
    pub(crate) arguments: MapArguments,
}

impl Region {
    /// Reads a region from the arguments of `__tgt_target_kernel`.
    ///
    /// # Safety
    /// `arguments` points at a structure of the size of its version, with arrays of its count.
    pub(crate) unsafe fn read(
        location: *const Ident,
        address: usize,
        teams: i32,
        thread_limit: i32,
        arguments: *const KernelArguments,
    ) -> Region {
        // SAFETY: promised by the caller.
        unsafe {
            Region {
                location,
                address,
                version: (*arguments).version,
                teams,
                thread_limit,
                trip_count: (*arguments).trip_count,
                request: KernelArguments::request(arguments),
                arguments: KernelArguments::arguments(arguments),
            }
        }
    }
}

impl Region {
    /// Returns the sizes of the region for profiles.
    pub(crate) fn facts(&self) -> String {
        format!("NumTeams={};NumArgs={}", self.team_count(), self.arguments.count)
    }

    /// Returns the number of teams; 1 without a `teams` construct, 0 if unspecified.
    fn team_count(&self) -> i32 {
        if self.teams == -1 { 1 } else { self.teams }
    }
}

// Consequences of failures, in LLVM's words.
const BEGIN_FAILED: &str = "Call to targetDataBegin failed, abort target.";
const ATTACH_FAILED: &str = "Failed to process ATTACH entries.";
const BEFORE_FAILED: &str = "Failed to process data before launching the kernel.";
const LAUNCH_FAILED: &str = "Executing target region abort target.";
const END_FAILED: &str = "Call to targetDataEnd failed, abort target.";
const AFTER_FAILED: &str = "Failed to process data after launching the kernel.";

/// Arguments of a kernel: the words that it gets.
pub(crate) type Words = SmallVec<[u64; 12]>;

/// Runs a region on the stream's device: maps its arguments, launches its kernel, and ends the
/// mappings. The caller synchronizes the stream.
///
/// # Errors
/// Errors of the mappings, of the image and of the kernel.
///
/// # Safety
/// The region's arguments describe memory of the program.
pub(crate) unsafe fn run(stream: &mut Stream, region: &Region) -> Result<(), Failure> {
    let Some(kernel) = stream.device.kernel(region.address) else {
        return Err(Failure::Other(format!(
            "device {} ({}) has no image with the target region at {:#x}",
            stream.device.number,
            stream.device.device.name(),
            region.address
        )));
    };
    if region.arguments.count == 0 {
        // SAFETY: promised by the caller.
        return unsafe { launch(stream, region, &kernel, &mut Words::new()) }
            .map_err(|failure| failure.explain(&[LAUNCH_FAILED]));
    }
    let mut private = Vec::new();
    // SAFETY: promised by the caller.
    let launched = unsafe { run_mapped(stream, region, &kernel, &mut private) };
    if !private.is_empty() {
        stream.after(After::Free(private));
    }
    launched
}

unsafe fn run_mapped(
    stream: &mut Stream,
    region: &Region,
    kernel: &RegionKernel,
    private: &mut Vec<Memory>,
) -> Result<(), Failure> {
    let arguments = &region.arguments;
    let mut beginning = Beginning::new(stream);
    // SAFETY: the caller's promise.
    unsafe {
        begin::begin(&mut beginning, arguments)
            .map_err(|failure| failure.explain(&[BEGIN_FAILED, BEFORE_FAILED]))?;
        attach::process(&mut beginning)
            .map_err(|failure| failure.explain(&[ATTACH_FAILED, BEFORE_FAILED]))?;
        let mut words = translate(stream, arguments, private)
            .map_err(|failure| failure.explain(&[BEFORE_FAILED]))?;
        launch(stream, region, kernel, &mut words)
            .map_err(|failure| failure.explain(&[LAUNCH_FAILED]))?;
        end::end(stream, arguments).map_err(|failure| failure.explain(&[END_FAILED, AFTER_FAILED]))
    }
}

/// Translates the arguments of a region to the words that its kernel gets.
unsafe fn translate(
    stream: &mut Stream,
    arguments: &MapArguments,
    private: &mut Vec<Memory>,
) -> Result<Words, Failure> {
    let mut words = Words::new();
    // Place of each argument's word, for lambdas.
    let mut places: SmallVec<[usize; 16]> = SmallVec::new();
    for index in 0..arguments.count {
        // SAFETY: the caller's promise.
        let argument = unsafe { arguments.get(index) };
        let kind = argument.kind;
        if !kind.has(MapType::TARGET_PARAM) {
            places.push(usize::MAX);
            if kind.is_lambda_capture() {
                // SAFETY: the caller's promise.
                unsafe { capture(stream, arguments, index, &words, &places)? };
            }
            continue;
        }
        places.push(words.len());
        let word = if kind.has(MapType::LITERAL) {
            argument.base
        } else if kind.has(MapType::PRIVATE) {
            // SAFETY: the caller's promise.
            unsafe { make_private(stream, &argument, private)? }
        } else {
            let base = match kind.has(MapType::PTR_AND_OBJ) {
                // SAFETY: the base is the address of a pointer of the program.
                true => unsafe { (argument.base as *const u64).read_unaligned() },
                false => argument.base,
            };
            let found = stream.device.table.translate(argument.begin, argument.size as u64);
            // An absent pointer keeps its value.
            let target = found.unwrap_or(argument.begin);
            target.wrapping_add(base.wrapping_sub(argument.begin))
        };
        words.push(word);
    }
    if wants(kinds::MAPPING_EXISTS | kinds::TRANSFERS) {
        // SAFETY: the caller's promise.
        unsafe { info::translated(stream.device, arguments, &words) };
    }
    Ok(words)
}

/// Makes the private copy of an argument. Returns the device's base address.
unsafe fn make_private(
    stream: &mut Stream,
    argument: &abi::MapArgument,
    private: &mut Vec<Memory>,
) -> Result<u64, Failure> {
    let kind = argument.kind;
    let is_pointer = kind.has(MapType::ATTACH);
    let bytes = argument.size as u64;
    let mut scope = ompt::allocation(stream.device.number, argument.begin, bytes);
    let memory = stream.device.table.lock().pool.allocate(bytes)?;
    let target = memory.address();
    scope.allocated(target);
    drop(scope);
    private.push(memory);
    if is_pointer {
        // SAFETY: the base is the address of a pointer of the program, with its descriptor.
        let mut contents = unsafe {
            std::slice::from_raw_parts(argument.base as *const u8, bytes.max(8) as usize).to_vec()
        };
        // SAFETY: as above.
        let pointee_base = unsafe { (argument.base as *const u64).read_unaligned() };
        let pointee = stream.device.table.translate(argument.begin, 0);
        let value = pointee.map_or(pointee_base, |pointee| {
            pointee.wrapping_sub(argument.begin.wrapping_sub(pointee_base))
        });
        contents[..8].copy_from_slice(&value.to_ne_bytes());
        // SAFETY: the memory was allocated for as many bytes.
        unsafe { stream.submit_value(target, &contents)? };
        return Ok(target);
    }
    if kind.has(MapType::TO) {
        // SAFETY: the caller's promise; the memory was allocated for as many bytes.
        unsafe { stream.submit(target, argument.begin, bytes)? };
    }
    Ok(target.wrapping_add(argument.base.wrapping_sub(argument.begin)))
}

/// Sets a captured reference of a lambda on the device to the device address of the variable.
unsafe fn capture(
    stream: &mut Stream,
    arguments: &MapArguments,
    index: usize,
    words: &Words,
    places: &[usize],
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let argument = unsafe { arguments.get(index) };
    let parent = argument.kind.parent().filter(|parent| *parent < index);
    let Some((parent, word)) = parent.and_then(|parent| Some((parent, words.get(places[parent])?)))
    else {
        return Ok(());
    };
    // SAFETY: as above.
    let lambda = unsafe { arguments.get(parent) };
    let Some(value) = stream.device.table.translate(argument.begin, argument.size as u64) else {
        return Ok(());
    };
    let place = word.wrapping_add(argument.base.wrapping_sub(lambda.begin));
    // SAFETY: the lambda is mapped, and the reference is a part of it.
    unsafe { stream.submit_value(place, &value.to_ne_bytes()).map_err(Failure::from) }
}

/// Launches a kernel as its device does.
unsafe fn launch(
    stream: &mut Stream,
    region: &Region,
    kernel: &RegionKernel,
    words: &mut Words,
) -> Result<(), Failure> {
    debug!("Launching target execution {} with pointer {:#018x}.", kernel.name, region.address);
    debug!("loop trip count is {}.", region.trip_count);
    let _profile = profile::step("Kernel Target", || {
        let (teams, count) = (region.team_count(), words.len());
        format!("NumArguments={count};NumTeams={teams};TripCount={}", region.trip_count)
    });
    match &stream.device.gpu {
        // SAFETY: the caller's promise.
        Some(gpu) => unsafe { gpu::launch(stream, gpu, region, kernel, words) },
        // SAFETY: as above.
        None => unsafe { launch_on_host(stream, region, kernel, words) },
    }
}

/// Launches a kernel of the CPU backend with the convention of the region's version.
unsafe fn launch_on_host(
    stream: &mut Stream,
    region: &Region,
    kernel: &RegionKernel,
    words: &mut Words,
) -> Result<(), Failure> {
    /// The place of the launch environment, which kernels for the CPU ignore.
    const NO_ENVIRONMENT: u64 = u64::MAX;
    let packed;
    let passing = match kernel.convention(region.version) {
        // Versions 0 to 2 have the arguments alone.
        ..=2 => ArgumentPassing::Words,
        3 => {
            words.insert(0, NO_ENVIRONMENT);
            ArgumentPassing::Words
        }
        4 => {
            words.push(NO_ENVIRONMENT);
            packed = words.clone();
            words.clear();
            words.push(packed.as_ptr() as u64);
            ArgumentPassing::Words
        }
        _ => {
            words.push(NO_ENVIRONMENT);
            ArgumentPassing::Pointers
        }
    };
    let pointers: SmallVec<[*const c_void; 12]> =
        words.iter().map(|word| std::ptr::from_ref(word).cast()).collect();
    let sizes: SmallVec<[usize; 12]> = words.iter().map(|_| 8).collect();
    let grid = Grid::default().with_passing(passing);
    if wants(kinds::LAUNCHES) {
        let (teams, threads) = (region.teams, region.thread_limit);
        info::host_launch(stream.device.number, kernel, teams, threads);
    }
    let kernel = kernel.get()?;
    // SAFETY: each pointer leads to a word, which outlives the launch.
    let arguments = unsafe { RawArguments::new(&pointers, &sizes)? };
    let _scope = ompt::launch(region.teams);
    let is_direct = stream.device.is_reachable;
    if is_direct {
        // SAFETY: the program compiled the region for these arguments.
        let ran = unsafe { stream.queue()?.launch_and_wait(kernel, grid, arguments) };
        return ran.map_err(Failure::from);
    }
    // SAFETY: as above.
    unsafe { stream.queue_to_submit()?.launch(kernel, grid, arguments).map_err(Failure::from) }
}
