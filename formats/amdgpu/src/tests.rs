//! Comparison of code objects from clang, where it is installed, with the output of LLVM's reader.

use crate::{ArgumentKind, CodeObject, Header, Kernel, KernelKind, Linkage, Target, Variable};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = r#"
typedef unsigned u32;
#define VISIBLE __attribute__((visibility("default")))
#define PROTECTED __attribute__((visibility("protected")))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected"))) void
VISIBLE u32 counter = 7;
static volatile u32 hidden = 9;
PROTECTED u32 zeros[100];
VISIBLE __attribute__((weak)) float floats[4] = {1.5f, -2.0f, 0, 1e30f};
VISIBLE __attribute__((address_space(4))) const u32 constants[5] = {1, 2, 3};
static __attribute__((address_space(3), loader_uninitialized)) u32 tile[16];
struct big { unsigned long numbers[3]; char end; };
KERNEL uses(u32 *x, int n, struct big b, char c) {
    tile[n & 15] = b.numbers[1] + c;
    __builtin_amdgcn_s_barrier();
    x[n] = tile[(n + 1) & 15] + hidden + zeros[n] + (u32)floats[n] + constants[n];
    x[0] = __builtin_amdgcn_workgroup_size_x();
}
KERNEL needs_stack(void) {
    volatile u32 many[40];
    many[counter & 31] = 2;
    counter = many[zeros[1] & 31];
}
volatile u32 seen;
__attribute__((constructor)) static void first(void) { seen = 1; }
__attribute__((destructor)) static void last(void) { seen = 2; }
"#;

/// Facts that only OpenCL has, and functions of other images.
const OPENCL: &str = r#"
#define VISIBLE __attribute__((visibility("default")))
VISIBLE extern int helper(int);
VISIBLE __attribute__((weak)) extern constant int optional;
__kernel __attribute__((reqd_work_group_size(8, 4, 2)))
void limited(__global int *x, __local int *scratch, int n) {
    scratch[n] = helper(n);
    *x = scratch[n + 1] + (&optional ? optional : 0);
}
__kernel __attribute__((amdgpu_flat_work_group_size(64, 128))) void at_most(__global int *x) {
    *x = 1;
}
"#;

/// The tools of one LLVM version.
struct Tools {
    version: u32,
}

impl Tools {
    /// Returns the installed tools. Prints a message if there is no tool.
    fn installed() -> Vec<Tools> {
        let is_there = |tool: String| {
            Command::new(tool).arg("--version").output().is_ok_and(|said| said.status.success())
        };
        let all = |version: &u32| {
            ["clang", "ld.lld", "llvm-readelf"]
                .iter()
                .all(|tool| is_there(format!("{tool}-{version}")))
        };
        let found: Vec<_> =
            [19, 22].into_iter().filter(all).map(|version| Tools { version }).collect();
        if found.is_empty() {
            println!(
                "neither clang-19, lld-19 and llvm-19 nor those of 22 are installed; nothing was tried"
            );
        }
        found
    }

    /// Returns clang's output for a source in a language, for a processor.
    fn compile(
        &self,
        folder: &Path,
        (language, source): (&str, &str),
        target: &str,
        flags: &[&str],
    ) -> Vec<u8> {
        let (from, to) = (folder.join("source"), self.image(folder));
        std::fs::write(&from, source).unwrap();
        let mut clang = Command::new(format!("clang-{}", self.version));
        clang.args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-O2", "-ffreestanding"]);
        clang.args(["-fuse-ld=lld", "-x", language, &format!("-mcpu={target}")]);
        run(clang.args(flags).arg(&from).arg("-o").arg(&to));
        std::fs::read(to).unwrap()
    }

    fn image(&self, folder: &Path) -> PathBuf {
        folder.join(format!("image-{}", self.version))
    }

    /// Returns the output of LLVM's reader for the last image.
    fn readelf(&self, folder: &Path, flags: &[&str]) -> String {
        let mut readelf = Command::new(format!("llvm-readelf-{}", self.version));
        run(readelf.args(flags).arg(self.image(folder)))
    }

    /// Returns the names of processors that clang knows.
    fn processors(&self) -> Vec<String> {
        let mut clang = Command::new(format!("clang-{}", self.version));
        let said = clang
            .args(["--target=amdgcn-amd-amdhsa", "-nogpulib", "-print-supported-cpus"])
            .output()
            .unwrap();
        let said = String::from_utf8(said.stderr).unwrap();
        let names = said.lines().map(str::trim).filter(|name| name.starts_with("gfx"));
        names.map(str::to_owned).collect()
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn kernel<'a>(found: &'a CodeObject, name: &str) -> &'a Kernel {
    found.kernels.iter().find(|kernel| kernel.name == name).unwrap()
}

fn variable<'a>(found: &'a CodeObject, name: &str) -> &'a Variable {
    let mut all = found.variables.iter();
    all.find(|variable| variable.name == name).unwrap_or_else(|| panic!("{name}: {found:#?}"))
}

#[test]
fn every_processor_of_the_compiler_is_known_by_its_number() {
    for tools in Tools::installed() {
        let folder = tempfile::tempdir().unwrap();
        let processors = tools.processors();
        assert!(processors.len() >= 50, "{processors:?}");
        for name in processors {
            let flags = ["-c", "-mcode-object-version=6"];
            let image = tools.compile(folder.path(), ("c", "int x;"), &name, &flags);
            let header = Header::read(&image).unwrap();
            assert_eq!(header.target.processor, name, "clang {}", tools.version);
            let version = header.target.generic_version;
            assert_eq!(
                version.is_some_and(|known| known > 0),
                name.ends_with("-generic"),
                "{name}"
            );
        }
    }
}

#[test]
fn headers_say_version_target_and_kind() {
    let cases: [(&str, &[&str], &str, u8); 13] = [
        ("gfx90a", &[], "gfx90a", 5),
        ("gfx942", &["-mcode-object-version=4"], "gfx942", 4),
        ("gfx1100", &["-mcode-object-version=5"], "gfx1100", 5),
        ("gfx1201", &["-mcode-object-version=6"], "gfx1201", 6),
        ("gfx90a:xnack+", &["-mcode-object-version=4"], "gfx90a:xnack+", 4),
        ("gfx90a:xnack-", &["-mcode-object-version=5"], "gfx90a:xnack-", 5),
        ("gfx90a:sramecc-", &["-mcode-object-version=6"], "gfx90a:sramecc-", 6),
        ("gfx90a:sramecc+:xnack-", &["-c"], "gfx90a:sramecc+:xnack-", 5),
        ("gfx9-generic", &["-mcode-object-version=6"], "gfx9-generic", 6),
        ("gfx9-generic:xnack+", &["-mcode-object-version=6"], "gfx9-generic:xnack+", 6),
        ("gfx9-4-generic:sramecc-", &["-mcode-object-version=6"], "gfx9-4-generic:sramecc-", 6),
        ("gfx11-generic", &["-mcode-object-version=6"], "gfx11-generic", 6),
        ("gfx12-generic", &["-c", "-mcode-object-version=6"], "gfx12-generic", 6),
    ];
    for tools in Tools::installed() {
        let folder = tempfile::tempdir().unwrap();
        let processors = tools.processors();
        let is_known =
            |target: &str| processors.iter().any(|known| target.split(':').next() == Some(known));
        for (target, flags, expected, version) in cases.into_iter().filter(|case| is_known(case.0))
        {
            let context = format!("clang {}, {target}, {flags:?}", tools.version);
            let image = tools.compile(folder.path(), ("c", SOURCE), target, flags);
            let header = Header::read(&image).unwrap();
            assert_eq!(header.target.to_string(), expected, "{context}");
            let is_default = !flags.iter().any(|flag| flag.contains("version"));
            assert!(header.version == version || is_default && header.is_supported(), "{context}");
            assert_eq!(header.is_relocatable, flags.contains(&"-c"), "{context}");
            assert_eq!(CodeObject::read(&image).unwrap().header, header, "{context}");
            // The metadata has the target too.
            let said = tools.readelf(folder.path(), &["--notes"]);
            let (_, said) = said.split_once("amdhsa.target:").unwrap();
            let said = said.trim_start().lines().next().unwrap().trim_matches('\'');
            let said = Target::parse(said).unwrap();
            assert_eq!(said.to_string(), expected, "{context}");
        }
    }
}

/// Returns a lookup of a kernel's fields in the output of LLVM's reader.
fn said_of<'a>(said: &'a str, name: &str) -> impl Fn(&str) -> Option<&'a str> {
    let mut kernels = said.split("\n  - ");
    let mut of_it =
        kernels.find(|text| text.contains(&format!(".name:           {name}\n"))).unwrap();
    // Arguments have fields of the same names.
    if let Some((_, behind)) = of_it.split_once(".group_segment_fixed_size:") {
        of_it = &of_it[of_it.len() - behind.len() - ".group_segment_fixed_size:".len()..];
    }
    move |field| {
        let mut lines = of_it.lines().filter_map(|line| line.trim().split_once(':'));
        lines.find(|(name, _)| *name == field).map(|(_, value)| value.trim())
    }
}

#[test]
fn kernels_are_read_as_by_llvm_readobj() {
    for tools in Tools::installed() {
        let folder = tempfile::tempdir().unwrap();
        for target in ["gfx90a", "gfx942", "gfx1100", "gfx1201"] {
            for flags in [&["-mcode-object-version=4"][..], &["-mcode-object-version=6"], &["-c"]] {
                let image = tools.compile(folder.path(), ("c", SOURCE), target, flags);
                let found = CodeObject::read(&image).unwrap();
                let said = tools.readelf(folder.path(), &["--notes"]);
                assert_eq!(found.kernels.len(), 4, "{said}");
                for kernel in &found.kernels {
                    compare(kernel, &said_of(&said, &kernel.name), &format!("{target}: {said}"));
                }
                check_kernels(&found, if target.starts_with("gfx9") { 64 } else { 32 });
            }
        }
    }
}

fn compare<'a>(kernel: &Kernel, said: &impl Fn(&str) -> Option<&'a str>, context: &str) {
    let number = |field| said(field).map(|value| value.parse().unwrap());
    for (found, field) in [
        (Some(kernel.argument_bytes), ".kernarg_segment_size"),
        (Some(kernel.argument_alignment), ".kernarg_segment_align"),
        (Some(kernel.static_shared_bytes), ".group_segment_fixed_size"),
        (Some(kernel.private_bytes), ".private_segment_fixed_size"),
        (Some(kernel.wavefront_items), ".wavefront_size"),
        (kernel.max_group_items, ".max_flat_workgroup_size"),
        (kernel.registers, ".vgpr_count"),
        (kernel.scalar_registers, ".sgpr_count"),
        (kernel.spilled_registers, ".vgpr_spill_count"),
        (kernel.spilled_scalar_registers, ".sgpr_spill_count"),
        (kernel.has_uniform_groups.map(u32::from), ".uniform_work_group_size"),
    ] {
        assert_eq!(found, number(field), "{field} of {}, {context}", kernel.name);
    }
    let is_true = |field| said(field).is_some_and(|value| value == "true");
    assert_eq!(kernel.has_dynamic_private, is_true(".uses_dynamic_stack"), "{context}");
    assert_eq!(Some(&*kernel.symbol), said(".symbol"), "{context}");
}

/// Compares the kernels with the source.
fn check_kernels(found: &CodeObject, wavefront_items: u32) {
    let uses = kernel(found, "uses");
    let arguments: Vec<_> = uses
        .arguments
        .iter()
        .map(|known| (known.offset, known.bytes, known.kind.clone()))
        .collect();
    let value = ArgumentKind::ByValue;
    let pointer = arguments[0].2.clone();
    assert!(matches!(pointer, ArgumentKind::GlobalBuffer | ArgumentKind::ByValue), "{pointer}");
    assert_eq!(
        arguments,
        [(0, 8, pointer), (8, 4, value.clone()), (16, 32, value.clone()), (48, 1, value)]
    );
    assert!(uses.static_shared_bytes >= 64 && uses.wavefront_items == wavefront_items);
    // Since version 5 the size of groups is one of the hidden arguments.
    assert_eq!(uses.hidden.is_empty(), found.header.version == 4);
    assert!(uses.hidden.iter().all(|known| known.offset >= 49));
    let needs_stack = kernel(found, "needs_stack");
    assert!(needs_stack.private_bytes >= 160 && needs_stack.arguments.is_empty());
    let kinds = ["uses", "needs_stack", "amdgcn.device.init", "amdgcn.device.fini"];
    let kinds = kinds.map(|name| kernel(found, name).kind);
    assert_eq!(kinds, [KernelKind::Normal, KernelKind::Normal, KernelKind::Init, KernelKind::Fini]);
}

#[test]
fn variables_have_their_size_linkage_and_value() {
    for tools in Tools::installed() {
        let folder = tempfile::tempdir().unwrap();
        for flags in [&["-mcode-object-version=5"][..], &["-c"], &["-Wl,--strip-all"]] {
            let image = tools.compile(folder.path(), ("c", SOURCE), "gfx942", flags);
            let found = CodeObject::read(&image).unwrap();
            let floats = [1.5f32, -2.0, 0.0, 1e30].map(f32::to_le_bytes).concat();
            let constants = [1u32, 2, 3, 0, 0].map(u32::to_le_bytes).concat();
            for (name, linkage, bytes, initial) in [
                ("counter", Linkage::Visible, 4, &[7, 0, 0, 0][..]),
                ("zeros", Linkage::Protected, 400, &[]),
                ("floats", Linkage::Weak, 16, &floats),
                ("constants", Linkage::Visible, 20, &constants),
            ] {
                let known = variable(&found, name);
                assert_eq!((known.linkage, known.bytes), (linkage, bytes), "{name}, {flags:?}");
                assert_eq!(known.initial(&image), initial, "{name}, {flags:?}");
                assert!(known.section.is_some());
            }
            assert!(found.variables.iter().all(|known| !known.name.ends_with(".kd")), "{found:#?}");
            if flags != ["-Wl,--strip-all"] {
                let hidden = variable(&found, "hidden");
                assert_eq!((hidden.linkage, hidden.bytes), (Linkage::Internal, 4));
                assert_eq!(hidden.initial(&image), [9, 0, 0, 0]);
            }
            assert_eq!(found.undefined, [""; 0]);
        }
    }
}

#[test]
fn attributes_of_opencl_and_undefined_symbols_are_read() {
    for tools in Tools::installed() {
        let folder = tempfile::tempdir().unwrap();
        for flags in [&["-c"][..], &["-Wl,--unresolved-symbols=ignore-all"]] {
            let image = tools.compile(folder.path(), ("cl", OPENCL), "gfx90a", flags);
            let found = CodeObject::read(&image).unwrap();
            let limited = kernel(&found, "limited");
            assert_eq!(limited.required_group, Some([8, 4, 2]));
            assert_eq!(kernel(&found, "at_most").max_group_items, Some(128));
            assert!(limited.has_dynamic_private, "the helper may do what it wants");
            let kinds: Vec<_> = limited.arguments.iter().map(|known| known.kind.name()).collect();
            assert_eq!(kinds, ["global_buffer", "dynamic_shared_pointer", "by_value"]);
            assert_eq!(found.undefined, ["helper"], "{flags:?}");
        }
    }
}

#[test]
fn every_truncation_and_many_changes_of_real_images_are_read_to_their_end() {
    for tools in Tools::installed() {
        let folder = tempfile::tempdir().unwrap();
        for flags in [&["-mcode-object-version=5"][..], &["-c"]] {
            let whole = tools.compile(folder.path(), ("c", SOURCE), "gfx90a", flags);
            for end in 0..whole.len() {
                assert!(CodeObject::read(&whole[..end]).is_err(), "{end}");
            }
            let mut random = 0x9e37_79b9_7f4a_7c15_u64;
            for _ in 0..CHANGED_IMAGES {
                let mut changed = whole.clone();
                for _ in 0..random % 3 + 1 {
                    // Xorshift.
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let bit = random as usize % (changed.len() * 8);
                    changed[bit / 8] ^= 1 << (bit % 8);
                }
                let _ = CodeObject::read(&changed);
            }
        }
    }
}

const CHANGED_IMAGES: u32 = 2_500;
