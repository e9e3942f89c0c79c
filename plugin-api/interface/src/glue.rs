//! The traits, the C tables, and the glue between the two.

mod export;
pub(crate) mod remote;
mod tables;

use crate::declaration::Interface;
use proc_macro2::TokenStream;
use quote::quote;

pub use tables::tables;

/// Makes what `longshore-plugin-api` has of the declaration: the traits, and the modules `tables`, `exported` and
/// `remoted`. A macro `with_interface!` hands the declaration to other crates' macros.
pub fn glue(interface: &Interface) -> TokenStream {
    let traits = interface.objects.iter().map(|object| &object.item);
    let (tables, export, remote) =
        (tables(interface), export::export(interface), remote::remote(interface));
    let declaration = &interface.tokens;
    quote! {
        #(#traits)*

        /// The tables of functions.
        pub mod tables {
            use crate::abi::values::*;
            use abi_stable::StableAbi;

            #tables
        }

        /// From traits to tables.
        pub(crate) mod exported {
            use crate::abi::tables::*;
            use crate::abi::values::{Copy as CopyStructure, Fill, Launch, *};
            use crate::backend::*;

            #export
        }

        /// From tables to traits.
        pub(crate) mod remoted {
            use crate::abi;
            use crate::backend::*;
            use crate::bounds;
            use crate::error::Result;
            use crate::info::*;
            use crate::remote::*;
            use crate::request::*;
            use std::sync::Arc;

            #remote
        }

        /// Hands the declaration of the interface to a macro of `longshore-interface-macros`.
        #[doc(hidden)]
        #[macro_export]
        macro_rules! with_interface {
            ($($name:ident)::+) => { $($name)::+! { #declaration } };
        }
    }
}
