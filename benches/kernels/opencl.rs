//! PoCL, the peer that runs kernels with barriers on a CPU.

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

const SOURCE: &str = include_str!("peers/kernels.cl");

/// A device of PoCL with the kernels.
pub(crate) struct OpenCl {
    context: Context,
    queue: CommandQueue,
    program: Program,
    /// PoCL's description of the device, with the version of LLVM and the name of the CPU.
    pub(crate) description: String,
}

/// An argument of a kernel.
pub(crate) enum Argument {
    Float(f32),
    Int(u32),
    Long(u64),
    /// Address and size in bytes.
    Memory(u64, u64),
}

impl Argument {
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

impl OpenCl {
    /// Creates a device with the kernels.
    ///
    /// # Errors
    /// A missing part of PoCL.
    pub(crate) fn new() -> Result<OpenCl> {
        let said = |error: opencl3::error_codes::ClError| anyhow!("{error}");
        let platforms = get_platforms().map_err(said).context("no libOpenCL.so.1")?;
        let is_pocl = |name: &str| name.contains("Portable Computing Language");
        let mut found = platforms.iter().filter(|p| p.name().is_ok_and(|name| is_pocl(&name)));
        let platform = found.next().context("OpenCL has no platform of PoCL")?;
        let devices = platform.get_devices(CL_DEVICE_TYPE_CPU).map_err(said)?;
        let device = Device::new(*devices.first().context("PoCL has no device")?);
        let context = Context::from_device(&device).map_err(said)?;
        let queue = CommandQueue::create_default_with_properties(&context, 0, 0).map_err(said)?;
        let program = Program::create_and_build_from_source(&context, SOURCE, "");
        let program = program.map_err(Error::msg)?;
        let (version, name) = (platform.version().map_err(said)?, device.name().map_err(said)?);
        let description = format!("{version}, device {name}");
        Ok(OpenCl { context, queue, program, description })
    }

    /// Creates a launch of the kernel `name`.
    ///
    /// # Errors
    /// PoCL's errors.
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
            queued.expect("PoCL queues");
        }
    }

    /// Enqueues launches and waits for them.
    pub(crate) fn run(&self, commands: &[Command]) {
        self.enqueue(commands);
        self.queue.finish().expect("PoCL runs");
    }
}
