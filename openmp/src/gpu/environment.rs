//! Structures that host and device runtime share, and access to variables of images.

use super::kernel::if_found;
use longshore::{Global, Program, Queue, Result};
use std::ffi::c_void;

/// Names of the variable with the device environment; the second one is that of LLVM 16 and older.
pub(super) const DEVICE_ENVIRONMENT: [&str; 2] =
    ["__omp_rtl_device_environment", "omptarget_device_environment"];

/// The description of a device for its runtime. LLVM: `DeviceEnvironmentTy`.
///
/// Versions have added fields at the end: LLVM 16 ends behind the size of dynamic memory, LLVM 17
/// behind the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeviceEnvironment {
    pub(super) debug_kinds: u32,
    pub(super) device_count: u32,
    pub(super) device_number: u32,
    /// Size of dynamic group memory in bytes.
    pub(super) group_bytes: u32,
    pub(super) clock_rate: u64,
    /// Device address of the table of indirect calls.
    pub(super) indirect_calls: u64,
    /// Number of entries of that table.
    pub(super) indirect_call_count: u64,
    pub(super) parallelism: u64,
}

impl DeviceEnvironment {
    /// Returns the first `most` bytes of the structure, as the device reads them.
    pub(super) fn to_bytes(self, most: usize) -> Vec<u8> {
        let halves = [self.debug_kinds, self.device_count, self.device_number, self.group_bytes];
        let words =
            [self.clock_rate, self.indirect_calls, self.indirect_call_count, self.parallelism];
        let halves = halves.iter().flat_map(|field| field.to_le_bytes());
        let words = words.iter().flat_map(|field| field.to_le_bytes());
        halves.chain(words).take(most).collect()
    }
}

/// The description of a launch for the kernel. LLVM: `KernelLaunchEnvironmentTy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LaunchEnvironment {
    /// Device address of the buffer of reductions; 0 without a reduction.
    pub(super) reduction_buffer: u64,
    /// Device address of memory in place of dynamic group memory.
    pub(super) group_memory: u64,
    /// Size of dynamic group memory in bytes.
    pub(super) group_bytes: u32,
    /// Kind of the replacement for dynamic group memory that the device lacks.
    pub(super) fallback: u8,
}

impl LaunchEnvironment {
    /// Returns the structure for a version of the region's arguments. Counters of teams are 0.
    pub(super) fn to_bytes(self, version: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(40);
        let mut word = |value: u64| bytes.extend(value.to_le_bytes());
        if version < 4 {
            word(0);
            word(self.reduction_buffer);
            return bytes;
        }
        word(self.reduction_buffer);
        word(self.group_memory);
        // Version 4 counts teams twice.
        bytes.extend([0; 8].iter().take(if version == 4 { 8 } else { 4 }));
        bytes.extend(self.group_bytes.to_le_bytes());
        bytes.push(self.fallback);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }
}

/// Returns a variable of an image, if the image has it.
///
/// # Errors
/// Errors of the driver.
pub(super) fn find(program: &Program, name: &str) -> Result<Option<Global>> {
    if_found(program.global(name))
}

/// Reads a variable. Blocks.
///
/// # Errors
/// Errors of the driver.
pub(super) fn read(queue: &Queue, global: &Global) -> Result<Vec<u8>> {
    read_at(queue, global.pointer().address(), global.bytes())
}

/// Reads device memory. Blocks.
///
/// # Errors
/// Errors of the driver.
pub(super) fn read_at(queue: &Queue, address: u64, bytes: u64) -> Result<Vec<u8>> {
    let mut contents = vec![0u8; bytes as usize];
    let to = contents.as_mut_ptr().cast::<c_void>();
    // SAFETY: the contents have as many bytes, and live until the queue is done.
    unsafe { queue.copy_to_host(to, longshore::DevicePointer(address), bytes)? };
    queue.synchronize()?;
    Ok(contents)
}

/// Writes device memory. Blocks.
///
/// # Errors
/// Errors of the driver.
pub(super) fn write_at(queue: &Queue, address: u64, contents: &[u8]) -> Result<()> {
    let from = contents.as_ptr().cast::<c_void>();
    let bytes = contents.len() as u64;
    // SAFETY: the contents have as many bytes, and live until the queue is done. The address is
    // that of a variable or allocation of at least that size.
    unsafe { queue.copy_from_host(longshore::DevicePointer(address), from, bytes)? };
    queue.synchronize()
}

/// Writes the beginning of a variable, if the image has it, and returns whether it has. Blocks.
///
/// # Errors
/// Errors of the driver.
pub(super) fn write_if_found(
    program: &Program,
    queue: &Queue,
    name: &str,
    contents: &[u8],
) -> Result<bool> {
    let Some(global) = find(program, name)? else { return Ok(false) };
    let bytes = contents.len().min(global.bytes() as usize);
    write_at(queue, global.pointer().address(), &contents[..bytes])?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_image_gets_the_first_fields_of_the_device_environment() {
        let environment = DeviceEnvironment {
            debug_kinds: 1,
            device_count: 2,
            device_number: 3,
            group_bytes: 4,
            clock_rate: 5,
            indirect_calls: 6,
            indirect_call_count: 7,
            parallelism: 8,
        };
        let words: Vec<_> = environment.to_bytes(16).chunks(4).map(|word| word[0]).collect();
        assert_eq!(words, [1, 2, 3, 4]);
        assert_eq!(environment.to_bytes(24).len(), 24);
        assert_eq!(environment.to_bytes(100).len(), 48);
    }

    #[test]
    fn launch_environments_have_the_layout_of_their_version() {
        let environment = LaunchEnvironment {
            reduction_buffer: 0x1000,
            group_memory: 0x2000,
            group_bytes: 64,
            fallback: 2,
        };
        let words = |version| {
            let bytes = environment.to_bytes(version);
            let words = bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            words.collect::<Vec<_>>()
        };
        assert_eq!(words(3), [0, 0x1000]);
        assert_eq!(words(4), [0x1000, 0x2000, 0, 2 << 32 | 64]);
        assert_eq!(words(5), [0x1000, 0x2000, 64 << 32, 2]);
    }
}
