//! Compilers whose profiles the tests read, and their options.

use std::path::Path;
use std::process::{Command, Stdio};

/// A version of clang, and the `llvm-profdata` of the same version.
pub(crate) struct Compiler {
    pub(crate) version: u32,
    pub(crate) raw_version: u8,
}

/// Tested compilers; Debian 12 lacks only version 18.
pub(crate) const COMPILERS: [Compiler; 5] = [
    Compiler { version: 14, raw_version: 8 },
    Compiler { version: 16, raw_version: 8 },
    Compiler { version: 18, raw_version: 9 },
    Compiler { version: 19, raw_version: 10 },
    Compiler { version: 22, raw_version: 10 },
];

/// The stage of the compiler that inserts the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instrumentation {
    Ir,
    FrontEnd,
}

/// The form of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    FixedObject,
    SharedObject,
    SharedObjectWithRuntime,
}

/// Forms of images that need no runtime.
pub(crate) const FORMS: [Form; 3] = [Form::Object, Form::FixedObject, Form::SharedObject];

impl Compiler {
    pub(crate) fn name(&self) -> String {
        format!("clang-{}", self.version)
    }

    pub(crate) fn clang(&self) -> Command {
        Command::new(self.name())
    }

    pub(crate) fn profdata(&self) -> Command {
        Command::new(format!("llvm-profdata-{}", self.version))
    }

    /// Returns whether the compiler is installed; prints a missing one.
    pub(crate) fn is_there(&self) -> bool {
        let starts = |mut command: Command, arguments: &[&str]| {
            command.args(arguments).stdout(Stdio::null()).status().is_ok_and(|it| it.success())
        };
        let is_there =
            starts(self.clang(), &["--version"]) && starts(self.profdata(), &["show", "--help"]);
        if !is_there {
            println!(
                "{0} and llvm-profdata-{1} are not installed; left out",
                self.name(),
                self.version
            );
        }
        is_there
    }

    /// Returns whether LLVM's runtime for profiles is installed for the compiler.
    pub(crate) fn has_runtime(&self) -> bool {
        let file = format!("libclang_rt.profile-{}.a", std::env::consts::ARCH);
        let folder = output(self.clang().arg("-print-resource-dir"));
        Path::new(folder.trim()).join("lib/linux").join(file).is_file()
    }

    /// Returns the options for exact counts in kernels on several threads. clang before 18 ignores
    /// `-fprofile-update=atomic` in IR instrumentation.
    pub(crate) fn exact(&self, instrumentation: Instrumentation) -> Vec<&'static str> {
        let mut options = vec![instrumentation.option(), "-fprofile-update=atomic"];
        if self.version < 18 && instrumentation == Instrumentation::Ir {
            options.extend(["-mllvm", "-instrprof-atomic-counter-update-all"]);
        }
        options
    }
}

impl Instrumentation {
    pub(crate) const BOTH: [Instrumentation; 2] = [Instrumentation::Ir, Instrumentation::FrontEnd];

    fn option(self) -> &'static str {
        match self {
            Instrumentation::Ir => "-fprofile-generate",
            Instrumentation::FrontEnd => "-fprofile-instr-generate",
        }
    }

    pub(crate) fn use_option(self) -> &'static str {
        match self {
            Instrumentation::Ir => "-fprofile-use",
            Instrumentation::FrontEnd => "-fprofile-instr-use",
        }
    }
}

impl Form {
    /// Returns the options for this form. Functions of the runtime record values: objects get these
    /// functions from Longshore, shared objects do not.
    pub(crate) fn flags(self, instrumentation: Instrumentation) -> Vec<&'static str> {
        match (self, instrumentation) {
            (Form::Object, _) => vec!["-c", "-fPIC"],
            (Form::FixedObject, _) => vec!["-c", "-fno-pic"],
            (Form::SharedObject, Instrumentation::FrontEnd) => {
                vec!["-shared", "-fPIC", "-noprofilelib"]
            }
            (Form::SharedObject, Instrumentation::Ir) => {
                vec!["-shared", "-fPIC", "-noprofilelib", "-mllvm", "-disable-vp"]
            }
            (Form::SharedObjectWithRuntime, _) => vec!["-shared", "-fPIC"],
        }
    }
}

/// Returns the output of a command, which must succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}
