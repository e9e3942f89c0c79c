//! The glue from tables to traits: each method of the trait is one call through a table, with a
//! check of the answer.

use crate::crossing::{ParameterKind, Reply};
use crate::declaration::{Interface, Method, Object, Receiver};
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};

/// Generates, for `remote/tables.rs`, the structure `Tables`: the tables of a plugin that the host
/// knows.
pub fn remote_tables(interface: &Interface) -> TokenStream {
    let mut fields = Vec::new();
    let mut asked = Vec::new();
    for object in &interface.objects {
        let (field, table) = (object.lower(), object.table());
        let name = format!("longshore.{field}");
        fields.push(quote!(pub(crate) #field: &'static abi::#table,));
        asked.push(quote!(#field: required(entry, #name)?,));
    }
    for (optional, ..) in interface.optional_tables() {
        let (field, table) = (format_ident!("{}", optional.name), optional.table());
        let name = format!("longshore.{field}");
        fields.push(quote!(pub(crate) #field: Option<&'static abi::#table>,));
        asked.push(quote!(#field: optional(entry, #name)?,));
    }
    quote! {
        /// The tables of one plugin, which live as long as its library, and its name.
        pub(crate) struct Tables {
            /// The backend that the plugin provides, for messages.
            pub(crate) plugin: Box<str>,
            #(#fields)*
        }

        impl Tables {
            /// Requests all tables that this host knows.
            ///
            /// # Safety
            /// `entry` was checked, and its library stays loaded as long as the tables are used.
            pub(crate) unsafe fn ask(
                entry: &abi::Entry,
                plugin: &str,
            ) -> Result<Arc<Tables>, Incompatible> {
                // SAFETY: promised by the caller.
                unsafe { Ok(Arc::new(Tables { plugin: plugin.into(), #(#asked)* })) }
            }
        }
    }
}

/// Generates, for `remote/calls.rs`, the traits of the objects behind handles.
pub fn remote(interface: &Interface) -> TokenStream {
    interface.objects.iter().map(object).collect()
}

fn object(object: &Object) -> TokenStream {
    let (name, remote) = (&object.name, format_ident!("Remote{}", object.name));
    let methods = object.trait_methods().map(|method| self::method(object, method));
    quote! {
        impl #name<Remote> for #remote { #(#methods)* }
    }
}

fn method(object: &Object, method: &Method) -> TokenStream {
    let body = match (&method.remote, method.receiver) {
        (Some(path), _) => {
            let names = method.parameters.iter().map(|parameter| &parameter.name);
            quote!(#path(self, #(#names),*))
        }
        (None, Receiver::Ending) => quote!(self.into_end()),
        (None, _) => call(object, method),
    };
    let signature = signature(object, method, &quote!(<Remote as Backend>));
    quote! {
        #[inline]
        #signature { #body }
    }
}

/// Returns the signature of a trait's method in an implementation of the trait for a backend.
pub(crate) fn signature(object: &Object, method: &Method, backend: &TokenStream) -> TokenStream {
    let item = object.item.items.iter().find_map(|item| match item {
        syn::TraitItem::Fn(function) if function.sig.ident == method.name => Some(function),
        _ => None,
    });
    let output = &item.expect("a method of the trait").sig.output;
    let output = with_backend(output.to_token_stream(), backend);
    let parameters = method.parameters.iter().map(|parameter| {
        let (name, kind) = (&parameter.name, &parameter.rust);
        let kind = with_backend(kind.to_token_stream(), backend);
        quote!(#name: #kind)
    });
    let name = &method.name;
    let receiver = if method.receiver == Receiver::Ending { quote!(self) } else { quote!(&self) };
    quote!(fn #name(#receiver, #(#parameters),*) #output)
}

/// Returns the same tokens with a backend in place of `B`.
fn with_backend(tokens: TokenStream, backend: &TokenStream) -> TokenStream {
    let one = |token: TokenTree| match token {
        TokenTree::Ident(ident) if ident == "B" => backend.clone(),
        TokenTree::Group(group) => {
            let inner = with_backend(group.stream(), backend);
            TokenTree::Group(Group::new(group.delimiter(), inner)).into()
        }
        other => other.into(),
    };
    tokens.into_iter().flat_map(one).collect()
}

fn call(object: &Object, method: &Method) -> TokenStream {
    let function = &method.name;
    let table = match &method.table {
        None => quote!(let in_table = self.table().#function;),
        Some(optional) => {
            let (name, field) = (&optional.name, format_ident!("{}", optional.name));
            let lacking = match &method.without {
                Some(reply) => quote!(return #reply),
                None => quote!(return Err(lacks_table(#name))),
            };
            quote! {
                let Some(table) = self.tables().#field else { #lacking };
                let in_table = table.#function;
            }
        }
    };
    let (request, arguments) = arguments(method);
    let place = place(object, method);
    let places: Vec<Ident> = method.reply.raw().into_iter().map(|(name, _)| name).collect();
    // A parameter may have the name of a place.
    let places: Vec<_> = places.iter().map(|name| format_ident!("to_{name}")).collect();
    let call = quote! {
        // SAFETY: live handles, arguments that their makers vouch for, places to write to.
        |#(#places),*| unsafe { in_table(self.handle(), #(#arguments,)* #(#places),*) }
    };
    let receive = method.reply.receiver();
    let received = match &method.reply {
        Reply::Nothing => quote!(receive::nothing(#call)),
        Reply::Object(kind) => {
            let (what, kind) = (kind.to_string().to_lowercase(), format_ident!("Remote{kind}"));
            quote!(receive::object(#what, #call).map(|handle| #kind::new(handle, self.tables())))
        }
        Reply::Text => {
            let place = place_of_query(method, &place);
            quote!(receive::#receive(self.plugin(), #place, #call))
        }
        _ => quote!(receive::#receive(self.plugin(), #place, #call)),
    };
    if method.check.is_none() {
        return quote! { #table #request #received };
    }
    let check = checked(method);
    quote! {
        #table
        #request
        let reply = #received?;
        let plugin = self.plugin();
        #check
    }
}

/// Returns the place of a call with its query: "longshore.platform, info Name".
fn place_of_query(method: &Method, place: &str) -> TokenStream {
    let queries = method.parameters.iter().filter_map(|parameter| match parameter.kind {
        ParameterKind::Enumeration(_) => Some(&parameter.name),
        _ => None,
    });
    let queries: Vec<_> = queries.collect();
    let text = format!("{place}{}", " {:?}".repeat(queries.len()));
    quote!(format_args!(#text, #(#queries),*))
}

/// Returns the arguments for C, after the statement of their request, if they cross in one.
fn arguments(method: &Method) -> (TokenStream, Vec<TokenStream>) {
    let Some(request) = &method.request else {
        let arguments = method.parameters.iter().map(|parameter| parameter.to_raw());
        return (TokenStream::new(), arguments.collect());
    };
    let function = format_ident!("{}", request.to_string().to_lowercase());
    let names = method.parameters.iter().map(|parameter| &parameter.name);
    let made = quote!(let request = request::#function(#(#names),*););
    (made, vec![quote!(request::AsRequest::as_request(&request))])
}

/// Returns the name of a function for messages: "longshore.device, allocate".
pub(crate) fn place(object: &Object, method: &Method) -> String {
    match &method.table {
        Some(table) => format!("longshore.{}, {}", table.name, method.name),
        None => format!("longshore.{}, {}", object.lower(), method.name),
    }
}

/// Generates the check of an answer, whose value is `reply` unless the answer is beyond its bound.
pub(crate) fn checked(method: &Method) -> TokenStream {
    let check = method.check.as_ref().expect("only methods with a bound are checked");
    let undo = method.undo.iter().map(|undo| quote!(if checked.is_err() { #undo; }));
    quote! {
        let checked = #check;
        #(#undo)*
        checked.map(|()| reply)
    }
}
