//! The parameters of a kernel, from its description for debuggers, and the way in which clang
//! passes them.

use std::collections::HashMap;

use longshore_llvm::types::*;

use crate::ir::{Ir, ll};

/// Kinds of parameters, as `longshore_device.h` describes them.
const SIGNED: u32 = 1;
const UNSIGNED: u32 = 2;
const FLOAT: u32 = 3;
const POINTER: u32 = 4;
const STRUCTURE: u32 = 5;

/// Bytes of a pointer.
const POINTER_BYTES: u64 = 8;

/// A parameter of a kernel, as programs pass it.
pub(super) struct Argument {
    pub(super) bytes: u64,
    /// The kind, and for a pointer to numbers the kind and size of the numbers.
    pub(super) kind: u32,
    /// The declaration, such as `float *x`.
    pub(super) text: String,
}

/// A parameter of a kernel's function.
pub(super) struct Parameter {
    pub(super) argument: Argument,
    pub(super) passing: Passing,
}

/// The way in which a function takes a parameter.
pub(super) enum Passing {
    /// No value, for a structure without members.
    Nothing,
    /// The address of a copy.
    Address,
    /// Values of the function, each with its offset in the parameter.
    Values(Vec<u64>),
}

/// A type of the source.
#[derive(Clone, Copy)]
struct Type(MetadataRef);

/// Returns the arguments of a kernel for a GPU; `None` if clang has not described them.
pub(super) fn arguments(ir: &Ir<'_>, function: ValueRef) -> Option<Vec<Argument>> {
    let types = types(ir, function)?;
    let is_same = types.len() == ll!(ir, LLVMCountParams(function)) as usize;
    let names = names(ir, function);
    let name = |index: usize| {
        let value = is_same.then(|| value_name(ir, ir.parameter(function, index as u32)));
        names.get(&index).cloned().or(value)
    };
    let indexed = types.into_iter().enumerate();
    Some(indexed.map(|(index, ty)| argument(ir, ty, name(index), index)).collect())
}

/// Returns the parameters of a function for a CPU.
///
/// # Errors
/// The function has no description, or clang passes a parameter in an unknown way.
pub(super) fn read(ir: &Ir<'_>, function: ValueRef) -> Result<Vec<Parameter>, String> {
    let types = types(ir, function).ok_or("the compiler has not described its parameters")?;
    let names = names(ir, function);
    let mut at = 0;
    let mut parameters = Vec::new();
    for (index, ty) in types.into_iter().enumerate() {
        let passing = passing(ir, function, ty, at)?;
        let has_value = !matches!(passing, Passing::Nothing);
        let value = has_value.then(|| ir.name(ir.parameter(function, at)));
        let name = names.get(&index).cloned().or(value);
        at += match &passing {
            Passing::Nothing => 0,
            Passing::Address => 1,
            Passing::Values(offsets) => offsets.len() as u32,
        };
        parameters.push(Parameter { argument: argument(ir, ty, name, index), passing });
    }
    match at == ll!(ir, LLVMCountParams(function)) {
        true => Ok(parameters),
        false => Err("the compiler passes its parameters in an unknown way".to_owned()),
    }
}

/// Returns an argument. `name` is that of its first value, to which clang adds a part behind a dot.
fn argument(ir: &Ir<'_>, ty: Type, name: Option<String>, index: usize) -> Argument {
    let name = name.as_deref().map(|name| name.split('.').next().unwrap_or_default());
    let name = match name {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => format!("argument_{index}"),
    };
    let text = declaration(&ty.text(ir), &name);
    Argument { bytes: ty.bytes(ir), kind: ty.kind_word(ir), text }
}

fn declaration(ty: &str, name: &str) -> String {
    let space = if ty.ends_with('*') { "" } else { " " };
    format!("{ty}{space}{name}")
}

/// Returns the names of a function's parameters, by their indices. Without optimizations clang
/// describes none of them with the function.
fn names(ir: &Ir<'_>, function: ValueRef) -> HashMap<usize, String> {
    let Some(program) = ll!(ir, LLVMGetSubprogram(function)).present() else {
        return HashMap::new();
    };
    let lists = parts(ir, program, metadata_kind::TUPLE);
    let variables = lists.flat_map(|list| parts(ir, list, metadata_kind::LOCAL_VARIABLE)).map(Type);
    let named = variables.filter_map(|variable| {
        let index: usize = variable.field(ir, "arg")?.parse().ok()?;
        let name = variable.field(ir, "name")?;
        Some((index.checked_sub(1)?, name.trim_matches('"').to_owned()))
    });
    named.collect()
}

/// Returns the name of a parameter's value, or else of the variable into which the function copies
/// the memory behind the parameter.
fn value_name(ir: &Ir<'_>, parameter: ValueRef) -> String {
    let name = ir.name(parameter);
    if !name.is_empty() {
        return name;
    }
    let mut addresses = vec![parameter];
    while let Some(address) = addresses.pop() {
        for user in ir.users(address) {
            match ir.opcode(user) {
                opcode::ADDR_SPACE_CAST | opcode::BIT_CAST => addresses.push(user),
                opcode::CALL if ir.operand(user, 1) == address => {
                    return variable_name(ir, ir.operand(user, 0));
                }
                _ => {}
            }
        }
    }
    String::new()
}

/// Returns the name of a variable on the stack, or of its address in another address space.
fn variable_name(ir: &Ir<'_>, address: ValueRef) -> String {
    /// Clang's name for memory of any variable.
    const ANY: &str = "coerce";
    let mut at = address;
    loop {
        let name = ir.name(at);
        let is_cast = ir.is_instruction(at)
            && matches!(ir.opcode(at), opcode::ADDR_SPACE_CAST | opcode::BIT_CAST);
        if !name.is_empty() && name != ANY || !is_cast {
            return name;
        }
        at = ir.operand(at, 0);
    }
}

/// Returns the operands of a kind.
fn parts<'a>(
    ir: &'a Ir<'_>,
    node: MetadataRef,
    kind: u32,
) -> impl Iterator<Item = MetadataRef> + 'a {
    let parts = ir.metadata_operands(node).into_iter().flatten();
    parts.filter(move |it| ll!(ir, LLVMGetMetadataKind(*it)) == kind)
}

fn types(ir: &Ir<'_>, function: ValueRef) -> Option<Vec<Type>> {
    let program = ll!(ir, LLVMGetSubprogram(function)).present()?;
    let signature = parts(ir, program, metadata_kind::SUBROUTINE_TYPE).next()?;
    let list = parts(ir, signature, metadata_kind::TUPLE).next()?;
    // The first type is that of the result. `void` is absent.
    let types = ir.metadata_operands(list).into_iter().skip(1);
    types.map(|it| it.map(Type)).collect()
}

fn passing(ir: &Ir<'_>, function: ValueRef, ty: Type, at: u32) -> Result<Passing, String> {
    let is_record = ty.is_record(ir);
    if at >= ll!(ir, LLVMCountParams(function)) {
        return match is_record {
            true => Ok(Passing::Nothing),
            false => Err("the compiler passes its parameters in an unknown way".to_owned()),
        };
    }
    let parameter = ir.parameter(function, at);
    let name = ir.name(parameter);
    if is_record {
        // An empty structure has no value on x86-64, but on AArch64 it has one.
        if ty.is_empty(ir) && ir.target().starts_with("x86_64") {
            return Ok(Passing::Nothing);
        }
        if ir.is_by_value(function, at) {
            return Ok(Passing::Address);
        }
        if ty.is_empty(ir) && !name.ends_with(".coerce") {
            return Ok(Passing::Nothing);
        }
        let is_pointer = ir.kind(ir.type_of(parameter)) == type_kind::POINTER;
        if is_pointer && !name.contains(".coerce") {
            return Ok(Passing::Address);
        }
    }
    Ok(Passing::Values(match name.ends_with(".coerce0") {
        true => vec![0, POINTER_BYTES],
        false => vec![0],
    }))
}

impl Type {
    /// Returns the operands that are types, without the scope.
    fn inner(self, ir: &Ir<'_>) -> Option<Type> {
        let operands = ir.metadata_operands(self.0).into_iter().skip(3);
        let is_type = |it: &MetadataRef| {
            let kind = ll!(ir, LLVMGetMetadataKind(*it));
            (metadata_kind::BASIC_TYPE..=metadata_kind::SUBROUTINE_TYPE).contains(&kind)
        };
        operands.flatten().find(is_type).map(Type)
    }

    fn metadata_kind(self, ir: &Ir<'_>) -> u32 {
        ll!(ir, LLVMGetMetadataKind(self.0))
    }

    /// Returns a field of the type's text, such as the tag.
    fn field(self, ir: &Ir<'_>, name: &str) -> Option<String> {
        let text = ir.show_metadata(self.0);
        let (_, rest) = text.split_once(&format!("{name}: "))?;
        let end = rest.find([',', ')']).unwrap_or(rest.len());
        Some(rest[..end].to_owned())
    }

    fn tag(self, ir: &Ir<'_>) -> String {
        self.field(ir, "tag").unwrap_or_default()
    }

    fn name(self, ir: &Ir<'_>) -> String {
        let mut length = 0;
        let name = ll!(ir, LLVMDITypeGetName(self.0, &raw mut length));
        if name.is_null() {
            return String::new();
        }
        // SAFETY: LLVM returns the name's address and length.
        let bytes = unsafe { std::slice::from_raw_parts(name.cast::<u8>(), length) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Returns the type behind names and qualifiers; `None` for `const void`.
    fn plain(self, ir: &Ir<'_>) -> Option<Type> {
        const NAMES: [&str; 5] = [
            "DW_TAG_typedef",
            "DW_TAG_const_type",
            "DW_TAG_volatile_type",
            "DW_TAG_restrict_type",
            "DW_TAG_atomic_type",
        ];
        let mut ty = self;
        while ty.metadata_kind(ir) == metadata_kind::DERIVED_TYPE
            && NAMES.contains(&ty.tag(ir).as_str())
        {
            ty = ty.inner(ir)?;
        }
        Some(ty)
    }

    fn is_record(self, ir: &Ir<'_>) -> bool {
        const RECORDS: [&str; 3] =
            ["DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type"];
        self.plain(ir).is_some_and(|it| {
            it.metadata_kind(ir) == metadata_kind::COMPOSITE_TYPE
                && RECORDS.contains(&it.tag(ir).as_str())
        })
    }

    /// Returns whether a record has no member, nor a base class with one.
    fn is_empty(self, ir: &Ir<'_>) -> bool {
        let Some(record) = self.plain(ir) else { return true };
        let mut operands = ir.metadata_operands(record.0).into_iter().skip(3).flatten();
        let is_list = |it: &MetadataRef| ll!(ir, LLVMGetMetadataKind(*it)) == metadata_kind::TUPLE;
        let Some(elements) = operands.find(is_list) else { return true };
        let elements = ir.metadata_operands(elements).into_iter().flatten().map(Type);
        let mut members = elements.filter(|it| {
            it.metadata_kind(ir) == metadata_kind::DERIVED_TYPE
                && !ir.show_metadata(it.0).contains("DIFlagStaticMember")
        });
        members.all(|member| match member.tag(ir).as_str() {
            "DW_TAG_inheritance" => member.inner(ir).is_none_or(|base| base.is_empty(ir)),
            "DW_TAG_member" | "DW_TAG_variable" => false,
            _ => true,
        })
    }

    fn bytes(self, ir: &Ir<'_>) -> u64 {
        let Some(plain) = self.plain(ir) else { return 0 };
        match plain.tag(ir).as_str() {
            "DW_TAG_reference_type" | "DW_TAG_rvalue_reference_type" | "DW_TAG_pointer_type" => {
                POINTER_BYTES
            }
            _ => ll!(ir, LLVMDITypeGetSizeInBits(plain.0)) / 8,
        }
    }

    fn kind_word(self, ir: &Ir<'_>) -> u32 {
        let Some(plain) = self.plain(ir) else { return STRUCTURE };
        match plain.metadata_kind(ir) {
            metadata_kind::BASIC_TYPE => plain.number(ir),
            metadata_kind::DERIVED_TYPE => {
                let target = plain.inner(ir).and_then(|target| target.plain(ir));
                let numbers = target
                    .filter(|it| it.metadata_kind(ir) == metadata_kind::BASIC_TYPE)
                    .map_or(0, |it| it.number(ir) << 8 | (it.bytes(ir) as u32) << 16);
                POINTER | numbers
            }
            _ if plain.tag(ir) == "DW_TAG_enumeration_type" => UNSIGNED,
            _ => STRUCTURE,
        }
    }

    fn number(self, ir: &Ir<'_>) -> u32 {
        match self.field(ir, "encoding").as_deref() {
            Some("DW_ATE_float") => FLOAT,
            Some("DW_ATE_signed" | "DW_ATE_signed_char") => SIGNED,
            _ => UNSIGNED,
        }
    }

    /// Returns the type as C++ writes it.
    fn text(self, ir: &Ir<'_>) -> String {
        let name = self.name(ir);
        if !name.is_empty() {
            // A text of parameters has commas between parameters alone.
            return name.split('<').next().unwrap_or_default().to_owned();
        }
        let inner = |unknown: &str| match self.inner(ir) {
            Some(inner) => inner.text(ir),
            None => unknown.to_owned(),
        };
        let star = |target: String| match target.ends_with('*') {
            true => format!("{target}*"),
            false => format!("{target} *"),
        };
        match self.tag(ir).as_str() {
            "DW_TAG_pointer_type" => star(inner("void")),
            "DW_TAG_const_type" => match inner("void") {
                pointer if pointer.ends_with('*') => pointer,
                value => format!("const {value}"),
            },
            "DW_TAG_volatile_type" | "DW_TAG_restrict_type" | "DW_TAG_atomic_type" => inner("void"),
            _ => "struct".to_owned(),
        }
    }
}
