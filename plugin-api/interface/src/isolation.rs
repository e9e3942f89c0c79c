//! Messages of isolated plugins: the proxies that send them, and the server code that answers them.

use crate::crossing::{Reply, plural};
use crate::declaration::{Interface, Isolated, Method, Object, Receiver};
use crate::glue::{checked, place, signature};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Ident;

/// Generates the modules `messages`, `proxies` and `serving`, for `longshore-executor`.
pub fn isolation(interface: &Interface) -> TokenStream {
    let messages = each(interface, messages);
    let proxies = interface.objects.iter().map(proxy);
    let serving = each(interface, serving);
    quote! {
        /// Messages for the methods that another process executes.
        pub(super) mod messages {
            use super::super::protocol::Id;
            use serde::{Deserialize, Serialize};

            #(#messages)*
        }

        /// The traits of the interface, implemented by messages.
        pub(super) mod proxies {
            use super::super::proxy::objects::*;
            use super::messages::*;
            use longshore_plugin_api::*;
            use std::sync::Arc;

            #(#proxies)*
        }

        /// Server code that answers messages with calls of the plugin.
        pub(super) mod serving {
            use super::super::protocol::Id;
            use super::super::serve::{Server, encode_reply};
            use super::messages::*;
            use longshore_plugin_api::{
                Backend, Device as _, Event as _, Module as _, Platform as _, Queue as _, Result,
            };

            impl<B: Backend> Server<B> {
                #(#serving)*
            }
        }
    }
}

/// Generates the same code for each kind of object; errors of the declaration become errors of the
/// compiler.
fn each(interface: &Interface, make: fn(&Object) -> syn::Result<TokenStream>) -> Vec<TokenStream> {
    let made = interface.objects.iter().map(make);
    made.map(|made| made.unwrap_or_else(syn::Error::into_compile_error)).collect()
}

/// Returns the methods that have a message.
fn sent(object: &Object) -> impl Iterator<Item = &Method> {
    object.methods.iter().filter(|method| method.isolated != Isolated::ByHand)
}

/// Returns the type of the messages: `DeviceCall`.
fn call_type(object: &Object) -> Ident {
    format_ident!("{}Call", object.name)
}

/// Returns the message of a method: `SetLogicalSize`.
fn variant(method: &Method) -> Ident {
    let words = method.name.to_string();
    let words = words.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    format_ident!("{}", words.collect::<String>())
}

fn messages(object: &Object) -> syn::Result<TokenStream> {
    let name = call_type(object);
    let mut variants = Vec::new();
    for method in sent(object) {
        let variant = variant(method);
        let fields = method.parameters.iter().map(|parameter| parameter.message());
        let fields = fields.collect::<syn::Result<Vec<_>>>()?;
        variants.push(quote!(#variant { #(#fields),* },));
    }
    Ok(quote! {
        #[derive(Debug, Serialize, Deserialize)]
        pub(crate) enum #name<'a> {
            #(#variants)*
            /// An enumerator that is never sent: some kinds of objects have no message that
            /// borrows.
            #[serde(skip)]
            Never(std::convert::Infallible, std::marker::PhantomData<&'a ()>),
        }
    })
}

fn proxy(object: &Object) -> TokenStream {
    let (name, proxy) = (&object.name, format_ident!("Isolated{}", object.name));
    // A platform of other plugins may open the same kinds of devices.
    let (generics, backend) = match object.name == "Platform" {
        true => (quote!(), quote!(Isolated)),
        false => (quote!(<B: Proxies>), quote!(B)),
    };
    let methods = object.trait_methods().map(|method| {
        let signature = signature(object, method, &quote!(<#backend as Backend>));
        let body = proxy_body(object, method);
        quote!(#signature { #body })
    });
    quote!(impl #generics #name<#backend> for #proxy { #(#methods)* })
}

fn proxy_body(object: &Object, method: &Method) -> TokenStream {
    if matches!(method.isolated, Isolated::ByHand | Isolated::Proxy) {
        let function = format_ident!("{}_there", method.name);
        let names = method.parameters.iter().map(|parameter| &parameter.name);
        return quote!(self.#function(#(#names),*));
    }
    let (call, variant) = (call_type(object), variant(method));
    let fields = method.parameters.iter().map(|parameter| parameter.to_message());
    let gone =
        method.without.iter().map(|without| quote!(if self.link().is_gone() { return #without; }));
    let asked = match method.isolated {
        Isolated::Queued => quote!(self.queueing(|| self.link().ask(&request))),
        Isolated::Posted => quote!(self.queueing(|| self.link().post(&request))),
        Isolated::Waits => quote!(self.waiting(|| self.link().ask_and_finish(&request))),
        Isolated::Finishes => quote!(self.link().ask_and_finish(&request)),
        Isolated::GivesUp => quote!(given_up(self.link(), self.link().ask(&request))),
        _ => quote!(self.link().ask(&request)),
    };
    let reply = proxy_reply(object, method, &asked);
    quote! {
        #(#gone)*
        let request = self.request(#call::#variant { #(#fields),* });
        #reply
    }
}

/// Generates the code that reads the answer and checks it, as the other process may send anything.
fn proxy_reply(object: &Object, method: &Method, asked: &TokenStream) -> TokenStream {
    let received = match &method.reply {
        Reply::Object(kind) => {
            let proxy = format_ident!("Isolated{kind}");
            return quote!(#asked.map(|id| #proxy::new(Arc::clone(self.link()), id)));
        }
        Reply::Symbols => quote!(#asked.map(|Symbols(reply)| reply)),
        Reply::Sections => quote!(#asked.map(|Sections(reply)| reply)),
        _ => asked.clone(),
    };
    let place = place(object, method);
    let bounded = match &method.reply {
        Reply::Text => quote!(bounds::reply(self.link().backend(), #place, &reply)?;),
        _ => quote!(),
    };
    if method.check.is_none() && bounded.is_empty() {
        return received;
    }
    let kind = method.reply.message();
    let checked = match method.check {
        Some(_) => checked(method),
        None => quote!(Ok(reply)),
    };
    quote! {
        let reply: #kind = #received?;
        let plugin = self.link().backend();
        #bounded
        #checked
    }
}

fn serving(object: &Object) -> syn::Result<TokenStream> {
    let (lower, call) = (object.lower(), call_type(object));
    let (serve, post) = (format_ident!("serve_{lower}"), format_ident!("post_{lower}"));
    let replied = sent(object).map(|method| {
        let (pattern, result) = (pattern(object, method), result(object, method));
        quote!(#pattern => encode_reply::<_>((|| -> Result<_> { #result })()),)
    });
    let is_posted =
        |method: &&Method| method.isolated == Isolated::Posted || method.receiver == Receiver::Drop;
    let posted = sent(object).filter(is_posted).map(|method| {
        let (pattern, result) = (pattern(object, method), result(object, method));
        quote!(#pattern => Some((|| -> Result<()> { #result })()),)
    });
    let posts = sent(object).any(|method| is_posted(&method)).then(|| {
        quote! {
            /// Does the work of a message without an answer; `None` for a message that needs one.
            pub(crate) fn #post(&self, id: Id, call: #call<'_>) -> Option<Result<()>> {
                match call {
                    #(#posted)*
                    _ => None,
                }
            }
        }
    });
    let id = if object.name == "Platform" { quote!(_: Id) } else { quote!(id: Id) };
    Ok(quote! {
        /// Calls the plugin and encodes its answer.
        pub(crate) fn #serve(&self, #id, call: #call<'_>) -> Vec<u8> {
            match call {
                #(#replied)*
                #call::Never(never, _) => match never {},
            }
        }

        #posts
    })
}

fn pattern(object: &Object, method: &Method) -> TokenStream {
    let (call, variant) = (call_type(object), variant(method));
    let names = method.parameters.iter().map(|parameter| &parameter.name);
    quote!(#call::#variant { #(#names),* })
}

/// Generates the call of the plugin's object, and the code that keeps a returned object.
fn result(object: &Object, method: &Method) -> TokenStream {
    let (lower, table) = (object.lower(), plural(&object.name));
    if method.receiver == Receiver::Drop {
        return quote!(self.#table.take(id).map(drop));
    }
    let held = match object.name == "Platform" {
        true => quote!(let held = self.platform()?; let object = &*held;),
        false => quote!(let held = self.#table.get(id)?; let object = &held.#lower;),
    };
    let name = &method.name;
    let arguments = method.parameters.iter().map(|parameter| parameter.from_message());
    let names = method.parameters.iter().map(|parameter| {
        let held = format_ident!("{}_object", parameter.name);
        match parameter.kind {
            crate::crossing::ParameterKind::Object(_) => quote!(#held),
            _ => {
                let name = &parameter.name;
                quote!(#name)
            }
        }
    });
    let called = quote!(object.#name(#(#names),*));
    let replied = match (&method.reply, method.isolated) {
        (Reply::Object(kind), _) => {
            let keep = format_ident!("keep_{}", kind.to_string().to_lowercase());
            quote!(#called.map(|reply| self.#keep(&held, reply)))
        }
        (_, Isolated::Waits) => quote!(held.or_deferred(#called)),
        _ => called,
    };
    quote!(#held #(#arguments)* #replied)
}
