//! The jitdump: a binary file that `perf inject --jit` turns into one ELF file for each linked
//! function. Profiles for use with it are recorded with `perf record -k mono`.
//!
//! The layout follows `tools/perf/Documentation/jitdump-specification.txt` in the Linux sources,
//! version 1. The file contains `JIT_CODE_LOAD` and `JIT_CODE_CLOSE` records.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use object::elf;
use parking_lot::Mutex;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::time::{ClockId, clock_gettime};

use super::LinkedFunction;
use crate::{Architecture, Error, Result};

const MAGIC: u32 = 0x4a69_5444;
const VERSION: u32 = 1;
const FILE_HEADER_SIZE: u32 = 40;
const RECORD_HEADER_SIZE: usize = 16;
const CODE_LOAD: u32 = 0;
const CODE_CLOSE: u32 = 3;

/// An open jitdump. Dropping it completes the file, which stays: it is read after the end of the
/// program.
#[derive(Debug)]
pub struct JitDump {
    path: PathBuf,
    writer: Mutex<Writer>,
    _marker: Marker,
}

impl JitDump {
    /// Creates `jit-<pid>.dump` in a new folder `longshore-jit-<pid>-<number>` below `directory`,
    /// both for this user alone. `perf inject` puts its files in that folder as well.
    ///
    /// # Errors
    /// [`Error::Open`] if the file cannot be created, or cannot be mapped as code because its file
    /// system is mounted `noexec`. `perf` finds the file by that mapping. The result is
    /// [`Error::Unsupported`] if this program is for neither of the linker's architectures.
    pub fn create(directory: &Path) -> Result<Self> {
        let header = file_header(directory)?;
        let problem = |path: &Path, error: io::Error| Error::Open {
            path: path.display().to_string(),
            problem: error.to_string(),
        };
        let folder = new_folder(directory).map_err(|error| problem(directory, error))?;
        let path = folder.join(format!("jit-{}.dump", std::process::id()));
        match start(&path, &header) {
            Ok((writer, marker)) => Ok(Self { path, writer: Mutex::new(writer), _marker: marker }),
            Err(error) => Err(problem(&path, error)),
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records functions, before any of them runs. Any thread may call it.
    ///
    /// # Errors
    /// The operating system's error if the file cannot be written to; then none of the functions is
    /// in it.
    pub fn add(&self, functions: &[LinkedFunction<'_>]) -> io::Result<()> {
        let mut writer = self.writer.lock();
        let mut records = Vec::new();
        for (function, index) in functions.iter().zip(writer.next_index..) {
            code_load(&mut records, function, index)?;
        }
        writer.append(&records)?;
        writer.next_index += functions.len() as u64;
        Ok(())
    }
}

impl Drop for JitDump {
    fn drop(&mut self) {
        let mut record = Vec::new();
        record_header(&mut record, CODE_CLOSE, RECORD_HEADER_SIZE as u32);
        if let Err(error) = self.writer.get_mut().append(&record) {
            log::warn!("{}: {error}", self.path.display());
        }
    }
}

#[derive(Debug)]
struct Writer {
    file: File,
    /// Length of the file's complete records in bytes.
    length: u64,
    next_index: u64,
}

impl Writer {
    /// Appends all of the bytes, or none.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(bytes, self.length) {
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// A mapping of the file's first page, executable so that `perf record` sees it.
#[derive(Debug)]
struct Marker {
    page: NonNull<libc::c_void>,
    size: usize,
}

// SAFETY: nothing reads or writes the page; it is only unmapped, which any thread can do.
unsafe impl Send for Marker {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Marker {}

impl Marker {
    fn new(file: &File) -> io::Result<Self> {
        let size = rustix::param::page_size();
        let protection = ProtFlags::READ | ProtFlags::EXEC;
        // SAFETY: the kernel chooses an unused address.
        let page = unsafe {
            rustix::mm::mmap(ptr::null_mut(), size, protection, MapFlags::PRIVATE, file, 0)?
        };
        let page =
            NonNull::new(page).expect("the kernel maps nothing at zero unless it is asked to");
        Ok(Self { page, size })
    }
}

impl Drop for Marker {
    fn drop(&mut self) {
        // SAFETY: `new` has mapped this page, and nothing in the process uses it.
        if let Err(error) = unsafe { rustix::mm::munmap(self.page.as_ptr(), self.size) } {
            log::warn!("the marker of a jitdump: {error}");
        }
    }
}

fn file_header(directory: &Path) -> Result<Vec<u8>> {
    let machine = match Architecture::native() {
        Some(Architecture::X86_64) => elf::EM_X86_64,
        Some(Architecture::Aarch64) => elf::EM_AARCH64,
        None => {
            let problem =
                "a jitdump of this processor's code is not supported; use a perf map".to_owned();
            return Err(Error::Unsupported { file: directory.display().to_string(), problem });
        }
    };
    let mut header = Vec::with_capacity(FILE_HEADER_SIZE as usize);
    for word in [MAGIC, VERSION, FILE_HEADER_SIZE, u32::from(machine.0), 0, std::process::id()] {
        header.extend(word.to_ne_bytes());
    }
    header.extend(now_ns().to_ne_bytes());
    let no_flags = 0_u64;
    header.extend(no_flags.to_ne_bytes());
    Ok(header)
}

/// Creates a folder that did not exist, so that several dumps of one process, and dumps of earlier
/// processes with its number, stay apart.
fn new_folder(directory: &Path) -> io::Result<PathBuf> {
    for number in 0_u32.. {
        let folder = directory.join(format!("longshore-jit-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| folder),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn start(path: &Path, header: &[u8]) -> io::Result<(Writer, Marker)> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    let marker = Marker::new(&file)?;
    let mut writer = Writer { file, length: 0, next_index: 0 };
    writer.append(header)?;
    Ok((writer, marker))
}

fn code_load(records: &mut Vec<u8>, function: &LinkedFunction<'_>, index: u64) -> io::Result<()> {
    // A NUL would end the name early, and a reader would take the rest of the name for code.
    let name = function.name.replace('\0', "?");
    let size = RECORD_HEADER_SIZE
        + 2 * size_of::<u32>()
        + 4 * size_of::<u64>()
        + name.len()
        + 1
        + function.code.len();
    let size = u32::try_from(size).map_err(|_| {
        io::Error::new(io::ErrorKind::FileTooLarge, format!("{name} is too large for a record"))
    })?;
    record_header(records, CODE_LOAD, size);
    records.extend(std::process::id().to_ne_bytes());
    records.extend(rustix::thread::gettid().as_raw_nonzero().get().to_ne_bytes());
    for word in [function.address, function.address, function.code.len() as u64, index] {
        records.extend(word.to_ne_bytes());
    }
    records.extend(name.as_bytes());
    records.push(0);
    records.extend(function.code);
    Ok(())
}

fn record_header(record: &mut Vec<u8>, kind: u32, size: u32) {
    record.extend(kind.to_ne_bytes());
    record.extend(size.to_ne_bytes());
    record.extend(now_ns().to_ne_bytes());
}

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A reader of the format, which takes fields off the front.
    struct Reader<'a>(&'a [u8]);

    impl<'a> Reader<'a> {
        fn bytes(&mut self, count: usize) -> &'a [u8] {
            let (taken, rest) = self.0.split_at(count);
            self.0 = rest;
            taken
        }

        fn u32(&mut self) -> u32 {
            u32::from_ne_bytes(self.bytes(4).try_into().unwrap())
        }

        fn u64(&mut self) -> u64 {
            u64::from_ne_bytes(self.bytes(8).try_into().unwrap())
        }

        fn record(&mut self) -> (u32, u64, Reader<'a>) {
            let (kind, size, time) = (self.u32(), self.u32(), self.u64());
            (kind, time, Reader(self.bytes(size as usize - 16)))
        }
    }

    fn function<'a>(name: &'a str, address: u64, code: &'a [u8]) -> LinkedFunction<'a> {
        LinkedFunction { name, address, size: code.len() as u64, code }
    }

    #[test]
    fn a_dump_is_a_header_a_record_for_each_function_and_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let before = now_ns();
        let dump = JitDump::create(folder.path()).unwrap();
        dump.add(&[function("first", 0x1000, b"\x90\xc3"), function("se\0cond", 0x2000, b"")])
            .unwrap();
        dump.add(&[function("third", 0x3000, b"\xc3")]).unwrap();
        let path = dump.path().to_owned();
        drop(dump);

        let file = fs::read(path).unwrap();
        let mut reader = Reader(&file);
        assert_eq!(reader.bytes(4), if cfg!(target_endian = "little") { b"DTiJ" } else { b"JiTD" });
        assert_eq!((reader.u32(), reader.u32()), (1, 40));
        let machine = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
        assert_eq!((reader.u32(), reader.u32(), reader.u32()), (machine, 0, std::process::id()));
        let mut time = before;
        let mut later =
            |next: u64| assert!(time <= std::mem::replace(&mut time, next) && time <= now_ns());
        later(reader.u64());
        assert_eq!(reader.u64(), 0);
        let functions: [(u64, &[u8], &[u8]); 3] = [
            (0x1000, b"first\0", b"\x90\xc3"),
            (0x2000, b"se?cond\0", b""),
            (0x3000, b"third\0", b"\xc3"),
        ];
        for (index, (address, name, code)) in functions.into_iter().enumerate() {
            let (kind, time, mut load) = reader.record();
            later(time);
            assert_eq!((kind, load.u32()), (0, std::process::id()));
            assert_eq!(load.u32(), rustix::thread::gettid().as_raw_nonzero().get() as u32);
            assert_eq!(
                [load.u64(), load.u64(), load.u64(), load.u64()],
                [address, address, code.len() as u64, index as u64]
            );
            assert_eq!((load.bytes(name.len()), load.0), (name, code));
        }
        let (kind, time, end) = reader.record();
        later(time);
        assert_eq!((kind, end.0, reader.0), (3, &[][..], &[][..]));
    }

    #[test]
    fn dumps_of_one_process_are_in_folders_of_their_own_that_others_cannot_enter() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) =
            (JitDump::create(folder.path()).unwrap(), JitDump::create(folder.path()).unwrap());
        assert_ne!(first.path(), second.path());
        assert_eq!(first.path().file_name(), second.path().file_name());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(first.path()), mode(first.path().parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn the_file_is_mapped_as_code_while_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let dump = JitDump::create(folder.path()).unwrap();
        let path = dump.path().to_str().unwrap().to_owned();
        let mapped = || {
            let maps = fs::read_to_string("/proc/self/maps").unwrap();
            maps.lines().any(|line| line.ends_with(&path) && line.contains(" r-xp 00000000 "))
        };
        assert!(mapped());
        drop(dump);
        assert!(!mapped());
    }

    #[test]
    fn a_folder_that_does_not_exist_is_an_error_with_its_name() {
        let error = JitDump::create(Path::new("/nonexistent/folder")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/nonexistent/folder: No such file or directory (os error 2)"
        );
    }
}
