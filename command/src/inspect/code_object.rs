//! AMD's code objects, read as by the AMDGPU backend.

use super::elf::File;
use super::kernels::Kernels;
use super::report::{ImageReport, MetadataReport};
use longshore_format_amdgpu::{CodeObject, Header, Kernel, KernelKind};

/// Reads a code object. Facts of the header are reported even if the rest cannot be read.
pub(super) fn read(file: &File<'_>, kernels: &mut Kernels, report: &mut ImageReport) {
    let found = Header::read(file.data()).and_then(|header| {
        add_header(&header, report);
        CodeObject::read(file.data())
    });
    let found = match found {
        Ok(found) => found,
        Err(error) => return report.problems.push(error.to_string()),
    };
    add_header(&found.header, report);
    for kernel in found.kernels {
        match kernel.kind {
            KernelKind::Init => _ = report.facts.insert("constructors_run_by", kernel.name),
            KernelKind::Fini => _ = report.facts.insert("destructors_run_by", kernel.name),
            KernelKind::Normal => {
                let name = kernel.name.clone();
                kernels.add(&name, metadata(kernel));
            }
        }
    }
    report.undefined.extend(found.undefined);
}

fn add_header(header: &Header, report: &mut ImageReport) {
    report.architecture = Some(header.target.to_string());
    let unsupported = if header.is_supported() { "" } else { ", which is no longer supported" };
    report.facts.insert("code_object_version", format!("{}{unsupported}", header.version));
    let linked = if header.is_relocatable { "no" } else { "yes" };
    report.facts.insert("linked", linked.to_owned());
    if let Some(version) = header.target.generic_version {
        report.facts.insert("generic_version", version.to_string());
    }
}

fn metadata(kernel: Kernel) -> MetadataReport {
    let sizes = kernel.arguments.iter().map(|argument| argument.bytes.into());
    let number = |number: Option<u32>| number.map(u64::from);
    MetadataReport {
        argument_sizes: Some(sizes.collect()),
        registers: number(kernel.registers),
        scalar_registers: number(kernel.scalar_registers),
        accumulation_registers: number(kernel.accumulation_registers),
        spilled_registers: number(kernel.spilled_registers),
        spilled_scalar_registers: number(kernel.spilled_scalar_registers),
        static_shared_bytes: Some(kernel.static_shared_bytes.into()),
        private_bytes: Some(kernel.private_bytes.into()),
        dynamic_private: Some(kernel.has_dynamic_private),
        max_group_items: number(kernel.max_group_items),
        required_group: kernel.required_group.map(|sizes| sizes.map(u64::from).to_vec()),
        sub_group_items: Some(kernel.wavefront_items.into()),
        ..MetadataReport::default()
    }
}
