//! The backend of the host, whose objects belong to a plugin in this process or in another one.

use crate::crossing::{ParameterKind, Reply};
use crate::declaration::{Interface, Method, Object, Receiver};
use crate::glue::signature;
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::Ident;

/// Enumerators of the two places of an object, and the backend of each.
const PLACES: [(&str, &str); 2] = [("Here", "Remote"), ("There", "Isolated")];

/// Generates the backend `Either` and its types, for `longshore`.
pub fn either(interface: &Interface) -> TokenStream {
    let objects = interface.objects.iter().map(object);
    let names = interface.objects.iter().map(|object| &object.name);
    let (kinds, types): (Vec<_>, Vec<_>) =
        names.map(|name| (name, format_ident!("Any{name}"))).unzip();
    quote! {
        /// The backend of plugins in this process and in processes of their own.
        pub(crate) struct Either;

        impl Backend for Either {
            #(type #kinds = #types;)*
            type Kernel = AnyKernel;
        }

        #(#objects)*
    }
}

fn object(object: &Object) -> TokenStream {
    let (name, any) = (&object.name, format_ident!("Any{}", object.name));
    let doc = format!(" A {} of a plugin.", object.lower());
    let methods = object.trait_methods().map(|method| {
        let signature = signature(object, method, &quote!(<Either as Backend>));
        let arms = PLACES.map(|place| arm(name, method, &any, place));
        quote! {
            #[inline]
            #signature { match self { #(#arms)* } }
        }
    });
    quote! {
        #[doc = #doc]
        pub(crate) enum #any {
            /// An object in this process.
            Here(<Remote as Backend>::#name),
            /// An object in another process.
            There(<Isolated as Backend>::#name),
        }

        impl #name<Either> for #any { #(#methods)* }
    }
}

fn arm(object: &Ident, method: &Method, any: &Ident, place: (&str, &str)) -> TokenStream {
    let (name, backend) = (&method.name, format_ident!("{}", place.1));
    let place = format_ident!("{}", place.0);
    let as_place = format_ident!("{}", place.to_string().to_lowercase());
    let arguments = method.parameters.iter().map(|parameter| {
        let name = &parameter.name;
        let is_generic = parameter.rust.to_token_stream().to_string().contains("B ::");
        match &parameter.kind {
            ParameterKind::Object(_) => quote!(#name.#as_place()?),
            ParameterKind::Part if is_generic => quote!(&#name.with_devices(AnyDevice::#as_place)?),
            _ => quote!(#name),
        }
    });
    // Objects of other processes implement the traits for several backends.
    let called = match method.receiver {
        Receiver::Ending => quote!(#object::<#backend>::#name(object)),
        _ => quote!(#object::<#backend>::#name(object, #(#arguments),*)),
    };
    let replied = match &method.reply {
        Reply::Object(kind) => {
            let any = format_ident!("Any{kind}");
            quote!(#called.map(#any::#place))
        }
        Reply::Kernel => quote! {
            #called.map(|(kernel, attributes)| (Arc::new(AnyKernel::#place(kernel)), attributes))
        },
        _ => called,
    };
    quote!(#any::#place(object) => #replied,)
}
