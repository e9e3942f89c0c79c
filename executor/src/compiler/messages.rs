//! Messages between a program and the process that compiles for it.
//!
//! Modules and code beyond a few pages pass through the memory that both share, as ranges of its
//! file.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use longshore_compiler::{CompileError, LibraryChoice, LibraryVersion, Options, Part, Target};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// The method of calls with a [`Message`]. The reply is a `Result` with a [`CompileError`].
pub(super) const COMPILER: u32 = 0x2000;
/// The method of messages with a [`Post`], without a reply.
pub(super) const COMPILER_POST: u32 = 0x2001;
/// The method of the process's last message, a [`LastWords`].
pub(super) const LAST_WORDS: u32 = 0x2002;

/// Greatest number of bytes that are part of a message where memory is shared.
pub(super) const INLINE: usize = 32 << 10;

/// A call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message<'a> {
    /// The first message: the folders of LLD.
    Start { folders: Vec<PathBuf> },
    /// The reply is a [`LibraryVersion`].
    Version(LibraryChoice),
    /// The reply is a [`Reply`].
    Compile(#[serde(borrow)] Box<Job<'a>>),
}

/// A message without a reply.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Post {
    /// The number of a kept module to drop.
    Forget { number: u64 },
}

/// A request to compile.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job<'a> {
    /// Number of the job, which no other job of the process has.
    pub(super) job: u64,
    #[serde(borrow)]
    pub(super) module: Source<'a>,
    #[serde(borrow)]
    pub(super) part: Part<'a>,
    pub(super) target: Target,
    pub(super) options: Options,
    /// Shared memory for the result.
    pub(super) output: Option<SharedRange>,
}

/// A module.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Source<'a> {
    /// A module that was kept before.
    Kept(u64),
    /// A module to keep under a number.
    Keep {
        number: u64,
        #[serde(borrow)]
        bytes: Bytes<'a>,
    },
    Given(#[serde(borrow)] Bytes<'a>),
}

/// Bytes in a message or in shared memory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Bytes<'a> {
    Inline(#[serde(borrow)] &'a [u8]),
    Shared(SharedRange),
}

/// A range of the shared file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct SharedRange {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// A result. Shared bytes lie in the job's output.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply<'a> {
    #[serde(borrow)]
    pub(super) code: Bytes<'a>,
    /// The encoded [`CompilationFacts`](longshore_compiler::CompilationFacts), which may have the
    /// text of a module.
    #[serde(borrow)]
    pub(super) facts: Bytes<'a>,
}

/// The reason why LLVM ends the process, and the job that has caused it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LastWords {
    pub(super) job: Option<u64>,
    pub(super) reason: String,
}

/// The reply to [`Message::Version`].
pub(super) type VersionReply = Result<LibraryVersion, CompileError>;

/// Reads a range of the shared file.
pub(super) fn read(file: BorrowedFd<'_>, range: SharedRange) -> io::Result<Vec<u8>> {
    let size = usize::try_from(range.bytes).map_err(|_| io::ErrorKind::InvalidInput)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    bytes.resize(size, 0);
    let mut done = 0;
    while done < size {
        match rustix::io::pread(file, &mut bytes[done..], range.offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// Writes bytes to the shared file.
pub(super) fn write(file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(file, &bytes[done..], offset + done as u64) {
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
