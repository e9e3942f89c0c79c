//! Macros that generate code of several crates from one declaration of the plugin interface. The
//! crate `longshore-interface` does the work.

use longshore_interface::{
    Interface, either, export, isolation, layouts, remote, remote_tables, tables, traits,
};
use proc_macro::TokenStream;

/// Declares the plugin interface: its traits, with attributes for facts beyond the traits.
/// Generates the traits, and the macro `with_interface!`, which passes the declaration to the other
/// macros.
#[proc_macro]
pub fn interface(declaration: TokenStream) -> TokenStream {
    expand(declaration, traits)
}

/// Generates the tables of functions, for `longshore-plugin-api`.
#[proc_macro]
pub fn tables_of(declaration: TokenStream) -> TokenStream {
    expand(declaration, tables)
}

/// Generates the list of the tables' layouts, for `longshore-plugin-api`.
#[proc_macro]
pub fn layouts_of(declaration: TokenStream) -> TokenStream {
    expand(declaration, layouts)
}

/// Generates the functions that call a plugin's traits, for `longshore-plugin-api`.
#[proc_macro]
pub fn export_of(declaration: TokenStream) -> TokenStream {
    expand(declaration, export)
}

/// Generates the structure of the tables that the host requests from a plugin, for
/// `longshore-plugin-api`.
#[proc_macro]
pub fn remote_tables_of(declaration: TokenStream) -> TokenStream {
    expand(declaration, remote_tables)
}

/// Generates the traits that call a plugin's tables, for `longshore-plugin-api`.
#[proc_macro]
pub fn remote_of(declaration: TokenStream) -> TokenStream {
    expand(declaration, remote)
}

/// Generates the messages of isolated plugins, their proxies and their server code, for
/// `longshore-executor`.
#[proc_macro]
pub fn isolation_of(declaration: TokenStream) -> TokenStream {
    expand(declaration, isolation)
}

/// Generates the backend whose objects belong to either of two backends, for `longshore`.
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
