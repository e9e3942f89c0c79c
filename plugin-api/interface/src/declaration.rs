//! The parsed declaration.

use crate::crossing::{Parameter, Reply};
use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident};
use syn::parse::{Parse, ParseStream};
use syn::{
    Attribute, Error, Expr, FnArg, Ident, Item, ItemTrait, LitStr, Path, Result, ReturnType, Token,
    TraitItem, TraitItemFn, Type,
};

/// The whole declaration.
pub struct Interface {
    /// Kinds of objects, in the order of the declaration.
    pub objects: Vec<Object>,
    /// Tokens of the declaration.
    pub tokens: TokenStream,
}

/// A kind of object: a trait.
pub struct Object {
    /// Name of the trait: `Device`.
    pub name: Ident,
    /// Trait in Rust, without the attributes of the declaration.
    pub item: ItemTrait,
    /// Methods and the end of the handle, in order.
    pub methods: Vec<Method>,
}

/// A method of a trait, or the end of its handle.
pub struct Method {
    /// Name of the method, and of the function in C.
    pub name: Ident,
    /// Comment, line by line.
    pub docs: Vec<Attribute>,
    /// Parameters after the object.
    pub parameters: Vec<Parameter>,
    /// Answer of the method.
    pub reply: Reply,
    /// Whether the answer is a `Result`.
    pub is_fallible: bool,
    /// Form in which the method takes its object.
    pub receiver: Receiver,
    /// Optional table of the method.
    pub table: Option<Optional>,
    /// Argument of `#[without]`; see [`crate`].
    pub without: Option<Expr>,
    /// Argument of `#[request]`; see [`crate`].
    pub request: Option<Ident>,
    /// Argument of `#[require]`; see [`crate`].
    pub require: Option<Expr>,
    /// Argument of `#[check]`; see [`crate`].
    pub check: Option<Expr>,
    /// Argument of `#[undo]`; see [`crate`].
    pub undo: Option<Expr>,
    /// Argument of `#[export]`; see [`crate`].
    pub export: Option<Path>,
    /// Argument of `#[remote]`; see [`crate`].
    pub remote: Option<Path>,
    /// Form of the call in another process.
    pub isolated: Isolated,
}

/// The form in which a method takes its object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Receiver {
    /// The method borrows the object.
    Borrowed,
    /// The method ends the object.
    Ending,
    /// The object's `Drop`, which is not a method of the trait.
    Drop,
}

/// An optional table of the interface.
pub struct Optional {
    /// Name after "longshore.".
    pub name: String,
    /// Purpose of the table; empty except at its first function.
    pub about: String,
}

/// The form in which another process receives a call of a method.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Isolated {
    /// A message with an answer; the default.
    Asked,
    /// `#[isolated(by_hand)]`; see [`crate`].
    ByHand,
    /// `#[isolated(proxy)]`; see [`crate`].
    Proxy,
    /// `#[isolated(queued)]`; see [`crate`].
    Queued,
    /// `#[isolated(posted)]`; see [`crate`].
    Posted,
    /// `#[isolated(waits)]`; see [`crate`].
    Waits,
    /// `#[isolated(finishes)]`; see [`crate`].
    Finishes,
    /// `#[isolated(gives_up)]`; see [`crate`].
    GivesUp,
}

impl Interface {
    /// Returns the optional tables, each with its object and its methods, in order.
    pub fn optional_tables(&self) -> Vec<(&Optional, &Object, Vec<&Method>)> {
        let mut tables: Vec<(&Optional, &Object, Vec<&Method>)> = Vec::new();
        for object in &self.objects {
            for method in &object.methods {
                let Some(table) = &method.table else { continue };
                match tables.iter_mut().find(|(known, ..)| known.name == table.name) {
                    Some((.., methods)) => methods.push(method),
                    None => tables.push((table, object, vec![method])),
                }
            }
        }
        tables
    }
}

impl Object {
    /// Returns the name in snake case: `device`.
    pub fn lower(&self) -> Ident {
        format_ident!("{}", self.name.to_string().to_lowercase(), span = self.name.span())
    }

    /// Returns the type of its handles: `DeviceHandle`.
    pub fn handle(&self) -> Ident {
        format_ident!("{}Handle", self.name)
    }

    /// Returns the type of its table: `DeviceTable`.
    pub fn table(&self) -> Ident {
        format_ident!("{}Table", self.name)
    }

    /// Returns the methods that are functions of its own table.
    pub fn own_methods(&self) -> impl Iterator<Item = &Method> {
        self.methods.iter().filter(|method| method.table.is_none())
    }

    /// Returns the methods of the trait.
    pub fn trait_methods(&self) -> impl Iterator<Item = &Method> {
        self.methods.iter().filter(|method| method.receiver != Receiver::Drop)
    }
}

impl Optional {
    /// Returns the type of the table: `PinningTable`.
    pub fn table(&self) -> Ident {
        let (first, rest) = self.name.split_at(1);
        format_ident!("{}{rest}Table", first.to_uppercase())
    }
}

impl Parse for Interface {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let file: syn::File = input.parse()?;
        let tokens = file.to_token_stream();
        let mut objects = Vec::new();
        for item in file.items {
            let Item::Trait(item) = item else {
                return Err(Error::new_spanned(item, "expected a trait"));
            };
            objects.push(Object::read(item)?);
        }
        Ok(Interface { objects, tokens })
    }
}

fn is_comment(attribute: &Attribute) -> bool {
    attribute.path().is_ident("doc")
}

impl Object {
    fn read(mut item: ItemTrait) -> Result<Self> {
        let mut methods = Vec::new();
        let mut kept = Vec::new();
        for member in std::mem::take(&mut item.items) {
            let TraitItem::Fn(mut function) = member else {
                return Err(Error::new_spanned(member, "expected a method"));
            };
            let method = Method::read(&mut function)?;
            if method.receiver != Receiver::Drop {
                kept.push(TraitItem::Fn(function));
            }
            methods.push(method);
        }
        item.items = kept;
        Ok(Object { name: item.ident.clone(), item, methods })
    }
}

impl Method {
    /// Reads a method, and removes the attributes of the declaration from it.
    fn read(function: &mut TraitItemFn) -> Result<Self> {
        let (reply, is_fallible) = reply_of(&function.sig.output)?;
        let mut method = Method {
            name: function.sig.ident.clone(),
            docs: Vec::new(),
            parameters: parameters_of(function)?,
            reply,
            is_fallible,
            receiver: receiver_of(function)?,
            table: None,
            without: None,
            request: None,
            require: None,
            check: None,
            undo: None,
            export: None,
            remote: None,
            isolated: Isolated::Asked,
        };
        for attribute in std::mem::take(&mut function.attrs) {
            match is_comment(&attribute) {
                true => {
                    method.docs.push(attribute.clone());
                    function.attrs.push(attribute);
                }
                false => method.take(&attribute)?,
            }
        }
        Ok(method)
    }

    fn take(&mut self, attribute: &Attribute) -> Result<()> {
        let name = attribute.path().get_ident().map(Ident::to_string).unwrap_or_default();
        match name.as_str() {
            "table" => self.table = Some(attribute.parse_args()?),
            "without" => self.without = Some(attribute.parse_args()?),
            "request" => self.request = Some(attribute.parse_args()?),
            "require" => self.require = Some(attribute.parse_args()?),
            "check" => self.check = Some(attribute.parse_args()?),
            "undo" => self.undo = Some(attribute.parse_args()?),
            "export" => self.export = Some(attribute.parse_args()?),
            "remote" => self.remote = Some(attribute.parse_args()?),
            "isolated" => self.isolated = attribute.parse_args()?,
            "end" => self.receiver = Receiver::Drop,
            _ => return Err(Error::new_spanned(attribute, "unknown attribute of the declaration")),
        }
        Ok(())
    }
}

fn receiver_of(function: &TraitItemFn) -> Result<Receiver> {
    match function.sig.receiver() {
        Some(receiver) if receiver.reference.is_some() && receiver.mutability.is_none() => {
            Ok(Receiver::Borrowed)
        }
        Some(receiver) if receiver.reference.is_none() => Ok(Receiver::Ending),
        _ => Err(Error::new_spanned(&function.sig, "expected `&self` or `self`")),
    }
}

fn parameters_of(function: &TraitItemFn) -> Result<Vec<Parameter>> {
    let typed = function.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(typed),
        FnArg::Receiver(_) => None,
    });
    typed.map(|typed| Parameter::read(&typed.pat, &typed.ty)).collect()
}

/// Returns the type of the answer, and whether it is in a `Result`.
fn reply_of(output: &ReturnType) -> Result<(Reply, bool)> {
    let ReturnType::Type(_, kind) = output else { return Ok((Reply::Nothing, false)) };
    if let Type::Path(path) = &**kind {
        let last = path.path.segments.last();
        if let Some(segment) = last.filter(|segment| segment.ident == "Result") {
            if let syn::PathArguments::AngleBracketed(arguments) = &segment.arguments {
                let inner = arguments.args.first().into_token_stream();
                return Ok((Reply::read(&syn::parse2(inner)?)?, true));
            }
        }
    }
    Ok((Reply::read(kind)?, false))
}

impl Parse for Optional {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name: LitStr = input.parse()?;
        let about = match input.parse::<Option<Token![,]>>()? {
            Some(_) => input.parse::<LitStr>()?.value(),
            None => String::new(),
        };
        Ok(Optional { name: name.value(), about })
    }
}

impl Parse for Isolated {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let word: Ident = input.parse()?;
        Ok(match word.to_string().as_str() {
            "by_hand" => Isolated::ByHand,
            "proxy" => Isolated::Proxy,
            "queued" => Isolated::Queued,
            "posted" => Isolated::Posted,
            "waits" => Isolated::Waits,
            "finishes" => Isolated::Finishes,
            "gives_up" => Isolated::GivesUp,
            _ => return Err(Error::new(word.span(), "unknown form of an isolated call")),
        })
    }
}
