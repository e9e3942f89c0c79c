//! Images from clang and NVIDIA's tools, where these are installed. PTX, machine code from `ptxas`
//! and fatbins from `fatbinary` must have the same contents.

use crate::{Arch, Contents, FatbinEntry, Kind, Linkage, Reference, Space, Variable};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = r#"
typedef unsigned u32;
#define VISIBLE __attribute__((visibility("default")))
#define KERNEL __attribute__((nvptx_kernel)) void
VISIBLE u32 counter = 7;
static volatile u32 hidden = 9;
VISIBLE u32 zeros[100];
VISIBLE u32 *table[3] = {&zeros[2], 0, (u32 *)&hidden};
__attribute__((noinline)) static void function(void) { hidden++; }
VISIBLE struct { char tag; u32 *pointer; void (*function)(void); } mixed = {1, &zeros[5], function};
VISIBLE struct __attribute__((packed)) { char tag; u32 *pointer; short end; } packed = {1, &zeros[5], 2};
VISIBLE __attribute__((weak)) float floats[4] = {1.5f, -2.0f, 0, 1e30f};
VISIBLE double number = 3.25;
VISIBLE __attribute__((address_space(4))) const u32 constants[5] = {1, 2, 3};
__attribute__((address_space(3))) u32 tile[16];
static __attribute__((address_space(3))) u32 small_tile[5];
struct big { unsigned long numbers[3]; char end; };
KERNEL uses(u32 *x, int n, struct big b, char c) {
    tile[n & 15] = b.numbers[1];
    small_tile[c & 3] = n;
    asm volatile("bar.sync 0;");
    mixed.function();
    x[n] = tile[(n + 1) & 15] + hidden + small_tile[0] + *table[n] + (u32)floats[n] + constants[n];
    x[0] = *packed.pointer + (u32)number;
}
KERNEL needs_stack(void) {
    volatile u32 many[40];
    many[counter & 31] = 2;
    counter = many[zeros[1] & 31];
}
"#;

/// Returns a tool of NVIDIA next to `ptxas`. Prints a message if it is not installed.
fn tool(name: &str) -> Option<PathBuf> {
    let packages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvcc/nvidia");
    let packages = std::fs::read_dir(packages).into_iter().flatten().flatten();
    let given = std::env::var_os("PTXAS").map(PathBuf::from);
    let candidates = given.into_iter().chain(packages.map(|known| known.path().join("bin/ptxas")));
    let found = candidates.map(|ptxas| ptxas.with_file_name(name)).find(|file| file.is_file());
    if found.is_none() {
        println!("{name} is not installed; nothing was tried");
    }
    found
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Returns clang's PTX for the source; `None` if clang is not installed.
fn ptx(folder: &Path) -> Option<PathBuf> {
    let (source, ptx) = (folder.join("k.c"), folder.join("k.ptx"));
    if Command::new("clang-19").arg("--version").output().is_err() {
        println!("clang-19 is not installed; nothing was tried");
        return None;
    }
    std::fs::write(&source, SOURCE).unwrap();
    let flags = "--target=nvptx64-nvidia-cuda -march=sm_90 --cuda-feature=+ptx78 -nogpulib -O2 -S";
    let mut clang = Command::new("clang-19");
    run(clang.args(flags.split(' ')).arg("-ffreestanding").arg(source).arg("-o").arg(&ptx));
    Some(ptx)
}

/// Returns the output of `ptxas` for PTX, with its messages.
fn assembled(ptx: &Path, flags: &[&str]) -> Option<(Vec<u8>, String)> {
    let image = ptx.with_extension("out");
    let mut ptxas = Command::new(tool("ptxas")?);
    let said = run(ptxas.arg("-v").args(flags).arg(ptx).arg("-o").arg(&image));
    Some((std::fs::read(image).unwrap(), said))
}

fn by_name(contents: &Contents) -> Vec<&Variable> {
    let mut variables: Vec<_> = contents.variables.iter().collect();
    variables.sort_by_key(|variable| &variable.name);
    variables
}

/// Compares the contents that text and machine code have in common.
fn assert_same(text: &Contents, code: &Contents, context: &str) {
    let mut kernels: Vec<_> = code.kernels.iter().collect();
    kernels.sort_by_key(|kernel| kernel.name != "uses");
    for (one, other) in text.kernels.iter().zip(kernels) {
        assert_eq!(
            (&one.name, &one.argument_sizes),
            (&other.name, &other.argument_sizes),
            "{context}"
        );
    }
    let names =
        |contents| by_name(contents).iter().map(|known| known.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(text), names(code), "{context}");
    for (one, other) in by_name(text).into_iter().zip(by_name(code)) {
        let facts = |of: &Variable| (of.bytes, of.space, of.linkage);
        assert_eq!(facts(one), facts(other), "{context}: {}", one.name);
        assert!(
            one.alignment <= other.alignment && other.place.is_some(),
            "{context}: {}",
            one.name
        );
        if one.name != "mixed" {
            assert_eq!(one.initial, other.initial, "{context}: {}", one.name);
            assert_eq!(one.references, other.references, "{context}: {}", one.name);
        }
    }
}

fn variable<'a>(contents: &'a Contents, name: &str) -> &'a Variable {
    contents.variables.iter().find(|variable| variable.name == name).unwrap()
}

#[test]
fn machine_code_and_ptx_report_the_same_variables() {
    let folder = tempfile::tempdir().unwrap();
    let Some(ptx) = ptx(folder.path()) else { return };
    let text = std::fs::read(&ptx).unwrap();
    assert_eq!(Kind::recognise(&text), Some(Kind::Ptx));
    let text = Contents::from_ptx(&text);
    let reference =
        |offset, symbol: &str, addend| Reference { offset, symbol: symbol.into(), addend };
    assert_eq!(
        variable(&text, "table").references,
        [reference(0, "zeros", 8), reference(16, "hidden", 0)]
    );
    assert_eq!(variable(&text, "packed").references, [reference(1, "zeros", 20)]);
    assert_eq!(variable(&text, "hidden").linkage, Linkage::Internal);
    assert_eq!(variable(&text, "constants").space, Space::Constant);
    assert_eq!(text.undefined, [""; 0]);
    for (flags, kind) in
        [(&["-arch=sm_90"][..], Kind::Cubin), (&["-c", "-arch=sm_90"], Kind::Object)]
    {
        let Some((code, _)) = assembled(&ptx, flags) else { return };
        assert_eq!(Kind::recognise(&code), Some(kind));
        let code = Contents::from_cubin(&code).unwrap();
        assert_same(&text, &code, &format!("{flags:?}"));
        assert_eq!(code.undefined, [""; 0]);
        // In a linked cubin a function is a number.
        let mixed = &variable(&code, "mixed").references;
        let expected = [reference(8, "zeros", 20), reference(16, "function", 0)];
        assert_eq!(mixed[..], expected[..if kind == Kind::Object { 2 } else { 1 }]);
    }
}

#[test]
fn kernels_cost_the_resources_that_the_assembler_reports() {
    let folder = tempfile::tempdir().unwrap();
    let Some(ptx) = ptx(folder.path()) else { return };
    for arch in ["sm_90", "sm_100", "sm_120"] {
        let Some((code, said)) = assembled(&ptx, &[&format!("-arch={arch}")]) else { return };
        let contents = Contents::from_cubin(&code).unwrap();
        assert_eq!(contents.kernels.len(), 2, "{arch}");
        for kernel in &contents.kernels {
            let (_, of_kernel) =
                said.split_once(&format!("Compiling entry function '{}'", kernel.name)).unwrap();
            let used = of_kernel.lines().find(|line| line.contains(": Used ")).unwrap();
            let number = |unit: &str| {
                let mut parts = used.split([',', ':']).map(str::trim);
                let part = parts.find_map(|part| part.strip_suffix(unit));
                part.map_or(0, |part| part.trim_start_matches("Used ").parse().unwrap())
            };
            let context = format!("{arch}: {used}");
            assert_eq!(kernel.registers.map(u64::from), Some(number(" registers")), "{context}");
            assert_eq!(kernel.static_shared_bytes, Some(number(" bytes smem")), "{context}");
            assert_eq!(
                kernel.private_bytes,
                Some(number(" bytes cumulative stack size")),
                "{context}"
            );
        }
    }
    let text = Contents::from_ptx(&std::fs::read(&ptx).unwrap());
    let shared: Vec<_> = text.kernels.iter().map(|kernel| kernel.static_shared_bytes).collect();
    assert_eq!(shared, [Some(84), Some(0)]);
}

/// Limits, large parameters and external symbols, in a form that `ptxas` accepts.
const LIMITS: &str = "
.version 8.1
.target sm_90
.address_size 64
.extern .global .u32 elsewhere;
.extern .func helper();
.extern .shared .align 16 .b8 dynamic[];
.visible .entry large(.param .align 8 .b8 a[20000], .param .u8 b, .param .u64 c) { ret; }
.visible .entry limited(.param .u32 a) .reqntid 16, 4 .reqnctapercluster 2, 1, 1 { ret; }
.visible .entry at_most() .maxntid 128 {
    .reg .b64 %r<2>;
    .reg .b32 %s<2>;
    mov.u64 %r1, elsewhere;
    ld.u32 %s1, [%r1];
    mov.u64 %r1, dynamic;
    st.shared.u32 [%r1], %s1;
    call helper;
    ret;
}";

#[test]
fn limits_and_large_parameters_are_the_same_in_text_and_machine_code() {
    let folder = tempfile::tempdir().unwrap();
    let ptx = folder.path().join("limits.ptx");
    std::fs::write(&ptx, LIMITS).unwrap();
    let Some((code, _)) = assembled(&ptx, &["-c", "-arch=sm_90"]) else { return };
    for contents in [Contents::from_ptx(LIMITS.as_bytes()), Contents::from_cubin(&code).unwrap()] {
        let kernel = |name| contents.kernels.iter().find(|kernel| kernel.name == name).unwrap();
        assert_eq!(kernel("large").argument_sizes, [20000, 1, 8]);
        assert_eq!(kernel("limited").required_group, Some([16, 4, 1]));
        assert_eq!(kernel("limited").cluster, Some([2, 1, 1]));
        assert_eq!(kernel("at_most").max_group_items, Some(128));
        let mut undefined = contents.undefined.clone();
        undefined.sort();
        assert_eq!(undefined, ["elsewhere", "helper"]);
    }
}

#[test]
fn machine_code_names_its_architecture() {
    let folder = tempfile::tempdir().unwrap();
    for arch in ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_120", "sm_121a"] {
        let ptx = folder.path().join("k.ptx");
        let text = format!(
            ".version 8.8\n.target {arch}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
        );
        std::fs::write(&ptx, &text).unwrap();
        assert_eq!(Contents::from_ptx(text.as_bytes()).arch, Arch::parse(arch));
        let Some((code, _)) = assembled(&ptx, &[&format!("-arch={arch}")]) else { return };
        let said = Contents::from_cubin(&code).unwrap().arch;
        assert_eq!(said, Arch::parse(arch.trim_end_matches('f')), "{arch}");
    }
}

#[test]
fn fatbins_have_the_images_that_were_put_into_them() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(ptx), Some(fatbinary)) = (ptx(folder.path()), tool("fatbinary")) else { return };
    let mut images = vec![("sm_90", Kind::Ptx, "kind=ptx", std::fs::read(&ptx).unwrap())];
    for arch in ["sm_90a", "sm_100f"] {
        let (code, _) = assembled(&ptx, &[&format!("-arch={arch}")]).unwrap();
        images.push((arch, Kind::Cubin, "kind=elf", code));
    }
    for mode in ["none", "default", "size", "speed", "balance", "default --concat"] {
        let fatbin = made_by(&fatbinary, mode, folder.path(), &images);
        assert_eq!(Kind::recognise(&fatbin), Some(Kind::Fatbin));
        let entries = crate::fatbin(&fatbin).unwrap();
        assert_eq!(entries.len(), images.len(), "{mode}");
        for (arch, kind, _, image) in &images {
            let is_it = |entry: &&FatbinEntry<'_>| entry.arch.to_string() == *arch;
            let entry = entries.iter().find(is_it).unwrap();
            assert_eq!((entry.kind, entry.compressed), (*kind, mode != "none"), "{mode}, {arch}");
            let found = entry.image().unwrap();
            match kind {
                // The tool removes the comments.
                Kind::Ptx => {
                    assert_eq!(Contents::from_ptx(&found), Contents::from_ptx(image), "{mode}")
                }
                // Padding follows an image that is not compressed.
                _ => {
                    let rest = found.strip_prefix(&image[..]).unwrap();
                    assert!(rest.iter().all(|byte| *byte == 0), "{mode}, {arch}");
                }
            }
        }
    }
}

/// Returns the tool's fatbin for images, in a mode of compression.
fn made_by(
    fatbinary: &Path,
    mode: &str,
    folder: &Path,
    images: &[(&str, Kind, &str, Vec<u8>)],
) -> Vec<u8> {
    let mut make = Command::new(fatbinary);
    make.args(["-64", "--compress-all", "--create", "made"]).current_dir(folder);
    for (arch, _, kind, image) in images {
        std::fs::write(folder.join(arch), image).unwrap();
        make.arg(format!("--image3={kind},sm={},file={arch}", &arch[3..]));
    }
    run(make.args(format!("--compress-mode {mode}").split(' ')));
    std::fs::read(folder.join("made")).unwrap()
}

#[test]
fn every_truncation_and_many_flipped_bits_of_real_images_are_read_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let Some(ptx) = ptx(folder.path()) else { return };
    let Some((mut code, _)) = assembled(&ptx, &["-c", "-arch=sm_90"]) else { return };
    let text = std::fs::read(&ptx).unwrap();
    for end in (0..text.len()).step_by(3) {
        let _ = Contents::from_ptx(&text[..end]);
    }
    for end in (0..code.len()).step_by(3) {
        let _ = Contents::from_cubin(&code[..end]);
    }
    for bit in (0..code.len() * 8).step_by(11) {
        code[bit / 8] ^= 1 << (bit % 8);
        let _ = Contents::from_cubin(&code);
        code[bit / 8] ^= 1 << (bit % 8);
    }
}
