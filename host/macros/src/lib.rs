//! Derives of the traits `Element` and `Argument` of the crate `longshore`, which exports them and
//! has their documentation.

mod derive;

use proc_macro::TokenStream;

/// Implements `longshore::Element` for a structure of elements without padding.
#[proc_macro_derive(Element)]
pub fn element(input: TokenStream) -> TokenStream {
    derive::element(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `longshore::Argument` for a structure that is an element.
#[proc_macro_derive(Argument)]
pub fn argument(input: TokenStream) -> TokenStream {
    derive::argument(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
