//! A folder of objects in which the command runs.

use longshore_tests::world::command;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder with objects in which the command runs.
pub(super) struct Folder(pub(super) TempDir);

impl Folder {
    pub(super) fn new() -> Folder {
        Folder(TempDir::new().expect("a temporary folder"))
    }

    /// Returns a folder with an object `NAME.o` for each source in C.
    pub(super) fn from_c(sources: &[(&str, &str)]) -> Folder {
        let folder = Folder::new();
        for (name, source) in sources {
            folder.compile("gcc", &format!("{name}.c"), source, &[]);
        }
        folder
    }

    /// Compiles a source to an object with its name, and to bitcode if bitcode replaces objects.
    pub(super) fn compile(&self, compiler: &str, file: &str, source: &str, flags: &[&str]) {
        fs::write(self.0.path().join(file), source).expect("the folder can be written");
        self.run(compiler, &[&["-w", "-c", file], flags].concat());
        // Output with another name stays machine code.
        if super::IS_BITCODE && !flags.contains(&"-o") {
            let bitcode = ["-w", "-Wno-implicit-function-declaration", "-c", "-emit-llvm", file];
            self.run("clang-19", &[&bitcode, flags].concat());
        }
    }

    /// Creates an archive of objects.
    pub(super) fn archive(&self, name: &str, objects: &[&str]) {
        self.run("ar", &[&["rc", name], objects].concat());
    }

    /// Runs a tool that must succeed.
    pub(super) fn run(&self, tool: &str, arguments: &[&str]) {
        let mut command = Command::new(tool);
        let output = command.args(arguments).current_dir(self.0.path()).output();
        let output = output.unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert!(output.status.success(), "{tool} {arguments:?}: {}", error_of(&output));
    }

    /// Runs `longshore link ARGUMENTS...`.
    pub(super) fn link(&self, arguments: &[&str]) -> Output {
        let mut link = Command::new(command());
        link.arg("link")
            .args(super::OPTIONS)
            .args(arguments)
            .current_dir(self.0.path())
            .env("FOR_MAIN", "here");
        self.swap_objects_and_bitcode();
        let output = link.output().expect("the command is built");
        self.swap_objects_and_bitcode();
        output
    }

    /// Exchanges the names of bitcode and of the objects beside it, if bitcode replaces objects.
    fn swap_objects_and_bitcode(&self) {
        let files = fs::read_dir(self.0.path()).into_iter().flatten().flatten();
        let is_bitcode = |file: &PathBuf| file.extension().is_some_and(|it| it == "bc");
        let bitcode: Vec<PathBuf> = files.map(|file| file.path()).filter(is_bitcode).collect();
        for bitcode in bitcode.iter().filter(|_| super::IS_BITCODE) {
            let (object, other) = (bitcode.with_extension("o"), bitcode.with_extension("other"));
            for (from, to) in [(bitcode, &other), (&object, bitcode), (&other, &object)] {
                fs::rename(from, to).expect("both are there");
            }
        }
    }

    /// Links and runs a program without output, and returns its exit code.
    pub(super) fn code(&self, arguments: &[&str]) -> Option<i32> {
        let output = self.link(arguments);
        assert_eq!(error_of(&output), "");
        output.status.code()
    }

    /// Links and runs; the program from the system's linker must print the same.
    pub(super) fn link_as_the_system_does(
        &self,
        objects: &[&str],
        options: &[&str],
        arguments: &[&str],
    ) {
        let system = [&["-o", "linked", "-pthread"], objects].concat();
        self.run("g++", &system);
        let linked = self.0.path().join("linked");
        let expected = Command::new(linked).args(arguments).output().expect("it was linked");
        let found = self.link(&[objects, options, &["--args"], arguments].concat());
        assert_eq!(text(&found.stdout), text(&expected.stdout), "{}", error_of(&found));
        assert_eq!(error_of(&found), error_of(&expected));
        assert_eq!(found.status, expected.status);
    }

    /// Links without running, and returns the dump.
    pub(super) fn dump(&self, arguments: &[&str]) -> Value {
        let output = self.link(&[arguments, &["--dump-memory", "dump.json"]].concat());
        assert!(output.status.success(), "{}", error_of(&output));
        assert_eq!(text(&output.stdout), "");
        serde_json::from_slice(&self.read("dump.json")).expect("it is JSON")
    }

    pub(super) fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.0.path().join(file)).expect("the file is there")
    }

    /// Links an invalid program. Returns the exit code and the error, which is the only output.
    pub(super) fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.link(arguments);
        assert_eq!(text(&output.stdout), "");
        (output.status.code(), error_of(&output))
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn error_of(output: &Output) -> String {
    text(&output.stderr)
}

pub(super) fn is_installed(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}
