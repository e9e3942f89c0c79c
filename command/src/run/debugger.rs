//! `longshore run --gdb`: the same run below gdb, with the commands of `longshore-gdb.py`.

use super::Run;
use crate::common::CommonOptions;
use crate::failure::{Exit, Failure};
use longshore::{Environment, Image};
use longshore_orc_rt::memory_file;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// gdb's commands for kernels.
const SCRIPT: &str = include_str!("longshore-gdb.py");
const GDB: &str = "gdb";
/// The backend whose kernels run in the program.
const BACKEND: &str = "host";

impl Run {
    /// Replaces this process by gdb, which stops at the kernel's first item. Returns only on
    /// failure.
    pub(super) fn under_gdb(&self, common: &CommonOptions) -> Failure {
        let mut gdb = match self.gdb(common) {
            Ok(gdb) => gdb,
            Err(failure) => return failure,
        };
        let error = gdb.exec();
        Failure::new(Exit::NothingFound, format!("cannot start '{GDB}': {error}"))
            .or_hint("install gdb, built with Python")
    }

    fn gdb(&self, common: &CommonOptions) -> Result<Command, Failure> {
        let failed = |what: &str, error: io::Error| {
            Failure::new(Exit::Runtime, format!("cannot start '{GDB}': {what}: {error}"))
        };
        let own = std::env::current_exe().map_err(|error| failed("this program's path", error))?;
        let script = script().map_err(|error| failed("a file in memory", error))?;
        let kernel = self.kernel_symbol(common)?;
        let load = format!(
            "python exec(compile(open('/proc/self/fd/{script}').read(), 'longshore-gdb.py', 'exec'))"
        );
        let mut gdb = Command::new(GDB);
        gdb.args(["-q", "-iex", "set debuginfod enabled off", "-ex", &load]);
        gdb.args(["-ex", &format!("longshore kernel {kernel}")]);
        gdb.arg("--args").arg(own);
        if common.backend.is_none() && self.device.is_none() {
            gdb.args(["--backend", BACKEND]);
        }
        gdb.args(std::env::args_os().skip(1).filter(|argument| argument != "--gdb"));
        let environment = Environment::from_process();
        let receivers = environment.setting(BACKEND, "DEBUG");
        gdb.env(
            "LONGSHORE_HOST_DEBUG",
            receivers.map_or("gdb".to_owned(), |others| format!("{others},gdb")),
        );
        // Only code without optimization keeps all variables.
        if environment.setting("jit", "OPT_LEVEL").is_none() {
            gdb.env("LONGSHORE_JIT_OPT_LEVEL", "0");
        }
        Ok(gdb)
    }

    /// Loads the image, and returns the symbol of the kernel.
    fn kernel_symbol(&self, common: &CommonOptions) -> Result<String, Failure> {
        let image = Image::read(&self.image)?;
        let device = common.open(self.device.as_deref(), &image, false, None)?;
        // SAFETY: the user has named the image in order to run it, and vouches for its code.
        let program = unsafe { device.load(image)? };
        let name = match &self.kernel {
            Some(name) => name.clone(),
            None => self.only_kernel(&program)?,
        };
        Ok(self.find(&program, &name)?.name().to_owned())
    }
}

/// Returns a descriptor, which gdb inherits, of a file with gdb's commands.
fn script() -> io::Result<i32> {
    let file = memory_file::create("longshore-gdb.py", SCRIPT.as_bytes())?;
    // SAFETY: the call changes only a flag of the descriptor.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) } {
        0 => Ok(file.into_raw_fd()),
        _ => Err(io::Error::last_os_error()),
    }
}
