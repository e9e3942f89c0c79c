//! Launches whose arguments are known only at run time.

use super::limits::{RUN_LIMIT, Watchdog};
use longshore::{Buffer, Grid, Kernel, Program, Queue, RawArguments, Result};
use std::ffi::c_void;

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A value, as the bytes that the kernel receives.
    Value(Vec<u8>),
    /// A pointer to a buffer with these bytes.
    Buffer(Vec<u8>),
}

/// The launch of a kernel.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel's symbol.
    pub kernel: String,
    /// Number of groups.
    pub groups: [u32; 3],
    /// Number of items in a group.
    pub items: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u64,
    /// The arguments.
    pub arguments: Vec<Argument>,
}

/// The end of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The contents of the buffers, in the order of the arguments.
    Results(Vec<Vec<u8>>),
    /// The items have called the runtime's barrier or `gather`, which an emulator lacks.
    NeedsStacks,
}

impl Launch {
    /// Runs the kernel, and returns the contents of the buffers. Blocks. A launch without an end
    /// ends the process.
    ///
    /// # Errors
    /// The errors of buffers and launches.
    ///
    /// # Safety
    /// The kernel's accesses are in bounds of the buffers.
    pub unsafe fn run(&self, program: &Program, queue: &Queue) -> Result<Vec<Vec<u8>>> {
        let _watchdog = Watchdog::aborting(RUN_LIMIT, format!("the launch of {}", self.kernel));
        let prepared = self.prepare(program, queue)?;
        // SAFETY: promised by the caller.
        unsafe { prepared.run(queue) }?;
        prepared.buffers.iter().map(|buffer| buffer.to_vec(queue)).collect()
    }

    /// Makes the buffers, for several runs. Blocks.
    ///
    /// # Errors
    /// The errors of buffers, and a kernel that is not there.
    pub fn prepare(&self, program: &Program, queue: &Queue) -> Result<Prepared> {
        let kernel = program.kernel(&self.kernel)?;
        let (mut buffers, mut values) = (Vec::new(), Vec::new());
        for argument in &self.arguments {
            match argument {
                Argument::Value(bytes) => values.push(bytes.clone()),
                Argument::Buffer(bytes) => {
                    let buffer = queue.device().buffer_of(queue, bytes)?;
                    values.push(buffer.pointer().address().to_ne_bytes().to_vec());
                    buffers.push(buffer);
                }
            }
        }
        let grid = Grid::new(self.groups, self.items).with_shared_bytes(self.shared_bytes);
        Ok(Prepared { kernel, values, buffers, grid })
    }
}

/// A launch with its buffers.
pub struct Prepared {
    kernel: Kernel,
    values: Vec<Vec<u8>>,
    buffers: Vec<Buffer<u8>>,
    grid: Grid,
}

impl Prepared {
    /// Runs the kernel on the buffers as they are. Blocks.
    ///
    /// # Errors
    /// The errors of launches.
    ///
    /// # Safety
    /// The kernel's accesses are in bounds of the buffers.
    pub unsafe fn run(&self, queue: &Queue) -> Result<()> {
        let pointers: Vec<*const c_void> =
            self.values.iter().map(|it| it.as_ptr().cast()).collect();
        let sizes: Vec<usize> = self.values.iter().map(Vec::len).collect();
        // SAFETY: the values live until the launch has ended, and the caller vouches for the
        // accesses.
        unsafe {
            let arguments = RawArguments::new(&pointers, &sizes)?;
            queue.launch_and_wait(&self.kernel, self.grid, arguments)
        }
    }
}
