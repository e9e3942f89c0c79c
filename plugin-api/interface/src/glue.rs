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

/// Makes the traits, and a macro `with_interface!` that hands the declaration to a macro of
/// `longshore-interface-macros`: where that stands is the code that it makes.
pub fn traits(interface: &Interface) -> TokenStream {
    let traits = interface.objects.iter().map(|object| &object.item);
    let declaration = &interface.tokens;
    quote! {
        #(#traits)*

        /// Hands the declaration of the interface to a macro of `longshore-interface-macros`.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! with_interface {
            ($($name:ident)::+) => { $($name)::+! { #declaration } };
        }
    }
}
