//! The traits, the C tables, and the glue between the two.

mod export;
mod remote;
mod tables;

use crate::declaration::Interface;
use proc_macro2::TokenStream;
use quote::quote;

pub use export::export;
pub use remote::{remote, remote_tables};
pub use tables::{layouts, tables};

pub(crate) use remote::{checked, place, signature};

/// Generates the traits, and a macro `with_interface!` that passes the declaration to a macro of
/// `longshore-interface-macros`. The generated code takes the place of the call.
pub fn traits(interface: &Interface) -> TokenStream {
    let traits = interface.objects.iter().map(|object| &object.item);
    let declaration = &interface.tokens;
    quote! {
        #(#traits)*

        /// Passes the declaration of the interface to a macro of `longshore-interface-macros`.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! with_interface {
            ($($name:ident)::+) => { $($name)::+! { #declaration } };
        }
    }
}
