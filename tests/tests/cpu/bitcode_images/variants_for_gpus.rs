//! Variants of kernels in code for GPUs, which needs no device.

use super::Shop;
use longshore_compiler::{
    Compile, CompileError, Compiler, Constant, LibraryChoice, Module, NumberKind, Options, Output,
    Part, Request, Target, Variant, VariantProblem,
};
use longshore_executor::compiler::change_kernels;
use longshore_format_amdgpu::CodeObject;
use longshore_tests::device_code::clangs;
use longshore_tests::world::root;
use std::path::PathBuf;

const SOURCE: &str = r#"#include "longshore_device.h"
LONGSHORE_GLOBAL uint32_t bias;
LONGSHORE_KERNEL(scaled, (uint32_t *x, uint32_t divisor, float factor)) {
  LONGSHORE_SHARED(uint32_t, tile, [64]);
  const uint32_t item = longshore_item_id(0), items = longshore_group_items(0);
  tile[item] = longshore_global_id(0) / divisor;
  longshore_barrier();
  x[longshore_global_id(0)] = (uint32_t)((float)tile[items - 1 - item] * factor) + bias;
}
"#;
const VARIANT: &str = "longshore_variant_0_of_scaled";

fn variant(group: Option<[u32; 3]>, kind: NumberKind, bytes: &[u8]) -> Variant {
    let constant = Constant { index: 1, bytes: bytes.to_vec(), kind: Some(kind) };
    let (kernel, symbol) = ("scaled".to_owned(), VARIANT.to_owned());
    Variant { kernel, symbol, group, arguments: vec![constant] }
}

fn divided_by_32() -> Variant {
    let mut variant = variant(Some([64, 1, 1]), NumberKind::Integer, &32u32.to_le_bytes());
    let factor = 1.5f32.to_le_bytes().to_vec();
    variant.arguments.push(Constant { index: 2, bytes: factor, kind: Some(NumberKind::Float) });
    variant
}

/// A kind of GPUs.
struct Gpu {
    target: Target,
    flags: &'static [&'static str],
    /// The flags for a compiler that makes no kernels from C.
    flags_of_language: &'static [&'static str],
    /// The first version that makes kernels from C.
    first: u32,
}

impl Gpu {
    fn nvidia() -> Gpu {
        Gpu {
            target: target("nvptx64-nvidia-cuda", "sm_80", "+ptx75"),
            flags: &["--target=nvptx64-nvidia-cuda", "-march=sm_80", "--cuda-feature=+ptx75"],
            flags_of_language: &["-xcuda", "--cuda-device-only", "--cuda-gpu-arch=sm_80"],
            first: 17,
        }
    }

    fn amd() -> Gpu {
        Gpu {
            target: target("amdgcn-amd-amdhsa", "gfx90a", ""),
            flags: &["--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a"],
            flags_of_language: &["-xhip", "--cuda-device-only", "--offload-arch=gfx90a"],
            first: 16,
        }
    }

    fn bitcode(&self, shop: &Shop, clang: &str, version: u32) -> Module {
        let include = format!("-I{}", root().join("include").display());
        let languages = match self.flags_of_language[0] {
            "-xcuda" => &["-nocudainc", "-nocudalib"][..],
            _ => &["-nogpuinc", "-nogpulib", "--no-gpu-bundle-output"],
        };
        let flags = match version < self.first {
            true => [self.flags_of_language, languages].concat(),
            false => [self.flags, &["-nogpulib"]].concat(),
        };
        let common = [include.as_str(), "-ffreestanding"];
        Module::new(shop.bitcode(clang, SOURCE, &[&common[..], &flags].concat()))
    }

    fn compile(
        &self,
        module: &Module,
        version: u32,
        output: Output,
        variants: Vec<Variant>,
    ) -> Result<Vec<u8>, CompileError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        // SAFETY: the system's libraries of these names are LLVM's, and the modules are clang's.
        let compiler = unsafe { Compiler::in_process(folders) }.with_pre_pass(change_kernels);
        let library = LibraryChoice::Major(version);
        let options = Options { library, variants, output, ..Options::default() };
        let part = &Part::Whole;
        let request = Request { module, part, target: &self.target, options: &options };
        Ok(compiler.compile(&request)?.bytes)
    }
}

fn target(triple: &str, cpu: &str, features: &str) -> Target {
    Target { triple: triple.to_owned(), cpu: cpu.to_owned(), features: features.to_owned() }
}

fn versions() -> impl Iterator<Item = (&'static str, u32)> {
    clangs().into_iter().map(|clang| (clang, clang.trim_start_matches("clang-").parse().unwrap()))
}

/// Returns the text of a kernel in PTX.
fn entry<'a>(ptx: &'a str, kernel: &str) -> &'a str {
    let begin = format!(".entry {kernel}(");
    let (_, text) = ptx.split_once(&begin).unwrap_or_else(|| panic!("no {kernel} in {ptx}"));
    text.split("\n}").next().unwrap()
}

#[test]
fn ptx_has_variants_with_a_group_size_and_without_loads_of_constants() {
    let (shop, gpu) = (Shop::new(), Gpu::nvidia());
    for (clang, version) in versions() {
        let module = gpu.bitcode(&shop, clang, version);
        let ptx = gpu.compile(&module, version, Output::Code, vec![divided_by_32()]).unwrap();
        let ptx = String::from_utf8(ptx).unwrap();
        let (kernel, variant) = (entry(&ptx, "scaled"), entry(&ptx, VARIANT));
        for (part, in_variant) in
            [("%ntid", false), ("_param_1]", false), ("_param_2]", false), ("_param_0]", true)]
        {
            assert!(kernel.contains(part), "{clang}, {part}: {kernel}");
            assert_eq!(variant.contains(part), in_variant, "{clang}, {part}: {variant}");
        }
        assert!(!kernel.contains(".reqntid"), "{clang}: {kernel}");
        assert!(variant.contains(".reqntid 64"), "{clang}: {variant}");
        for name in ["__longshore_kernel_", "__longshore_body_"] {
            assert!(ptx.contains(&format!("{name}{VARIANT}")), "{clang}: {ptx}");
        }
        let bias = ptx.lines().filter(|line| line.contains(".global") && line.contains(" bias"));
        assert_eq!(bias.count(), 1, "{clang}: {ptx}");
    }
}

#[test]
fn code_objects_have_variants_with_a_group_size_and_constants() {
    let (shop, gpu) = (Shop::new(), Gpu::amd());
    for (clang, version) in versions() {
        let module = gpu.bitcode(&shop, clang, version);
        let code = gpu.compile(&module, version, Output::Code, vec![divided_by_32()]).unwrap();
        let contents = CodeObject::read(&code).unwrap();
        let group = |name: &str| {
            let kernel = contents.kernels.iter().find(|kernel| kernel.name == name).unwrap();
            (kernel.required_group, kernel.argument_bytes)
        };
        let [kernel, variant] = ["scaled", VARIANT].map(group);
        assert_eq!((kernel.0, variant.0), (None, Some([64, 1, 1])), "{clang}");
        let text = gpu.compile(&module, version, Output::Text, vec![divided_by_32()]).unwrap();
        let text = String::from_utf8(text).unwrap();
        let function = |name: &str| {
            let (_, text) = text.split_once(&format!("void @{name}(")).unwrap();
            text.split("\n}").next().unwrap()
        };
        let (kernel, variant) = (function("scaled"), function(VARIANT));
        assert!(!kernel.contains("1.500000e+00"), "{clang}: {kernel}");
        assert!(variant.contains("1.500000e+00"), "{clang}: {variant}");
    }
}

#[test]
fn wrong_variants_for_gpus_are_refused() {
    let shop = Shop::new();
    let Some((clang, version)) = versions().last() else { return };
    let gpu = Gpu::nvidia();
    let module = gpu.bitcode(&shop, clang, version);
    let (integer, float) = (NumberKind::Integer, NumberKind::Float);
    let with_name = |name: &str| Variant { kernel: name.to_owned(), ..divided_by_32() };
    for (variant, expected) in [
        (with_name("other"), VariantProblem::Kernel),
        (variant(None, float, &[0; 4]), VariantProblem::Value),
        (variant(None, integer, &[0; 8]), VariantProblem::Size),
    ] {
        let error = gpu.compile(&module, version, Output::Code, vec![variant]).unwrap_err();
        let CompileError::Variant { problem, .. } = error else { panic!("{error}") };
        assert_eq!(problem, expected);
    }
}
