//! The options of clang that a target needs, by the version of clang.

use crate::clang::{Clang, Dialect};
use crate::cuda;
use crate::options::NO_FAILED_PASSES;
use crate::source::Language;
use crate::step::succeeds;
use crate::target::{Machine, Target};
use std::ffi::{OsStr, OsString};

/// Returns the options that compile a source for a target, to a joinable form if `several`. `given`
/// are the user's options.
pub(crate) fn for_source(
    target: &Target,
    clang: &Clang,
    language: Language,
    given: &[OsString],
    several: bool,
) -> Vec<String> {
    let dialect = clang.dialect(target, language);
    let mut options = match (dialect, target) {
        (Dialect::Plain, _) => for_machine(target, clang),
        (_, Target::Cpu(machine, _)) => {
            let of_kernels = cuda::for_cpu(*machine, language);
            for_machine(target, clang).into_iter().chain(of_kernels).collect()
        }
        (Dialect::Cuda, _) => for_cuda(target, clang),
        (Dialect::Hip, _) => for_hip(target),
    };
    if several && dialect != Dialect::Plain && target.is_gpu() {
        // Without this option clang leaves out functions that only other sources call.
        options.push("-fgpu-rdc".to_owned());
    }
    match target {
        Target::Cpu(machine, _) => {
            options.extend(FOR_LOOPS.map(str::to_owned));
            options.push(HIDDEN.to_owned());
            options.extend(can_probe_stacks(*machine, clang).then(|| PROBES.to_owned()));
            let is_wide = *machine == Machine::X86_64 && has_wide_vectors(target.architecture());
            options.extend(is_wide.then(|| WIDE.to_owned()));
        }
        // Sources in CUDA and HIP include headers of the host for their other half.
        _ if language.has_kernels() => options.extend(cuda::for_gpu(target, language)),
        _ => options.extend(BARE.map(str::to_owned)),
    }
    if target.is_foreign_cpu() && !has_headers(clang, &options, given) {
        log::info!("{target}: found no headers of the C library; sources can use only clang's own");
        options.extend(BARE.map(str::to_owned));
    }
    options
}

/// Returns the options that compile plain sources, or bitcode, to machine code or PTX of a target.
pub(crate) fn for_machine(target: &Target, clang: &Clang) -> Vec<String> {
    let architecture = target.architecture();
    match target {
        Target::Cpu(machine, _) => {
            let triple = format!("--target={}-linux-gnu", machine.name());
            let foreign = target.is_foreign_cpu().then_some(triple);
            foreign.into_iter().chain([cpu(*machine, architecture)]).collect()
        }
        Target::Nvptx(_) => {
            let machine = ["--target=nvptx64-nvidia-cuda", "-nogpulib"].map(str::to_owned);
            let architecture = [format!("-march={architecture}")];
            machine.into_iter().chain(architecture).chain(ptx_version(target, clang)).collect()
        }
        Target::Amdgcn(_) => {
            let machine = ["--target=amdgcn-amd-amdhsa", "-nogpulib"].map(str::to_owned);
            machine.into_iter().chain([format!("-mcpu={architecture}")]).collect()
        }
        Target::Spirv => FOR_SPIRV.map(str::to_owned).to_vec(),
    }
}

/// Bitcode for the translator to SPIR-V. The machine has the types and the atomic operations of
/// 64-bit GPUs in all versions of clang; its code generator is not used.
const FOR_SPIRV: [&str; 4] = [
    "--target=aarch64-unknown-none-elf",
    "-D__LONGSHORE_SPIRV__",
    "-fsigned-char",
    "-fno-math-errno",
];

/// Position-independent code. Square roots set no `errno`, which would keep loops from being
/// vectorised.
const FOR_LOOPS: [&str; 2] = ["-fPIC", "-fno-math-errno"];

/// Unmarked functions and variables are not exported from the image. The markers are
/// `LONGSHORE_KERNEL` and `LONGSHORE_GLOBAL`.
const HIDDEN: &str = "-fvisibility=hidden";

/// Stack probes: a frame larger than the guard area below a stack hits the guard, instead of
/// reaching past it.
const PROBES: &str = "-fstack-clash-protection";

/// Vectors of 512 bits. Without this option clang keeps to 256 bits on all of Intel's CPUs, because
/// the first ones with AVX-512 run at a lower frequency then.
const WIDE: &str = "-mprefer-vector-width=512";

/// Returns whether an x86-64 CPU keeps its frequency with vectors of 512 bits: Intel's from Ice
/// Lake on.
fn has_wide_vectors(name: &str) -> bool {
    #[cfg(target_arch = "x86_64")]
    if name == "native" {
        return is_x86_feature_detected!("avx512vbmi2");
    }
    longshore_compiler::has_wide_vectors(name)
}

fn can_probe_stacks(machine: Machine, clang: &Clang) -> bool {
    match machine {
        Machine::X86_64 => true,
        Machine::Aarch64 => clang.major >= 18,
    }
}

/// No C library: the compiler finds only its own headers, and none of this machine.
const BARE: [&str; 2] = ["-ffreestanding", "-nostdlibinc"];

/// Products and sums are fused only where C allows it, as in plain sources.
const CONTRACTION: &str = "-ffp-contract=on";

fn for_cuda(target: &Target, clang: &Clang) -> Vec<String> {
    // The image does not depend on an installed toolkit or its version.
    let no_toolkit = ["-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version"];
    let fixed = ["--cuda-device-only", CONTRACTION, NO_FAILED_PASSES];
    let fixed = fixed.into_iter().chain(no_toolkit).map(str::to_owned);
    let architecture = [format!("--cuda-gpu-arch={}", target.architecture())];
    fixed.chain(architecture).chain(ptx_version(target, clang)).collect()
}

fn for_hip(target: &Target) -> Vec<String> {
    let fixed = ["--cuda-device-only", "-nogpuinc", "-nogpulib", CONTRACTION, NO_FAILED_PASSES]
        .map(str::to_owned);
    let architecture = [format!("--offload-arch={}", target.architecture())];
    fixed.into_iter().chain(architecture).collect()
}

/// Returns the option that selects a CPU: `-march` on x86-64, and for levels on AArch64; `-mcpu`
/// for other names on AArch64.
fn cpu(machine: Machine, name: &str) -> String {
    match machine {
        Machine::Aarch64 if !name.starts_with("armv") => format!("-mcpu={name}"),
        _ => format!("-march={name}"),
    }
}

/// Returns the option for the PTX version. Clang 22 needs the option, versions before 15 do not
/// know it.
fn ptx_version(target: &Target, clang: &Clang) -> Option<String> {
    let version = ptx_for(target.architecture()).filter(|_| clang.major >= 15)?;
    Some(format!("--cuda-feature=+ptx{version}"))
}

/// Returns the first PTX version that has an architecture, but at least version 6.3. All drivers of
/// recent years accept version 6.3, and it has all operations on sub-groups. `None` for an unknown
/// architecture.
fn ptx_for(architecture: &str) -> Option<u32> {
    let number = architecture.strip_prefix("sm_")?;
    let digits = number.trim_end_matches(['a', 'f']);
    let specific = number.len() > digits.len();
    Some(match (digits.parse().ok()?, specific) {
        (..=75, false) => 63,
        (80, false) => 70,
        (86, false) => 71,
        (87, false) => 74,
        (89 | 90, false) => 78,
        (90, true) => 80,
        (100 | 101, _) if !number.ends_with('f') => 86,
        (120, _) if !number.ends_with('f') => 87,
        (100 | 101 | 103 | 120 | 121, _) => 88,
        (88 | 110, _) => 90,
        _ => return None,
    })
}

/// Returns whether clang finds headers of a C library for another machine. The user's options may
/// name their place by `--sysroot=`.
fn has_headers(clang: &Clang, options: &[String], given: &[OsString]) -> bool {
    let roots = given.iter().filter(|option| option.as_encoded_bytes().starts_with(b"--"));
    let options = options.iter().map(OsStr::new).chain(roots.map(OsString::as_os_str));
    let arguments: Vec<&OsStr> =
        options.chain(["-fsyntax-only", "-x", "c", "-"].map(OsStr::new)).collect();
    succeeds(&clang.path, &arguments, "#include <stdlib.h>\n#include <stdint.h>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_versions_are_the_first_with_an_architecture() {
        let known = [("sm_52", 63), ("sm_75", 63), ("sm_80", 70), ("sm_90", 78), ("sm_90a", 80)];
        let newer =
            [("sm_100", 86), ("sm_100a", 86), ("sm_100f", 88), ("sm_120", 87), ("sm_110", 90)];
        for (architecture, version) in known.into_iter().chain(newer) {
            assert_eq!(ptx_for(architecture), Some(version), "{architecture}");
        }
        assert_eq!(ptx_for("sm_999"), None);
    }

    #[test]
    fn cpus_are_named_as_each_machine_has_it() {
        assert_eq!(cpu(Machine::X86_64, "znver4"), "-march=znver4");
        assert_eq!(cpu(Machine::Aarch64, "armv8.2-a"), "-march=armv8.2-a");
        assert_eq!(cpu(Machine::Aarch64, "neoverse-v1"), "-mcpu=neoverse-v1");
    }
}
