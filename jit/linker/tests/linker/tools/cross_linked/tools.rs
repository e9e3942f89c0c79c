//! The installed compilers and linkers.

use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use longshore_jitlink::Architecture;

use super::theirs::Linker;

/// The tools for an instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) architecture: Architecture,
    pub(crate) gcc: &'static str,
    /// Flag that makes clang compile for the architecture.
    pub(crate) clang: &'static str,
    pub(crate) objcopy: &'static str,
    pub(crate) ld: &'static str,
}

/// A folder with objects in it.
pub(crate) struct World {
    directory: tempfile::TempDir,
    target: Target,
    compiler: Vec<&'static str>,
    linker: Vec<&'static str>,
    pub(crate) kind: Linker,
    objects: Cell<usize>,
}

impl World {
    /// Creates a world; prints a message and returns `None` if a tool is not installed.
    pub(crate) fn new(target: Target, compiler: &str, linker: Linker) -> Option<Self> {
        let compiler = match compiler {
            "clang" => vec![found(&["clang-19", "clang"])?, target.clang],
            _ => vec![found(&[target.gcc])?],
        };
        let linker_command = match linker {
            Linker::Gnu => vec![found(&[target.ld])?, "--traditional-format"],
            Linker::Lld => vec![found(&["ld.lld-19", "ld.lld"])?],
        };
        found(&[target.objcopy])?;
        Some(Self {
            directory: tempfile::tempdir().unwrap(),
            target,
            compiler,
            linker: linker_command,
            kind: linker,
            objects: Cell::new(0),
        })
    }

    /// Returns the name and the bytes of an object. Its strings are not mergeable: each linker
    /// places merged strings in its own way.
    pub(crate) fn compile(&self, source: &str, flags: &[&str]) -> (String, Vec<u8>) {
        let name = format!("{}.o", self.objects.replace(self.objects.get() + 1));
        let mut command = self.command(&self.compiler);
        command.args(flags).args(["-fno-common", "-w", "-xc", "-", "-c", "-o", &name]);
        if self.kind == Linker::Lld {
            // LLD takes frames apart and writes them anew.
            command.args(["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]);
        }
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{command:?}");
        self.run(self.command(&[self.target.objcopy]).args([
            "-w",
            "--set-section-flags=.rodata.*=alloc,readonly,data,contents",
            "--set-section-flags=.debug_str=readonly,debug,contents",
            "--set-section-flags=.debug_line_str=readonly,debug,contents",
            &name,
        ]));
        let bytes = fs::read(self.directory.path().join(&name)).unwrap();
        (name, bytes)
    }

    /// Runs the linker on the objects with a script.
    pub(crate) fn link(&self, script: &str, objects: &[&str]) -> Vec<u8> {
        fs::write(self.directory.path().join("place.ld"), script).unwrap();
        let mut command = self.command(&self.linker);
        command.args(["-static", "-N", "--no-relax", "-e", "0", "-T", "place.ld", "-o", "linked"]);
        self.run(command.args(objects));
        fs::read(self.directory.path().join("linked")).unwrap()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(self.directory.path());
        command
    }

    fn run(&self, command: &mut Command) {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {said}");
    }
}

/// Returns the first of these commands that is installed.
fn found(names: &[&'static str]) -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = |name: &&&str| {
        std::env::split_paths(&path).any(|folder| Path::new(&folder).join(name).is_file())
    };
    let found = names.iter().find(installed);
    if found.is_none() {
        eprintln!("skipped: there is no {}", names[0]);
    }
    found.copied()
}
