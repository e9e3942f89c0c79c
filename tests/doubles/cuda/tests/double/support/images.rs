//! Images and their twins, made by clang and by NVIDIA's assembler.

use longshore_double_gpu::testing::{self, root, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Images and twins.
pub(crate) struct Twins(testing::Twins);

impl Twins {
    /// Creates an empty folder. Returns `None`, and prints a line, without a suitable clang.
    pub(crate) fn new() -> Option<Twins> {
        testing::Twins::new(&super::CUDA, &[]).map(Twins)
    }

    /// Returns the folder.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Compiles C to PTX and its twin.
    pub(crate) fn ptx(&self, name: &str, source: &str) -> Vec<u8> {
        self.compile(name, source, &[], &[])
    }

    /// Compiles C to PTX with counters of a profile. The second result has counters that the
    /// driver's look-up finds.
    pub(crate) fn instrumented(&self, name: &str, source: &str) -> [Vec<u8>; 2] {
        let flags = ["-Xclang", "-fprofile-instrument=llvm", "-mllvm", "-disable-vp"];
        let ptx = self.compile(name, source, &flags, &["-mllvm", "-profile-correlate=binary"]);
        let text = String::from_utf8(ptx.clone()).expect("PTX is text");
        let counters = ".global .align 8 .b8 __profc_";
        let visible = text.replace(&format!("\n{counters}"), &format!("\n.visible {counters}"));
        self.0.share(&ptx, visible.as_bytes());
        [ptx, visible.into_bytes()]
    }

    /// Assembles PTX to a cubin with the same twin. `flags` are for the assembler.
    pub(crate) fn cubin(&self, name: &str, ptxas: &Path, flags: &[&str]) -> Vec<u8> {
        let ptx = self.path().join(name).with_extension("ptx");
        let cubin = self.0.made(name, "cubin", |to| {
            run(Command::new(ptxas).arg("-arch=sm_90").args(flags).arg(&ptx).arg("-o").arg(to));
        });
        self.0.share(&std::fs::read(ptx).expect("it is there"), &cubin);
        cubin
    }

    fn compile(&self, name: &str, source: &str, flags: &[&str], for_gpus: &[&str]) -> Vec<u8> {
        let target =
            ["--target=nvptx64-nvidia-cuda", "-march=sm_90", "--cuda-feature=+ptx78", "-S"];
        self.0.compiled(name, "ptx", source, flags, &[&target, for_gpus].concat())
    }
}

/// Returns the path of NVIDIA's assembler. Returns `None`, and prints a line, if it is not
/// installed.
pub(crate) fn ptxas() -> Option<PathBuf> {
    let variable = std::env::var_os("PTXAS").map(PathBuf::from);
    let packages = root().join("target/nvcc/nvidia/cu13/bin/ptxas");
    let found = variable.into_iter().chain([packages]).find(|path| path.is_file());
    if found.is_none() {
        println!("ptxas is not installed; cubins and links were not tried");
    }
    found
}
