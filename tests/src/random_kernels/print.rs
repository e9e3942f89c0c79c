//! Kernels as C sources.

use super::ast::{
    Argument, Binary, Combine, Compare, Expr, Extent, Function, Id, Kernel, Kind, Local, OUTPUTS,
    Shape, Subgroup, Type, Unary,
};
use super::print_statements::print_block;
use std::fmt::Write;

/// Definitions for all kernels of a source.
const PRELUDE: &str = r#"#include "longshore_device.h"
#define ITEMS (longshore_group_items(0) * longshore_group_items(1) * longshore_group_items(2))
#define MINE(slots, slot) \
  ((longshore_group_index() * ITEMS + longshore_item_index()) * (slots) + (slot))
LONGSHORE_FUNCTION float keep(float x) { return x > -65536.0f && x < 65536.0f ? x : 1.0f; }
LONGSHORE_FUNCTION uint32_t bits(float x) {
  uint32_t word;
  __builtin_memcpy(&word, &x, sizeof(word));
  return word;
}
LONGSHORE_FUNCTION uint32_t min_u32(uint32_t x, uint32_t y) { return longshore_min(x, y); }
LONGSHORE_FUNCTION uint32_t max_u32(uint32_t x, uint32_t y) { return longshore_max(x, y); }
LONGSHORE_FUNCTION int32_t min_i32(int32_t x, int32_t y) { return longshore_min(x, y); }
LONGSHORE_FUNCTION int32_t max_i32(int32_t x, int32_t y) { return longshore_max(x, y); }
LONGSHORE_FUNCTION uint64_t min_u64(uint64_t x, uint64_t y) { return longshore_min(x, y); }
LONGSHORE_FUNCTION uint64_t max_u64(uint64_t x, uint64_t y) { return longshore_max(x, y); }
"#;

/// Returns a source with these kernels. A kernel's name is `k` and its seed.
pub(super) fn source<'a>(kernels: impl IntoIterator<Item = &'a Kernel>) -> String {
    let mut text = PRELUDE.to_owned();
    for kernel in kernels {
        Printer { kernel, function: None }.print(&mut text);
    }
    text
}

/// A kernel, and the function that is being printed: `None` for the kernel itself.
#[derive(Clone, Copy)]
pub(super) struct Printer<'a> {
    kernel: &'a Kernel,
    function: Option<&'a Function>,
}

impl<'a> Printer<'a> {
    fn print(self, text: &mut String) {
        let kernel = self.kernel;
        let called = kernel.called_functions();
        let functions = kernel.functions.iter().enumerate();
        for (index, function) in functions.filter(|(index, _)| called[*index]) {
            Printer { function: Some(function), ..self }.print_function(index, text);
        }
        let mut size = String::new();
        if kernel.has_fixed_size {
            let [x, y, z] = kernel.items;
            size = format!(", LONGSHORE_GROUP_SIZE({x}, {y}, {z})");
        }
        let pointers = "uint32_t *out, uint64_t *wide, const uint32_t *in";
        let numbers = "uint32_t n, uint32_t a, int32_t b, uint64_t c, float f";
        let (groups, items, bytes) = (kernel.groups, kernel.items, kernel.dynamic_bytes());
        let comment = format!("/* {groups:?} groups of {items:?} items, {bytes} dynamic bytes */");
        line(text, 0, &comment);
        let parameters = format!("({pointers}, {numbers}){size}");
        line(text, 0, &format!("LONGSHORE_KERNEL(k{}, {parameters}) {{", kernel.seed));
        line(text, 1, "(void)wide, (void)in, (void)n, (void)a, (void)b, (void)c, (void)f;");
        for (index, array) in kernel.shared.iter().enumerate() {
            let ty = name(array.ty);
            line(
                text,
                1,
                &match array.extent {
                    Extent::Items(length) | Extent::Fixed(length) => {
                        format!("LONGSHORE_SHARED({ty}, s{index}, [{length}]);")
                    }
                    Extent::Dynamic => {
                        format!("{ty} *const s{index} = ({ty} *)longshore_dynamic_shared();")
                    }
                },
            );
        }
        print_block(self, &kernel.code.body, 1, text);
        line(text, 0, "}");
    }

    fn print_function(self, index: usize, text: &mut String) {
        let function = self.function.expect("the caller set it");
        let mut parameters = Vec::new();
        if function.has_self {
            parameters
                .extend(["LONGSHORE_SELF", "const uint32_t *in", "uint32_t n"].map(String::from));
        }
        for (at, local) in function.code.locals[..function.parameters].iter().enumerate() {
            parameters.push(match local.shape {
                Shape::Scalar => format!("{} v{at}", name(local.ty)),
                Shape::Array(_) | Shape::Pointer => format!("{} *v{at}", name(local.ty)),
            });
        }
        parameters.extend(
            function.shared.iter().enumerate().map(|(at, ty)| format!("{} *s{at}", name(*ty))),
        );
        if parameters.is_empty() {
            parameters.push("void".to_owned());
        }
        let attribute = if function.is_inline { "" } else { "__attribute__((noinline)) " };
        let result = function.result.map_or("void", name);
        let (own, parameters) = (self.name_of(index), parameters.join(", "));
        line(text, 0, &format!("LONGSHORE_FUNCTION {attribute}{result} {own}({parameters}) {{"));
        print_block(self, &function.code.body, 1, text);
        line(text, 0, "}");
    }

    /// Returns the name of a function.
    pub(super) fn name_of(self, function: usize) -> String {
        format!("k{}_f{function}", self.kernel.seed)
    }

    pub(super) fn takes_self(self, function: usize) -> bool {
        self.kernel.functions[function].has_self
    }

    pub(super) fn local(self, variable: super::ast::Variable) -> &'a Local {
        let code = self.function.map_or(&self.kernel.code, |function| &function.code);
        &code.locals[variable.0]
    }

    /// Returns an expression's text, which needs no parentheses around it.
    pub(super) fn expr(self, expr: &Expr) -> String {
        let ty = expr.ty;
        match &*expr.kind {
            Kind::Constant(bits) => constant(ty, *bits),
            Kind::Id(id) => self::id(*id),
            Kind::Argument(argument) => self::argument(*argument).to_owned(),
            Kind::Variable(variable) => format!("v{}", variable.0),
            Kind::Element(variable, index) => self.element(*variable, index),
            Kind::Target(variable) => format!("*v{}", variable.0),
            Kind::Shared(array, index) => format!("s{array}[{}]", self.expr(index)),
            Kind::Input(index) => format!("in[{} % n]", self.expr(index)),
            Kind::Output(slot) => output(ty, *slot),
            Kind::Unary(unary, operand) => self.unary(*unary, operand),
            Kind::Binary(binary, left, right) => self.binary(ty, *binary, left, right),
            Kind::Modulo(left, right) => format!("({} % {})", self.expr(left), self.expr(right)),
            Kind::Compare(compare, left, right) => {
                let operator = match compare {
                    Compare::Less => "<",
                    Compare::LessEqual => "<=",
                    Compare::Equal => "==",
                    Compare::NotEqual => "!=",
                };
                format!("(uint32_t)({} {operator} {})", self.expr(left), self.expr(right))
            }
            Kind::Both(left, right) => {
                format!("(uint32_t)({} && {})", self.expr(left), self.expr(right))
            }
            Kind::Either(left, right) => {
                format!("(uint32_t)({} || {})", self.expr(left), self.expr(right))
            }
            Kind::Choose(condition, yes, no) => {
                format!("({} ? {} : {})", self.expr(condition), self.expr(yes), self.expr(no))
            }
            Kind::Cast(operand) => cast(ty, operand.ty, &self.expr(operand)),
            Kind::Subgroup(subgroup, value, other) => {
                self.subgroup(*subgroup, value, other.as_ref())
            }
            Kind::Call(function, arguments) => {
                let arguments: Vec<String> =
                    arguments.iter().map(|value| self.expr(value)).collect();
                format!("{}({})", self.name_of(*function), arguments.join(", "))
            }
        }
    }

    /// Returns the text of an element of a private array.
    pub(super) fn element(self, variable: super::ast::Variable, index: &Expr) -> String {
        let Shape::Array(length) = self.local(variable).shape else {
            unreachable!("only arrays have elements");
        };
        format!("v{}[{} % {length}u]", variable.0, self.expr(index))
    }

    fn unary(self, unary: Unary, operand: &Expr) -> String {
        let text = self.expr(operand);
        match (unary, operand.ty) {
            (Unary::Not, _) => format!("(~{text})"),
            (Unary::Negate, Type::I32) => format!("(int32_t)(0u - (uint32_t){text})"),
            (Unary::Negate, Type::F32) => format!("(-{text})"),
            (Unary::Negate, ty) => format!("(({})0 - {text})", name(ty)),
            (Unary::IsZero, _) => format!("(uint32_t)(!{text})"),
            (Unary::Keep, _) => format!("keep({text})"),
            (Unary::Bits, _) => format!("bits({text})"),
        }
    }

    fn binary(self, ty: Type, binary: Binary, left: &Expr, right: &Expr) -> String {
        let (left, right) = (self.expr(left), self.expr(right));
        let is_signed = ty == Type::I32;
        let wrapping = |operator: &str| match is_signed {
            true => format!("(int32_t)((uint32_t){left} {operator} (uint32_t){right})"),
            false => format!("({left} {operator} {right})"),
        };
        let plain = |operator: &str| format!("({left} {operator} {right})");
        let mask = if ty == Type::U64 { 63 } else { 31 };
        let divided = |operator: &str| match is_signed {
            true => format!("({left} {operator} (({right} & 15) | 1))"),
            false => format!("({left} {operator} ({right} | 1u))"),
        };
        match binary {
            Binary::Add => wrapping("+"),
            Binary::Sub => wrapping("-"),
            Binary::Mul => wrapping("*"),
            Binary::And => plain("&"),
            Binary::Or => plain("|"),
            Binary::Xor => plain("^"),
            Binary::Left if is_signed => format!("(int32_t)((uint32_t){left} << ({right} & 31))"),
            Binary::Left => format!("({left} << ({right} & {mask}))"),
            Binary::Right => format!("({left} >> ({right} & {mask}))"),
            Binary::Div => divided("/"),
            Binary::Rem => divided("%"),
            Binary::Min => format!("min_{}({left}, {right})", short(ty)),
            Binary::Max => format!("max_{}({left}, {right})", short(ty)),
        }
    }

    fn subgroup(self, subgroup: Subgroup, value: &Expr, other: Option<&Expr>) -> String {
        let value = self.expr(value);
        let other = other.map(|other| self.expr(other)).unwrap_or_default();
        let (name, combine) = match subgroup {
            Subgroup::Ballot => return format!("longshore_subgroup_ballot({value})"),
            Subgroup::Any => return format!("(uint32_t)longshore_subgroup_any({value})"),
            Subgroup::All => return format!("(uint32_t)longshore_subgroup_all({value})"),
            Subgroup::Shuffle => return format!("longshore_subgroup_shuffle({value}, {other})"),
            Subgroup::Broadcast => {
                return format!("longshore_subgroup_broadcast({value}, {other})");
            }
            Subgroup::ShuffleXor => {
                return format!("longshore_subgroup_shuffle_xor({value}, {other})");
            }
            Subgroup::ShuffleUp => {
                return format!("longshore_subgroup_shuffle_up({value}, {other})");
            }
            Subgroup::ShuffleDown => {
                return format!("longshore_subgroup_shuffle_down({value}, {other})");
            }
            Subgroup::Reduce(combine) => ("reduce", combine),
            Subgroup::Inclusive(combine) => ("inclusive", combine),
            Subgroup::Exclusive(combine) => ("exclusive", combine),
        };
        format!("longshore_subgroup_{name}_{}({value})", self::combine(combine))
    }
}

/// Appends a line with this indentation.
pub(super) fn line(text: &mut String, indent: usize, content: &str) {
    writeln!(text, "{:1$}{content}", "", indent * 2).expect("a String takes all");
}

pub(super) fn name(ty: Type) -> &'static str {
    match ty {
        Type::U32 => "uint32_t",
        Type::I32 => "int32_t",
        Type::U64 => "uint64_t",
        Type::F32 => "float",
    }
}

/// Returns the text of one of the item's own elements of the output.
pub(super) fn output(ty: Type, slot: u32) -> String {
    let array = if ty == Type::U64 { "wide" } else { "out" };
    format!("{array}[MINE({OUTPUTS}, {slot})]")
}

pub(super) fn combine(combine: Combine) -> &'static str {
    match combine {
        Combine::Add => "add",
        Combine::Min => "min",
        Combine::Max => "max",
        Combine::And => "and",
        Combine::Or => "or",
        Combine::Xor => "xor",
    }
}

fn short(ty: Type) -> &'static str {
    match ty {
        Type::U32 => "u32",
        Type::I32 => "i32",
        Type::U64 => "u64",
        Type::F32 => "f32",
    }
}

fn constant(ty: Type, bits: u64) -> String {
    match ty {
        Type::U32 => format!("{bits}u"),
        Type::I32 => format!("(int32_t){bits}u"),
        Type::U64 => format!("(uint64_t){bits}u"),
        Type::F32 => format!("({:?}f)", f32::from_bits(bits as u32)),
    }
}

fn argument(argument: Argument) -> &'static str {
    match argument {
        Argument::N => "n",
        Argument::A => "a",
        Argument::B => "b",
        Argument::C => "c",
        Argument::F => "f",
    }
}

fn id(id: Id) -> String {
    match id {
        Id::Item(d) => format!("longshore_item_id({d})"),
        Id::Group(d) => format!("longshore_group_id({d})"),
        Id::GroupItems(d) => format!("longshore_group_items({d})"),
        Id::GroupCount(d) => format!("longshore_group_count({d})"),
        Id::Global(d) => format!("longshore_global_id({d})"),
        Id::ItemIndex => "longshore_item_index()".to_owned(),
        Id::GroupIndex => "longshore_group_index()".to_owned(),
        Id::Items => "ITEMS".to_owned(),
        Id::Lane => "longshore_subgroup_lane()".to_owned(),
        Id::Subgroup => "longshore_subgroup_id()".to_owned(),
        Id::SubgroupCount => "longshore_subgroup_count()".to_owned(),
        Id::SubgroupWidth => "longshore_subgroup_width()".to_owned(),
    }
}

fn cast(to: Type, from: Type, text: &str) -> String {
    match (to, from) {
        (Type::U32, Type::F32) => format!("(uint32_t)(int32_t){text}"),
        (Type::U64, Type::F32) => format!("(uint64_t)(int64_t)(int32_t){text}"),
        _ => format!("({}){text}", name(to)),
    }
}
