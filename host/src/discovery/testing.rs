//! Plugins in C, built by the tests that need them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The properties of a toy plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Toy {
    Good,
    /// A plugin that declares its library unloadable.
    Unloadable,
    NoNote,
    NoSymbol,
    WrongMagic,
    /// A note with interface 2.
    NoteOfInterface2,
    /// A correct note, but an entry with interface 9.
    EntryOfInterface9,
    /// A note with a backend other than the one in the file name.
    OtherBackend,
    NullFunction,
    /// Lacks "longshore.queue".
    MissingTable,
    NoDriver,
    NoDevice,
    Broken,
    Abort,
    Hang,
    /// An exit of the process with code 0.
    Exit,
    /// Connects, but aborts when its platform is destroyed.
    AbortInDestroy,
    /// Prints to standard output before it connects.
    Noisy,
    /// Writes to all descriptors that it is loaded, and ends the process.
    Forger,
    /// Starts processes that stay, and connects.
    Parent,
    /// Starts processes that stay, and aborts.
    AbortingParent,
    /// Starts processes that stay, stops its parent process, and waits.
    StoppingParent,
    /// Prints 64 MiB to each stream, prints the size of the output kept in files, and aborts.
    Talker,
    /// Returns "no device" with its setting `mood` as the reason.
    TellSetting,
}

impl Toy {
    fn definition(self) -> &'static str {
        match self {
            Toy::Good => "GOOD",
            Toy::Unloadable => "UNLOADABLE=1",
            Toy::NoNote => "NO_NOTE",
            Toy::NoSymbol => "NO_SYMBOL",
            Toy::WrongMagic => "MAGIC=1",
            Toy::NoteOfInterface2 => "NOTE_MAJOR=2",
            Toy::EntryOfInterface9 => "ENTRY_MAJOR=9",
            Toy::OtherBackend => "BACKEND=\"other\"",
            Toy::NullFunction => "NULL_FUNCTION",
            Toy::MissingTable => "MISSING='q'",
            Toy::NoDriver => "CONNECT=*outcome = 1; SAY(\"libtoy.so.1 is\\nmissing\"); return 0;",
            Toy::NoDevice => "CONNECT=*outcome = 2; SAY(\"no toy plugged in\"); return 0;",
            Toy::Broken => "CONNECT=return &broken;",
            Toy::Abort => "CONNECT=write(2, \"toy: cannot\\n\", 12); abort();",
            Toy::Hang => "CONNECT=for (;;) pause();",
            Toy::Exit => "CONNECT=_exit(0);",
            Toy::AbortInDestroy => "DESTROY=abort();",
            Toy::Noisy => {
                "CONNECT=write(1, \"noise\", 5); *outcome = 0; *platform = &device_count; return 0;"
            }
            Toy::Forger => "CONNECT=claim(); _exit(0);",
            Toy::Parent => {
                "CONNECT=leave_processes(); *outcome = 0; *platform = &device_count; return 0;"
            }
            Toy::AbortingParent => "CONNECT=leave_processes(); abort();",
            Toy::StoppingParent => {
                "CONNECT=leave_processes(); kill(getppid(), SIGSTOP); raise(SIGSTOP); for (;;) pause();"
            }
            Toy::Talker => "CONNECT=dprintf(2, \"\\nkept: %ld\\n\", print(1) + print(2)); abort();",
            Toy::TellSetting => {
                "CONNECT=struct text name = TEXT(\"mood\"); *outcome = 2; \
                 services->setting(services->context, name, reason); return 0;"
            }
        }
    }
}

/// Builds a plugin for `backend` in `folder` and returns its path.
pub(super) fn plugin(folder: &Path, backend: &str, toy: Toy) -> PathBuf {
    let path = folder.join(format!("liblongshore_plugin_{backend}.so"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/discovery/toy.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-w", "-fno-builtin", "-o"]).arg(&path).arg(source);
    if toy != Toy::OtherBackend {
        compiler.arg(format!("-DBACKEND=\"{backend}\""));
    }
    compiler.arg(format!("-D{}", toy.definition()));
    let built = compiler.output().expect("a C compiler is installed as 'cc'");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    path
}
