//! `longshore inspect`: the contents of an image, without a plugin or a device.
//!
//! The result is a [`report::ImageReport`]. `elf.rs` reads the common parts of ELF images, `cpu.rs`
//! and `code_object.rs` the parts of each kind, `cuda.rs` PTX, cubins and fatbins, `spirv.rs`
//! modules for Vulkan, `bitcode.rs` modules of LLVM. `kernels.rs` joins descriptions and notes,
//! `show.rs` prints tables. Readers never fail: an unreadable part is a problem in the report.

mod archive;
mod bitcode;
mod code_object;
mod cpu;
mod cuda;
mod elf;
mod kernels;
mod report;
mod show;
mod spirv;

use crate::failure::Failure;
use crate::output;
use clap::Args;
use longshore::{ContainerEntry, Format, Image};
use report::{EntryReport, FileReport, ImageReport, NameBudget};
use std::path::PathBuf;
use std::rc::Rc;

/// Show the contents of an image or a container of images, without a device or a plugin
#[derive(Args)]
pub(crate) struct Inspect {
    /// The image: ELF, PTX, cubin, code object, SPIR-V, WGSL, bitcode, archive, or a container
    image: PathBuf,
    /// Print the contents as JSON
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(crate) fn execute(&self) -> Result<(), Failure> {
        let image = Image::read(&self.image)?;
        let report = report_of(self.image.display().to_string(), image);
        match self.json {
            true => output::print_json(&report),
            false => output::print(&show::text(&report)),
        }
    }
}

/// Reports on a file. A container is reported as its entries; an ELF file with entries also as an
/// image, before them.
fn report_of(file: String, image: Image) -> FileReport {
    let budget = Rc::default();
    let (entries, problem) = match entries_of(&image, &budget) {
        Ok(entries) => (entries, None),
        Err(problem) => (None, Some(problem)),
    };
    let mut report = FileReport {
        file,
        format: image.format().to_string(),
        bytes: image.bytes().len(),
        container: entries.is_some(),
        problem,
        images: Vec::new(),
    };
    if entries.is_none() || is_elf(image.format()) {
        report.images.push(image_report(image, &budget));
    }
    report.images.extend(entries.into_iter().flatten());
    report
}

/// Reports on the entries of a container; `None` for other images.
fn entries_of(image: &Image, budget: &Rc<NameBudget>) -> Result<Option<Vec<ImageReport>>, String> {
    if image.format() == Format::Fatbin {
        return cuda::entries(image.bytes(), budget).map(Some);
    }
    let entries = image.entries().map_err(|error| error.to_string())?;
    let reports = |entry| entry_reports(entry, budget);
    Ok(entries.map(|entries| entries.into_iter().flat_map(reports).collect()))
}

fn is_elf(format: Format) -> bool {
    matches!(
        format,
        Format::ElfSharedObject { .. }
            | Format::ElfRelocatable { .. }
            | Format::ElfExecutable { .. }
    )
}

/// Reports on an entry, or on the entries of a fatbin.
fn entry_reports(entry: ContainerEntry, budget: &Rc<NameBudget>) -> Vec<ImageReport> {
    let is_fatbin = entry.image.format() == Format::Fatbin;
    let problem = match is_fatbin.then(|| cuda::entries(entry.image.bytes(), budget)) {
        Some(Ok(reports)) => return reports,
        Some(Err(problem)) => Some(problem),
        None => None,
    };
    let mut report = image_report(entry.image, budget);
    report.problems.extend(problem);
    report.entry = Some(EntryReport {
        offload_kind: entry.offload_kind.to_string(),
        image_kind: entry.image_kind.to_string(),
        triple: entry.triple,
        arch: entry.arch,
        properties: entry.properties.into_iter().collect(),
    });
    vec![report]
}

fn image_report(image: Image, budget: &Rc<NameBudget>) -> ImageReport {
    // The reader of ELF needs aligned structures.
    let image = match image.bytes().as_ptr().addr().is_multiple_of(8) {
        true => image,
        false => Image::from(image.bytes()),
    };
    let (bytes, format) = (image.bytes(), image.format());
    let mut report = ImageReport::new(format.to_string(), bytes.len()).sharing(budget);
    match format {
        Format::Ptx => cuda::read_ptx(bytes, &mut report),
        Format::Cubin => cuda::read_cubin(bytes, &mut report),
        Format::Spirv | Format::Wgsl => spirv::read(bytes, &mut report),
        Format::Bitcode => bitcode::read(bytes, &mut report),
        Format::Archive => archive::read(bytes, &mut report),
        Format::CodeObject => elf::read(bytes, &mut report, code_object::read),
        format if is_elf(format) => elf::read(bytes, &mut report, cpu::read),
        _ => {}
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Compiles a small object for this machine.
    fn object() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (source, object) = (folder.path().join("x.c"), folder.path().join("x.o"));
        let text = "const unsigned __longshore_kernel_f[8] = {1};\n\
                    unsigned __longshore_arguments_g[2] = {4, 8};\n\
                    volatile int counter = 3;\n\
                    __attribute__((constructor(200))) static void c(void) { counter = 4; }\n\
                    void f(void **a) {} void g(void **a) {}\n";
        std::fs::write(&source, text).unwrap();
        let mut compile = Command::new("cc");
        compile.args(["-c", "-O1", "-o"]).arg(&object).arg(&source);
        assert!(compile.status().unwrap().success());
        std::fs::read(object).unwrap()
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_gives_a_report() {
        let whole = object();
        let report = image_report(Image::from(&whole), &Rc::default());
        let names: Vec<_> = report.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!(names, ["f", "g"]);
        assert_eq!(report.kernels[1].metadata.argument_sizes, Some(vec![4, 8]));
        assert_eq!(report.constructors.list()[0].priority, Some(200));
        // Copies of the bytes for other machines, with their OS/ABI.
        let mut others =
            [(62u16, [0, 0]), (190, [0x41, 8]), (224, [64, 3])].map(|(machine, abi)| {
                let mut bytes = whole.clone();
                bytes[7..9].copy_from_slice(&abi);
                bytes[18..20].copy_from_slice(&machine.to_le_bytes());
                bytes
            });
        for bytes in &mut others {
            for end in 0..bytes.len() {
                image_report(Image::from(&bytes[..end]), &Rc::default());
            }
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                image_report(Image::from(&*bytes), &Rc::default());
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn bitcode_is_reported_by_its_own_tables() {
        let folder = tempfile::tempdir().unwrap();
        let (source, bitcode) = (folder.path().join("x.c"), folder.path().join("x.bc"));
        let text = "void missing(void); static int own(void) { return 1; }\n\
                    void f(void **a) { *(int *)a[0] = own(); missing(); }\n";
        std::fs::write(&source, text).unwrap();
        let mut clang = Command::new("clang-19");
        clang.args(["-O1", "-emit-llvm", "-c", "-o"]).arg(&bitcode).arg(&source);
        if !clang.status().is_ok_and(|status| status.success()) {
            println!("clang-19 is not installed; nothing was tried");
            return;
        }
        let bytes = std::fs::read(&bitcode).unwrap();
        let report = image_report(Image::from(&bytes), &Rc::default());
        let names: Vec<_> = report.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        assert_eq!((names, report.undefined), (vec!["f"], vec!["missing".to_owned()]));
        assert!(report.facts["producer"].starts_with("LLVM19"), "{:?}", report.facts);
        assert_eq!(report.architecture.as_deref(), Some(std::env::consts::ARCH));
        // Any bytes give a report.
        for length in 0..bytes.len() {
            image_report(Image::from(&bytes[..length]), &Rc::default());
        }
    }
}
