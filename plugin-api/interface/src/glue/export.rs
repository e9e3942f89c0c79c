//! The glue from traits to tables: each function of a table turns its raw arguments into safe ones,
//! calls the trait's method inside `guard`, and writes the answer.

use super::tables::raw_parameters;
use crate::crossing::{ParameterKind, Reply};
use crate::declaration::{Interface, Method, Object, Receiver};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Type;

/// Generates, for `export/tables.rs`, the functions of a plugin in Rust, and `table`, which finds
/// its tables.
pub fn export(interface: &Interface) -> TokenStream {
    let functions = interface.objects.iter().flat_map(|object| {
        object.methods.iter().filter(|method| method.export.is_none()).map(|m| function(object, m))
    });
    let own = interface.objects.iter().map(|object| {
        let name = format!("longshore.{}", object.lower());
        (name, constant(&object.table(), object, object.own_methods()))
    });
    let optional = interface.optional_tables().into_iter().map(|(table, object, methods)| {
        let name = format!("longshore.{}", table.name);
        (name, constant(&table.table(), object, methods.into_iter()))
    });
    let arms = own.chain(optional).map(|(name, table)| {
        quote! { (#name, 1) => Some(reference(#table)), }
    });
    quote! {
        /// Returns version 1 of a table.
        pub(super) fn table<P: Plugin>(name: &str, version: u32) -> Option<TableRef> {
            match (name, version) {
                #(#arms)*
                _ => None,
            }
        }

        #(#functions)*
    }
}

fn constant<'a>(
    table: &syn::Ident,
    object: &Object,
    methods: impl Iterator<Item = &'a Method>,
) -> TokenStream {
    let fields = methods.map(|method| {
        let name = &method.name;
        let function = match &method.export {
            Some(path) => quote!(#path::<P>),
            None => {
                let function = function_name(object, method);
                quote!(#function::<P>)
            }
        };
        quote!(#name: #function)
    });
    quote!(const { &#table { #(#fields),* } })
}

fn function_name(object: &Object, method: &Method) -> syn::Ident {
    format_ident!("{}_{}", object.lower(), method.name)
}

fn function(object: &Object, method: &Method) -> TokenStream {
    let name = function_name(object, method);
    let raw = raw_parameters(object, method);
    let first = &raw[0].0;
    let parameters = raw.iter().map(|(name, kind)| match name == "copy" {
        true => quote!(#name: *const CopyRequest),
        false => quote!(#name: #kind),
    });
    let call = format!("{}.{}", object.lower(), method.name);
    let lower = object.lower();
    let (lent, take) = (format_ident!("lent_{lower}"), format_ident!("take_{lower}"));
    let body = match method.receiver {
        Receiver::Borrowed => {
            let (arguments, reply) = (arguments(method), reply(method));
            quote! { let object = #lent::<P>(#first); #arguments #reply Ok(()) }
        }
        Receiver::Ending => {
            let name = &method.name;
            quote! { #take::<P>(#first).#name() }
        }
        Receiver::Drop => quote! { drop(#take::<P>(#first)); Ok(()) },
    };
    // The comments of the tables list the host's promises about arguments.
    quote! {
        unsafe extern "C" fn #name<P: Plugin>(#(#parameters),*) -> *mut ErrorObject {
            // SAFETY: the host promises live handles, readable arguments and places to write to.
            guard::<P>(#call, || unsafe { #body })
        }
    }
}

/// Generates the arguments of the trait's method, and their checks.
fn arguments(method: &Method) -> TokenStream {
    let made = match &method.request {
        Some(request) => {
            let names = method.parameters.iter().map(|parameter| &parameter.name);
            let function = format_ident!("{}", request.to_string().to_lowercase());
            quote!(let (#(#names,)*) = request::#function::<P>(&*#function)?;)
        }
        None => {
            let each = method.parameters.iter().map(|parameter| parameter.from_raw());
            quote!(#(#each)*)
        }
    };
    let require = method.require.iter().map(|require| quote!(#require?;));
    quote! { #made #(#require)* }
}

/// Generates the call of the trait's method, and the code that writes its answer.
fn reply(method: &Method) -> TokenStream {
    let name = &method.name;
    let arguments = method.parameters.iter().map(|parameter| {
        let name = &parameter.name;
        match (&parameter.kind, &parameter.rust) {
            (ParameterKind::Part, Type::Reference(_)) => quote!(&#name),
            _ => quote!(#name),
        }
    });
    let result = match method.is_fallible {
        true => quote!(object.#name(#(#arguments),*)?),
        false => quote!(object.#name(#(#arguments),*)),
    };
    if method.reply == Reply::Nothing {
        return quote!(#result;);
    }
    let (send, places) = (method.reply.sender(), method.reply.raw());
    let places = places.iter().map(|(name, _)| name);
    match &method.reply {
        Reply::Object(object) => {
            let give = format_ident!("give_{}", object.to_string().to_lowercase());
            quote!(#give::<P>(#result, #(#places),*);)
        }
        _ => quote!(send::#send(#result, #(#places),*);),
    }
}
