//! Macros for tables of a driver's functions and for the methods that call them.

/// Defines `Functions`, the functions of a driver's library, and for each an unsafe method of the
/// driver with the same name. The method returns a [`Call`](crate::Call):
/// [`Failure::missing`](crate::Failure::missing) for a function that the library lacks.
/// The driver is a structure with a field `functions` and a method `was_refused`, which is called
/// after a failed call. Each line has the function's name and its parameters. The backend writes
/// the code that looks the functions up.
#[macro_export]
macro_rules! driver_functions {
    ($driver:ident: $($name:ident ($($parameter:ident: $kind:ty),*);)*) => {
        /// The functions of the driver's library; `None` for one that the library lacks.
        #[allow(non_snake_case, reason = "the names are the driver's")]
        pub(super) struct Functions {
            $(pub(super) $name: Option<unsafe extern "C" fn($($kind),*) -> $crate::Code>,)*
        }

        #[allow(non_snake_case, reason = "the names are the driver's")]
        impl $driver {
            $(
                /// # Safety
                /// As in the driver's documentation of the function: handles are live, pointers
                /// point to memory that the function may read or write.
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "they are the driver's")]
                pub(crate) unsafe fn $name(&self $(, $parameter: $kind)*) -> $crate::Call {
                    let Some(function) = self.functions.$name else {
                        return Err($crate::Failure::missing(stringify!($name)));
                    };
                    // SAFETY: promised by the caller.
                    match unsafe { function($($parameter),*) } {
                        $crate::Code::SUCCESS => Ok(()),
                        result => {
                            self.was_refused();
                            Err($crate::Failure::new(stringify!($name), result))
                        }
                    }
                }
            )*
        }
    };
}

/// Defines methods of [`Driver`](crate::Driver) that only call a function of a driver: the method's
/// parameters, and the function with its arguments.
#[macro_export]
macro_rules! forward {
    ($($name:ident($($parameter:ident: $kind:ty),*) => $function:ident($($argument:expr),*);)*) => {
        $(
            #[inline]
            unsafe fn $name(&self $(, $parameter: $kind)*) -> $crate::Call {
                // SAFETY: promised by the caller.
                unsafe { self.$function($($argument),*) }
            }
        )*
    };
}
