//! Whole modules for every kind of target.

use object::{Architecture, Object, ObjectKind};

use super::support::{bitcode, compile, compiler, run, runs, symbols, versions};
use crate::{Compile, Level, LibraryChoice, Module, Options, Output, Part, Request, Target};

const SOURCE: &str = "
    static int table[4] = { 1, 2, 3, 4 };
    int other(int);
    int sum(int n) { return table[n & 3] + other(n); }
    __attribute__((constructor)) void first(void) { table[0] = 7; }";

const AMD: &str = "kernel void store(global int *to, int n) { *to = n; }";

fn options(version: u32) -> Options {
    Options { library: LibraryChoice::Major(version), ..Options::default() }
}

#[test]
fn bitcode_of_a_cpu_becomes_an_object() {
    let compiler = compiler();
    for version in versions() {
        for (triple, architecture) in [
            ("x86_64-unknown-linux-gnu", Architecture::X86_64),
            ("aarch64-unknown-linux-gnu", Architecture::Aarch64),
        ] {
            let module = bitcode(version, &format!("-O1 --target={triple}"), SOURCE);
            for level in (0..4).filter_map(Level::from_number) {
                let options = Options { level, ..options(version) };
                let compiled = compile(&compiler, &module, &Part::Whole, &options).unwrap();
                let object = object::File::parse(&*compiled.bytes).unwrap();
                assert_eq!(object.kind(), ObjectKind::Relocatable);
                assert_eq!(object.architecture(), architecture);
                assert_eq!(compiled.facts.library.version[0], version);
                let names = symbols(&compiled.bytes);
                assert_eq!(names, ["first", "other?", "sum"], "{version} {triple}");
            }
        }
    }
}

#[test]
fn bitcode_of_a_gpu_becomes_ptx_or_a_code_object() {
    let compiler = compiler();
    for version in versions() {
        let nvidia = bitcode(
            version,
            "-O1 --target=nvptx64-nvidia-cuda",
            "int sum(int n) { return n + 1; }",
        );
        let target = Target { cpu: "sm_60".to_owned(), ..Target::default() };
        let options = options(version);
        let request =
            |module, target| Request { module, part: &Part::Whole, target, options: &options };
        let ptx = compiler.compile(&request(&nvidia, &target)).unwrap().bytes;
        let ptx = String::from_utf8(ptx).unwrap();
        assert!(ptx.contains(".target sm_60") && ptx.contains("sum"), "{ptx}");
        if runs("ptxas") {
            run("ptxas", ["-arch=sm_60", "-o", "/dev/null", "-"].into_iter(), ptx.as_bytes());
        }
        if !runs(&format!("ld.lld-{version}")) {
            continue;
        }
        let amd =
            bitcode(version, "-x cl -O1 -nogpulib --target=amdgcn-amd-amdhsa -mcpu=gfx90a", AMD);
        let code = compiler.compile(&request(&amd, &Target::default())).unwrap().bytes;
        let object = object::File::parse(&*code).unwrap();
        assert_eq!(object.kind(), ObjectKind::Dynamic);
        let names = symbols(&code);
        assert!(
            names.contains(&"store".to_owned()) && names.contains(&"store.kd".to_owned()),
            "{names:?}"
        );
    }
}

#[test]
fn older_bitcode_is_compiled_by_every_newer_library() {
    let (compiler, versions) = (compiler(), versions());
    for producer in &versions {
        for target in [
            "x86_64-linux-gnu",
            "aarch64-linux-gnu",
            "nvptx64-nvidia-cuda",
            "amdgcn-amd-amdhsa -mcpu=gfx90a -x cl",
        ] {
            let flags = format!("-O1 -nogpulib --target={target}");
            let source =
                if target.ends_with("cl") { AMD } else { "int sum(int n) { return n + 1; }" };
            let module = bitcode(*producer, &flags, source);
            for version in versions.iter().filter(|version| *version >= producer) {
                let compiled = compile(&compiler, &module, &Part::Whole, &options(*version));
                assert!(compiled.is_ok(), "{producer} {version} {target}: {compiled:?}");
            }
        }
    }
}

#[test]
fn the_requested_processor_and_features_reach_the_functions() {
    let source = "void twice(float *a) { for (int i = 0; i < 1024; i++) a[i] *= 2; }";
    let compiler = compiler();
    for version in versions() {
        let module = bitcode(version, "-O1 --target=x86_64-linux-gnu", source);
        for (cpu, features, register) in
            [("skylake-avx512", "+prefer-256-bit", "ymm"), ("", "", "xmm")]
        {
            let target =
                Target { cpu: cpu.to_owned(), features: features.to_owned(), ..Target::default() };
            let options = Options { output: Output::Text, ..options(version) };
            let request =
                Request { module: &module, part: &Part::Whole, target: &target, options: &options };
            let text = String::from_utf8(compiler.compile(&request).unwrap().bytes).unwrap();
            let is_wide = text.contains("<8 x float>");
            assert_eq!(is_wide, register == "ymm", "{version}: {text}");
            assert!(text.contains(cpu) && text.contains(features), "{text}");
        }
    }
}

#[test]
fn text_bitcode_and_the_text_before_and_after_passes_come_on_request() {
    let compiler = compiler();
    for version in versions() {
        let text = Module::new(
            "target triple = \"x86_64-linux-gnu\"\ndefine i32 @f(i32 %n) {\n%p = alloca i32\n store i32 %n, i32* %p\n %v = load i32, i32* %p\n ret i32 %v }",
        );
        let text = if version < 17 {
            text
        } else {
            Module::new(String::from_utf8(text.bytes().to_vec()).unwrap().replace("i32*", "ptr"))
        };
        let assemble = Options { output: Output::Bitcode, optimizes: false, ..options(version) };
        let bitcode = compile(&compiler, &text, &Part::Whole, &assemble).unwrap().bytes;
        let both = Options { keeps_text_before: true, keeps_text_after: true, ..options(version) };
        let compiled = compile(&compiler, &Module::new(bitcode), &Part::Whole, &both).unwrap();
        assert!(compiled.facts.text_before.unwrap().contains("alloca"));
        assert!(!compiled.facts.text_after.unwrap().contains("alloca"));
    }
}

#[test]
fn sixteen_threads_compile_at_the_same_time() {
    let compiler = compiler();
    for version in versions() {
        let module = bitcode(version, "-O1 --target=x86_64-linux-gnu", SOURCE);
        let expected = compile(&compiler, &module, &Part::Whole, &options(version)).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..4 {
                        let again = compile(&compiler, &module, &Part::Whole, &options(version));
                        assert_eq!(again.as_ref(), Ok(&expected));
                    }
                });
            }
        });
    }
}
