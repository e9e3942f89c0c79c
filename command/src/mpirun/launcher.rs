//! The search for a launcher of MPI.

use crate::failure::{Exit, Failure};
use longshore_cc::path;
use longshore_mpi::{Implementation, Mpi};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A launcher, and its family.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Launcher {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

/// A family of MPI libraries with the same binary interface and the same options of launchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    OpenMpi,
    /// MPICH and its relatives: Intel MPI, MVAPICH, ParaStation.
    Mpich,
}

/// Names of launchers, in the order of the search.
const NAMES: [&str; 7] = [
    "mpirun",
    "mpiexec",
    "mpirun.openmpi",
    "mpirun.mpich",
    "mpiexec.openmpi",
    "mpiexec.mpich",
    "mpiexec.hydra",
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::OpenMpi => "Open MPI",
            Kind::Mpich => "the MPICH family",
        }
    }

    /// Returns the family by the launcher's description of its version.
    fn from_version(text: &str) -> Option<Kind> {
        let has = |names: &[&str]| names.iter().any(|name| text.contains(name));
        if has(&["Open MPI", "OpenRTE", "PRRTE"]) {
            return Some(Kind::OpenMpi);
        }
        has(&["HYDRA", "Hydra", "MPICH", "Intel(R) MPI", "MVAPICH"]).then_some(Kind::Mpich)
    }

    /// Returns the family by the name of a library's file.
    fn from_library(library: &Path) -> Option<Kind> {
        let real = library.canonicalize().unwrap_or_else(|_| library.to_owned());
        let name = real.file_name()?.to_str()?;
        if name.starts_with("libmpich") || name.starts_with("libmpi.so.12") {
            return Some(Kind::Mpich);
        }
        name.starts_with("libmpi.so.").then_some(Kind::OpenMpi)
    }

    fn libraries(self) -> &'static [&'static str] {
        match self {
            Kind::OpenMpi => &["libmpi.so.40"],
            Kind::Mpich => &["libmpich.so.12", "libmpi.so.12"],
        }
    }
}

/// Returns the chosen launcher, or the first one on PATH that belongs to the chosen `library`.
///
/// # Errors
/// No launcher, or an unknown one; a launcher of another MPI than the library's.
pub(super) fn find(given: Option<&Path>, library: Option<&Path>) -> Result<Launcher, Failure> {
    let of_library = library.and_then(Kind::from_library);
    let wanted = match given.and_then(Path::to_str) {
        Some("openmpi") => Some(Kind::OpenMpi),
        Some("mpich") => Some(Kind::Mpich),
        Some(_) => return named(given.unwrap_or(Path::new("")), of_library),
        None => None,
    };
    if let (Some(wanted), Some(of_library)) = (wanted, of_library)
        && wanted != of_library
    {
        return Err(mismatch(wanted, library.unwrap_or(Path::new(""))));
    }
    let wanted = wanted.or(of_library);
    let beside = library.into_iter().flat_map(beside).collect::<Vec<_>>();
    let found = beside.into_iter().chain(NAMES.into_iter().filter_map(path::find));
    let mut known = found.filter_map(|path| Some(Launcher { kind: kind(&path)?, path }));
    known.find(|launcher| wanted.is_none_or(|wanted| launcher.kind == wanted)).ok_or_else(|| {
        let of = wanted.map(|kind| format!(" of {}", kind.name())).unwrap_or_default();
        let names = NAMES.map(|name| format!("'{name}'")).join(", ");
        let message = format!("there is no launcher{of} on PATH; looked for {names}");
        Failure::new(Exit::NothingFound, message).or_hint(
            "install Open MPI or MPICH (on Debian, the package openmpi-bin or mpich), or name a \
             launcher with --launcher",
        )
    })
}

/// Returns the launcher at a path or of a name on PATH.
fn named(given: &Path, of_library: Option<Kind>) -> Result<Launcher, Failure> {
    let path = match given.components().count() {
        1 => path::find(&given.to_string_lossy()),
        _ => Some(given.to_owned()).filter(|path| path.is_file()),
    };
    let path = path.ok_or_else(|| {
        let message = format!("the launcher '{}' is not found", given.display());
        Failure::new(Exit::NothingFound, message)
            .or_hint("expected \"openmpi\", \"mpich\", a name on PATH or a path")
    })?;
    let kind = kind(&path).ok_or_else(|| {
        let message = format!(
            "'{} --version' names neither Open MPI nor a relative of MPICH",
            path.display()
        );
        Failure::new(Exit::Usage, message)
            .or_hint("docs/clusters.md has the lines for other launchers, such as srun")
    })?;
    match of_library.filter(|of_library| *of_library != kind) {
        Some(_) => Err(mismatch(kind, Path::new("LONGSHORE_MPI_LIBRARY"))),
        None => Ok(Launcher { path, kind }),
    }
}

fn mismatch(kind: Kind, library: &Path) -> Failure {
    let message = format!(
        "the launcher is of {}, but '{}' names a library of another MPI",
        kind.name(),
        library.display()
    );
    Failure::new(Exit::Usage, message).or_hint(
        "take launcher and library from one MPI: change --launcher or LONGSHORE_MPI_LIBRARY",
    )
}

/// Returns the launchers in the installation of a library.
fn beside(library: &Path) -> Vec<PathBuf> {
    let folders = library.ancestors().skip(2).take(3);
    let launchers =
        folders.flat_map(|prefix| ["mpirun", "mpiexec"].map(|name| prefix.join("bin").join(name)));
    launchers.filter(|path| path.is_absolute() && path.is_file()).collect()
}

/// Returns the family of a launcher. Runs it.
fn kind(launcher: &Path) -> Option<Kind> {
    let mut command = Command::new(launcher);
    let output = command.arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    Kind::from_version(&String::from_utf8_lossy(&text))
}

impl Launcher {
    /// Returns the library in the launcher's installation, if that is no folder of the system.
    pub(super) fn own_library(&self) -> Option<PathBuf> {
        let real = self.path.canonicalize().ok()?;
        let prefix = real.parent()?.parent()?;
        if ["/usr", "/usr/local", "/"].iter().any(|system| prefix == Path::new(system)) {
            return None;
        }
        let folders = ["lib", "lib64", "lib/release"].map(|folder| prefix.join(folder));
        let files = folders
            .iter()
            .flat_map(|folder| self.kind.libraries().iter().map(|name| folder.join(name)));
        files.into_iter().find(|file| file.is_file())
    }

    /// Checks that this machine has the launcher's library.
    ///
    /// # Errors
    /// The reason against the library, or the library of another MPI.
    pub(super) fn check_library(&self, library: Option<&OsStr>) -> Result<(), Failure> {
        let preferred = match self.kind {
            Kind::OpenMpi => Implementation::OpenMpi,
            Kind::Mpich => Implementation::Mpich,
        };
        let opened = match library {
            Some(library) => Mpi::open(Path::new(library)),
            None => Mpi::open_default(Some(preferred)),
        };
        let mpi = opened.map_err(|error| {
            Failure::new(Exit::NothingFound, error.to_string())
                .or_hint("set LONGSHORE_MPI_LIBRARY to the library of the launcher's MPI")
        })?;
        // A library of the standard interface may belong to any launcher.
        if [preferred, Implementation::Standard].contains(&mpi.implementation()) {
            return Ok(());
        }
        let message = format!(
            "the launcher '{}' is of {}, but the only MPI library is '{}'",
            self.path.display(),
            self.kind.name(),
            mpi.path().display()
        );
        Err(Failure::new(Exit::NothingFound, message).or_hint(
            "choose the launcher of that library with --launcher, or set LONGSHORE_MPI_LIBRARY to the \
             launcher's library",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_family_of_a_launcher_is_known_by_its_version() {
        for (text, kind) in [
            ("mpirun (Open MPI) 4.1.4\n", Some(Kind::OpenMpi)),
            ("mpirun.openmpi (OpenRTE) 4.1.4", Some(Kind::OpenMpi)),
            ("mpirun (Open MPI) 5.0.7", Some(Kind::OpenMpi)),
            ("HYDRA build details:\n    Version: 4.0.2", Some(Kind::Mpich)),
            ("Intel(R) MPI Library for Linux* OS, Version 2021.13", Some(Kind::Mpich)),
            ("slurm 23.02.4", None),
        ] {
            assert_eq!(Kind::from_version(text), kind, "{text}");
        }
    }

    #[test]
    fn the_family_of_a_library_is_known_by_its_name() {
        for (name, kind) in [
            ("/x/libmpi.so.40", Some(Kind::OpenMpi)),
            ("libmpi.so.12", Some(Kind::Mpich)),
            ("/x/libmpich.so.12.2.0", Some(Kind::Mpich)),
            ("libmpi_abi.so.1", None),
        ] {
            assert_eq!(Kind::from_library(Path::new(name)), kind, "{name}");
        }
    }
}
