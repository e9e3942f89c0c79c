//! Rust source for cbindgen: only the items of the interface, under their names in C.
//!
//! cbindgen expands no macros and sees no items outside the given files. This module gathers the
//! items, expands their two macros, and renames them.

use super::comment_line;
use anyhow::{Context, Result};
use heck::{ToShoutySnakeCase, ToSnakeCase};
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use std::collections::BTreeMap;
use std::path::Path;
use syn::parse::{Parse, ParseStream};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Expr, Ident, Item, ItemEnum, Meta, Token, Type};

/// Files of the interface, in the order of the header.
const FILES: [&str; 6] =
    ["error.rs", "info.rs", "request.rs", "abi/values.rs", "interface.rs", "abi/entry.rs"];

/// The gathered items.
pub(super) struct Source {
    /// Rust source with the names of C.
    pub(super) text: String,
    /// The names of the types, in order.
    pub(super) types: Vec<String>,
}

/// Gathers the items of `plugin-api/src`.
pub(super) fn gather(folder: &Path) -> Result<Source> {
    let mut items = Vec::new();
    for file in FILES {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let parsed = syn::parse_file(&text).with_context(|| path.display().to_string())?;
        for item in parsed.items {
            items.extend(crossing(item).with_context(|| path.display().to_string())?);
        }
    }
    let mut names = Names::new(&items);
    let mut types = Vec::new();
    let mut text = TokenStream::new();
    for item in &mut items {
        names.rename(item);
        if let Item::Struct(syn::ItemStruct { ident, .. }) | Item::Enum(ItemEnum { ident, .. }) =
            item
        {
            types.push(ident.to_string());
        }
        item.to_tokens(&mut text);
    }
    Ok(Source { text: text.to_string(), types })
}

/// Returns the items that `item` puts into the interface.
fn crossing(item: Item) -> Result<Vec<Item>> {
    Ok(match item {
        Item::Struct(item) if represented(&item.attrs, "C") => vec![Item::Struct(item)],
        Item::Enum(item) if represented(&item.attrs, "u32") => vec![Item::Enum(item)],
        Item::Const(item) if is_number(&item.ty) => vec![Item::Const(item)],
        Item::Macro(item) if item.mac.path.is_ident("interface") => {
            let declared = item.mac.parse_body::<longshore_interface::Interface>()?;
            syn::parse2::<syn::File>(longshore_interface::tables(&declared))?.items
        }
        Item::Macro(item) if item.mac.path.is_ident("opaque") => {
            item.mac.parse_body::<OpaqueTypes>()?.0
        }
        Item::Macro(item) if item.mac.path.is_ident("device_info") => {
            vec![Item::Enum(device_info(item.mac.parse_body()?))]
        }
        _ => Vec::new(),
    })
}

fn represented(attributes: &[Attribute], how: &str) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("repr") && list.tokens.to_string() == how,
        _ => false,
    })
}

fn is_number(constant: &Type) -> bool {
    matches!(constant, Type::Path(path) if path.path.is_ident("u32") || path.path.is_ident("u64"))
}

/// The body of `opaque!`: names of types that C only declares.
struct OpaqueTypes(Vec<Item>);

impl Parse for OpaqueTypes {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut items = Vec::new();
        while !input.is_empty() {
            let attributes = input.call(Attribute::parse_outer)?;
            let name: Ident = input.parse()?;
            input.parse::<Option<Token![,]>>()?;
            items.push(syn::parse_quote! { #(#attributes)* pub struct #name { private: [u8; 0] } });
        }
        Ok(OpaqueTypes(items))
    }
}

/// The body of `device_info!`: `Name = 2, Text;`.
struct Queries(Vec<(Vec<Attribute>, Ident, Expr, Ident)>);

impl Parse for Queries {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut queries = Vec::new();
        while !input.is_empty() {
            let attributes = input.call(Attribute::parse_outer)?;
            let name = input.parse()?;
            input.parse::<Token![=]>()?;
            let value = input.parse()?;
            input.parse::<Token![,]>()?;
            let kind = input.parse()?;
            input.parse::<Token![;]>()?;
            queries.push((attributes, name, value, kind));
        }
        Ok(Queries(queries))
    }
}

/// Returns the enumeration of `device_info!`, with the type of the answer to each query.
fn device_info(queries: Queries) -> ItemEnum {
    let variants = queries.0.into_iter().map(|(attributes, name, value, kind)| {
        let answer = format!(" Answer: {}.", answer_in_c(&kind.to_string()));
        quote! { #(#attributes)* #[doc = #answer] #name = #value }
    });
    syn::parse_quote! {
        /// A query about a device. Values below 0x1000 equal LLVM's `ol_device_info_t` (without
        /// `PLATFORM`, which the host answers itself); all further values are Longshore's own.
        #[repr(u32)]
        pub enum DeviceInfo { #(#variants),* }
    }
}

fn answer_in_c(kind: &str) -> &'static str {
    match kind {
        "Text" => "UTF-8 without NUL",
        "Bool" => "1 byte, 0 or 1",
        "U32" => "uint32_t",
        "U64" => "uint64_t",
        "Dimensions" => "uint32_t[3], for x, y, z",
        "Uuid" => "16 bytes",
        _ => "see InfoType",
    }
}

/// A map from names in Rust to names in C.
struct Names {
    types: BTreeMap<String, String>,
    /// Names in comments of enumerations and their values, such as "`memory_kind`" and
    /// "`NOT_FOUND`".
    comments: BTreeMap<String, String>,
}

impl Names {
    fn new(items: &[Item]) -> Names {
        let mut names = Names { types: BTreeMap::new(), comments: BTreeMap::new() };
        for item in items {
            match item {
                Item::Struct(item) => names.add_type(&item.ident),
                Item::Enum(item) => names.add_enum(item),
                Item::Const(item) => {
                    let name = item.ident.to_string();
                    let in_c = format!("LONGSHORE_{name}");
                    names.comments.insert(name.clone(), in_c.clone());
                    names.types.insert(name, in_c);
                }
                _ => {}
            }
        }
        names
    }

    fn add_type(&mut self, ident: &Ident) {
        let rust = ident.to_string();
        let name = rust.strip_suffix("Handle").unwrap_or(&rust).to_snake_case();
        self.comments.insert(rust.clone(), format!("longshore_{name}"));
        self.types.insert(rust, format!("longshore_{name}"));
    }

    fn add_enum(&mut self, item: &ItemEnum) {
        self.add_type(&item.ident);
        let rust = item.ident.to_string();
        self.comments.insert(rust.to_snake_case(), format!("longshore_{}", rust.to_snake_case()));
        for variant in &item.variants {
            let in_c = constant_name(&rust, &variant.ident);
            self.comments.insert(format!("{rust}::{}", variant.ident), in_c.clone());
            if ["ErrorCode", "Connection", "Loading"].contains(&rust.as_str()) {
                let shouty = variant.ident.to_string().to_shouty_snake_case();
                self.comments.insert(shouty, in_c.clone());
            }
            // Comments shared by Rust and C use the Rust names of codes.
            if rust == "ErrorCode" {
                self.comments.insert(variant.ident.to_string(), in_c);
            }
        }
    }

    /// Gives an item its name in C, and keeps only the attributes that matter to C.
    fn rename(&mut self, item: &mut Item) {
        if let Item::Enum(item) = item {
            let name = item.ident.to_string();
            for variant in &mut item.variants {
                variant.ident = format_ident!("{}", constant_name(&name, &variant.ident));
            }
        }
        self.visit_item_mut(item);
    }
}

impl VisitMut for Names {
    fn visit_ident_mut(&mut self, ident: &mut Ident) {
        if let Some(name) = self.types.get(&ident.to_string()) {
            *ident = format_ident!("{name}");
        }
    }

    fn visit_item_enum_mut(&mut self, item: &mut ItemEnum) {
        visit_mut::visit_item_enum_mut(self, item);
        // All enumerations cross as `uint32_t`, so that C needs no more than their names.
        item.attrs.push(syn::parse_quote! { #[repr(C)] });
    }

    fn visit_attributes_mut(&mut self, attributes: &mut Vec<Attribute>) {
        let is_c = represented(attributes, "C");
        let comment = attributes.iter().filter_map(comment_line).collect::<Vec<_>>().join("\n");
        attributes.clear();
        for line in wrapped(&self.in_comment(&comment)) {
            let line = format!(" {line}");
            attributes.push(syn::parse_quote! { #[doc = #line] });
        }
        if is_c {
            attributes.push(syn::parse_quote! { #[repr(C)] });
        }
    }
}

impl Names {
    /// Returns a comment with the names of C between its backquotes, and without Rust's links.
    fn in_comment(&self, comment: &str) -> String {
        let comment = comment.replace("[`", "`").replace("`]", "`");
        let pieces =
            comment.split('`').enumerate().map(|(i, piece)| match self.comments.get(piece) {
                Some(name) if i % 2 == 1 => name.as_str(),
                _ => piece,
            });
        pieces.collect::<Vec<_>>().join("`")
    }
}

/// Returns a comment of one paragraph in lines that fit behind an indented `//`.
fn wrapped(comment: &str) -> Vec<String> {
    const COLUMNS: usize = 100 - "    // ".len();
    let mut lines: Vec<String> = Vec::new();
    for word in comment.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns the name of a constant in C: `LONGSHORE_ERROR_NOT_FOUND` for `ErrorCode::NotFound`.
fn constant_name(enumeration: &str, variant: &Ident) -> String {
    let stem = enumeration.trim_end_matches("Code").trim_end_matches("Kind");
    let (stem, variant) = (stem.to_shouty_snake_case(), variant.to_string());
    format!("LONGSHORE_{stem}_{}", variant.to_shouty_snake_case())
}
