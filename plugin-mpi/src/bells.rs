//! Bells: how a process wakes the processes of its machine that sleep until a message comes.
//!
//! MPI has no call that sleeps until there is a message, so that a process must poll, or sleep and
//! be late. Each process therefore has a bell: a page of shared memory with a word on which its
//! threads sleep. A process that has sent a message rings the bell of the receiver, if that one is
//! on the same machine and sleeps. A process finds the pages of others below `/proc`, by numbers
//! that all exchange when they join. No file is left behind, whatever ends a process.
//!
//! A bell only shortens sleeps, which are bounded. So a process without bells, or one that never
//! rings, is slower, and nothing else.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use std::time::Duration;

use longshore_mpi::{Comm, Mpi, MpiError};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::{Timespec, futex};

/// The bells of the processes of a communicator.
#[derive(Debug)]
pub struct Bells {
    /// The rank of this process.
    rank: i32,
    own: Option<Bell>,
    /// Kept open, so that others find the page.
    _file: Option<OwnedFd>,
    all: Box<[Other]>,
    all_ring: bool,
}

#[derive(Debug)]
struct Other {
    place: Place,
    /// Opened at the first ring.
    bell: OnceLock<Option<Bell>>,
}

/// A mapped page with a bell.
#[derive(Debug)]
struct Bell(NonNull<Page>);

/// The page. Each process on the machine can write any value to it.
#[repr(C)]
#[derive(Debug)]
struct Page {
    /// Indexed by [`For`].
    words: [Word; 2],
    /// The page is the one of its [`Place`], and not of a later process with the same number.
    token: [AtomicU64; 2],
}

/// The threads that a ring is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// A thread that receives any message.
    Receiver,
    /// Threads that wait for a reply, for data, or for the work of the receiver.
    Callers,
}

#[repr(C)]
#[derive(Debug)]
struct Word {
    /// Changed by each ring: the word to sleep on.
    rings: AtomicU32,
    /// Threads that sleep, or are about to.
    sleepers: AtomicU32,
    /// Other threads, which sleep until a message comes while no thread receives.
    deputies: AtomicU32,
    /// 1 while no thread receives.
    is_vacant: AtomicU32,
}

/// The place of a page, as the processes exchange it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    /// The machine and the namespace of process numbers; 0 without a page.
    machine: u128,
    process: u32,
    descriptor: u32,
    token: [u64; 2],
}

/// A thread that is about to sleep until the bell of this process rings.
pub(crate) struct Listening<'a> {
    word: &'a Word,
    counter: &'a AtomicU32,
    heard: u32,
}

/// Bytes of a page.
const PAGE: usize = 4096;
/// The name of the file.
const NAME: &str = "longshore-bell";

// SAFETY: the page stays mapped while the bell lives, and has atomics alone.
unsafe impl Send for Bell {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bell {}

impl Bells {
    /// Exchanges the places of the bells of all processes of a communicator. Blocks until all of
    /// them have called. This process has no bell unless `is_wanted`.
    ///
    /// # Errors
    /// A failure of MPI. A process that cannot have a bell has none.
    pub(crate) fn join(mpi: &Mpi, comm: Comm, is_wanted: bool) -> Result<Self, MpiError> {
        let (rank, size) = (mpi.rank(comm)?, mpi.size(comm)?);
        let made = is_wanted.then(make).transpose();
        let made = made.inspect_err(|error| log::debug!("this process has no bell: {error}"));
        let (file, own, place) = match made {
            Ok(Some((file, bell, place))) => (Some(file), Some(bell), place),
            Ok(None) | Err(_) => (None, None, Place::default()),
        };
        let own_place = place.to_bytes();
        let mut places = vec![0; Place::BYTES * size as usize];
        // SAFETY: both buffers live until the request is complete, and have the sizes.
        let mut request =
            unsafe { mpi.iallgather(own_place.as_ptr(), Place::BYTES, places.as_mut_ptr(), comm)? };
        mpi.wait(&mut request)?;
        let other = |bytes| Other { place: Place::from_bytes(bytes), bell: OnceLock::new() };
        let all = places.as_chunks().0.iter().map(other).collect();
        let mut bells = Self { rank, own, _file: file, all, all_ring: false };
        bells.all_ring = (0..size).filter(|other| *other != rank).all(|rank| bells.can_ring(rank));
        Ok(bells)
    }

    /// Wakes threads of a process that sleep, if its bell can be reached.
    #[inline]
    pub(crate) fn ring(&self, rank: i32, threads: For) {
        if let Some(bell) = self.all.get(rank as usize).filter(|_| self.can_ring(rank))
            && let Some(bell) = bell.bell.get_or_init(|| open(&bell.place))
        {
            bell.word(threads).ring();
        }
    }

    /// Wakes threads of this process that sleep.
    pub(crate) fn ring_own(&self, threads: For) {
        if let Some(own) = &self.own {
            own.word(threads).ring();
        }
    }

    /// Returns whether a process and this one ring each other's bells.
    #[inline]
    pub(crate) fn can_ring(&self, rank: i32) -> bool {
        let machine = |rank: i32| self.all.get(rank as usize).map_or(0, |all| all.place.machine);
        self.own.is_some() && rank != self.rank && machine(rank) == machine(self.rank)
    }

    /// Returns whether this process has a bell.
    pub(crate) fn has_own(&self) -> bool {
        self.own.is_some()
    }

    /// Returns whether all other processes ring this one's bell.
    pub(crate) fn all_ring(&self) -> bool {
        self.all_ring
    }

    /// Has others ring from now on. The caller then looks for messages once more, and sleeps if it
    /// finds none. `None` without a bell.
    pub(crate) fn listen(&self, threads: For) -> Option<Listening<'_>> {
        let word = self.own.as_ref()?.word(threads);
        Some(word.listen(&word.sleepers))
    }

    /// Has others ring from now on, but only while no thread receives messages.
    pub(crate) fn listen_as_deputy(&self) -> Option<Listening<'_>> {
        let word = self.own.as_ref()?.word(For::Receiver);
        Some(word.listen(&word.deputies))
    }

    /// Notes whether no thread receives messages.
    #[inline]
    pub(crate) fn set_vacant(&self, is_vacant: bool) {
        if let Some(own) = &self.own {
            own.word(For::Receiver).is_vacant.store(is_vacant.into(), Ordering::Relaxed);
        }
    }
}

impl Listening<'_> {
    /// Sleeps until a ring that came after this thread began to listen, for at most `limit`.
    /// Returns whether that time has passed.
    pub(crate) fn sleep(self, limit: Duration) -> bool {
        let limit =
            Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        let slept = futex::wait(&self.word.rings, futex::Flags::empty(), self.heard, Some(&limit));
        slept == Err(rustix::io::Errno::TIMEDOUT)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.counter.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Bell {
    fn new(file: &OwnedFd) -> rustix::io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, at an address of the system's choice.
        let address = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), PAGE, access, MapFlags::SHARED, file, 0)?
        };
        let address = NonNull::new(address.cast());
        Ok(Self(address.ok_or(rustix::io::Errno::NOMEM)?))
    }

    #[inline]
    fn page(&self) -> &Page {
        // SAFETY: the page is mapped, and its file cannot shrink.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn word(&self, threads: For) -> &Word {
        &self.page().words[threads as usize]
    }
}

impl Word {
    fn listen<'a>(&'a self, counter: &'a AtomicU32) -> Listening<'a> {
        let heard = self.rings.load(Ordering::SeqCst);
        counter.fetch_add(1, Ordering::SeqCst);
        // A sender sees this thread, or this thread sees the message.
        fence(Ordering::SeqCst);
        Listening { word: self, counter, heard }
    }

    #[inline]
    fn ring(&self) {
        // The message is visible before the look at the sleepers.
        fence(Ordering::SeqCst);
        let is = |word: &AtomicU32| word.load(Ordering::SeqCst) > 0;
        if is(&self.sleepers) || is(&self.deputies) && is(&self.is_vacant) {
            self.rings.fetch_add(1, Ordering::SeqCst);
            let _ = futex::wake(&self.rings, futex::Flags::empty(), i32::MAX as u32);
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing uses any more.
        let unmapped = unsafe { rustix::mm::munmap(self.0.as_ptr().cast(), PAGE) };
        debug_assert!(unmapped.is_ok());
    }
}

impl Place {
    const BYTES: usize = 40;

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.machine.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.process.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.descriptor.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.token[0].to_le_bytes());
        bytes[32..].copy_from_slice(&self.token[1].to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (machine, rest) = bytes.split_first_chunk().expect("16 of 40 bytes");
        let (process, rest) = rest.split_first_chunk().expect("4 of 24 bytes");
        let (descriptor, rest) = rest.split_first_chunk().expect("4 of 20 bytes");
        let (token, rest) = rest.split_first_chunk().expect("8 of 16 bytes");
        let last = rest.first_chunk().expect("8 bytes");
        Self {
            machine: u128::from_le_bytes(*machine),
            process: u32::from_le_bytes(*process),
            descriptor: u32::from_le_bytes(*descriptor),
            token: [u64::from_le_bytes(*token), u64::from_le_bytes(*last)],
        }
    }
}

/// Makes the bell of this process.
fn make() -> std::io::Result<(OwnedFd, Bell, Place)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(NAME, flags)?;
    rustix::fs::ftruncate(&file, PAGE as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let bell = Bell::new(&file)?;
    let place = Place {
        machine: machine()?,
        process: std::process::id(),
        descriptor: file.as_raw_fd() as u32,
        token: [random(), random()],
    };
    for (word, value) in bell.page().token.iter().zip(place.token) {
        word.store(value, Ordering::SeqCst);
    }
    Ok((file, bell, place))
}

/// Opens the bell of another process of this machine; `None` if that is not permitted, or the
/// process has ended.
fn open(place: &Place) -> Option<Bell> {
    let opened = try_open(place);
    if let Err(error) = &opened {
        log::debug!("process {} cannot be woken: {error}", place.process);
    }
    opened.ok()
}

fn try_open(place: &Place) -> std::io::Result<Bell> {
    let path = PathBuf::from(format!("/proc/{}/fd/{}", place.process, place.descriptor));
    let other = || std::io::Error::other("its descriptor is another file");
    // Another kind of file could do something when it is opened.
    if !std::fs::read_link(&path)?.starts_with(format!("/memfd:{NAME} (deleted)")) {
        return Err(other());
    }
    let file = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let is_whole = rustix::fs::fstat(&file)?.st_size == PAGE as i64
        && rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::SHRINK);
    if !is_whole {
        return Err(other());
    }
    let bell = Bell::new(&file)?;
    let token = bell.page().token.each_ref().map(|word| word.load(Ordering::SeqCst));
    if token == place.token { Ok(bell) } else { Err(other()) }
}

/// Returns a number of this machine, since its start, and of the namespace of process numbers.
fn machine() -> std::io::Result<u128> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits = text.trim().replace('-', "");
    let boot = u128::from_str_radix(&digits, 16).map_err(std::io::Error::other)?;
    let namespace = rustix::fs::stat("/proc/self/ns/pid")?.st_ino;
    Ok((boot ^ u128::from(namespace)).max(1))
}

/// Returns a number that no other process has by chance.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn bells() -> (Bells, Place) {
        let (file, bell, place) = make().unwrap();
        let other = || Other { place, bell: OnceLock::new() };
        let all = vec![other(), other()].into();
        (Bells { rank: 0, own: Some(bell), _file: Some(file), all, all_ring: true }, place)
    }

    #[test]
    fn a_ring_ends_a_sleep_even_if_it_comes_first() {
        let (bells, _) = bells();
        // Rank 1 has the bell of this process too.
        assert!(bells.can_ring(1) && !bells.can_ring(0) && !bells.can_ring(2));
        let listening = bells.listen(For::Callers).unwrap();
        bells.ring(1, For::Callers);
        let started = Instant::now();
        listening.sleep(Duration::from_secs(60));
        std::thread::scope(|scope| {
            let sleep = || bells.listen(For::Receiver).unwrap().sleep(Duration::from_secs(60));
            let sleeper = scope.spawn(sleep);
            while !sleeper.is_finished() {
                bells.ring(1, For::Receiver);
            }
        });
        assert!(started.elapsed() < Duration::from_secs(50));
        let words = &bells.own.as_ref().unwrap().page().words;
        assert!(words.iter().all(|word| word.sleepers.load(Ordering::SeqCst) == 0));
    }

    #[test]
    fn nothing_but_the_page_of_the_token_is_opened() {
        let (_bells, place) = bells();
        assert!(try_open(&place).is_ok());
        assert!(try_open(&Place { token: [1, 2], ..place }).is_err());
        assert!(try_open(&Place { descriptor: 0, ..place }).is_err());
        assert!(try_open(&Place { descriptor: u32::MAX, ..place }).is_err());
        assert!(try_open(&Place { process: 0, ..place }).is_err());
        let plain = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&plain, PAGE as u64).unwrap();
        assert!(try_open(&Place { descriptor: plain.as_raw_fd() as u32, ..place }).is_err());
    }

    #[test]
    fn a_place_is_exchanged_as_it_is() {
        let (_bells, place) = bells();
        assert_eq!(Place::from_bytes(&place.to_bytes()), place);
        assert_eq!(Place::from_bytes(&[0; Place::BYTES]), Place::default());
    }
}
