//! Tables of a driver's functions, and what is made of them.

/// Makes `Functions`, the functions that a driver's library has, and for each a method of the driver of its
/// name: an unsafe one that answers a [`Call`](crate::Call), [`Failure::missing`](crate::Failure::missing) for
/// one that the library lacks. The driver is a structure with a field `functions` and a method `was_refused`,
/// which is called after a call that failed. A line is the function's name and its parameters; how they are
/// found, the backend writes.
#[macro_export]
macro_rules! driver_functions {
    ($driver:ident: $($name:ident ($($parameter:ident: $kind:ty),*);)*) => {
        /// The functions that the driver has; others are `None`.
        #[allow(non_snake_case, reason = "the names are the driver's")]
        pub(super) struct Functions {
            $(pub(super) $name: Option<unsafe extern "C" fn($($kind),*) -> $crate::Code>,)*
        }

        #[allow(non_snake_case, reason = "the names are the driver's")]
        impl $driver {
            $(
                /// # Safety
                /// As the driver's documentation of the function says: handles are live, pointers
                /// point to what the function reads or writes.
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

/// Methods of [`Driver`](crate::Driver) that only call a function of a driver: what each takes, and the function with its
/// arguments.
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
