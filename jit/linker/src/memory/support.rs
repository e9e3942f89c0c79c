//! Helpers for the tests of memory managers: short requests, actions that keep a log, and a view of
//! this process's mappings.

use std::fs;
use std::io::{Read, Seek, Write};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::*;

/// The code of a function that returns `42`.
#[cfg(target_arch = "x86_64")]
pub(crate) const CODE: [u8; 6] = [0xb8, 42, 0, 0, 0, 0xc3]; // `mov eax, 42; ret`
/// The code of a function that returns `42`.
#[cfg(target_arch = "aarch64")]
pub(crate) const CODE: [u8; 8] = [0x40, 0x05, 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6]; // `mov w0, #42; ret`

pub(crate) fn standard(protection: Protection, content_size: u64) -> SegmentRequest {
    SegmentRequest {
        protection,
        lifetime: Lifetime::Standard,
        alignment: 16,
        content_size,
        zero_fill_size: 0,
        group: 0,
    }
}

/// Returns the reply of a manager that replies at once.
pub(crate) fn now<T>(pending: Pending<T>) -> Result<T> {
    pending.now_or_never().expect("the managers of this process answer at once")
}

/// Allocates memory for one object.
pub(crate) fn allocate(
    memory: &dyn MemoryManager,
    segments: &[SegmentRequest],
) -> Box<dyn InFlightAllocation> {
    allocate_at(memory, Placement::Anywhere, segments).unwrap()
}

pub(crate) fn allocate_at(
    memory: &dyn MemoryManager,
    placement: Placement,
    segments: &[SegmentRequest],
) -> Result<Box<dyn InFlightAllocation>> {
    let objects = &[ObjectRequest { name: "test", segments }];
    now(memory.allocate(AllocationRequest { objects, placement }))
}

/// Allocates memory for objects that have the same segments.
pub(crate) fn allocate_together(
    memory: &dyn MemoryManager,
    count: usize,
    segments: &[SegmentRequest],
) -> Box<dyn InFlightAllocation> {
    let objects = &vec![ObjectRequest { name: "test", segments }; count];
    now(memory.allocate(AllocationRequest { objects, placement: Placement::Anywhere })).unwrap()
}

/// Finalizes the memory of one object.
pub(crate) fn finalize(
    in_flight: Box<dyn InFlightAllocation>,
    actions: Vec<ActionPair>,
) -> Result<FinalizedAllocation> {
    let mut finalized = now(in_flight.finalize(vec![actions]))?;
    assert_eq!(finalized.len(), 1);
    Ok(finalized.remove(0))
}

/// The names of completed actions, in order. An action's argument is the address of its log,
/// whether to fail, and its name.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn call(&self, name: &str) -> ActionCall {
        self.action(name, false)
    }

    pub(crate) fn failing(&self, name: &str) -> ActionCall {
        self.action(name, true)
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    fn action(&self, name: &str, fails: bool) -> ActionCall {
        let mut argument = (Arc::as_ptr(&self.0) as u64).to_ne_bytes().to_vec();
        argument.push(fails.into());
        argument.extend(name.bytes());
        // SAFETY: the function takes the argument that is made here.
        unsafe { ActionCall::new(record as *const () as u64, argument) }
    }
}

/// Returns an action that logs `+name`, and one that undoes it and logs `-name`.
pub(crate) fn pair(log: &Log, name: &str) -> ActionPair {
    ActionPair {
        finalize: Some(log.call(&format!("+{name}"))),
        deallocate: Some(log.call(&format!("-{name}"))),
    }
}

unsafe extern "C" fn record(argument: *const u8, size: usize) -> *mut std::ffi::c_char {
    // SAFETY: an action's caller passes the length of the argument.
    let argument = unsafe { std::slice::from_raw_parts(argument, size) };
    let (log, rest) = argument.split_first_chunk().unwrap();
    let name = std::str::from_utf8(&rest[1..]).unwrap();
    // SAFETY: `Log::action` has written this address, and its test still has the log.
    let log = unsafe { &*(u64::from_ne_bytes(*log) as *const Mutex<Vec<String>>) };
    log.lock().push(name.to_owned());
    let failed = std::ffi::CString::new(format!("{name} failed")).unwrap();
    // SAFETY: the string ends with a zero byte.
    if rest[0] == 0 { std::ptr::null_mut() } else { unsafe { libc::strdup(failed.as_ptr()) } }
}

/// A line of `/proc/self/maps`.
pub(crate) struct Map {
    pub(crate) range: std::ops::Range<u64>,
    pub(crate) access: String,
    is_heap: bool,
}

pub(crate) fn maps() -> Vec<Map> {
    let parse = |line: &str| {
        let (range, rest) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        Map {
            range: number(start)..number(end),
            access: rest[..3].to_owned(),
            is_heap: rest.ends_with("[heap]"),
        }
    };
    fs::read_to_string("/proc/self/maps").unwrap().lines().map(parse).collect()
}

pub(crate) fn find(address: u64) -> Option<Map> {
    maps().into_iter().find(|map| map.range.contains(&address))
}

pub(crate) fn access(address: u64) -> String {
    find(address).expect("the address is mapped").access
}

/// Returns the number of mapped bytes, however the kernel has merged neighbours. The heap, which
/// grows with the tests' own needs, is left out.
pub(crate) fn mapped_bytes() -> u64 {
    maps().iter().filter(|map| !map.is_heap).map(|map| map.range.end - map.range.start).sum()
}

pub(crate) fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runs a check in a child process, where no other thread maps or unmaps memory.
pub(crate) fn alone(check: impl FnOnce()) {
    let mut report = tempfile::tempfile().unwrap();
    // SAFETY: the child uses only values that this thread owns, and the allocator, which glibc
    // makes usable after a fork.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "{}", std::io::Error::last_os_error());
    if child == 0 {
        let hook_report = report.try_clone().unwrap();
        std::panic::set_hook(Box::new(move |info| drop(write!(&hook_report, "{info}"))));
        let failed = std::panic::catch_unwind(AssertUnwindSafe(check)).is_err();
        // SAFETY: the call ends this process without running exit handlers of other threads.
        unsafe { libc::_exit(failed.into()) }
    }
    let mut status = 0;
    // SAFETY: the status is valid for a write.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    let mut text = String::new();
    report.rewind().unwrap();
    report.read_to_string(&mut text).unwrap();
    assert_eq!(status, 0, "in the child: {text}");
}
