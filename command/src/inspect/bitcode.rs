//! LLVM bitcode: the facts in a module's own tables. No function is read, and nothing is compiled.

use super::kernels::Kernels;
use super::report::{ImageReport, MetadataReport};
use longshore_compiler::Producer;
use longshore_compiler::bitstream::{Item, Record, Stream};
use longshore_compiler::producer::{IDENTIFICATION, text, unwrapped};
use longshore_plugin_api::KERNEL_DESCRIPTION_PREFIX;

const MODULE: u64 = 8;
const STRINGS: u64 = 23;

/// Kinds of records of a module.
mod code {
    pub(super) const VERSION: u64 = 1;
    pub(super) const TRIPLE: u64 = 2;
    pub(super) const VARIABLE: u64 = 7;
    pub(super) const FUNCTION: u64 = 8;
}

/// The first version of modules whose names are in a block of their own.
const WITH_STRINGS: u64 = 2;
/// Calling conventions of kernels: PTX, SPIR-V, AMD.
const OF_KERNELS: [u64; 3] = [71, 76, 91];
/// Linkages that other modules do not see: appending, internal, private, available externally.
const HIDDEN: [u64; 4] = [2, 3, 9, 12];
/// Prefix of LLVM's own names.
const OF_LLVM: &str = "llvm.";

/// Adds the triple, the writer, and the kernels and undefined symbols by name. On a CPU, every
/// function that other modules see counts as a kernel in LLVM's host form, unless the module
/// describes kernels.
pub(super) fn read(bytes: &[u8], report: &mut ImageReport) {
    match Tables::read(bytes) {
        Ok(tables) => tables.report(report),
        Err(problem) => report.problems.push(problem),
    }
}

#[derive(Default)]
struct Tables<'a> {
    producer: String,
    triple: String,
    version: u64,
    symbols: Vec<Symbol>,
    strings: &'a [u8],
}

struct Symbol {
    /// Offset and length of the name in the strings.
    name: (u64, u64),
    is_function: bool,
    is_kernel: bool,
    is_defined: bool,
    is_visible: bool,
}

impl<'a> Tables<'a> {
    fn read(bytes: &'a [u8]) -> Result<Tables<'a>, String> {
        let mut tables = Tables::default();
        let mut stream = Stream::new(unwrapped(bytes)?);
        let mut record = Record::default();
        while let Some((mut block, common)) = stream.next_block()? {
            if ![IDENTIFICATION, MODULE, STRINGS].contains(&block.id) {
                continue;
            }
            while let Some(item) = block.next(common, &mut record)? {
                match (block.id, &item) {
                    (MODULE, Item::Record) => tables.add(&record),
                    (STRINGS, Item::Record) => tables.strings = record.blob,
                    (IDENTIFICATION, _) => {
                        if let Some(Producer(name)) = Producer::from_record(&item, &record) {
                            tables.producer = name;
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(tables)
    }

    fn add(&mut self, record: &Record<'_>) {
        let field = |index: usize| record.fields.get(index).copied().unwrap_or_default();
        let is_function = record.code == code::FUNCTION;
        match record.code {
            code::VERSION => self.version = field(0),
            code::TRIPLE => self.triple = text(&record.fields),
            code::VARIABLE | code::FUNCTION => self.symbols.push(Symbol {
                name: (field(0), field(1)),
                is_function,
                is_kernel: is_function && OF_KERNELS.contains(&field(3)),
                // A function's field is whether it is a declaration, a variable's its value.
                is_defined: (field(4) == 0) == is_function,
                is_visible: !HIDDEN.contains(&field(5)),
            }),
            _ => {}
        }
    }

    fn name(&self, symbol: &Symbol) -> Option<&'a str> {
        let (start, length) = (usize::try_from(symbol.name.0), usize::try_from(symbol.name.1));
        let (start, length) = (start.ok()?, length.ok()?);
        let name = self.strings.get(start..start.checked_add(length)?)?;
        str::from_utf8(name).ok().filter(|name| !name.starts_with(OF_LLVM))
    }

    fn report(&self, report: &mut ImageReport) {
        let machine = self.triple.split('-').next().filter(|machine| !machine.is_empty());
        report.architecture = machine.map(str::to_owned);
        for (fact, value) in [("triple", &self.triple), ("producer", &self.producer)] {
            if !value.is_empty() {
                report.facts.insert(fact, value.clone());
            }
        }
        if self.version < WITH_STRINGS {
            report.problems.push("the module is older than LLVM 5; its names are left out".into());
            return;
        }
        let mut kernels = Kernels::default();
        let described = |symbol| self.name(symbol)?.strip_prefix(KERNEL_DESCRIPTION_PREFIX);
        let has_own_kernels = self.symbols.iter().any(|symbol| symbol.is_kernel);
        let in_host_form =
            !has_own_kernels && self.symbols.iter().all(|it| described(it).is_none());
        for symbol in &self.symbols {
            let Some(name) = self.name(symbol) else { continue };
            if !report.has_room(name) {
                break;
            }
            let in_host_form = in_host_form && symbol.is_function && symbol.is_visible;
            match described(symbol) {
                Some(kernel) => kernels.add(kernel, MetadataReport::default()),
                None if symbol.is_defined && (symbol.is_kernel || in_host_form) => {
                    let form = in_host_form.then_some("host form");
                    kernels.add(name, MetadataReport { form, ..MetadataReport::default() });
                }
                None if !symbol.is_defined => report.undefined.push(name.to_owned()),
                None => {}
            }
        }
        kernels.finish(report);
        report.undefined.sort();
    }
}
