//! Validators made by tests.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A script that judges [`super::probe`]'s modules like `spirv-val`: a module is invalid if its
/// word of index 26 has the value 3.
const JUDGES: &str = r#"
module=$(od -An -v -tu4 -w4 | tr -d ' ')
words=$(echo "$module" | wc -l)
"#;
const REPLIES: &str = r#"
if [ "$(echo "$module" | sed -n 27p)" = 3 ]; then echo "error: line 9: It is made invalid." >&2; exit 1; fi
"#;

/// A folder with a command `spirv-val`, a library or neither. Dropping it removes the folder with
/// its contents.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    /// Creates a folder whose command accepts all modules except the invalid one of
    /// [`super::probe`], and counts its runs.
    pub(crate) fn with_validator() -> Folder {
        Folder::with_validator_that("")
    }

    /// Creates such a folder, with lines of a shell script between reading and judging; `$words` is
    /// the number of the module's words.
    pub(crate) fn with_validator_that(does: &str) -> Folder {
        Folder::with_command(&format!("{JUDGES}{does}\n{REPLIES}"))
    }

    /// Creates a folder whose command is this script, which counts its runs.
    pub(crate) fn with_command(script: &str) -> Folder {
        let folder = Folder::new();
        folder.put_command(script);
        folder
    }

    /// Replaces the command.
    pub(crate) fn put_command(&self, script: &str) {
        let (new, runs) = (self.path().join("new"), self.path().join("runs"));
        // Another process writes the program. If this process wrote it, a fork of another thread
        // could inherit the open file, and the program could not be started (`ETXTBSY`).
        let text = format!("#!/bin/sh\necho run >> '{}'\n{script}\n", runs.display());
        let source = self.path().join("source");
        std::fs::write(&source, text).unwrap();
        assert!(Command::new("cp").arg(&source).arg(&new).status().unwrap().success());
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::rename(&new, self.path().join("spirv-val")).unwrap();
    }

    /// Creates a folder with a library that is compiled from this source in C.
    pub(crate) fn with_library(source: &str) -> (Folder, PathBuf) {
        let folder = Folder::new();
        let (from, to) = (folder.path().join("made.c"), folder.path().join("libmade.so"));
        std::fs::write(&from, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(&to).arg(&from);
        assert!(compiler.status().unwrap().success());
        (folder, to)
    }

    /// Removes the command.
    pub(crate) fn clear(&self) {
        std::fs::remove_file(self.path().join("spirv-val")).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the number of runs of the command so far.
    pub(crate) fn runs(&self) -> usize {
        std::fs::read_to_string(self.path().join("runs")).unwrap_or_default().lines().count()
    }
}
