//! Static thread-local storage for linked code: bytes at a fixed offset from the thread pointer,
//! for code compiled for an executable (initial-exec and local-exec).
//!
//! Only the executable can provide such bytes, and only bytes that it has declared. So an
//! executable reserves some with [`static_tls_reserve!`](crate::static_tls_reserve). Every new
//! thread has them, with the initial contents of the executable's image. So
//! [`StaticTlsBlock::initialise`] writes to the image.

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ops::Range;

use parking_lot::Mutex;
use rustix::mm::{MprotectFlags, mprotect};

use crate::images::{Image, WRITING};
use crate::thread_pointer;
use crate::{Error, Result};

/// Greatest alignment of a block in bytes.
///
/// The reserve is aligned to it. This aligns the executable's thread-local segment, which the C
/// library respects in every thread. So an offset from the thread pointer that is aligned in one
/// thread is aligned in all.
pub const ALIGNMENT: u64 = 64;

/// Declares a reserve of static thread-local storage, of a constant number of bytes, and returns
/// the `Result<&'static `[`StaticTls`]`>` that manages it. Each place in the source has one
/// reserve.
///
/// The reserve takes its size in the executable's file and in every thread; the C library places it
/// on the thread's stack. In a shared library the macro returns an error.
#[macro_export]
macro_rules! static_tls_reserve {
    ($size:expr) => {{
        use ::std::sync::OnceLock;
        use $crate::static_tls::{Reserve, StaticTls};
        ::std::thread_local! {
            static RESERVE: Reserve<{ $size }> = const { Reserve::new() };
        }
        static OWNER: OnceLock<$crate::Result<StaticTls>> = OnceLock::new();
        OWNER
            .get_or_init(|| {
                RESERVE.with(|reserve| {
                    // SAFETY: the variable is thread-local, and no other code can name it.
                    unsafe { StaticTls::new(reserve) }
                })
            })
            .as_ref()
            .map_err(::core::clone::Clone::clone)
    }};
}

/// The variable declared by [`static_tls_reserve!`](crate::static_tls_reserve).
#[doc(hidden)]
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Reserve<const SIZE: usize> {
    /// Nonzero bytes, so that the reserve has contents in the image, and not only a size.
    mark: [u8; ALIGNMENT as usize],
    bytes: UnsafeCell<[u8; SIZE]>,
}

impl<const SIZE: usize> Reserve<SIZE> {
    #[doc(hidden)]
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self { mark: [1; ALIGNMENT as usize], bytes: UnsafeCell::new([0; SIZE]) }
    }
}

/// The owner of a reserve. Any thread may use it.
#[derive(Debug)]
pub struct StaticTls {
    offset_from_thread_pointer: u64,
    size: u64,
    template: Template,
    ranges: Mutex<Ranges>,
}

impl StaticTls {
    /// # Safety
    ///
    /// `reserve` must be the calling thread's instance of a thread-local variable that no other
    /// code uses in any thread.
    #[doc(hidden)]
    pub unsafe fn new<const SIZE: usize>(reserve: &Reserve<SIZE>) -> Result<Self> {
        let (address, size) = (reserve.bytes.get() as u64, SIZE as u64);
        debug_assert_eq!(reserve.mark[0], 1);
        let Some(image) = Image::with_thread_local(address).filter(|image| image.is_executable)
        else {
            return Err(failure("a reserve can only be declared by the executable"));
        };
        Ok(Self {
            offset_from_thread_pointer: address.wrapping_sub(thread_pointer()),
            size,
            template: Template::new(&image, address - image.block, size)?,
            ranges: Mutex::new(Ranges { unused: 0..size, freed: BTreeMap::new() }),
        })
    }

    /// Returns the owner's address, by which controllers name it.
    pub fn address(&'static self) -> u64 {
        &raw const *self as u64
    }

    /// Allocates `size` bytes, aligned to at most [`ALIGNMENT`].
    ///
    /// In the calling thread, in attached ones and in threads that start from now on, the bytes are
    /// zero. In other threads they are zero too, unless the bytes have been in use before. Bytes
    /// are reused only when no unused bytes are left. Too large a size or alignment is an error.
    pub fn allocate(&'static self, size: u64, alignment: u64) -> Result<StaticTlsBlock> {
        if !alignment.is_power_of_two() || alignment > ALIGNMENT {
            return Err(failure(&format!(
                "alignment {alignment:#x} is not a power of two up to {ALIGNMENT:#x}"
            )));
        }
        let mut ranges = self.ranges.lock();
        let none =
            || failure(&format!("no {size:#x} bytes are left of a reserve of {:#x}", self.size));
        let FreeRange { range, is_reused } = ranges.take(size, alignment).ok_or_else(none)?;
        drop(ranges);
        let block = StaticTlsBlock { owner: self, range };
        if is_reused {
            block.initialise(&[])?;
        }
        Ok(block)
    }
}

/// Some bytes of a reserve. Dropping the block gives them back; nothing may use them any more by
/// then.
#[derive(Debug)]
pub struct StaticTlsBlock {
    owner: &'static StaticTls,
    /// Offsets in the reserve.
    range: Range<u64>,
}

impl StaticTlsBlock {
    /// Returns whether an address is in the block of the thread with this thread pointer.
    pub(crate) fn contains(&self, address: u64, thread_pointer: u64) -> bool {
        let start = thread_pointer.wrapping_add_signed(self.offset_from_thread_pointer());
        address.wrapping_sub(start) < self.range.end - self.range.start
    }

    /// Returns the offset of the bytes, the same in every thread.
    pub fn offset_from_thread_pointer(&self) -> i64 {
        self.owner.offset_from_thread_pointer.wrapping_add(self.range.start) as i64
    }

    /// Sets the bytes to `content`, followed by zeroes. They change in the calling thread, in
    /// [attached](attach_thread) ones, and in threads that start after the return. A thread that
    /// starts meanwhile may have a part of the contents. Other threads keep their bytes.
    ///
    /// Contents larger than the block, or an executable whose memory cannot be made writable, are
    /// errors.
    pub fn initialise(&self, content: &[u8]) -> Result<()> {
        let size = self.range.end - self.range.start;
        if content.len() as u64 > size {
            return Err(failure(&format!(
                "{:#x} bytes of content do not fit in {size:#x}",
                content.len()
            )));
        }
        let mut bytes = content.to_vec();
        bytes.resize(size as usize, 0);
        self.owner.template.write(self.range.start, &bytes)?;
        let attached = ATTACHED.lock();
        let here = thread_pointer();
        for thread in attached.iter().copied().filter(|thread| *thread != here).chain([here]) {
            let block = thread.wrapping_add_signed(self.offset_from_thread_pointer()) as *mut u8;
            // SAFETY: these bytes of the thread's reserve belong to this block, which no code uses
            // yet. The thread is the calling one, or an attached one, which does not end while the
            // list is locked.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), block, bytes.len()) };
        }
        Ok(())
    }
}

impl Drop for StaticTlsBlock {
    fn drop(&mut self) {
        self.owner.ranges.lock().give_back(self.range.clone());
    }
}

/// The thread pointers of attached threads.
static ATTACHED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Attaches the calling thread: from now until it ends, blocks initialised by any thread are
/// initialised in it too. For threads that exist before the code that they will run.
pub fn attach_thread() {
    struct Attached;

    impl Attached {
        fn new() -> Self {
            ATTACHED.lock().push(thread_pointer());
            Self
        }
    }

    impl Drop for Attached {
        fn drop(&mut self) {
            ATTACHED.lock().retain(|thread| *thread != thread_pointer());
        }
    }

    thread_local!(static HERE: Attached = Attached::new());
    HERE.with(|_| ());
}

/// The bytes of the executable's image with which a thread's reserve starts.
#[derive(Debug)]
struct Template {
    address: u64,
    /// The pages of the bytes, with their protections.
    pages: Vec<(u64, MprotectFlags)>,
    page_size: u64,
}

impl Template {
    /// Returns the template of the `size` bytes at `offset` in the executable's thread-local block.
    fn new(executable: &Image, offset: u64, size: u64) -> Result<Self> {
        let segment =
            executable.thread_local_segment().filter(|segment| offset + size <= segment.p_filesz);
        let Some(segment) = segment else {
            return Err(failure("the reserve has no content in the executable's image"));
        };
        let address = executable.base + segment.p_vaddr + offset;
        let page_size = rustix::param::page_size() as u64;
        let pages = (address & !(page_size - 1)..address + size).step_by(page_size as usize);
        let pages = pages.map(|page| (page, executable.protection(page, page_size))).collect();
        Ok(Self { address, pages, page_size })
    }

    /// Writes at an offset, and makes the pages writable meanwhile.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let start = self.address + offset;
        let end = start + bytes.len() as u64;
        let _one_at_a_time = WRITING.lock();
        let pages =
            || self.pages.iter().filter(|(page, _)| page + self.page_size > start && *page < end);
        let protect = |page: u64, protection| {
            // SAFETY: the page belongs to the executable, which is never unmapped. No running code
            // relies on the page being read-only.
            unsafe { mprotect(page as *mut _, self.page_size as usize, protection) }.map_err(
                |error| {
                    failure(&format!(
                        "the image's page {page:#x} cannot be made {protection:?}: {error}"
                    ))
                },
            )
        };
        let opened = pages()
            .try_for_each(|(page, protection)| protect(*page, *protection | MprotectFlags::WRITE));
        if opened.is_ok() {
            // SAFETY: the pages are writable, and the bytes belong to the reserve, to which one
            // thread at a time writes.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len()) };
        }
        let closed =
            pages().map(|(page, protection)| protect(*page, *protection)).fold(Ok(()), Result::and);
        opened.and(closed)
    }
}

/// The free bytes of a reserve.
#[derive(Debug)]
struct Ranges {
    /// Bytes never given out.
    unused: Range<u64>,
    /// Bytes given back, and bytes skipped for alignment: start and end of ranges, of which no two
    /// touch.
    freed: BTreeMap<u64, u64>,
}

struct FreeRange {
    range: Range<u64>,
    is_reused: bool,
}

impl Ranges {
    fn take(&mut self, size: u64, alignment: u64) -> Option<FreeRange> {
        let fit = |free: &Range<u64>| {
            let start = free.start.checked_next_multiple_of(alignment)?;
            let end = start.checked_add(size)?;
            (end <= free.end).then_some(start..end)
        };
        if let Some(range) = fit(&self.unused) {
            self.give_back(self.unused.start..range.start);
            self.unused.start = range.end;
            return Some(FreeRange { range, is_reused: false });
        }
        let (free, range) = self
            .freed
            .iter()
            .find_map(|(start, end)| Some((*start..*end, fit(&(*start..*end))?)))?;
        self.freed.remove(&free.start);
        self.give_back(free.start..range.start);
        self.give_back(range.end..free.end);
        Some(FreeRange { range, is_reused: true })
    }

    fn give_back(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        if let Some((start, _)) =
            self.freed.range(..range.start).next_back().filter(|(_, end)| **end == range.start)
        {
            range.start = *start;
        }
        if let Some(end) = self.freed.remove(&range.end) {
            range.end = end;
        }
        self.freed.insert(range.start, range.end);
    }
}

/// Returns the dynamic linker's number of the executable, and the offset in its block of the bytes
/// at `offset` from the thread pointer: a general-dynamic pair for a [`StaticTlsBlock`].
pub(crate) fn module_and_offset(offset: i64) -> (u64, u64) {
    unsafe extern "C" {
        fn __tls_get_addr(pair: *const [u64; 2]) -> *mut std::ffi::c_void;
    }
    const EXECUTABLE: u64 = 1;
    // SAFETY: the executable has thread-local variables, since the reserve is one.
    let block = unsafe { __tls_get_addr(&[EXECUTABLE, 0]) } as u64;
    (EXECUTABLE, thread_pointer().wrapping_add_signed(offset).wrapping_sub(block))
}

fn failure(problem: &str) -> Error {
    Error::Memory { name: "static thread-local storage".into(), problem: problem.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(block: &StaticTlsBlock) -> Vec<u8> {
        let address =
            thread_pointer().wrapping_add_signed(block.offset_from_thread_pointer()) as *const u8;
        let size = block.range.end - block.range.start;
        // SAFETY: the bytes are the calling thread's, and the block's.
        unsafe { std::slice::from_raw_parts(address, size as usize) }.to_vec()
    }

    fn read_in_a_new_thread(block: &StaticTlsBlock) -> Vec<u8> {
        std::thread::scope(|scope| scope.spawn(|| read(block)).join().unwrap())
    }

    #[test]
    fn a_block_is_zeroes_until_it_is_initialised_here_and_in_new_threads() {
        let owner = static_tls_reserve!(10_000).unwrap();
        let block = owner.allocate(9_000, 8).unwrap();
        assert_eq!(read(&block), [0; 9_000]);
        assert_eq!(read_in_a_new_thread(&block), [0; 9_000]);
        block.initialise(&[7; 8_999]).unwrap();
        let expected = [vec![7; 8_999], vec![0]].concat();
        assert_eq!(read(&block), expected);
        assert_eq!(read_in_a_new_thread(&block), expected);
    }

    #[test]
    fn a_thread_that_exists_keeps_the_zeroes_that_it_has() {
        let owner = static_tls_reserve!(64).unwrap();
        let block = owner.allocate(4, 4).unwrap();
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                barrier.wait();
                barrier.wait();
                read(&block)
            });
            barrier.wait();
            block.initialise(&[1, 2, 3, 4]).unwrap();
            barrier.wait();
            assert_eq!(thread.join().unwrap(), [0; 4]);
        });
    }

    #[test]
    fn a_thread_that_is_attached_has_the_content_too() {
        let owner = static_tls_reserve!(64).unwrap();
        let block = owner.allocate(4, 4).unwrap();
        let barrier = std::sync::Barrier::new(2);
        let attached = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                attach_thread();
                barrier.wait();
                barrier.wait();
                (read(&block), thread_pointer())
            });
            barrier.wait();
            block.initialise(&[1, 2, 3, 4]).unwrap();
            barrier.wait();
            let (content, attached) = thread.join().unwrap();
            assert_eq!(content, [1, 2, 3, 4]);
            attached
        });
        assert!(!ATTACHED.lock().contains(&attached));
    }

    #[test]
    fn every_thread_has_a_block_as_aligned_as_asked_for() {
        let owner = static_tls_reserve!(1024).unwrap();
        for alignment in [1, 2, 4, 8, 16, 32, 64] {
            owner.allocate(1, 1).map(std::mem::forget).unwrap();
            let block = owner.allocate(3, alignment).unwrap();
            let address =
                || thread_pointer().wrapping_add_signed(block.offset_from_thread_pointer());
            assert_eq!(address() % alignment, 0);
            std::thread::scope(|scope| {
                assert_eq!(scope.spawn(address).join().unwrap() % alignment, 0)
            });
        }
        for alignment in [0, 3, 128] {
            assert!(owner.allocate(1, alignment).is_err(), "{alignment}");
        }
    }

    #[test]
    fn freed_reserve_is_reused_last_and_is_zeroed() {
        let owner = static_tls_reserve!(64).unwrap();
        let first = owner.allocate(32, 1).unwrap();
        let offset = first.offset_from_thread_pointer();
        first.initialise(&[1; 32]).unwrap();
        drop(first);
        let second = owner.allocate(32, 1).unwrap();
        assert_eq!(second.offset_from_thread_pointer(), offset + 32);
        let third = owner.allocate(32, 1).unwrap();
        assert_eq!(third.offset_from_thread_pointer(), offset);
        assert_eq!(read(&third), [0; 32]);
        assert_eq!(read_in_a_new_thread(&third), [0; 32]);
        assert!(owner.allocate(1, 1).is_err());
        drop((second, third));
        let whole = owner.allocate(64, 64).unwrap();
        assert!(whole.initialise(&[0; 65]).is_err());
    }

    /// Returns a page's protection as the kernel reports it.
    fn actual_protection(page: u64) -> MprotectFlags {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let parse = |line: &str| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            (number(start)..number(end), rest[..3].to_owned())
        };
        let (_, flags) = maps.lines().map(parse).find(|(range, _)| range.contains(&page)).unwrap();
        let bits =
            [('r', MprotectFlags::READ), ('w', MprotectFlags::WRITE), ('x', MprotectFlags::EXEC)];
        bits.into_iter()
            .filter(|(flag, _)| flags.contains(*flag))
            .map(|(_, protection)| protection)
            .collect()
    }

    #[test]
    fn the_image_is_as_protected_after_a_write_as_before() {
        let owner = static_tls_reserve!(20_000).unwrap();
        let check = || {
            let _nobody_writes = WRITING.lock();
            for (page, protection) in &owner.template.pages {
                assert_eq!(actual_protection(*page), *protection, "{page:#x}");
            }
        };
        check();
        owner.allocate(20_000, 1).unwrap().initialise(&[1; 20_000]).unwrap();
        check();
    }

    #[test]
    fn one_place_has_one_reserve() {
        let reserve = || static_tls_reserve!(8);
        assert!(std::ptr::eq(reserve().unwrap(), reserve().unwrap()));
    }

    #[test]
    fn ranges_that_are_given_back_join() {
        let mut ranges = Ranges { unused: 0..40, freed: BTreeMap::new() };
        let taken: Vec<_> = (0..4).map(|_| ranges.take(10, 1).unwrap().range).collect();
        for index in [0, 2, 1, 3] {
            ranges.give_back(taken[index].clone());
        }
        assert_eq!(ranges.freed, BTreeMap::from([(0, 40)]));
        assert!(ranges.take(10, 16).is_some_and(|found| found.range == (0..10) && found.is_reused));
        assert!(ranges.take(10, 16).is_some_and(|found| found.range == (16..26)));
        assert_eq!(ranges.freed, BTreeMap::from([(10, 16), (26, 40)]));
        assert!(ranges.take(u64::MAX, 1).is_none());
    }
}
