//! Statements as C.

use super::ast::{Address, Block, Case, Loop, LoopForm, Passed, Place, Statement, Type, Variable};
use super::print::{Printer, combine, line, name, output};

pub(super) fn print_block(printer: Printer, block: &Block, indent: usize, text: &mut String) {
    for statement in block {
        print_statement(printer, statement, indent, text);
    }
}

fn print_statement(printer: Printer, statement: &Statement, indent: usize, text: &mut String) {
    let expr = |value| printer.expr(value);
    let declared = |variable: &Variable| {
        let local = printer.local(*variable);
        let volatile = if local.is_volatile { "volatile " } else { "" };
        format!("{volatile}{}", name(local.ty))
    };
    let simple = match statement {
        Statement::If(condition, yes, no) => {
            line(text, indent, &format!("if ({}) {{", expr(condition)));
            print_block(printer, yes, indent + 1, text);
            if !no.is_empty() {
                line(text, indent, "} else {");
                print_block(printer, no, indent + 1, text);
            }
            return line(text, indent, "}");
        }
        Statement::Loop(details) => return print_loop(printer, details, indent, text),
        Statement::Switch(value, cases) => {
            return print_switch(printer, &expr(value), cases, indent, text);
        }
        Statement::Declare(variable, value) => {
            format!("{} v{} = {}", declared(variable), variable.0, expr(value))
        }
        Statement::DeclareArray(variable, values) => {
            let (count, listed) =
                (values.len(), values.iter().map(expr).collect::<Vec<_>>().join(", "));
            format!("{} v{}[{count}] = {{{listed}}}", declared(variable), variable.0)
        }
        Statement::DeclarePointer(variable, address) => {
            format!("{} *v{} = {}", declared(variable), variable.0, self::address(printer, address))
        }
        Statement::Assign(place, value) => {
            format!("{} = {}", self::place(printer, place, value.ty), expr(value))
        }
        Statement::Atomic { combine: how, shared, index, value, is_scoped } => {
            let (explicit, order) = match is_scoped {
                true => ("_explicit", ", LONGSHORE_RELAXED, LONGSHORE_SCOPE_GROUP"),
                false => ("", ""),
            };
            let (how, index, value) = (combine(*how), expr(index), expr(value));
            format!("longshore_atomic_{how}{explicit}(&s{shared}[{index}], {value}{order})")
        }
        Statement::Barrier => "longshore_barrier()".to_owned(),
        Statement::Call { result, function, arguments } => {
            let call = call(printer, *function, arguments);
            result.map_or(call.clone(), |variable| format!("v{} = {call}", variable.0))
        }
        Statement::Break => "break".to_owned(),
        Statement::Continue => "continue".to_owned(),
        Statement::Return(None) => "return".to_owned(),
        Statement::Return(Some(value)) => format!("return {}", expr(value)),
    };
    line(text, indent, &format!("{simple};"));
}

fn print_loop(printer: Printer, details: &Loop, indent: usize, text: &mut String) {
    let Loop { form, counter, limit, body } = details;
    let (v, limit) = (format!("v{}", counter.0), printer.expr(limit));
    let limited = |first: &str| format!("uint32_t {v} = {first}, {v}_end = {limit}; {v} < {v}_end");
    let head = match form {
        LoopForm::Count => format!("for ({}; ++{v}) {{", limited("0")),
        LoopForm::Stride => format!("for ({}; {v} += ITEMS) {{", limited("longshore_item_index()")),
        LoopForm::Double => format!("for ({}; {v} *= 2) {{", limited("1")),
        LoopForm::Halve => format!("for (uint32_t {v} = {limit}; {v} > 0; {v} /= 2) {{"),
        LoopForm::While(_) | LoopForm::Do(_) => {
            line(text, indent, &format!("uint32_t {v} = 0, {v}_end = {limit};"));
            match form {
                LoopForm::While(condition) => {
                    format!("while ({} && {v}++ < {v}_end) {{", printer.expr(condition))
                }
                _ => "do {".to_owned(),
            }
        }
    };
    line(text, indent, &head);
    print_block(printer, body, indent + 1, text);
    line(
        text,
        indent,
        &match form {
            LoopForm::Do(condition) => {
                format!("}} while ({} && ++{v} < {v}_end);", printer.expr(condition))
            }
            _ => "}".to_owned(),
        },
    );
}

fn print_switch(printer: Printer, value: &str, cases: &[Case], indent: usize, text: &mut String) {
    line(text, indent, &format!("switch ({value}) {{"));
    for (number, case) in cases.iter().enumerate() {
        line(text, indent, &format!("case {number}: {{"));
        print_block(printer, &case.body, indent + 1, text);
        line(text, indent, if case.falls { "}" } else { "} break;" });
    }
    line(text, indent, "default: break;");
    line(text, indent, "}");
}

fn place(printer: Printer, place: &Place, ty: Type) -> String {
    match place {
        Place::Variable(variable) => format!("v{}", variable.0),
        Place::Element(variable, index) => printer.element(*variable, index),
        Place::Target(variable) => format!("*v{}", variable.0),
        Place::Shared(array, index) => format!("s{array}[{}]", printer.expr(index)),
        Place::Output(slot) => output(ty, *slot),
    }
}

fn address(printer: Printer, address: &Address) -> String {
    match address {
        Address::Of(variable) => format!("&v{}", variable.0),
        Address::Element(variable, index) => format!("&{}", printer.element(*variable, index)),
        Address::Copy(variable) => format!("v{}", variable.0),
        Address::Choose(condition, yes, no) => {
            let (yes, no) = (self::address(printer, yes), self::address(printer, no));
            format!("({} ? {yes} : {no})", printer.expr(condition))
        }
    }
}

fn call(printer: Printer, function: usize, arguments: &[Passed]) -> String {
    let mut texts = Vec::new();
    if printer.takes_self(function) {
        texts.extend(["longshore_self", "in", "n"].map(String::from));
    }
    texts.extend(arguments.iter().map(|argument| match argument {
        Passed::Value(value) => printer.expr(value),
        Passed::Address(address) => self::address(printer, address),
        Passed::Array(variable) => format!("v{}", variable.0),
        Passed::Shared(array) => format!("s{array}"),
    }));
    format!("{}({})", printer.name_of(function), texts.join(", "))
}
