//! PoCL and Intel's runtime, the peers that run kernels with barriers on a CPU.

use anyhow::{Context as _, Error, Result, anyhow};
use longshore::{Buffer, Element};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_CPU, Device};
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer as Memory, CL_MEM_READ_WRITE, CL_MEM_USE_HOST_PTR, ClMem};
use opencl3::platform::get_platforms;
use opencl3::program::Program;
use std::ffi::c_void;
use std::fmt;
use tempfile::TempDir;

/// The kernels that correspond to `kernels.c` in group form.
pub(crate) const GROUP_KERNELS: &str = include_str!("peers/kernels.cl");
/// The kernels that correspond to `kernels.c` in items form.
pub(crate) const ITEM_KERNELS: &str = include_str!("peers/items.cl");

/// The variable with the folder of the drivers that the loader opens.
const DRIVERS: &str = "OCL_ICD_VENDORS";
/// The folder of the system's drivers.
const SYSTEM_DRIVERS: &str = "/etc/OpenCL/vendors";

/// An implementation of OpenCL for CPUs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runtime {
    Pocl,
    Intel,
}

/// A device of a runtime, with kernels.
pub(crate) struct OpenCl {
    context: Context,
    queue: CommandQueue,
    program: Program,
    pub(crate) runtime: Runtime,
    /// The runtime's description of the device, with the versions and the name of the CPU.
    pub(crate) description: String,
}

/// An argument of a kernel.
#[derive(Clone, Copy)]
pub(crate) enum Argument {
    Float(f32),
    Int(u32),
    Long(u64),
    /// Address and size in bytes.
    Memory(u64, u64),
    /// A pointer to nothing.
    Nothing,
}

impl Argument {
    /// Returns a pointer to the value as a kernel of ours takes it, and its size in bytes.
    pub(crate) fn value(&self) -> (*const c_void, usize) {
        fn parts<T>(value: &T) -> (*const c_void, usize) {
            (std::ptr::from_ref(value).cast(), size_of::<T>())
        }
        match self {
            Argument::Float(value) => parts(value),
            Argument::Int(value) => parts(value),
            Argument::Long(value) => parts(value),
            Argument::Memory(address, _) => parts(address),
            Argument::Nothing => parts(&0u64),
        }
    }

    pub(crate) fn from_buffer<T: Element>(buffer: &Buffer<T>) -> Argument {
        Argument::Memory(buffer.pointer().address(), (buffer.len() * size_of::<T>()) as u64)
    }
}

/// A launch that can be repeated.
pub(crate) struct Command {
    kernel: Kernel,
    global: [usize; 3],
    local: [usize; 3],
    _memory: Vec<Memory<u8>>,
}

impl Runtime {
    fn platform(self) -> &'static str {
        match self {
            Runtime::Pocl => "Portable Computing Language",
            Runtime::Intel => "Intel(R) OpenCL",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Runtime::Pocl => "PoCL",
            Runtime::Intel => "Intel",
        })
    }
}

/// Makes the loader also open Intel's driver, if `cargo xtask bench` has installed it, unless the
/// user has chosen the drivers. Returns a folder that must exist when the first device is created.
///
/// # Errors
/// Errors of files.
///
/// # Safety
/// There is no other thread.
pub(crate) unsafe fn add_intel() -> Result<Option<TempDir>> {
    let Some(library) = xtask::intel_opencl::library() else { return Ok(None) };
    if std::env::var_os(DRIVERS).is_some() {
        return Ok(None);
    }
    let folder = tempfile::tempdir()?;
    for file in std::fs::read_dir(SYSTEM_DRIVERS).into_iter().flatten() {
        let file = file?;
        std::fs::copy(file.path(), folder.path().join(file.file_name()))?;
    }
    let library = library.into_os_string();
    std::fs::write(folder.path().join("longshore-intel.icd"), library.as_encoded_bytes())?;
    // SAFETY: promised by the caller.
    unsafe { std::env::set_var(DRIVERS, folder.path()) };
    Ok(Some(folder))
}

impl OpenCl {
    /// Creates a device of a runtime with the kernels of a source.
    ///
    /// # Errors
    /// A missing part of the runtime.
    pub(crate) fn new(runtime: Runtime, source: &str) -> Result<OpenCl> {
        let said = |error: opencl3::error_codes::ClError| anyhow!("{error}");
        let platforms =
            get_platforms().map_err(said).context("libOpenCL.so.1 gives no platforms")?;
        let is_its = |name: &str| name.contains(runtime.platform());
        let mut found = platforms.iter().filter(|p| p.name().is_ok_and(|name| is_its(&name)));
        let platform = found.next().with_context(|| format!("no OpenCL platform of {runtime}"))?;
        let devices = platform.get_devices(CL_DEVICE_TYPE_CPU).map_err(said)?;
        let device = devices.first().with_context(|| format!("{runtime} has no device"))?;
        let device = Device::new(*device);
        let context = Context::from_device(&device).map_err(said)?;
        let queue = CommandQueue::create_default_with_properties(&context, 0, 0).map_err(said)?;
        let program = Program::create_and_build_from_source(&context, source, "");
        let program = program.map_err(Error::msg)?;
        let (version, name) = (platform.version().map_err(said)?, device.name().map_err(said)?);
        let description = format!("{version}, device {name}");
        Ok(OpenCl { context, queue, program, runtime, description })
    }

    /// Creates a launch of the kernel `name`.
    ///
    /// # Errors
    /// The runtime's errors.
    pub(crate) fn command(
        &self,
        name: &str,
        grid: ([u32; 3], [u32; 3]),
        arguments: &[Argument],
    ) -> Result<Command> {
        let mut memory = Vec::new();
        let kernel = Kernel::create(&self.program, name).map_err(|error| anyhow!("{error}"))?;
        for (index, argument) in (0..).zip(arguments) {
            // SAFETY: the values have the types of the kernel's parameters; the memory outlives the
            // command, as the caller of `run` vouches.
            let set = unsafe {
                match argument {
                    Argument::Float(value) => kernel.set_arg(index, value),
                    Argument::Int(value) => kernel.set_arg(index, value),
                    Argument::Long(value) => kernel.set_arg(index, value),
                    Argument::Nothing => kernel.set_arg(index, &std::ptr::null_mut::<c_void>()),
                    Argument::Memory(address, bytes) => {
                        let flags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
                        let (place, bytes) = (*address as *mut c_void, *bytes as usize);
                        let buffer = Memory::<u8>::create(&self.context, flags, bytes, place);
                        buffer.and_then(|buffer| {
                            memory.push(buffer);
                            kernel.set_arg(index, &memory[memory.len() - 1].get())
                        })
                    }
                }
            };
            set.map_err(|error| anyhow!("argument {index} of '{name}': {error}"))?;
        }
        let (groups, items) = grid;
        let local = items.map(|count| count as usize);
        let global = [0, 1, 2].map(|d| groups[d] as usize * local[d]);
        Ok(Command { kernel, global, local, _memory: memory })
    }

    /// Enqueues launches.
    pub(crate) fn enqueue(&self, commands: &[Command]) {
        for command in commands {
            let (global, local) = (command.global.as_ptr(), command.local.as_ptr());
            let kernel = command.kernel.get();
            // SAFETY: both have 3 elements; the kernel's arguments were set.
            let queued = unsafe {
                self.queue.enqueue_nd_range_kernel(kernel, 3, std::ptr::null(), global, local, &[])
            };
            queued.unwrap_or_else(|error| panic!("{}: {error}", self.runtime));
        }
    }

    /// Enqueues launches and waits for them.
    pub(crate) fn run(&self, commands: &[Command]) {
        self.enqueue(commands);
        self.queue.finish().unwrap_or_else(|error| panic!("{}: {error}", self.runtime));
    }
}
