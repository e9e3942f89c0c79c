//! The macros by which Longshore's crates share one declaration of the plugin interface: the crate
//! `longshore-interface` does the work.

use longshore_interface::{Interface, either, glue, isolation};
use proc_macro::TokenStream;

/// Declares the plugin interface: its traits, with attributes for what the traits do not say. Makes
/// the traits, the tables of functions, and the glue between the two, for `longshore-plugin-api`.
#[proc_macro]
pub fn interface(declaration: TokenStream) -> TokenStream {
    expand(declaration, glue)
}

/// Makes the messages of isolated plugins, their proxies and their serving, for `longshore-executor`.
#[proc_macro]
pub fn isolation_of(declaration: TokenStream) -> TokenStream {
    expand(declaration, isolation)
}

/// Makes the backend whose objects are those of either of two backends, for `longshore`.
#[proc_macro]
pub fn either_of(declaration: TokenStream) -> TokenStream {
    expand(declaration, either)
}

fn expand(
    declaration: TokenStream,
    make: impl FnOnce(&Interface) -> proc_macro2::TokenStream,
) -> TokenStream {
    match syn::parse::<Interface>(declaration) {
        Ok(interface) => make(&interface).into(),
        Err(error) => error.into_compile_error().into(),
    }
}
