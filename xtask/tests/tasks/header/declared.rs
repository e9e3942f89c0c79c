//! The declarations of a C header, as `bindgen` reads them.

use crate::header::Layout;
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{Command, Output};
use syn::{FnArg, ForeignItem, GenericArgument, Item, PathArguments, ReturnType, Type};

/// The folder of libclang 19, whose clang other tests use. Without it `bindgen` takes any libclang.
const LIBCLANG: &str = "/usr/lib/llvm-19/lib";
const ARGUMENTS: [&str; 5] = [
    "--default-enum-style",
    "consts",
    "--no-prepend-enum-name",
    "--no-doc-comments",
    "--no-rustfmt-bindings",
];

/// The declarations of a header. Types are written in Rust.
#[derive(Default)]
pub(crate) struct Declared {
    /// Enumerations, names and numbers of all enumerators.
    pub(crate) enumerators: Vec<(String, String, u32)>,
    /// The fields of structures: names and types.
    pub(crate) structures: BTreeMap<String, Vec<Variable>>,
    /// Names for other types.
    pub(crate) aliases: BTreeMap<String, String>,
    /// The types of functions.
    pub(crate) functions: BTreeMap<String, String>,
    layouts: BTreeMap<String, Layout>,
}

/// The name and the type of a field or a parameter.
pub(crate) type Variable = (String, String);

impl Declared {
    /// Reads a header; returns `None`, and prints why, if `bindgen` or libclang is not installed.
    pub(crate) fn read(header: &Path) -> Option<Declared> {
        let mut command = Command::new("bindgen");
        command.arg(header).args(ARGUMENTS).args(["--allowlist-file", header.to_str().unwrap()]);
        command.args(["--", "-x", "c", "-std=c99"]);
        if std::env::var_os("LIBCLANG_PATH").is_none() && Path::new(LIBCLANG).is_dir() {
            command.env("LIBCLANG_PATH", LIBCLANG);
        }
        let bindings = bindings(command.output())?;
        let mut declared = Declared::default();
        syn::parse_file(&bindings).unwrap().items.iter().for_each(|item| declared.add(item));
        Some(declared)
    }

    /// Returns the layout of a structure, an enumeration or another type.
    pub(crate) fn layout(&self, name: &str) -> Option<Layout> {
        if let Some(layout) = self.layouts.get(name) {
            return Some(layout.clone());
        }
        let bytes = match self.aliases.get(name)?.as_str() {
            "u32" => 4,
            kind if kind.starts_with('*') || kind.starts_with("fn(") => 8,
            _ => return None,
        };
        Some(Layout { name: name.to_owned(), whole: [bytes; 2], fields: Vec::new() })
    }

    fn add(&mut self, item: &Item) {
        match item {
            Item::Const(item) if item.ident == "_" => self.add_layout(item.to_token_stream()),
            Item::Const(item) => {
                let (kind, number) = (text(&item.ty), item.expr.to_token_stream().to_string());
                if kind.ends_with("_t") {
                    self.enumerators.push((kind, plain(&item.ident), number.parse().unwrap()));
                }
            }
            // Layouts are tests, or constants in versions from 0.70 on.
            Item::Fn(item) => self.add_layout(item.to_token_stream()),
            Item::Struct(item) => {
                let field =
                    |field: &syn::Field| (plain(field.ident.as_ref().unwrap()), text(&field.ty));
                let fields = item.fields.iter().map(field).collect();
                self.structures.insert(plain(&item.ident), fields);
            }
            Item::Type(item) => {
                self.aliases.insert(plain(&item.ident), text(&item.ty));
            }
            Item::ForeignMod(item) => item.items.iter().for_each(|item| self.add_function(item)),
            _ => {}
        }
    }

    fn add_function(&mut self, item: &ForeignItem) {
        let ForeignItem::Fn(item) = item else { return };
        let parameter = |parameter: &FnArg| match parameter {
            FnArg::Typed(typed) => (typed.pat.to_token_stream().to_string(), text(&typed.ty)),
            FnArg::Receiver(_) => panic!("a function of C has no receiver"),
        };
        let parameters: Vec<_> = item.sig.inputs.iter().map(parameter).collect();
        let signature = signature(&parameters, &returned(&item.sig.output));
        self.functions.insert(plain(&item.sig.ident), signature);
    }

    /// Adds the numbers of `size_of`, `align_of` and `offset_of`, by which the bindings check
    /// layouts. Each number follows the name of its type or field.
    fn add_layout(&mut self, tokens: TokenStream) {
        let mut words = Vec::new();
        flatten(tokens, &mut words);
        let mut name = "";
        for (at, word) in words.iter().enumerate() {
            let number = || {
                let number = |word: &String| word.strip_suffix("usize")?.parse().ok();
                words[at..].iter().find_map(number).unwrap()
            };
            if word == "size_of" {
                name = &words[at + 1];
                let layout = Layout { name: name.to_owned(), whole: [number(), 0], fields: vec![] };
                self.layouts.insert(name.to_owned(), layout);
            }
            let Some(layout) = self.layouts.get_mut(name) else { continue };
            match word.as_str() {
                "align_of" => layout.whole[1] = number(),
                // The name of the field follows the structure, or a pointer to the structure.
                "offset_of" | "addr_of" => {
                    layout.fields.push((number(), plain(&words[at + 2])));
                }
                _ => {}
            }
        }
    }
}

/// Returns the type of a function, in Rust.
pub(crate) fn signature(parameters: &[Variable], returned: &str) -> String {
    let list: Vec<_> = parameters.iter().map(|(name, kind)| format!("{name}: {kind}")).collect();
    format!("fn({}) -> {returned}", list.join(", "))
}

/// Returns the output of `bindgen`, or `None` if `bindgen` or libclang is not installed. Where `CI`
/// is set, a missing program is a failure.
fn bindings(output: io::Result<Output>) -> Option<String> {
    let why = match output {
        Ok(output) if output.status.success() => {
            return Some(String::from_utf8(output.stdout).unwrap());
        }
        Ok(output) => {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(message.contains("Unable to find libclang"), "bindgen: {message}");
            message
        }
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os("CI").is_none(), "bindgen: {why}");
    println!("skipped: bindgen does not start: {why}");
    None
}

/// Returns a type in one line, with the last names of paths.
fn text(kind: &Type) -> String {
    match kind {
        Type::Ptr(pointer) => {
            let is_const = if pointer.const_token.is_some() { "const" } else { "mut" };
            format!("*{is_const} {}", text(&pointer.elem))
        }
        Type::BareFn(function) => {
            let parameter = |argument: &syn::BareFnArg| {
                (plain(&argument.name.as_ref().unwrap().0), text(&argument.ty))
            };
            let parameters: Vec<_> = function.inputs.iter().map(parameter).collect();
            signature(&parameters, &returned(&function.output))
        }
        Type::Path(path) => {
            let last = path.path.segments.last().unwrap();
            match (&last.arguments, plain(&last.ident).as_str()) {
                (PathArguments::AngleBracketed(list), "Option") => match &list.args[0] {
                    GenericArgument::Type(of) => text(of),
                    _ => panic!("an option of no type"),
                },
                (_, "size_t") => "usize".to_owned(),
                (_, "c_uint") => "u32".to_owned(),
                (_, name) => name.to_owned(),
            }
        }
        _ => kind.to_token_stream().to_string(),
    }
}

fn returned(output: &ReturnType) -> String {
    match output {
        ReturnType::Default => "()".to_owned(),
        ReturnType::Type(_, kind) => text(kind),
    }
}

/// Returns a name without the underscore that distinguishes it from a keyword of Rust.
fn plain(name: impl ToString) -> String {
    name.to_string().trim_end_matches('_').to_owned()
}

/// Appends the names and the literals, in their order.
fn flatten(tokens: TokenStream, words: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => flatten(group.stream(), words),
            TokenTree::Ident(name) => words.push(name.to_string()),
            TokenTree::Literal(literal) => words.push(literal.to_string()),
            TokenTree::Punct(_) => {}
        }
    }
}
