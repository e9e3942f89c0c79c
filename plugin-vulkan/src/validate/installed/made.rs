//! Validators that tests make.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A script that judges as `spirv-val` does [`super::probe`]'s modules: a module whose word 26 is 3 is invalid.
const JUDGES: &str = r#"
module=$(od -An -v -tu4 -w4 | tr -d ' ')
words=$(echo "$module" | wc -l)
"#;
const REPLIES: &str = r#"
if [ "$(echo "$module" | sed -n 27p)" = 3 ]; then echo "error: line 9: It is made invalid." >&2; exit 1; fi
"#;

/// A folder with a command `spirv-val`, a library or neither. Removed with what is in it.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    /// Returns a folder whose command takes all modules but the invalid one of [`super::probe`], and counts how often it was run.
    pub(crate) fn with_validator() -> Folder {
        Folder::with_validator_that("")
    }

    /// Returns the same, with lines of a shell between reading and judging; `$words` is the number of the module's words.
    pub(crate) fn with_validator_that(does: &str) -> Folder {
        Folder::with_command(&format!("{JUDGES}{does}\n{REPLIES}"))
    }

    /// Returns a folder whose command is this script, which counts how often it was run.
    pub(crate) fn with_command(script: &str) -> Folder {
        let folder = Folder::new();
        folder.put_command(script);
        folder
    }

    /// Makes another command of what is there.
    pub(crate) fn put_command(&self, script: &str) {
        let (new, runs) = (self.path().join("new"), self.path().join("runs"));
        // Written by another process, since none that writes a program may be forked while that is started.
        let text = format!("#!/bin/sh\necho run >> '{}'\n{script}\n", runs.display());
        let source = self.path().join("source");
        std::fs::write(&source, text).unwrap();
        assert!(Command::new("cp").arg(&source).arg(&new).status().unwrap().success());
        std::fs::set_permissions(&new, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::rename(&new, self.path().join("spirv-val")).unwrap();
    }

    /// Returns a folder with a library that is compiled of this source in C.
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

    /// Number of runs of the command so far.
    pub(crate) fn runs(&self) -> usize {
        std::fs::read_to_string(self.path().join("runs")).unwrap_or_default().lines().count()
    }
}
