//! A driver's functions, called as directly as possible.

use anyhow::{Context, Result};
use libloading::Library;

/// Defines a table of functions.
macro_rules! functions {
    ($($name:ident ($($parameter:ident: $kind:ty),*);)*) => {
        /// The driver's functions. Each fails with the driver's error number, or if the driver
        /// lacks it.
        #[allow(non_snake_case, reason = "the names are the driver's")]
        struct Driver {
            $($name: Option<unsafe extern "C" fn($($kind),*) -> c_int>,)*
            _library: libloading::Library,
        }

        #[allow(non_snake_case, reason = "the names are the driver's")]
        impl Driver {
            fn find(library: libloading::Library) -> Driver {
                Driver {
                    $($name: {
                        // SAFETY: the driver's function of this name has this type.
                        let found = unsafe { library.get(stringify!($name)) };
                        found.ok().map(|found| *found)
                    },)*
                    _library: library,
                }
            }

            $(
                /// # Safety
                /// The conditions in the driver's documentation of the function.
                #[inline]
                #[allow(clippy::too_many_arguments, reason = "they are the driver's")]
                unsafe fn $name(&self $(, $parameter: $kind)*) -> Result<()> {
                    let name = stringify!($name);
                    let Some(function) = self.$name else {
                        anyhow::bail!("the driver has no {name}")
                    };
                    // SAFETY: promised by the caller.
                    match unsafe { function($($parameter),*) } {
                        0 => Ok(()),
                        error => anyhow::bail!("{name}: error {error} of the driver"),
                    }
                }
            )*
        }
    };
}

/// Defines methods of [`Raw`](crate::raw::Raw) that only call a function of the driver, from their
/// parameters and the function.
macro_rules! forward {
    ($($name:ident($($parameter:ident: $kind:ty),*) => $function:ident;)*) => {$(
        #[inline]
        unsafe fn $name(&self $(, $parameter: $kind)*) -> Result<()> {
            // SAFETY: promised by the caller.
            unsafe { self.driver.$function($($parameter),*) }
        }
    )*};
}

pub(crate) use {forward, functions};

/// Opens the driver's library: the replacement at `path`, or the first of the driver's names that
/// can be opened.
pub(crate) fn library(path: Option<&str>, names: &[&str]) -> Result<Library> {
    let open = |path: &str| {
        // SAFETY: this benchmark is meant to open the driver's library.
        unsafe { Library::new(path) }.with_context(|| path.to_owned())
    };
    if let Some(path) = path {
        return open(path);
    }
    let found = names.iter().find_map(|name| open(name).ok());
    found.with_context(|| format!("none of {} can be opened", names.join(", ")))
}
