//! Tests of declarations and of the code generated from them.

use longshore_interface::{Interface, either, isolation, remote, remote_tables, tables, traits};
use proc_macro2::TokenStream;
use quote::quote;

/// Returns the tokens without spaces, as text.
fn text(tokens: TokenStream) -> String {
    tokens.to_string().chars().filter(|one| !one.is_whitespace()).collect()
}

fn read(declaration: TokenStream) -> syn::Result<Interface> {
    syn::parse2(declaration)
}

fn refusal(declaration: TokenStream) -> String {
    read(declaration).err().expect("it is no declaration").to_string()
}

fn device(method: TokenStream) -> TokenStream {
    quote! {
        /// A device.
        pub trait Device<B: Backend>: Send + Sync + 'static { #method }
    }
}

#[test]
fn a_method_becomes_a_function_of_its_table_with_its_comment() {
    let interface = read(device(quote! {
        /// Says how warm it is.
        ///
        /// # Errors
        /// As for [`Device::other`].
        fn temperature(&self, sensor: u32) -> Result<u64>;
    }));
    let made = text(tables(&interface.unwrap()));
    assert!(made.contains("pubstructDeviceTable{"), "{made}");
    assert!(made.contains(r#"#[doc="Sayshowwarmitis."]"#), "{made}");
    assert!(made.contains(r#"#[doc="Errors:"]#[doc="Asfor[`other`]."]"#), "{made}");
    let function = "pubtemperature:unsafeextern\"C\"fn(device:*mutDeviceHandle,sensor:u32,result:*mutu64)->*mutErrorObject,";
    assert!(made.contains(function), "{made}");
}

#[test]
fn a_method_of_an_optional_table_is_in_that_table_alone_and_may_be_missing() {
    let interface = read(device(quote! {
        #[table("sensors", "measurements")]
        fn temperature(&self) -> Result<u32> { Err(none()) }
    }))
    .unwrap();
    let made = text(tables(&interface));
    assert!(made.contains("pubstructDeviceTable{}"), "{made}");
    assert!(made.contains("pubstructSensorsTable{pubtemperature:"), "{made}");
    let made = text(remote_tables(&interface));
    assert!(made.contains("sensors:Option<&'staticabi::SensorsTable>"), "{made}");
    let made = text(remote(&interface));
    assert!(made.contains(r#"returnErr(lacks_table("sensors"))"#), "{made}");
    let made = text(traits(&interface));
    let (traits, _) = made.split_once("macro_rules!with_interface").unwrap();
    assert!(!traits.contains("#[table"), "an attribute of the declaration is left: {traits}");
}

#[test]
fn the_same_method_has_a_message_a_proxy_and_a_choice_between_the_two() {
    let interface = read(device(quote! {
        fn reach(&self, peer: &B::Device, range: Span) -> Result<bool>;
    }))
    .unwrap();
    let made = text(isolation(&interface));
    assert!(made.contains("Reach{peer:Id,range:(u64,u64)}"), "{made}");
    assert!(made.contains("peer:peer.id_for(self.link())?"), "{made}");
    assert!(made.contains("self.devices.get(peer)?"), "{made}");
    let made = text(either(&interface));
    let here = "AnyDevice::Here(object)=>Device::<Remote>::reach(object,peer.here()?,range)";
    assert!(made.contains(here), "{made}");
    let there = "AnyDevice::There(object)=>Device::<Isolated>::reach(object,peer.there()?,range)";
    assert!(made.contains(there), "{made}");
}

#[test]
fn a_reply_with_a_bound_is_checked_by_calls_and_by_messages() {
    let interface = read(device(quote! {
        #[check(bounds::warmth(plugin, reply))]
        fn temperature(&self) -> Result<u32>;
    }))
    .unwrap();
    for made in [text(remote(&interface)), text(isolation(&interface))] {
        assert!(made.contains("letchecked=bounds::warmth(plugin,reply);"), "{made}");
    }
}

#[test]
fn a_declaration_that_cannot_be_followed_is_refused_with_the_reason() {
    for (declaration, why) in [
        (
            quote!(
                struct Device;
            ),
            "expected a trait",
        ),
        (
            device(quote!(
                const A: u32;
            )),
            "expected a method",
        ),
        (
            device(quote!(
                fn a(&mut self);
            )),
            "expected `&self` or `self`",
        ),
        (
            device(quote!(
                fn a(&self) -> Result<Vec<f32>>;
            )),
            "an answer cannot have this type",
        ),
        (
            device(quote!(
                #[unknown]
                fn a(&self);
            )),
            "unknown attribute of the declaration",
        ),
        (
            device(quote!(
                #[isolated(never)]
                fn a(&self);
            )),
            "unknown form of an isolated call",
        ),
    ] {
        let said = refusal(declaration);
        assert!(said.contains(why), "{said}");
    }
    // A type that no message has is an error at the place of the message.
    let interface = read(device(quote!(
        fn a(&self, image: ImageBytes) -> Result<u32>;
    )))
    .unwrap();
    let made = text(isolation(&interface));
    assert!(made.contains("compile_error!") && made.contains("isolatedformbyhand"), "{made}");
}
