//! `longshore run --list`: the kernels and globals of an image.

use crate::failure::Failure;
use crate::{output, table};
use longshore::units;
use longshore::{Error, ErrorCode, Global, Kernel, Program, SymbolKind};
use serde::Serialize;

/// The JSON of a kernel or global. Facts that neither the image nor the device reports are null.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Symbol {
    Kernel {
        name: String,
        argument_sizes: Option<Vec<u32>>,
        max_group_items: Option<u32>,
        required_group: Option<[u32; 3]>,
        static_shared_bytes: u64,
        private_bytes: Option<u64>,
        registers: Option<u32>,
    },
    Global {
        name: String,
        bytes: u64,
    },
}

/// Prints the kernels and globals of a program.
pub(super) fn print(program: &Program, json: bool) -> Result<(), Failure> {
    let symbols = program.symbols()?.into_iter().map(|(name, kind)| match kind {
        SymbolKind::Kernel => program.kernel(&name).map(|kernel| kernel_symbol(&kernel)),
        SymbolKind::Global => program.global(&name).map(|global| global_symbol(name, &global)),
        kind => {
            let message = format!("'{name}' is a symbol of the unknown kind {kind:?}");
            Err(Error::new(ErrorCode::Unsupported, message))
        }
    });
    let symbols: Vec<Symbol> = symbols.collect::<longshore::Result<_>>()?;
    if json {
        return output::print_json(&symbols);
    }
    if symbols.is_empty() {
        return output::print("the image shows no kernels and no globals");
    }
    output::print(&table::render(
        ["KIND", "NAME", "DETAILS"],
        symbols.iter().map(|it| row(it, &symbols)).collect(),
    ))
}

fn kernel_symbol(kernel: &Kernel) -> Symbol {
    let attributes = kernel.attributes();
    Symbol::Kernel {
        name: kernel.name().to_owned(),
        argument_sizes: attributes.argument_sizes.clone(),
        max_group_items: Some(attributes.max_group_items).filter(|items| *items != 0),
        required_group: Some(attributes.required_group).filter(|group| *group != [0; 3]),
        static_shared_bytes: attributes.static_shared_bytes,
        private_bytes: Some(attributes.private_bytes).filter(|bytes| *bytes != 0),
        registers: Some(attributes.registers).filter(|registers| *registers != 0),
    }
}

fn global_symbol(name: String, global: &Global) -> Symbol {
    Symbol::Global { name, bytes: global.bytes() }
}

fn row(symbol: &Symbol, all: &[Symbol]) -> [String; 3] {
    match symbol {
        Symbol::Global { name, bytes } => {
            ["global".into(), shown_name(name, all), units::bytes(*bytes)]
        }
        Symbol::Kernel { name, .. } => ["kernel".into(), shown_name(name, all), details(symbol)],
    }
}

/// Returns the name of a symbol in its source, with the types of parameters if others share it.
fn shown_name(symbol: &str, all: &[Symbol]) -> String {
    let Some(name) = longshore::source_name(symbol) else { return symbol.to_owned() };
    let is_name = |other: &&Symbol| {
        let (Symbol::Global { name: other, .. } | Symbol::Kernel { name: other, .. }) = other;
        longshore::source_name(other).is_some_and(|other| other == name)
    };
    match all.iter().filter(is_name).count() {
        0 | 1 => name,
        _ => longshore::source_signature(symbol).unwrap_or(name),
    }
}

fn details(symbol: &Symbol) -> String {
    let Symbol::Kernel {
        argument_sizes,
        max_group_items,
        required_group,
        static_shared_bytes,
        private_bytes,
        registers,
        ..
    } = symbol
    else {
        return String::new();
    };
    let shared = Some(*static_shared_bytes).filter(|bytes| *bytes != 0);
    let details = [
        argument_sizes.as_ref().map(|sizes| format!("arguments of {sizes:?} bytes")),
        max_group_items.map(|items| format!("at most {items} items per group")),
        required_group.map(|sizes| format!("groups of {}", table::group(&sizes.map(u64::from)))),
        shared.map(|bytes| format!("{} shared", units::bytes(bytes))),
        private_bytes.map(|bytes| format!("{} private", units::bytes(bytes))),
        registers.map(|registers| format!("{registers} registers")),
    ];
    details.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
