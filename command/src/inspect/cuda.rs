//! PTX, cubins and fatbins, read as by the CUDA backend.

use super::elf::is_global;
use super::image_report;
use super::kernels::{Kernels, RAW_VERSION, raw_version};
use super::report::{EntryReport, GlobalReport, ImageReport, MetadataReport, NameBudget, STEPS};
use longshore::Image;
use longshore_format_nvidia::{Contents, FatbinEntry, Kernel, Kind, Linkage, Variable, fatbin};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Size in bytes above which initial values are not read.
const LONGEST_VALUE: usize = 1 << 16;
/// Total bytes that may be extracted from a fatbin.
const MOST_BYTES_MADE: usize = 256 << 20;

/// Reads the directives, variables and kernels of a text.
pub(super) fn read_ptx(bytes: &[u8], report: &mut ImageReport) {
    add(Contents::from_ptx(bytes), report);
}

/// Reads the kernels and variables of machine code.
pub(super) fn read_cubin(bytes: &[u8], report: &mut ImageReport) {
    match Contents::from_cubin(bytes) {
        Ok(contents) => add(contents, report),
        Err(error) => report.problems.push(error.to_string()),
    }
}

/// Reports on the images of a fatbin, each with the fatbin's facts about it.
pub(super) fn entries(bytes: &[u8], budget: &Rc<NameBudget>) -> Result<Vec<ImageReport>, String> {
    let mut made = 0;
    let mut reports = Vec::new();
    for entry in fatbin(bytes).map_err(|error| error.to_string())? {
        let mut report = match entry.image() {
            Ok(image) if made + image.len() > MOST_BYTES_MADE => {
                return Err(format!(
                    "the fatbin has more than {MOST_BYTES_MADE} bytes decompressed"
                ));
            }
            Ok(image) => {
                made += image.len();
                image_report(Image::from(&image[..]), budget)
            }
            Err(error) => {
                let mut report = ImageReport::new(kind_name(entry.kind), 0);
                report.problems.push(error.to_string());
                report
            }
        };
        report.entry = Some(entry_report(&entry));
        reports.push(report);
    }
    Ok(reports)
}

fn entry_report(entry: &FatbinEntry<'_>) -> EntryReport {
    let compressed = ("compressed".to_owned(), entry.compressed.to_string());
    EntryReport {
        offload_kind: "cuda".to_owned(),
        image_kind: kind_name(entry.kind),
        triple: "nvptx64-nvidia-cuda".to_owned(),
        arch: entry.arch.to_string(),
        properties: BTreeMap::from([compressed]),
    }
}

fn kind_name(kind: Kind) -> String {
    match kind {
        Kind::Ptx => "ptx".to_owned(),
        Kind::Cubin | Kind::Object => "cubin".to_owned(),
        Kind::Fatbin => "fatbinary".to_owned(),
        Kind::Other(number) => format!("kind {number}"),
        _ => "none".to_owned(),
    }
}

fn add(contents: Contents, report: &mut ImageReport) {
    let mut kernels = Kernels::default();
    report.architecture = contents.arch.map(|arch| arch.to_string());
    if let Some((major, minor)) = contents.ptx_version {
        report.facts.insert("ptx_version", format!("{major}.{minor}"));
    }
    for variable in &contents.variables {
        add_variable(variable, &mut kernels, report);
    }
    let are_launched = |kernel: &Kernel| !STEPS.contains(&kernel.name.as_str());
    for kernel in contents.kernels.into_iter().filter(are_launched) {
        let name = kernel.name.clone();
        kernels.add(&name, metadata(kernel));
    }
    kernels.finish(report);
    report.undefined.extend(contents.undefined);
    report.globals.sort_by(|a, b| a.name.cmp(&b.name));
}

fn add_variable(variable: &Variable, kernels: &mut Kernels, report: &mut ImageReport) {
    let (name, bytes) = (variable.name.as_str(), variable.bytes);
    let content = variable.content(LONGEST_VALUE).unwrap_or_default();
    if kernels.take(name, &content) {
        return;
    }
    if name == RAW_VERSION {
        report.profile.raw_version = raw_version(&content);
    }
    report.profile.add_variable(name, bytes);
    let is_visible = variable.linkage != Linkage::Internal;
    if !report.add_step(name) && is_visible && is_global(name) {
        report.globals.push(GlobalReport { name: name.to_owned(), bytes });
    }
}

fn metadata(kernel: Kernel) -> MetadataReport {
    let three = |sizes: [u32; 3]| sizes.map(u64::from).to_vec();
    MetadataReport {
        argument_sizes: Some(kernel.argument_sizes.into_iter().map(u64::from).collect()),
        registers: kernel.registers.map(u64::from),
        static_shared_bytes: kernel.static_shared_bytes,
        private_bytes: kernel.private_bytes,
        max_group_items: kernel.max_group_items,
        required_group: kernel.required_group.map(three),
        required_cluster: kernel.cluster.map(three),
        ..MetadataReport::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::report::PriorityReport;

    const TEXT: &str = r#"
.version 8.3
.target sm_90
.address_size 64
.extern .global .align 8 .u64 elsewhere;
.visible .entry saxpy(
    .param .u64 n, .param .u64 .ptr .align 4 x,
    .param .align 8 .b8 by_value[24]
) .maxntid 32, 2, 1 .reqntid 32, 2
{
    .shared .align 4 .b8 tile[256];
    { ret; }
}
.visible .global .align 4 .b8 __longshore_kernel_saxpy[34] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0x40};
.global .align 4 .u32 __longshore_body_saxpy_$_longshore_note[2] = {4, 256};
.global .align 4 .b8 __longshore_body_saxpy_$_longshore_note1[8] = {1};
.global .align 4 .b8 helper_$_longshore_note[8] = {5};
.visible .global .align 4 .u32 counter = -3;
.visible .const .align 4 .b8 table[2][10];
.global .u32 hidden;
.weak .global .align 8 .u64 __init_array_object_first_abc_101 = first;
.weak .global .align 8 .u64 __init_array_object_second_abc_65535[1] = {second};
.visible .entry nvptx$device$init() { ret; }
.global .u64 __llvm_profile_raw_version = 10;
.visible .global .align 8 .b8 __profc_f[16];
"#;

    fn report(text: &[u8]) -> ImageReport {
        let mut report = ImageReport::new("ptx".into(), text.len());
        read_ptx(text, &mut report);
        report
    }

    #[test]
    fn descriptions_and_notes_are_joined_with_their_kernels() {
        let report = report(TEXT.as_bytes());
        assert_eq!(report.architecture.as_deref(), Some("sm_90"));
        assert_eq!(report.facts["ptx_version"], "8.3");
        let [kernel] = &report.kernels[..] else { panic!("{} kernels", report.kernels.len()) };
        assert_eq!(kernel.name, "saxpy");
        assert_eq!(kernel.metadata.argument_sizes, Some(vec![8, 8, 24]));
        assert_eq!(kernel.metadata.required_group, Some(vec![32, 2, 1]));
        assert_eq!(kernel.metadata.max_group_items, Some(64));
        assert_eq!(kernel.metadata.static_shared_bytes, Some(256));
        let described = kernel.description.as_ref().unwrap();
        assert_eq!((described.on_cpu, described.declaration.as_str()), ("fibers", "@"));
        assert!(described.uses.barrier && described.uses.static_shared_bytes == 256);
        assert!(report.uses.dynamic_shared && report.problems.is_empty());
    }

    #[test]
    fn constructors_profiles_and_variables_are_distinguished() {
        let report = report(TEXT.as_bytes());
        let globals: Vec<_> =
            report.globals.iter().map(|global| (&global.name[..], global.bytes)).collect();
        assert_eq!(globals, [("counter", 4), ("table", 20)]);
        assert_eq!(report.undefined, ["elsewhere"]);
        let of = |priority| PriorityReport { priority: Some(priority), count: 1 };
        assert_eq!(report.constructors.list(), [of(101), of(65535)]);
        assert_eq!(report.profile.raw_version, Some(10));
        assert_eq!(report.profile.sections["counters"], 16);
    }

    #[test]
    fn every_truncation_and_every_changed_byte_gives_a_report() {
        for end in 0..TEXT.len() {
            report(&TEXT.as_bytes()[..end]);
        }
        for at in 0..TEXT.len() {
            for byte in [b'{', b'}', b'"', b';', 0xff] {
                let mut bytes = TEXT.as_bytes().to_vec();
                bytes[at] = byte;
                report(&bytes);
            }
        }
    }
}
