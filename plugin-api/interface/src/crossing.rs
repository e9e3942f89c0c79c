//! Conversions of each type of a parameter or an answer across the boundary, and to another
//! process.

use proc_macro2::TokenStream;
use quote::{ToTokens, format_ident, quote};
use syn::{Error, Ident, Pat, Result, Type};

/// A parameter of a method.
pub struct Parameter {
    /// Name of the parameter.
    pub name: Ident,
    /// Type in the trait.
    pub rust: Type,
    /// Form in which the parameter crosses the boundary.
    pub kind: ParameterKind,
}

/// The form in which a parameter crosses the boundary.
#[derive(Clone, PartialEq, Eq)]
pub enum ParameterKind {
    /// `u32`, `u64`: as it is.
    Number(Ident),
    /// `bool`: as 0 or 1.
    Truth,
    /// An enumeration: as its number.
    Enumeration(Ident),
    /// `[u32; 3]`: as a pointer.
    Triple,
    /// `&[u8]`.
    Bytes,
    /// `&str`.
    Text,
    /// `Span`: as address and length.
    Span,
    /// `ImageBytes`.
    Image,
    /// `&ImageEntry<'_>`: as bytes, triple and architecture.
    Entry,
    /// `HostFunction`.
    HostFunction,
    /// `&B::Kernel`: another object, as its handle.
    Object(Ident),
    /// A type that crosses only as a part of a request.
    Part,
}

/// The answer of a method.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// `()`.
    Nothing,
    /// `u32`, `u64`, `i64`: written to a place.
    Number(Ident),
    /// `bool`: as 0 or 1, written to a place.
    Truth,
    /// `String`: written to a sink.
    Text,
    /// `InfoValue`: its bytes, written to a sink.
    Value,
    /// `B::Queue`: a new object, as its handle.
    Object(Ident),
    /// `Acceptance`: as a number and a reason.
    Acceptance,
    /// `CodeTarget`: its texts, each written to a sink.
    CodeTarget,
    /// `GlobalAddress`.
    Global,
    /// `(Arc<B::Kernel>, KernelAttributes)`.
    Kernel,
    /// `Option<PoolTracker>`.
    Tracker,
    /// `Vec<(String, SymbolKind)>`: each visited.
    Symbols,
    /// `Vec<ProfileSection>`: each visited.
    Sections,
}

/// A parameter of a C function: its name and its type.
pub type Raw = (Ident, TokenStream);

impl Parameter {
    /// Reads a parameter.
    ///
    /// # Errors
    /// A pattern that is not a name.
    pub fn read(pattern: &Pat, rust: &Type) -> Result<Parameter> {
        let Pat::Ident(pattern) = pattern else {
            return Err(Error::new_spanned(pattern, "expected a name"));
        };
        // Parameters unused by a default body begin with an underscore.
        let name = pattern.ident.to_string();
        let name = format_ident!("{}", name.trim_start_matches('_'), span = pattern.ident.span());
        Ok(Parameter { name, rust: rust.clone(), kind: ParameterKind::from_type(rust) })
    }

    /// Returns the parameters of the C function.
    pub fn raw(&self) -> Vec<Raw> {
        let name = self.name.clone();
        let one = |kind| vec![(name.clone(), kind)];
        let named = |name: &str, kind| (format_ident!("{name}"), kind);
        match &self.kind {
            ParameterKind::Number(number) => one(quote!(#number)),
            ParameterKind::Truth | ParameterKind::Enumeration(_) => one(quote!(u32)),
            ParameterKind::Triple => one(quote!(*const [u32; 3])),
            ParameterKind::Bytes | ParameterKind::Image => one(quote!(Bytes)),
            ParameterKind::Text => one(quote!(Text)),
            ParameterKind::Span => {
                vec![named("address", quote!(u64)), named("bytes", quote!(u64))]
            }
            ParameterKind::Entry => vec![
                named("image", quote!(Bytes)),
                named("triple", quote!(Text)),
                named("arch", quote!(Text)),
            ],
            ParameterKind::HostFunction => one(quote!(HostFunction)),
            ParameterKind::Object(object) => {
                let handle = format_ident!("{object}Handle");
                one(quote!(*mut #handle))
            }
            ParameterKind::Part => Vec::new(),
        }
    }

    /// Returns the arguments for C, from the value of the trait's type.
    pub fn to_raw(&self) -> TokenStream {
        let name = &self.name;
        match &self.kind {
            ParameterKind::Number(_) => quote!(#name),
            ParameterKind::Truth => quote!(u32::from(#name)),
            ParameterKind::Enumeration(_) => quote!(#name as u32),
            ParameterKind::Triple => quote!(&raw const #name),
            ParameterKind::Bytes => quote!(raw::bytes(#name)),
            ParameterKind::Text => quote!(raw::text(#name)),
            ParameterKind::Span => quote!(#name.address(), #name.bytes()),
            ParameterKind::Image => quote!(raw::bytes(#name.get())),
            ParameterKind::Entry => quote! {
                raw::bytes(#name.bytes),
                raw::text(#name.triple),
                raw::text(#name.arch)
            },
            ParameterKind::HostFunction => quote!(#name.into_raw()),
            ParameterKind::Object(_) => quote!(#name.handle()),
            ParameterKind::Part => quote!(),
        }
    }

    /// Returns code that converts the arguments from C to the trait's value, in an `unsafe` block
    /// of a fallible function.
    pub fn from_raw(&self) -> TokenStream {
        let name = &self.name;
        match &self.kind {
            ParameterKind::Number(_) | ParameterKind::Part => quote!(),
            ParameterKind::Truth => quote!(let #name = #name != 0;),
            ParameterKind::Enumeration(kind) => {
                quote!(let #name = <#kind as raw::Enumeration>::from_raw(#name)?;)
            }
            ParameterKind::Triple => quote!(let #name = *#name;),
            ParameterKind::Bytes => quote!(let #name = raw::read_bytes(#name);),
            ParameterKind::Text => quote!(let #name = raw::read_name(#name)?;),
            ParameterKind::Span => quote!(let #name = Span::new(address, bytes);),
            ParameterKind::Image => {
                quote!(let #name = ImageBytes::new(raw::read_bytes(#name));)
            }
            ParameterKind::Entry => quote! {
                let (triple, arch) = (raw::read_text(triple), raw::read_text(arch));
                let bytes = raw::read_bytes(image);
                let #name = &ImageEntry { bytes, triple: &triple, arch: &arch };
            },
            ParameterKind::HostFunction => quote!(let #name = request::host_function(#name);),
            ParameterKind::Object(object) => {
                let lent = format_ident!("lent_{}", object.to_string().to_lowercase());
                quote!(let #name = #lent::<P>(#name);)
            }
        }
    }

    /// Returns the field of the message.
    pub fn message(&self) -> Result<TokenStream> {
        let name = &self.name;
        Ok(match &self.kind {
            ParameterKind::Number(number) => quote!(#name: #number),
            ParameterKind::Truth => quote!(#name: bool),
            ParameterKind::Enumeration(kind) => quote!(#name: longshore_plugin_api::#kind),
            ParameterKind::Triple => quote!(#name: [u32; 3]),
            ParameterKind::Bytes => quote!(#[serde(borrow)] #name: &'a [u8]),
            ParameterKind::Text => quote!(#name: &'a str),
            ParameterKind::Span => quote!(#name: (u64, u64)),
            ParameterKind::Object(_) => quote!(#name: Id),
            _ => return Err(self.not_sent()),
        })
    }

    /// Returns the field's value, on the host's side.
    pub fn to_message(&self) -> TokenStream {
        let name = &self.name;
        match &self.kind {
            ParameterKind::Span => quote!(#name: (#name.address(), #name.bytes())),
            ParameterKind::Object(_) => quote!(#name: #name.id_for(self.link())?),
            _ => quote!(#name),
        }
    }

    /// Returns code that converts the field to the trait's value, on the executor's side; for
    /// another object, the value is `<name>_object`.
    pub fn from_message(&self) -> TokenStream {
        let name = &self.name;
        match &self.kind {
            ParameterKind::Span => quote! {
                // SAFETY: the host vouches for the range, on behalf of the program.
                let #name = unsafe { longshore_plugin_api::Span::new(#name.0, #name.1) };
            },
            ParameterKind::Object(object) => {
                let (table, field) =
                    (plural(object), format_ident!("{}", object.to_string().to_lowercase()));
                let object = format_ident!("{name}_object");
                quote!(let #name = self.#table.get(#name)?; let #object = &#name.#field;)
            }
            _ => quote!(),
        }
    }

    fn not_sent(&self) -> Error {
        let problem = "a message cannot have this type: write the isolated form by hand";
        Error::new_spanned(&self.rust, problem)
    }
}

/// Returns the field of the executor's server with the objects of a kind: `devices`.
pub fn plural(object: &Ident) -> Ident {
    format_ident!("{}s", object.to_string().to_lowercase())
}

impl ParameterKind {
    fn from_type(rust: &Type) -> ParameterKind {
        let text = rust.to_token_stream().to_string().replace(' ', "");
        match text.as_str() {
            "u32" | "u64" => ParameterKind::Number(format_ident!("{text}")),
            "bool" => ParameterKind::Truth,
            "[u32;3]" => ParameterKind::Triple,
            "&[u8]" => ParameterKind::Bytes,
            "&str" => ParameterKind::Text,
            "Span" => ParameterKind::Span,
            "ImageBytes" => ParameterKind::Image,
            "&ImageEntry<'_>" => ParameterKind::Entry,
            "HostFunction" => ParameterKind::HostFunction,
            name => match name.strip_prefix("&B::") {
                Some(object) => ParameterKind::Object(format_ident!("{object}")),
                // A bare name is an enumeration; parts of requests borrow.
                None if name.chars().all(char::is_alphanumeric) => {
                    ParameterKind::Enumeration(format_ident!("{text}"))
                }
                None => ParameterKind::Part,
            },
        }
    }
}

impl Reply {
    /// Reads the type of an answer.
    ///
    /// # Errors
    /// An error for a type that does not cross the boundary.
    pub fn read(rust: &Type) -> Result<Reply> {
        let text = rust.to_token_stream().to_string().replace(' ', "");
        Ok(match text.as_str() {
            "()" => Reply::Nothing,
            "u32" | "u64" | "i64" => Reply::Number(format_ident!("{text}")),
            "bool" => Reply::Truth,
            "String" => Reply::Text,
            "InfoValue" => Reply::Value,
            "Acceptance" => Reply::Acceptance,
            "CodeTarget" => Reply::CodeTarget,
            "GlobalAddress" => Reply::Global,
            "(Arc<B::Kernel>,KernelAttributes)" => Reply::Kernel,
            "Option<PoolTracker>" => Reply::Tracker,
            "Vec<(String,SymbolKind)>" => Reply::Symbols,
            "Vec<ProfileSection>" => Reply::Sections,
            name => match name.strip_prefix("B::") {
                Some(object) => Reply::Object(format_ident!("{object}")),
                None => return Err(Error::new_spanned(rust, "an answer cannot have this type")),
            },
        })
    }

    /// Returns the C parameters to which the function writes its answer.
    pub fn raw(&self) -> Vec<Raw> {
        let one = |name: &str, kind| vec![(format_ident!("{name}"), kind)];
        match self {
            Reply::Nothing => Vec::new(),
            Reply::Number(number) => one("result", quote!(*mut #number)),
            Reply::Truth => one("result", quote!(*mut u32)),
            Reply::Text | Reply::Value => one("value", quote!(Sink)),
            Reply::Object(object) => {
                let handle = format_ident!("{object}Handle");
                one(&object.to_string().to_lowercase(), quote!(*mut *mut #handle))
            }
            Reply::Acceptance => vec![
                (format_ident!("accepted"), quote!(*mut u32)),
                (format_ident!("reason"), quote!(Sink)),
            ],
            Reply::CodeTarget => ["triple", "processor", "features"]
                .map(|name| (format_ident!("{name}"), quote!(Sink)))
                .to_vec(),
            Reply::Global => one("global", quote!(*mut GlobalInfo)),
            Reply::Kernel => one("kernel", quote!(*mut KernelInfo)),
            Reply::Tracker => vec![
                (format_ident!("tracker"), quote!(*mut PoolTracker)),
                (format_ident!("present"), quote!(*mut u32)),
            ],
            Reply::Symbols => one("visitor", quote!(SymbolVisitor)),
            Reply::Sections => one("visitor", quote!(ProfileVisitor)),
        }
    }

    /// Returns the function of `remote/receive.rs` that receives the answer and checks it.
    pub fn receiver(&self) -> Ident {
        format_ident!("{}", self.function())
    }

    /// Returns the function of `export/send.rs` that writes the answer.
    pub fn sender(&self) -> Ident {
        format_ident!("{}", self.function())
    }

    fn function(&self) -> &'static str {
        match self {
            Reply::Nothing => "nothing",
            Reply::Number(_) => "number",
            Reply::Truth => "truth",
            Reply::Text => "text",
            Reply::Value => "value",
            Reply::Object(_) => "object",
            Reply::Acceptance => "acceptance",
            Reply::CodeTarget => "code_target",
            Reply::Global => "global",
            Reply::Kernel => "kernel",
            Reply::Tracker => "tracker",
            Reply::Symbols => "symbols",
            Reply::Sections => "sections",
        }
    }

    /// Returns the type in which the answer is sent to another process.
    pub fn message(&self) -> TokenStream {
        match self {
            Reply::Nothing => quote!(()),
            Reply::Number(number) => quote!(#number),
            Reply::Truth => quote!(bool),
            Reply::Text => quote!(String),
            Reply::Value => quote!(longshore_plugin_api::InfoValue),
            Reply::Object(_) => quote!(Id),
            Reply::Acceptance => quote!(longshore_plugin_api::Acceptance),
            Reply::CodeTarget => quote!(longshore_plugin_api::CodeTarget),
            Reply::Global => quote!(longshore_plugin_api::GlobalAddress),
            Reply::Kernel => quote!((Id, longshore_plugin_api::KernelAttributes)),
            Reply::Tracker => quote!(Option<longshore_plugin_api::PoolTracker>),
            Reply::Symbols => quote!(Vec<(String, longshore_plugin_api::SymbolKind)>),
            Reply::Sections => quote!(Vec<longshore_plugin_api::ProfileSection>),
        }
    }
}
