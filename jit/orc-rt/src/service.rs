//! Services for a controller, with one call for many items where possible. Each service is a
//! wrapper function; its constant documents argument and result.
//!
//! Numbers passed by the controller are trusted: an address must be that of the object it claims to
//! be. The number of an object that is gone already is no error. Calls may come on any thread, and
//! several at once; a call that runs linked code takes as long as the code.
//!
//! A thread that executes calls of another process should be
//! [attached](crate::static_tls::attach_thread). The calls that run a program and its end should
//! come on one thread: the end runs the handlers of the calling thread, and forgets handlers of
//! other threads.

pub mod code_libraries;
pub mod exits;
pub mod libraries;
pub mod memory;
pub mod pages;
pub mod program;
pub mod reentry;
mod release;
pub mod run;
pub mod thread_locals;

use crate::wrapper::WrapperFunction;

pub use release::{RELEASE, Released};

/// Declares services: the constant and the wrapper function of each.
macro_rules! services {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, fn($argument:ty) -> $result:ty, $function:ident;)*) => {
        $($(#[$doc])* pub const $constant: $crate::wrapper::Service<$argument, $result> =
            $crate::wrapper::Service::new($name);)*

        pub(super) fn functions() -> Vec<(&'static str, $crate::wrapper::WrapperFunction)> {
            vec![$({
                /// # Safety
                /// Must be called as a wrapper function, with an argument that meets the service's
                /// conditions.
                unsafe extern "C" fn wrapper(
                    argument: *const u8,
                    size: usize,
                    reply: *mut $crate::wrapper::Reply,
                ) {
                    // SAFETY: guaranteed by the caller.
                    unsafe {
                        $crate::wrapper::serve(argument, size, reply, |argument: $argument| -> $result {
                            $function(argument)
                        })
                    }
                }
                ($name, wrapper as $crate::wrapper::WrapperFunction)
            }),*]
        }
    };
}
pub(crate) use services;

/// Returns the wrapper functions of all services, by name.
pub(crate) fn functions() -> impl Iterator<Item = (&'static str, WrapperFunction)> {
    [
        release::functions(),
        code_libraries::functions(),
        exits::functions(),
        libraries::functions(),
        memory::functions(),
        pages::functions(),
        program::functions(),
        reentry::functions(),
        run::functions(),
        thread_locals::functions(),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests;
