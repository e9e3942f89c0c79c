//! Declarations in the macros of `capi/src`.

use super::comment_line;
use anyhow::{Context, Result};
use proc_macro2::TokenStream;
use std::path::Path;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Expr, Ident, Item, ItemType, LitInt, Macro, Path as Name, Token, Type, braced,
    bracketed, parenthesized, token,
};

/// Files with declarations, in the order of the header.
const FILES: [&str; 3] = ["types/enumerations.rs", "types/structures.rs", "functions.rs"];

/// A declaration and its comment lines.
pub(super) struct Declaration {
    pub(super) comment: Vec<String>,
    pub(super) name: String,
    pub(super) what: DeclarationKind,
}

pub(super) enum DeclarationKind {
    Enumeration(Vec<Enumerator>),
    /// A pointer to the opaque structure of that name.
    Handle(Ident),
    Structure(Vec<Variable>),
    Alias(Box<Type>),
    Function(Function),
}

pub(super) struct Enumerator {
    pub(super) comment: Vec<String>,
    pub(super) name: String,
    pub(super) number: u32,
}

/// A field or a parameter.
pub(super) struct Variable {
    pub(super) comment: Vec<String>,
    pub(super) name: String,
    pub(super) kind: Type,
}

pub(super) struct Function {
    /// The variant of the function that takes a source location of the program.
    pub(super) twin: Ident,
    pub(super) parameters: Vec<Variable>,
    /// Refused conditions in the order of their checks, with their error codes.
    pub(super) refused: Vec<(Expr, Ident)>,
}

/// Reads the declarations of `folder`.
///
/// # Errors
/// A file that cannot be read or parsed.
pub(super) fn read(folder: &Path) -> Result<Vec<Declaration>> {
    let mut all = Vec::new();
    for file in FILES {
        let path = folder.join(file);
        let parsed = super::read(&path).and_then(|text| Ok(syn::parse_file(&text)?));
        for item in parsed.with_context(|| path.display().to_string())?.items {
            match item {
                Item::Macro(item) => all.extend(given_to(&item.mac)?),
                Item::Type(item) => all.push(alias(item)),
                _ => {}
            }
        }
    }
    Ok(all)
}

fn given_to(invoked: &Macro) -> syn::Result<Vec<Declaration>> {
    let parse = match invoked.path.get_ident().map(Ident::to_string).as_deref() {
        Some("enumerations") => enumeration,
        Some("handles") => handle,
        Some("structures") => structure,
        Some("functions") => function,
        _ => return Ok(Vec::new()),
    };
    let each = |input: ParseStream<'_>| {
        let mut all = Vec::new();
        while !input.is_empty() {
            let comment = comment(&input.call(Attribute::parse_outer)?);
            let name = input.parse::<Ident>()?.to_string();
            all.push(Declaration { comment, name, what: parse(input)? });
        }
        Ok(all)
    };
    each.parse2(invoked.tokens.clone())
}

/// Parses `pub type name = type;`.
fn alias(item: ItemType) -> Declaration {
    let comment = comment(&item.attrs);
    Declaration { comment, name: item.ident.to_string(), what: DeclarationKind::Alias(item.ty) }
}

/// Parses `{ NAME = number, ... }`.
fn enumeration(input: ParseStream<'_>) -> syn::Result<DeclarationKind> {
    let body;
    braced!(body in input);
    list(&body).map(DeclarationKind::Enumeration)
}

/// Parses `= object;`.
fn handle(input: ParseStream<'_>) -> syn::Result<DeclarationKind> {
    input.parse::<Token![=]>()?;
    let object = input.parse()?;
    input.parse::<Token![;]>()?;
    Ok(DeclarationKind::Handle(object))
}

/// Parses `{ field: type, ... }`.
fn structure(input: ParseStream<'_>) -> syn::Result<DeclarationKind> {
    let body;
    braced!(body in input);
    list(&body).map(DeclarationKind::Structure)
}

/// Parses `, twin(parameter: type, ...) { condition => Code, ... } => work [what shows a
/// property];`.
fn function(input: ParseStream<'_>) -> syn::Result<DeclarationKind> {
    input.parse::<Token![,]>()?;
    let twin = input.parse()?;
    let parameters;
    parenthesized!(parameters in input);
    let parameters = list(&parameters)?;
    let mut refused = Vec::new();
    if input.peek(token::Brace) {
        let body;
        braced!(body in input);
        refused = list::<Refusal>(&body)?.into_iter().map(|Refusal(pair)| pair).collect();
    }
    input.parse::<Token![=>]>()?;
    input.call(Name::parse_mod_style)?;
    if input.peek(token::Bracket) {
        let query;
        bracketed!(query in input);
        query.parse::<TokenStream>()?;
    }
    input.parse::<Token![;]>()?;
    Ok(DeclarationKind::Function(Function { twin, parameters, refused }))
}

fn list<T: Parse>(input: ParseStream<'_>) -> syn::Result<Vec<T>> {
    Ok(Punctuated::<T, Token![,]>::parse_terminated(input)?.into_iter().collect())
}

impl Parse for Enumerator {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let comment = comment(&input.call(Attribute::parse_outer)?);
        let name = input.parse::<Ident>()?.to_string();
        input.parse::<Token![=]>()?;
        let number = input.parse::<LitInt>()?.base10_parse()?;
        Ok(Enumerator { comment, name, number })
    }
}

impl Parse for Variable {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let comment = comment(&input.call(Attribute::parse_outer)?);
        let name = input.call(Ident::parse_any)?.unraw().to_string();
        input.parse::<Token![:]>()?;
        Ok(Variable { comment, name, kind: input.parse()? })
    }
}

struct Refusal((Expr, Ident));

impl Parse for Refusal {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let condition = input.parse()?;
        input.parse::<Token![=>]>()?;
        Ok(Refusal((condition, input.parse()?)))
    }
}

fn comment(attributes: &[Attribute]) -> Vec<String> {
    attributes.iter().filter_map(comment_line).collect()
}
