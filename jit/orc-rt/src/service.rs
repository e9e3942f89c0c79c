//! What a controller can have done in this process, with one call for many things where there can be many. Each service is a
//! wrapper function; its constant says what it takes and gives.
//!
//! Numbers that the controller passes in are believed: addresses are of what they are said to be. A number of something that is gone
//! already is no error. Calls may come on any thread, and several at once; those that run linked code take as long as that does.
//!
//! A thread that is given calls for another process is best [attached](crate::static_tls::attach_thread), and the calls that run a
//! program and its end best come on one thread: the end runs the handlers of the calling thread, and forgets those of others.

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
                /// It must be called as a wrapper function, and what it is called with be true.
                unsafe extern "C" fn wrapper(
                    argument: *const u8,
                    size: usize,
                    reply: *mut $crate::wrapper::Reply,
                ) {
                    // SAFETY: promised by the caller.
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

/// The wrapper functions of all services, by name.
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
