//! Queued commands with their captured values, in memory that is kept for later commands.

use crate::check;
use crate::execute::words::{LEAST_WORDS, Words, word_of};
use crate::execute::{Engine, Job, Launch};
use crate::guard::Modes;
use crate::record::Record;
use crate::rect::Rect;
use longshore_plugin_api::{Arguments, Error, ErrorCode, HostFunction, Result, Span};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Commands in the order of their execution.
///
/// Captured values (arguments, patterns) lie in one array beside the commands, so adding a command
/// allocates nothing once both arrays have grown.
#[derive(Default)]
pub(crate) struct Batch {
    commands: Vec<Command>,
    launches: Vec<Launch>,
    rects: Vec<Rect>,
    captured: Vec<Block>,
    /// Index of the first command that has not begun to run.
    next: usize,
}

/// Capacity that an emptied batch keeps: 2 MiB of commands and 2 MiB of captured values.
const KEPT_COMMANDS: usize = 1 << 16;
const KEPT_BLOCKS: usize = 1 << 17;

/// Unit of captured memory, which gives every captured value its alignment.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Block([u8; 16]);

const BLOCK_BYTES: usize = size_of::<Block>();

enum Command {
    /// A launch whose `count` offsets of captured values, in bytes, start at block `table`.
    Launch {
        launch: u32,
        table: u32,
        count: u32,
    },
    /// A launch with `count` words, which start at block `words`.
    Words {
        launch: u32,
        words: u32,
        count: u32,
    },
    Copy {
        destination: u64,
        source: u64,
        bytes: u64,
    },
    Fill {
        destination: Span,
        pattern: u32,
        pattern_bytes: u32,
    },
    /// The rectangular copy of this index.
    Rect(u32),
    Host(HostFunction),
    Reach(Arc<Record>),
    Wait(Arc<Record>),
    /// A command that was taken for execution.
    Taken,
    #[cfg(test)]
    Panic,
}

/// Pending failures of a queue's commands.
pub(crate) trait Failures {
    /// Adds a failure.
    fn add(&self, error: Error);

    /// Returns the first failure, which stays pending.
    fn first(&self) -> Option<Error>;
}

impl Batch {
    /// Returns whether no command is left to run.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.commands.len()
    }

    /// Adds a launch and captures its arguments.
    ///
    /// # Errors
    /// `OutOfResources` if memory runs out, as for all methods that add a command; nothing was
    /// added.
    pub(crate) fn launch(&mut self, launch: Launch, arguments: Arguments<'_>) -> Result<()> {
        let table_bytes = arguments.len().saturating_mul(size_of::<usize>());
        let value_blocks = arguments.values().map(|value| value.len().div_ceil(BLOCK_BYTES));
        let blocks = value_blocks.fold(table_bytes.div_ceil(BLOCK_BYTES), usize::saturating_add);
        let table = self.reserve(blocks)?;
        let mut value_at = table * BLOCK_BYTES + table_bytes.next_multiple_of(BLOCK_BYTES);
        for (i, value) in arguments.values().enumerate() {
            let slot = table * BLOCK_BYTES + i * size_of::<usize>();
            self.write(slot, &value_at.to_ne_bytes());
            self.write(value_at, value);
            value_at += value.len().next_multiple_of(BLOCK_BYTES);
        }
        let (table, count) = (narrow(table)?, narrow(arguments.len())?);
        let launch = self.add_launch(launch, blocks)?;
        self.commands.push(Command::Launch { launch, table, count });
        Ok(())
    }

    /// Adds a launch whose kernel takes words.
    ///
    /// # Errors
    /// `OutOfResources`, as for all methods that add a command.
    pub(crate) fn launch_words(&mut self, launch: Launch, arguments: Arguments<'_>) -> Result<()> {
        let bytes = arguments.len().max(LEAST_WORDS).saturating_mul(size_of::<u64>());
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        let words = self.reserve(blocks)?;
        for (i, value) in arguments.values().enumerate() {
            let at = words * BLOCK_BYTES + i * size_of::<u64>();
            self.write(at, &word_of(value).to_ne_bytes());
        }
        let (words, count) = (narrow(words)?, narrow(arguments.len())?);
        let launch = self.add_launch(launch, blocks)?;
        self.commands.push(Command::Words { launch, words, count });
        Ok(())
    }

    /// Keeps a launch whose arguments take `blocks` blocks; returns its index.
    fn add_launch(&mut self, launch: Launch, blocks: usize) -> Result<u32> {
        let index = narrow(self.launches.len())?;
        self.launches.try_reserve(1).map_err(|_| out_of_memory(blocks))?;
        self.launches.push(launch);
        Ok(index)
    }

    /// Adds a copy. Overlapping ranges copy as if through a buffer.
    pub(crate) fn copy(&mut self, destination: Span, source: Span) -> Result<()> {
        self.reserve(0)?;
        let (bytes, source) = (destination.bytes(), source.address());
        self.commands.push(Command::Copy { destination: destination.address(), source, bytes });
        Ok(())
    }

    /// Adds a rectangular copy.
    pub(crate) fn rect(&mut self, rect: Rect) -> Result<()> {
        self.reserve(0)?;
        self.rects.try_reserve(1).map_err(|_| out_of_memory(0))?;
        let index = narrow(self.rects.len())?;
        self.rects.push(rect);
        self.commands.push(Command::Rect(index));
        Ok(())
    }

    /// Adds a fill and captures its pattern.
    pub(crate) fn fill(&mut self, destination: Span, pattern: &[u8]) -> Result<()> {
        let at = self.reserve(pattern.len().div_ceil(BLOCK_BYTES))?;
        self.write(at * BLOCK_BYTES, pattern);
        let (pattern, pattern_bytes) = (narrow(at)?, narrow(pattern.len())?);
        self.commands.push(Command::Fill { destination, pattern, pattern_bytes });
        Ok(())
    }

    /// Adds a call of a host function.
    pub(crate) fn host(&mut self, function: HostFunction) -> Result<()> {
        self.reserve(0)?;
        self.commands.push(Command::Host(function));
        Ok(())
    }

    /// Adds a record, which is reached when the commands before it are done.
    pub(crate) fn reach(&mut self, record: Arc<Record>) -> Result<()> {
        self.reserve(0)?;
        self.commands.push(Command::Reach(record));
        Ok(())
    }

    /// Adds a wait for a record of another queue.
    pub(crate) fn wait(&mut self, record: Arc<Record>) -> Result<()> {
        self.reserve(0)?;
        self.commands.push(Command::Wait(record));
        Ok(())
    }

    /// Runs commands up to a wait for a record that is not reached, and returns that record.
    /// Otherwise runs all commands and empties the batch. A failed kernel or a panic ends its
    /// command only, and is added to `failures`. Blocks until the commands are done.
    pub(crate) fn run(
        &mut self,
        engine: &Engine,
        job: &Arc<Job>,
        failures: &impl Failures,
    ) -> Option<Arc<Record>> {
        while !self.is_empty() {
            let run = || self.run_commands(engine, job, failures);
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(None)) => {}
                Ok(Ok(unreached)) => return unreached,
                Ok(Err(error)) => failures.add(error),
                Err(payload) => failures.add(Error::from_panic("a queued command", payload)),
            }
        }
        self.next = 0;
        self.commands.clear();
        self.launches.clear();
        self.rects.clear();
        self.captured.clear();
        self.commands.shrink_to(KEPT_COMMANDS);
        self.launches.shrink_to(KEPT_COMMANDS);
        self.rects.shrink_to(KEPT_COMMANDS);
        self.captured.shrink_to(KEPT_BLOCKS);
        None
    }

    /// Runs commands up to a failure, or up to a wait for a record that is not reached.
    fn run_commands(
        &mut self,
        engine: &Engine,
        job: &Arc<Job>,
        failures: &impl Failures,
    ) -> Result<Option<Arc<Record>>> {
        while let Some(command) = self.commands.get_mut(self.next) {
            if let Command::Wait(record) = command
                && !record.is_reached()
            {
                return Ok(Some(Arc::clone(record)));
            }
            self.next += 1;
            let command = std::mem::replace(command, Command::Taken);
            self.run_command(command, engine, job, failures)?;
        }
        Ok(None)
    }

    #[inline]
    fn run_command(
        &mut self,
        command: Command,
        engine: &Engine,
        job: &Arc<Job>,
        failures: &impl Failures,
    ) -> Result<()> {
        match command {
            Command::Launch { launch, table, count } => {
                let arguments = self.argument_table(table as usize, count as usize);
                let launch = self.launches[launch as usize];
                // SAFETY: the launch's `Arguments` vouched for running the kernel with these
                // values, which stay in place until the batch is emptied.
                unsafe { engine.run(job, &launch, arguments.cast_const().cast()) }?;
            }
            Command::Words { launch, words, count } => {
                let words = self.captured[words as usize..].as_ptr().cast();
                let launch = self.launches[launch as usize];
                // SAFETY: `launch_words` reserved and wrote `count` words, at least `LEAST_WORDS`,
                // which stay in place until the batch is emptied. The launch's `Arguments` vouched
                // for running the kernel with them.
                unsafe { engine.run_words(&launch, Words::new(words, count as usize)) }?;
            }
            // SAFETY: the copy's spans vouched for both ranges until the copy is done.
            Command::Copy { destination, source, bytes } => unsafe {
                copy_bytes(destination, source, bytes);
            },
            // SAFETY: the rectangle's spans vouched for the rows until the copy is done.
            Command::Rect(rect) => unsafe { self.rects[rect as usize].copy() },
            Command::Fill { destination, pattern, pattern_bytes } => {
                let pattern = &self.captured[pattern as usize..];
                // SAFETY: `fill` wrote `pattern_bytes` bytes at this block; blocks are plain bytes.
                let pattern = unsafe {
                    std::slice::from_raw_parts(pattern.as_ptr().cast(), pattern_bytes as usize)
                };
                // SAFETY: the fill's span vouched for the range; it is not the batch's own memory.
                unsafe { fill_bytes(destination, pattern) }
            }
            Command::Host(function) => Modes::preserved(|| function.call()),
            Command::Reach(record) => record.reach(failures.first()),
            Command::Wait(record) => return record.failure().cloned().map_or(Ok(()), Err),
            Command::Taken => unreachable!("each command is taken once"),
            #[cfg(test)]
            Command::Panic => panic!("asked for"),
        }
        Ok(())
    }

    /// Replaces a launch's captured offsets by pointers.
    fn argument_table(&mut self, table: usize, count: usize) -> *mut *mut c_void {
        let base = self.captured.as_mut_ptr().cast::<u8>();
        // SAFETY: `launch` reserved and wrote `count` slots from block `table` on. The slots'
        // offsets lie in `captured` or at its end, and blocks are aligned for pointers.
        unsafe {
            let slots = base.add(table * BLOCK_BYTES).cast::<usize>();
            for i in 0..count {
                let slot = slots.add(i);
                slot.cast::<*mut u8>().write(base.add(slot.read()));
            }
            slots.cast()
        }
    }

    /// Reserves memory for one command and `blocks` blocks; returns the first block's index.
    fn reserve(&mut self, blocks: usize) -> Result<usize> {
        let room = self.commands.try_reserve(1).and_then(|()| self.captured.try_reserve(blocks));
        room.map_err(|_| out_of_memory(blocks))?;
        let at = self.captured.len();
        self.captured.resize(at + blocks, Block([0; BLOCK_BYTES]));
        Ok(at)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.captured.len() * BLOCK_BYTES);
        // SAFETY: the caller reserved the range, and blocks are plain bytes.
        unsafe {
            let to = self.captured.as_mut_ptr().cast::<u8>().add(at);
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }
}

#[cfg(test)]
impl Batch {
    pub(crate) fn panic(&mut self) -> Result<()> {
        self.commands.push(Command::Panic);
        Ok(())
    }
}

/// Copies memory; the ranges may overlap.
///
/// # Safety
/// Both ranges are valid for `bytes` bytes, unless that is 0.
#[inline]
pub(crate) unsafe fn copy_bytes(destination: u64, source: u64, bytes: u64) {
    if bytes != 0 {
        // SAFETY: promised by the caller.
        unsafe { std::ptr::copy(source as *const u8, destination as *mut u8, bytes as usize) }
        check::copied(destination, source, bytes);
    }
}

/// Fills memory with a pattern whose length divides the range's.
///
/// # Safety
/// The range is valid for writes and does not overlap `pattern`.
pub(crate) unsafe fn fill_bytes(destination: Span, pattern: &[u8]) {
    /// Most bytes per copy, so that the source stays in the nearest cache.
    const CHUNK: usize = 16 << 10;
    let (to, bytes) = (destination.address() as *mut u8, destination.bytes() as usize);
    let Some((first, rest)) = pattern.split_first() else { return };
    if bytes == 0 {
        return;
    }
    check::written(destination.address(), destination.bytes());
    // SAFETY: all writes lie within the range. `done` and the bytes of each copy are multiples of
    // the pattern's length; a copy goes from the range's start to the end of the filled part.
    unsafe {
        if rest.iter().all(|byte| byte == first) {
            return to.write_bytes(*first, bytes);
        }
        to.copy_from_nonoverlapping(pattern.as_ptr(), pattern.len());
        let mut done = pattern.len();
        while done < bytes {
            let whole = (CHUNK / pattern.len()).max(1) * pattern.len();
            let step = done.min(whole).min(bytes - done);
            to.add(done).copy_from_nonoverlapping(to, step);
            done += step;
        }
    }
}

fn narrow(index: usize) -> Result<u32> {
    u32::try_from(index).map_err(|_| out_of_memory(index))
}

#[cold]
fn out_of_memory(blocks: usize) -> Error {
    let bytes = blocks.saturating_mul(BLOCK_BYTES);
    let message = format!("no memory for a queued command that captures {bytes} bytes");
    Error::new(ErrorCode::OutOfResources, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoFailure;

    impl Failures for NoFailure {
        fn add(&self, error: Error) {
            unreachable!("nothing fails, but {error} did");
        }

        fn first(&self) -> Option<Error> {
            None
        }
    }

    #[test]
    fn a_fill_repeats_patterns_of_every_length() {
        for pattern_bytes in [1, 2, 3, 4, 7, 16, 48, 5000, 20_000] {
            let pattern: Vec<u8> = (0..pattern_bytes).map(|i| (i % 251) as u8).collect();
            let mut memory = vec![0u8; pattern_bytes * 9];
            // SAFETY: the range is all of `memory`, which no other thread uses.
            unsafe {
                fill_bytes(Span::new(memory.as_mut_ptr() as u64, memory.len() as u64), &pattern);
            }
            assert!(memory.chunks(pattern_bytes).all(|chunk| chunk == pattern));
        }
    }

    #[test]
    fn overlapping_copies_move_the_old_contents() {
        let mut memory: Vec<u8> = (0..100).collect();
        let base = memory.as_mut_ptr() as u64;
        // SAFETY: both ranges lie in `memory`.
        unsafe { copy_bytes(base + 10, base, 90) };
        assert_eq!(memory[10..], (0..90).collect::<Vec<u8>>());
    }

    #[test]
    fn an_emptied_batch_keeps_bounded_memory() {
        let engine = Engine::for_tests();
        let mut batch = Batch::default();
        for _ in 0..KEPT_COMMANDS * 3 {
            // SAFETY: no bytes.
            batch.fill(unsafe { Span::new(0, 0) }, &[1; 40]).unwrap();
        }
        batch.run(&engine, &engine.new_job(), &NoFailure);
        assert!(batch.is_empty());
        assert!(batch.commands.capacity() <= KEPT_COMMANDS);
        assert!(batch.captured.capacity() <= KEPT_BLOCKS);
    }
}
