//! Calls that start processes.

use super::call;
use crate::handle::{Comm, Info};
use crate::{Mpi, MpiError};
use std::ffi::{CString, c_char, c_int};
use std::ptr::null_mut;

impl Mpi {
    /// Starts up to `count` processes of a program, in a call of all processes of `comm`. Only the
    /// arguments at process `root` matter. Returns the communicator between the two sides, and the
    /// error code of each process, 0 for one that was started. Blocks.
    ///
    /// # Errors
    /// Errors of the library, or a NUL character in a text.
    pub fn spawn(
        &self,
        command: &str,
        arguments: &[&str],
        count: usize,
        root: i32,
        comm: Comm,
    ) -> Result<(Comm, Vec<i32>), MpiError> {
        const FUNCTION: &str = "MPI_Comm_spawn";
        let command = self.c_string(FUNCTION, command)?;
        let arguments = arguments.iter().map(|argument| self.c_string(FUNCTION, argument));
        let arguments = arguments.collect::<Result<Vec<CString>, MpiError>>()?;
        let pointers = arguments.iter().map(|argument| argument.as_ptr().cast_mut());
        let mut pointers: Vec<*mut c_char> = pointers.chain([null_mut()]).collect();
        let processes = self.count(FUNCTION, count)?;
        let info = Info(self.constants.info_null);
        let mut made = Comm::UNSET;
        let mut codes: Vec<c_int> = vec![0; count];
        let (command, arguments) = (command.as_ptr(), pointers.as_mut_ptr());
        let (made_at, codes_at) = (&raw mut made, codes.as_mut_ptr());
        // SAFETY: strings and their list end with null, and there is a code for each process.
        unsafe {
            call!(
                self.MPI_Comm_spawn(
                    command, arguments, processes, info, root, comm, made_at, codes_at
                )
            )
        }?;
        Ok((made, codes))
    }

    /// Returns the communicator with the processes that started this one, if any did.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn parent(&self) -> Result<Option<Comm>, MpiError> {
        let mut parent = Comm::UNSET;
        // SAFETY: the output is a zeroed local variable.
        unsafe { call!(self.MPI_Comm_get_parent(&mut parent)) }?;
        Ok((parent != self.null_comm()).then_some(parent))
    }

    /// Makes one communicator of both sides of `intercomm`, in a call of all processes. Ranks of
    /// the side with `high` follow the others. Blocks.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn merge(&self, intercomm: Comm, high: bool) -> Result<Comm, MpiError> {
        let mut made = Comm::UNSET;
        // SAFETY: the output is a zeroed local variable.
        unsafe { call!(self.MPI_Intercomm_merge(intercomm, c_int::from(high), &mut made)) }?;
        Ok(made)
    }

    fn c_string(&self, function: &'static str, text: &str) -> Result<CString, MpiError> {
        CString::new(text)
            .map_err(|_| self.bad_argument(function, format!("a NUL character in {text:?}")))
    }
}
