//! Shared libraries for the program (`--dylib`).

use super::inputs::read;
use super::kind::Kind;
use crate::failure::{Exit, Failure};
use longshore_jitlink::process::TargetProcess;
use longshore_jitlink::{Architecture, Error};
use std::path::Path;

/// Opens a shared library in the process that runs the program, and never closes it. The program
/// and other libraries see its symbols.
pub(super) fn open(process: &dyn TargetProcess, name: &Path) -> Result<(), Failure> {
    // SAFETY: the user has requested to run this library's constructors.
    let opened = longshore_jitlink::wait(unsafe { process.open_globally(name) });
    opened.map_err(|error| {
        let Error::Open { problem: reason, .. } = error else { return error.into() };
        let name = name.display().to_string();
        let what = reason.strip_prefix(&format!("{name}: ")).unwrap_or(&reason);
        let failure = Failure::new(Exit::Runtime, format!("cannot open '{name}': {what}"));
        match hint(&name, &reason) {
            Some(hint) => failure.or_hint(hint),
            None => failure,
        }
    })?;
    log::info!("opened {}", name.display());
    Ok(())
}

/// Returns the hint for a library. The reason starts with the file that could not be opened, which
/// is the library or a dependency.
fn hint(name: &str, reason: &str) -> Option<String> {
    let (file, problem) = reason.split_once(": ")?;
    if problem.contains("undefined symbol") {
        return Some(
            "open the library that defines the symbol with an earlier --dylib; the program's symbols \
             are visible only to libraries that the program opens itself, with -rdynamic"
                .to_owned(),
        );
    }
    match file.contains('/').then(|| read(Path::new(file))) {
        Some(Ok(bytes)) => hint_for(name, Kind::detect(&bytes)),
        _ if file != name => {
            Some(format!("'{name}' needs this library; add its folder to LD_LIBRARY_PATH"))
        }
        None if Path::new(name).exists() => {
            Some(format!("open the file in this folder with --dylib ./{name}"))
        }
        _ => Some(
            "give --dylib a path with a '/', or a name such as 'libm.so.6' that the dynamic \
             linker finds"
                .to_owned(),
        ),
    }
}

/// Returns the hint for an existing file.
fn hint_for(name: &str, kind: Kind) -> Option<String> {
    Some(match kind {
        Kind::Object(_) => format!("it is an object: give '{name}' as a FILE, without --dylib"),
        Kind::Archive | Kind::ThinArchive => {
            format!("it is an archive: link it with --archive {name}")
        }
        Kind::LinkerScript(files) => match files.iter().find(|file| file.contains(".so")) {
            Some(library) => {
                format!("it is a linker script: give the library that it names, --dylib {library}")
            }
            None => "it is a linker script: give the files that it names instead".to_owned(),
        },
        Kind::Executable => {
            "it is an executable: make a shared library with `cc -shared`".to_owned()
        }
        Kind::Foreign(what) => format!("it is for {what}, expected a library for this machine"),
        Kind::SharedLibrary(architecture) if Architecture::native() == Some(architecture) => {
            return None;
        }
        Kind::SharedLibrary(architecture) => {
            format!("it is for {}, expected a library for this machine", architecture.triple())
        }
        Kind::Bitcode | Kind::AssemblyText | Kind::Other => {
            "--dylib takes a shared library: make one with `cc -shared`".to_owned()
        }
    })
}
