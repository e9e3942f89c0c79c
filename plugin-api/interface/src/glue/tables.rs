//! The C tables of functions.

use crate::declaration::{Interface, Method, Object};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Generates the structures of the tables for `abi/tables.rs`: one for each kind of object,
/// followed by the optional ones.
pub fn tables(interface: &Interface) -> TokenStream {
    let own = interface.objects.iter().map(|object| {
        let about = comment(&object.item.attrs).join(" ");
        let doc = format!(" \"longshore.{}\", version 1. {about}", object.lower());
        table(&object.table(), &doc, object, object.own_methods())
    });
    let optional = interface.optional_tables().into_iter().map(|(table_of, object, methods)| {
        let doc =
            format!(" \"longshore.{}\", version 1, optional: {}.", table_of.name, table_of.about);
        table(&table_of.table(), &doc, object, methods.into_iter())
    });
    quote! { #(#own)* #(#optional)* }
}

/// Generates `describe_tables`, which describes the layouts of all tables with `describe`.
pub fn layouts(interface: &Interface) -> TokenStream {
    let own = interface.objects.iter().map(Object::table);
    let optional = interface.optional_tables().into_iter().map(|(table, ..)| table.table());
    let names = own.chain(optional);
    quote! {
        /// Describes the layouts of all tables.
        fn describe_tables(into: &mut String) {
            #(describe::<tables::#names>(into);)*
        }
    }
}

fn table<'a>(
    name: &syn::Ident,
    doc: &str,
    object: &Object,
    methods: impl Iterator<Item = &'a Method>,
) -> TokenStream {
    let fields = methods.map(|method| field(object, method));
    quote! {
        #[doc = #doc]
        #[repr(C)]
        #[derive(StableAbi, Clone, Copy)]
        pub struct #name { #(#fields)* }
    }
}

fn field(object: &Object, method: &Method) -> TokenStream {
    let (name, parameters) = (&method.name, raw_parameters(object, method));
    let parameters = parameters.iter().map(|(name, kind)| quote!(#name: #kind));
    let docs = in_c(&comment(&method.docs)).into_iter().map(|line| quote!(#[doc = #line]));
    quote! {
        #(#docs)*
        pub #name: unsafe extern "C" fn(#(#parameters),*) -> *mut ErrorObject,
    }
}

/// Returns the parameters of a method's C function: the object, the parameters, and the places for
/// the answer.
pub(super) fn raw_parameters(object: &Object, method: &Method) -> Vec<crate::crossing::Raw> {
    let handle = object.handle();
    let mut raw = vec![(object.lower(), quote!(*mut #handle))];
    match &method.request {
        Some(request) => {
            let name = format_ident!("{}", request.to_string().to_lowercase());
            raw.push((name, quote!(*const #request)));
        }
        None => raw.extend(method.parameters.iter().flat_map(|parameter| parameter.raw())),
    }
    raw.extend(method.reply.raw());
    raw
}

/// Returns the lines of a comment.
fn comment(attributes: &[Attribute]) -> Vec<String> {
    let line = |attribute: &Attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("doc") => {
                Some(text.value().trim().to_owned())
            }
            _ => None,
        }
    };
    attributes.iter().filter_map(line).collect()
}

/// Returns a comment for C, without Rust's headings and names of traits.
fn in_c(lines: &[String]) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for line in lines {
        let line = match line.as_str() {
            "# Errors" => "Errors:".to_owned(),
            line => ["Platform", "Device", "Module", "Queue", "Event"]
                .iter()
                .fold(line.to_owned(), |line, name| line.replace(&format!("[`{name}::"), "[`")),
        };
        said.push(format!(" {line}"));
    }
    said
}
