//! Shared libraries for the program (`--dylib`).

use super::inputs::read;
use super::kind::Kind;
use crate::failure::{Exit, Failure};
use longshore_jitlink::process::TargetProcess;
use longshore_jitlink::{Architecture, Error};
use std::path::Path;

/// Opens a shared library for good, in the process that runs the program. Its symbols are for the program and for other libraries.
pub(super) fn open(process: &dyn TargetProcess, name: &Path) -> Result<(), Failure> {
    // SAFETY: the user asks for this library's constructors to be run.
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

/// What to do about a library. The reason starts with the file that could not be opened: the library, or one that it needs.
fn hint(name: &str, reason: &str) -> Option<String> {
    let (file, problem) = reason.split_once(": ")?;
    if problem.contains("undefined symbol") {
        return Some(
            "open what defines it by a --dylib before this one; symbols of the program are for libraries \
             that it opens itself, with -rdynamic"
                .to_owned(),
        );
    }
    match file.contains('/').then(|| read(Path::new(file))) {
        Some(Ok(bytes)) => hint_for(name, Kind::detect(&bytes)),
        _ if file != name => Some(format!(
            "'{name}' needs it; LD_LIBRARY_PATH has folders in which the dynamic linker looks"
        )),
        None if Path::new(name).exists() => {
            Some(format!("--dylib ./{name} opens the file in this folder"))
        }
        _ => Some(
            "--dylib takes a path with a '/' in it, or a name such as 'libm.so.6' that the dynamic \
             linker finds"
                .to_owned(),
        ),
    }
}

/// What to do about a file that is there.
fn hint_for(name: &str, kind: Kind) -> Option<String> {
    Some(match kind {
        Kind::Object(_) => format!("it is an object: give '{name}' as a FILE, without --dylib"),
        Kind::Archive | Kind::ThinArchive => format!("it is an archive: --archive {name}"),
        Kind::LinkerScript(files) => match files.iter().find(|file| file.contains(".so")) {
            Some(library) => format!("it is a linker script; it stands for --dylib {library}"),
            None => "it is a linker script: give what it names instead".to_owned(),
        },
        Kind::Executable => {
            "it is an executable; a shared library is what `cc -shared` makes".to_owned()
        }
        Kind::Foreign(what) => format!("it is for {what}, expected one for this machine"),
        Kind::SharedLibrary(architecture) if Architecture::native() == Some(architecture) => {
            return None;
        }
        Kind::SharedLibrary(architecture) => {
            format!("it is for {}, expected one for this machine", architecture.triple())
        }
        Kind::Bitcode | Kind::AssemblyText | Kind::Other => {
            "a --dylib is a shared library, as `cc -shared` makes it".to_owned()
        }
    })
}
