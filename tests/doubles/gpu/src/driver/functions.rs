//! The list of a driver's functions.

use std::ffi::c_void;

/// A function of the driver.
pub struct DriverFunction {
    /// Name of the symbol in the library.
    pub exported: &'static str,
    /// Name that a program passes to the driver's look-up function, if it differs from the
    /// symbol's.
    pub base: Option<&'static str>,
    /// First version of the driver with the function.
    pub since: i32,
    /// Address of the function.
    pub address: Address,
}

/// The address of a function.
pub struct Address(pub *const c_void);

// SAFETY: the address of code, which never changes.
unsafe impl Sync for Address {}

/// Defines the driver's functions, and `FUNCTIONS`, the list of them. Each line has the symbol's
/// name, the name for the driver's look-up function, the first version, and the needed state (a
/// variant of [`RequiredState`](crate::driver::RequiredState)). The parameters, the return type (a
/// result by default) and the implementation follow.
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
                $crate::driver::enter(stringify!($exported), $crate::driver::RequiredState::$needs, || $body)
            }
        )*

        /// All of the driver's functions.
        pub(crate) static FUNCTIONS: &[$crate::driver::DriverFunction] = &[
            $($crate::driver::DriverFunction {
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

/// Expands to a function's return type, a result by default.
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
