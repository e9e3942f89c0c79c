//! The functions of a driver that tests call, found in the double's file.

/// Defines a loaded double with these functions. The methods return the driver's results; tests
/// pass pointers to their own values.
#[macro_export]
macro_rules! tried_functions {
    ($double:ident: $($name:ident($($parameter:ident: $kind:ty),* $(,)?) $(-> $returned:ty)?;)*) => {
        /// A loaded double.
        pub(crate) struct $double {
            pub(crate) double: $crate::Double,
            $($name: unsafe extern "C" fn($($kind),*) -> $crate::returned!($($returned)?),)*
        }

        impl $double {
            /// Opens the double's file.
            pub(crate) fn open(path: &std::path::Path) -> $double {
                let double = $crate::Double::open(path).expect("the double can be opened");
                // SAFETY: the driver's functions have these types.
                $(let $name = unsafe {
                    *double.library().get(stringify!($name)).expect(stringify!($name))
                };)*
                $double { double, $($name,)* }
            }

            $(
                #[allow(clippy::too_many_arguments, reason = "they are the driver's")]
                pub(crate) fn $name(&self, $($parameter: $kind),*) -> $crate::returned!($($returned)?) {
                    // SAFETY: tests pass arguments as the driver's documentation demands, or
                    // arguments that the double must refuse.
                    unsafe { (self.$name)($($parameter),*) }
                }
            )*
        }
    };
}
