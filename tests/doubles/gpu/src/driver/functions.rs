//! The list of a driver's functions.

use std::ffi::c_void;

/// A function of the driver.
pub struct Known {
    /// Its name in the library.
    pub exported: &'static str,
    /// Its name for who asks the driver for it, if that is another one.
    pub base: Option<&'static str>,
    /// The version that brought it.
    pub since: i32,
    /// Where it is.
    pub address: Address,
}

/// The address of a function.
pub struct Address(pub *const c_void);

// SAFETY: the address of code, which nobody changes.
unsafe impl Sync for Address {}

/// Defines the driver's functions, and `FUNCTIONS`, the list of them: each by the name that it is exported with, its name for
/// who asks the driver for it, the version that brought it, what it needs (a variant of
/// [`Needs`](crate::driver::Needs)), its parameters, what it returns (a result, if nothing is said), and what does it.
#[macro_export]
macro_rules! driver_functions {
    ($(
        $exported:ident $(= $base:literal)? $since:literal $needs:ident
        ($($parameter:ident: $kind:ty),* $(,)?) $(-> $returned:ty)? => $body:expr;
    )*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case, reason = "the names are the driver's")]
            #[allow(clippy::too_many_arguments, reason = "they are the driver's")]
            extern "C" fn $exported($($parameter: $kind),*) -> $crate::returned!($($returned)?) {
                $crate::driver::enter(stringify!($exported), $crate::driver::Needs::$needs, || $body)
            }
        )*

        /// All of them.
        pub(crate) static FUNCTIONS: &[$crate::driver::Known] = &[
            $($crate::driver::Known {
                exported: stringify!($exported),
                base: [$(Some($base),)? None][0],
                since: $since,
                address: $crate::driver::Address(
                    $exported as extern "C" fn($($kind),*) -> $crate::returned!($($returned)?)
                        as *const std::ffi::c_void
                ),
            },)*
        ];
    };
}

/// What a function returns, a result if nothing is said.
#[doc(hidden)]
#[macro_export]
macro_rules! returned {
    () => {
        u32
    };
    ($returned:ty) => {
        $returned
    };
}
