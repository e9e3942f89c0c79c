//! The header of the C API. It contains more than cbindgen writes: enumerators without a
//! counterpart in Rust, structures of functions' parameters, and the refused conditions of
//! functions.

use super::declarations::{self, Declaration, DeclarationKind, Enumerator, Function, Variable};
use crate::root;
use anyhow::{Context, Result, bail};
use heck::{ToShoutySnakeCase, ToSnakeCase};
use std::fmt::Write;
use std::path::PathBuf;
use syn::{
    BareFnArg, BinOp, Expr, GenericArgument, PathArguments, ReturnType, Type, TypeBareFn, UnOp,
};

/// The header without the declarations of `capi/src`.
const TEMPLATE: &str = include_str!("OffloadAPI.h.in");
/// The only function whose parameter has no name in C++.
const OPTIONAL_PARAMETER: &str = "olInit";
const COLUMNS: usize = 100;

/// Returns the path of the header.
pub fn path() -> PathBuf {
    root().join("capi/include/OffloadAPI.h")
}

/// Generates the header from `capi/src`.
///
/// # Errors
/// Source that cannot be read, parsed or expressed in C.
pub fn generate() -> Result<String> {
    let mut sections = Sections::default();
    for declaration in declarations::read(&root().join("capi/src"))? {
        sections.add(&declaration).with_context(|| declaration.name.clone())?;
    }
    let text = TEMPLATE.replace("@DECLARATIONS@\n", &sections.declarations);
    let text = text.replace("@TWINS@\n", &sections.twins);
    Ok(text.replace("@PARAMETERS@\n", &sections.parameters))
}

#[derive(Default)]
struct Sections {
    declarations: String,
    /// The functions that take a source location of the program.
    twins: String,
    /// Structures of functions' parameters.
    parameters: String,
}

impl Sections {
    fn add(&mut self, Declaration { comment, name, what }: &Declaration) -> Result<()> {
        let to = &mut self.declarations;
        to.push('\n');
        print_comment(comment, "", to);
        match what {
            DeclarationKind::Enumeration(enumerators) => print_enumeration(name, enumerators, to)?,
            DeclarationKind::Handle(object) => writeln!(to, "typedef struct {object} *{name};")?,
            DeclarationKind::Structure(fields) => {
                writeln!(to, "typedef struct {name} {{")?;
                for Variable { comment, name, kind } in fields {
                    print_comment(comment, "    ", to);
                    writeln!(to, "    {};", variable(kind, name)?)?;
                }
                writeln!(to, "}} {name};")?;
            }
            DeclarationKind::Alias(kind) => match callback(kind) {
                Some(function) => print_callback(name, function, to)?,
                None => writeln!(to, "typedef {};", variable(kind, name)?)?,
            },
            DeclarationKind::Function(function) => self.add_function(name, function)?,
        }
        Ok(())
    }

    fn add_function(&mut self, name: &str, function: &Function) -> Result<()> {
        let Function { twin, parameters, refused } = function;
        let to = &mut self.declarations;
        if !refused.is_empty() {
            writeln!(to, "///\n/// Refuses, in this order:")?;
        }
        for (condition, code) in refused {
            let code = code.to_string().to_shouty_snake_case();
            writeln!(to, "/// - OL_ERRC_{code}: `{}`", condition_in_c(condition)?)?;
        }
        let declare = |Variable { name, kind, .. }: &Variable| variable(kind, name);
        let mut list = parameters.iter().map(declare).collect::<Result<Vec<_>>>()?;
        list.push("ol_code_location_t *CodeLocation".to_owned());
        print_prototype(&twin.to_string(), &list, &mut self.twins);
        list.pop();
        if let (OPTIONAL_PARAMETER, [parameter]) = (name, &mut list[..]) {
            parameter.push_str(" OL_DEFAULT_NULL");
        }
        print_prototype(name, &list, to);
        print_parameters(name, parameters, &mut self.parameters)
    }
}

fn print_comment(lines: &[String], indentation: &str, to: &mut String) {
    for line in lines {
        to.push_str(format!("{indentation}/// {line}").trim_end());
        to.push('\n');
    }
}

/// Prints an enumeration. In C it has two further enumerators, and the second makes it 32 bits
/// wide.
fn print_enumeration(name: &str, enumerators: &[Enumerator], to: &mut String) -> Result<()> {
    writeln!(to, "typedef enum {name} {{")?;
    for Enumerator { comment, name, number } in enumerators {
        print_comment(comment, "    ", to);
        writeln!(to, "    {name} = {number},")?;
    }
    let last = enumerators.last().context("no enumerators")?.number;
    let next = if name.ends_with("_flag_t") { last << 1 } else { last + 1 };
    let prefix = name.trim_end_matches("_t").to_uppercase();
    writeln!(to, "    {prefix}_LAST = {next},")?;
    Ok(writeln!(to, "    {prefix}_FORCE_UINT32 = 0x7fffffff\n}} {name};")?)
}

fn print_callback(name: &str, function: &TypeBareFn, to: &mut String) -> Result<()> {
    let returned = match &function.output {
        ReturnType::Default => "void".to_owned(),
        ReturnType::Type(_, kind) => in_c(kind)?,
    };
    let parameter = |BareFnArg { name, ty, .. }: &BareFnArg| {
        let (name, _) = name.as_ref().context("a parameter without a name")?;
        variable(ty, &name.to_string())
    };
    let parameters = function.inputs.iter().map(parameter).collect::<Result<Vec<_>>>()?;
    Ok(writeln!(to, "typedef {returned} (*{name})({});", parameters.join(", "))?)
}

/// Prints the structure of a function's parameters, if it has any.
fn print_parameters(name: &str, parameters: &[Variable], to: &mut String) -> Result<()> {
    if parameters.is_empty() {
        return Ok(());
    }
    let structure = format!("{}_params_t", name.to_snake_case());
    writeln!(to, "typedef struct {structure} {{")?;
    for Variable { name, kind, .. } in parameters {
        writeln!(to, "    {};", join(&pointer_to(&in_c(kind)?), &format!("p{name}")))?;
    }
    Ok(writeln!(to, "}} {structure};")?)
}

fn print_prototype(name: &str, parameters: &[String], to: &mut String) {
    let start = format!("OL_APIEXPORT ol_result_t OL_APICALL {name}(");
    let list = if parameters.is_empty() { "void".to_owned() } else { parameters.join(", ") };
    let is_short = start.len() + list.len() + ");".len() <= COLUMNS;
    to.push_str(&match is_short {
        true => format!("{start}{list});\n"),
        false => format!("{start}\n    {});\n", parameters.join(",\n    ")),
    });
}

/// Returns the function that a type is a nullable pointer to.
fn callback(kind: &Type) -> Option<&TypeBareFn> {
    let Type::Path(path) = kind else { return None };
    match &path.path.segments.last()?.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(Type::BareFn(function)) => Some(function),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a declaration of a variable in C.
fn variable(kind: &Type, name: &str) -> Result<String> {
    Ok(join(&in_c(kind)?, name))
}

fn join(kind: &str, name: &str) -> String {
    let space = if kind.ends_with('*') { "" } else { " " };
    format!("{kind}{space}{name}")
}

fn pointer_to(kind: &str) -> String {
    join(kind, "*")
}

/// Returns a type in C; types of functions are errors.
fn in_c(kind: &Type) -> Result<String> {
    Ok(match kind {
        Type::Ptr(pointer) => match (&*pointer.elem, pointer.const_token) {
            (Type::Ptr(_), Some(_)) => format!("{}const *", in_c(&pointer.elem)?),
            (to, Some(_)) => pointer_to(&format!("const {}", in_c(to)?)),
            (to, None) => pointer_to(&in_c(to)?),
        },
        Type::Path(path) => {
            let name = path.path.require_ident()?.to_string();
            match name.as_str() {
                "c_void" => "void".to_owned(),
                "c_char" => "char".to_owned(),
                "bool" => name,
                "u32" => "uint32_t".to_owned(),
                "usize" => "size_t".to_owned(),
                "f32" => "float".to_owned(),
                _ if name.starts_with("ol_") => name,
                _ => bail!("type {name} has no known name in C"),
            }
        }
        _ => bail!("unsupported type: expected a pointer or the name of a type"),
    })
}

/// Returns a condition over parameters in C.
fn condition_in_c(condition: &Expr) -> Result<String> {
    Ok(match condition {
        Expr::Binary(binary) => {
            let is_comparison = matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_));
            let side = |side: &Expr| match (side, condition_in_c(side)?) {
                (Expr::MethodCall(_), text) if is_comparison => Ok(format!("({text})")),
                (_, text) => anyhow::Ok(text),
            };
            let operator = &binary.op;
            let operator = quote::quote!(#operator);
            format!("{} {operator} {}", side(&binary.left)?, side(&binary.right)?)
        }
        Expr::MethodCall(call) if call.method == "is_null" || call.method == "is_none" => {
            format!("NULL == {}", condition_in_c(&call.receiver)?)
        }
        Expr::Paren(inner) => format!("({})", condition_in_c(&inner.expr)?),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
            format!("~{}", condition_in_c(&unary.expr)?)
        }
        // The number of an enumerator.
        Expr::Field(field) => condition_in_c(&field.base)?,
        Expr::Path(path) => path.path.require_ident()?.to_string(),
        Expr::Lit(literal) => {
            let literal = &literal.lit;
            quote::quote!(#literal).to_string()
        }
        _ => bail!("unsupported expression in a check: it has no form in C"),
    })
}
