//! Images for a CPU.

use super::elf::{self, File};
use super::kernels::Kernels;
use super::report::{ImageReport, MetadataReport};
use object::{Object, ObjectSymbol, SymbolKind};

const ARGUMENTS: &str = "__longshore_arguments_";
/// Functions that linkers and their start files add to shared objects.
const NO_KERNELS: [&str; 2] = ["_init", "_fini"];

/// Adds every exported function as a kernel, in LLVM's host form unless it has a description.
pub(super) fn read(file: &File<'_>, kernels: &mut Kernels, report: &mut ImageReport) {
    report.architecture = Some(format!("{:?}", file.architecture()).to_lowercase());
    for symbol in elf::exported(file) {
        let Some(name) = elf::name(&symbol, report) else { continue };
        if symbol.kind() == SymbolKind::Text && !NO_KERNELS.contains(&name) {
            if !report.has_room(name) {
                break;
            }
            let metadata = MetadataReport { form: Some("host form"), ..MetadataReport::default() };
            kernels.add(name, metadata);
        }
    }
    for symbol in elf::exported(file) {
        let name = elf::name(&symbol, report);
        let Some(kernel) = name.and_then(|name| name.strip_prefix(ARGUMENTS)) else { continue };
        let sizes = elf::content(file, &symbol).chunks_exact(4);
        let sizes = sizes.map(|word| u32::from_le_bytes(word.try_into().expect("4 bytes")).into());
        if let Some(metadata) = kernels.metadata_of(kernel) {
            metadata.argument_sizes = Some(sizes.collect());
        }
    }
    undefined(file, report);
}

fn undefined(file: &File<'_>, report: &mut ImageReport) {
    for symbol in elf::symbols(file).filter(|symbol| symbol.is_undefined() && !symbol.is_weak()) {
        let name = elf::name(&symbol, report);
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        if !report.has_room(name) {
            break;
        }
        // In a linked file the name ends with the required version.
        report.undefined.push(name.split('@').next().unwrap_or(name).to_owned());
    }
    report.undefined.sort();
    report.undefined.dedup();
}
