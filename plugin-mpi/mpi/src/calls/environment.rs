//! Calls about the library and the process.

use super::{call, string};
use crate::abi::standard;
use crate::handle::Comm;
use crate::{Implementation, Mpi, MpiError};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Support for threads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ThreadLevel {
    /// The process has one thread.
    Single,
    /// Only the main thread calls MPI.
    Funneled,
    /// One thread at a time calls MPI.
    Serialized,
    /// Any thread calls MPI at any time.
    Multiple,
}

impl Mpi {
    /// Returns the first line of the library's description of itself. MPI may be uninitialized.
    pub fn version(&self) -> String {
        let text = string(|text, length| {
            // SAFETY: `string` passes memory for the longest string.
            unsafe { (self.functions.MPI_Get_library_version)(text, length) }
        });
        text.unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
    }

    /// Returns whether MPI was initialized, also after it was finalized.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn is_initialized(&self) -> Result<bool, MpiError> {
        let mut flag = 0;
        // SAFETY: the output is a local variable.
        unsafe { call!(self.MPI_Initialized(&mut flag)) }?;
        Ok(flag != 0)
    }

    /// Returns whether MPI was finalized.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn is_finalized(&self) -> Result<bool, MpiError> {
        let mut flag = 0;
        // SAFETY: the output is a local variable.
        unsafe { call!(self.MPI_Finalized(&mut flag)) }?;
        Ok(flag != 0)
    }

    /// Initializes MPI, with this thread as the main thread, and returns the level that the library
    /// provides. It may be lower than `required`. A process does so once. Blocks.
    ///
    /// # Errors
    /// Errors of the library, which usually ends the process instead.
    pub fn init_thread(&self, required: ThreadLevel) -> Result<ThreadLevel, MpiError> {
        let required = self.constants.numbers.thread_levels[required as usize];
        let mut provided = 0;
        // SAFETY: the output is a local variable, and null arguments are permitted since MPI 2.
        unsafe { call!(self.MPI_Init_thread(null_mut(), null_mut(), required, &mut provided)) }?;
        Ok(self.thread_level(provided))
    }

    /// Returns the level that the library provides.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn query_thread(&self) -> Result<ThreadLevel, MpiError> {
        let mut provided = 0;
        // SAFETY: the output is a local variable.
        unsafe { call!(self.MPI_Query_thread(&mut provided)) }?;
        Ok(self.thread_level(provided))
    }

    /// Returns whether this thread is the main thread.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn is_main_thread(&self) -> Result<bool, MpiError> {
        let mut flag = 0;
        // SAFETY: the output is a local variable.
        unsafe { call!(self.MPI_Is_thread_main(&mut flag)) }?;
        Ok(flag != 0)
    }

    /// Has MPI call `run` at the beginning of `MPI_Finalize`, while all calls are still permitted.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn on_finalize(&self, run: fn()) -> Result<(), MpiError> {
        unsafe extern "C" fn copy(
            _: Comm,
            _: c_int,
            _: *mut c_void,
            _: *mut c_void,
            _: *mut c_void,
            is_copied: *mut c_int,
        ) -> c_int {
            // SAFETY: the library passes a place to write to.
            unsafe { *is_copied = 0 };
            0
        }
        unsafe extern "C" fn delete(
            _: Comm,
            _: c_int,
            attribute: *mut c_void,
            _: *mut c_void,
        ) -> c_int {
            // SAFETY: the attribute is the function that was set below.
            let run = unsafe { std::mem::transmute::<*mut c_void, fn()>(attribute) };
            if std::panic::catch_unwind(run).is_ok() { 0 } else { 1 }
        }
        let (mut key, nothing) = (0, std::ptr::null_mut());
        // SAFETY: the functions have the types of the MPI standard; the output is a local variable.
        unsafe { call!(self.MPI_Comm_create_keyval(copy, delete, &mut key, nothing)) }?;
        // MPI deletes the attributes of this communicator first.
        // SAFETY: the attribute is a pointer that only `delete` uses.
        unsafe { call!(self.MPI_Comm_set_attr(self.self_comm(), key, run as *mut c_void)) }
    }

    /// Finalizes MPI. All processes do so, after their last other call. Blocks.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn finalize(&self) -> Result<(), MpiError> {
        // SAFETY: the function has no parameter.
        unsafe { call!(self.MPI_Finalize()) }
    }

    /// Ends the processes of a communicator, this process included; most libraries end all of the
    /// job.
    pub fn abort(&self, comm: Comm, code: i32) -> ! {
        // SAFETY: the communicator is valid by the rules of the crate.
        unsafe { (self.functions.MPI_Abort)(comm, code) };
        std::process::abort()
    }

    /// Returns the greatest tag.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn tag_upper_bound(&self) -> Result<i32, MpiError> {
        // The standard guarantees this value where the attribute is unset.
        const LEAST: i32 = 32767;
        Ok(self.attribute(self.constants.numbers.tag_ub)?.unwrap_or(LEAST))
    }

    /// Returns the name of the processor, usually the name of the host.
    ///
    /// # Errors
    /// Errors of the library.
    pub fn processor_name(&self) -> Result<String, MpiError> {
        let name = string(|text, length| {
            // SAFETY: `string` passes memory for the longest string.
            unsafe { (self.functions.MPI_Get_processor_name)(text, length) }
        });
        name.map_err(|code| self.error("MPI_Get_processor_name", code))
    }

    /// Returns whether the library has the [earlier values](standard) of the standard ABI.
    pub(super) fn has_earlier_constants(&self) -> Result<bool, MpiError> {
        if self.implementation() != Implementation::Standard {
            return Ok(false);
        }
        let last_code = self.attribute(standard::LASTUSEDCODE)?;
        Ok(last_code.is_none_or(|code| code < standard::ERR_LASTCODE))
    }

    /// Returns a predefined attribute of `MPI_COMM_WORLD`, if it is set.
    fn attribute(&self, key: c_int) -> Result<Option<i32>, MpiError> {
        let (mut value, mut flag): (*mut c_int, c_int) = (null_mut(), 0);
        let output = (&raw mut value).cast();
        // SAFETY: the outputs are local variables, and the attribute is a pointer.
        unsafe { call!(self.MPI_Comm_get_attr(self.world(), key, output, &mut flag)) }?;
        // SAFETY: the value of a predefined attribute that is set is a pointer to an `int`.
        Ok((flag != 0 && !value.is_null()).then(|| unsafe { *value }))
    }

    /// Returns the highest level up to the library's number, which may lie between two levels.
    fn thread_level(&self, provided: c_int) -> ThreadLevel {
        use ThreadLevel::{Funneled, Multiple, Serialized, Single};
        let numbers = self.constants.numbers.thread_levels;
        let mut levels = [Multiple, Serialized, Funneled].into_iter();
        levels.find(|level| numbers[*level as usize] <= provided).unwrap_or(Single)
    }
}
