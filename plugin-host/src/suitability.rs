//! The score of a container's entry for this CPU, from the container's description.
//!
//! Higher micro-architecture levels score higher, provided that the CPU has them. An image for a
//! named CPU scores below one for the same level, because it may be tuned for another make. The CPU
//! must also have all features that compilers use on the named CPU. Images for the lowest level, or
//! without a level, come next. `native` images, for an unknown machine, come last. An unknown name
//! is refused: an instruction that the CPU lacks ends the program.

use longshore_plugin_api::{CodeTarget, ImageEntry};

/// Returns the score of the container's triple and architecture, 0 if this CPU cannot run such
/// code. Does not read the image itself.
pub(crate) fn score(entry: &ImageEntry<'_>) -> u32 {
    if !is_own_machine(entry.triple) {
        return 0;
    }
    score_of(entry.arch, &cpu_has)
}

/// Returns the target for which LLVM compiles code for this CPU: the highest level of the CPU as
/// processor, and all features of the CPU that this file knows.
pub(crate) fn code_target() -> CodeTarget {
    let level = (0..LEVELS.len()).rev().find(|level| has_level(*level, &cpu_has));
    let processor = match level {
        Some(level) if cfg!(target_arch = "x86_64") => LEVELS[level].name,
        _ => "generic",
    };
    let features = FEATURES.iter().filter(|(name, _)| cpu_has(name));
    let features: Vec<_> = features.map(|(_, in_llvm)| format!("+{in_llvm}")).collect();
    CodeTarget {
        triple: format!("{}-unknown-linux-gnu", std::env::consts::ARCH),
        processor: processor.to_owned(),
        features: features.join(","),
    }
}

/// Returns whether a triple names the machine that this plugin was built for, or is empty.
fn is_own_machine(triple: &str) -> bool {
    let machine = triple.split('-').next().unwrap_or_default();
    let machine = match machine {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    };
    machine.is_empty() || machine == std::env::consts::ARCH
}

const NATIVE: u32 = 1;
const UNSAID: u32 = 2;
/// Offset of the scores of named CPUs: levels count from 1, and named CPUs get the odd numbers.
const NAMED: u32 = 1;
const EXACT: u32 = 2;

fn score_of(arch: &str, has: &dyn Fn(&str) -> bool) -> u32 {
    match arch {
        "" | "generic" => return UNSAID,
        "native" => return NATIVE,
        _ => {}
    }
    let level_of = |name: &str| LEVELS.iter().position(|level| level.name == name);
    if let Some(level) = level_of(arch) {
        return if has_level(level, has) { 2 * (level as u32 + 1) + EXACT } else { 0 };
    }
    let named = NAMED_CPUS.iter().find(|(names, ..)| names.contains(&arch));
    let Some((_, level, further)) = named else { return 0 };
    let level = level_of(level).expect("the table names levels");
    let can_run = has_level(level, has) && further.iter().all(|feature| has(feature));
    if can_run { 2 * (level as u32 + 1) + NAMED } else { 0 }
}

/// Returns whether the CPU has a level, which includes the lower levels.
fn has_level(level: usize, has: &dyn Fn(&str) -> bool) -> bool {
    LEVELS[..=level].iter().flat_map(|level| level.adds).all(|feature| has(feature))
}

/// A micro-architecture level.
struct Level {
    /// The name for clang's `-march`.
    name: &'static str,
    /// The features beyond the previous level.
    adds: &'static [&'static str],
}

const fn level(name: &'static str, adds: &'static [&'static str]) -> Level {
    Level { name, adds }
}

/// Names of CPUs, their level, and the features that compilers use on them beyond it.
type NamedCpus = &'static [(&'static [&'static str], &'static str, &'static [&'static str])];

/// The levels of the x86-64 psABI.
#[cfg(target_arch = "x86_64")]
const LEVELS: &[Level] = &[
    level("x86-64", &[]),
    level("x86-64-v2", &["cmpxchg16b", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"]),
    level("x86-64-v3", &["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"]),
    level("x86-64-v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]),
];

#[cfg(target_arch = "x86_64")]
const NAMED_CPUS: NamedCpus = {
    const SPR: &[&str] = &[
        "avx512bf16",
        "avx512fp16",
        "avx512vbmi2",
        "avx512bitalg",
        "avx512vpopcntdq",
        "avxvnni",
        "gfni",
        "vaes",
        "vpclmulqdq",
        "sha",
    ];
    const ICE: &[&str] = &[
        "avx512vbmi",
        "avx512vbmi2",
        "avx512vnni",
        "avx512bitalg",
        "avx512vpopcntdq",
        "avx512ifma",
        "gfni",
        "vaes",
        "vpclmulqdq",
        "sha",
        "adx",
        "aes",
    ];
    const ZEN4: &[&str] = &[
        "avx512bf16",
        "avx512vbmi2",
        "avx512vnni",
        "avx512bitalg",
        "avx512vpopcntdq",
        "gfni",
        "sse4a",
        "vaes",
        "vpclmulqdq",
        "sha",
    ];
    &[
        (&["k8", "opteron", "athlon64", "nocona"], "x86-64", &["sse3"]),
        (&["core2", "penryn"], "x86-64", &["sse3", "ssse3", "cmpxchg16b"]),
        (&["nehalem", "silvermont"], "x86-64-v2", &[]),
        (&["westmere"], "x86-64-v2", &["pclmulqdq"]),
        (&["sandybridge"], "x86-64-v2", &["avx", "pclmulqdq", "xsave"]),
        (&["ivybridge"], "x86-64-v2", &["avx", "f16c", "pclmulqdq", "rdrand", "xsave"]),
        (&["haswell"], "x86-64-v3", &["pclmulqdq", "rdrand"]),
        (&["broadwell", "skylake"], "x86-64-v3", &["adx", "aes", "pclmulqdq", "rdseed"]),
        (&["skylake-avx512", "skx"], "x86-64-v4", &["adx", "aes", "pclmulqdq", "rdseed"]),
        (&["cascadelake"], "x86-64-v4", &["adx", "aes", "avx512vnni"]),
        (&["icelake-client", "icelake-server"], "x86-64-v4", ICE),
        (&["znver4"], "x86-64-v4", ZEN4),
        (&["sapphirerapids", "emeraldrapids"], "x86-64-v4", SPR),
        (&["znver1", "znver2"], "x86-64-v3", &["adx", "aes", "sse4a", "sha"]),
        (&["znver3"], "x86-64-v3", &["adx", "aes", "sse4a", "sha", "vaes", "vpclmulqdq"]),
        (&["alderlake"], "x86-64-v3", &["adx", "avxvnni", "gfni", "sha", "vaes", "vpclmulqdq"]),
    ]
};

/// Features by Rust's names, with their names in LLVM 14 and later versions.
#[cfg(target_arch = "x86_64")]
const FEATURES: &[(&str, &str)] = &[
    ("sse3", "sse3"),
    ("ssse3", "ssse3"),
    ("sse4.1", "sse4.1"),
    ("sse4.2", "sse4.2"),
    ("sse4a", "sse4a"),
    ("popcnt", "popcnt"),
    ("cmpxchg16b", "cx16"),
    ("avx", "avx"),
    ("avx2", "avx2"),
    ("bmi1", "bmi"),
    ("bmi2", "bmi2"),
    ("f16c", "f16c"),
    ("fma", "fma"),
    ("lzcnt", "lzcnt"),
    ("movbe", "movbe"),
    ("adx", "adx"),
    ("aes", "aes"),
    ("pclmulqdq", "pclmul"),
    ("sha", "sha"),
    ("gfni", "gfni"),
    ("vaes", "vaes"),
    ("vpclmulqdq", "vpclmulqdq"),
    ("avxvnni", "avxvnni"),
    ("avx512f", "avx512f"),
    ("avx512bw", "avx512bw"),
    ("avx512cd", "avx512cd"),
    ("avx512dq", "avx512dq"),
    ("avx512vl", "avx512vl"),
    ("avx512vbmi", "avx512vbmi"),
    ("avx512vbmi2", "avx512vbmi2"),
    ("avx512vnni", "avx512vnni"),
    ("avx512bitalg", "avx512bitalg"),
    ("avx512vpopcntdq", "avx512vpopcntdq"),
    ("avx512ifma", "avx512ifma"),
    ("avx512bf16", "avx512bf16"),
    ("avx512fp16", "avx512fp16"),
];

#[cfg(target_arch = "x86_64")]
fn cpu_has(feature: &str) -> bool {
    use std::arch::is_x86_feature_detected as has;
    macro_rules! ask { ($($name:tt)*) => {
        match feature { $($name => has!($name),)* _ => false }
    }; }
    ask!("sse3" "ssse3" "sse4.1" "sse4.2" "sse4a" "popcnt" "cmpxchg16b" "avx" "avx2" "bmi1" "bmi2"
        "f16c" "fma" "lzcnt" "movbe" "xsave" "adx" "aes" "pclmulqdq" "rdrand" "rdseed" "sha" "gfni"
        "vaes" "vpclmulqdq" "avxvnni" "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl"
        "avx512vbmi" "avx512vbmi2" "avx512vnni" "avx512bitalg" "avx512vpopcntdq" "avx512ifma"
        "avx512bf16" "avx512fp16")
}

/// The architectures of Arm, with the mandatory features of each that user programs use.
#[cfg(target_arch = "aarch64")]
const LEVELS: &[Level] = &[
    level("armv8-a", &[]),
    level("armv8.1-a", &["crc", "lse", "rdm"]),
    level("armv8.2-a", &["dpb"]),
    level("armv8.3-a", &["fcma", "jsconv", "paca", "rcpc"]),
    level("armv8.4-a", &["dotprod", "flagm", "lse2", "rcpc2"]),
    level("armv9-a", &["fhm", "fp16", "sve", "sve2"]),
];

#[cfg(target_arch = "aarch64")]
const NAMED_CPUS: NamedCpus = &[
    (&["cortex-a53", "cortex-a57", "cortex-a72"], "armv8-a", &["crc"]),
    (&["cortex-a55", "cortex-a75", "cortex-a76"], "armv8.2-a", &["dotprod", "fp16", "rcpc"]),
    (&["neoverse-n1"], "armv8.2-a", &["dotprod", "fp16", "rcpc"]),
    (&["neoverse-v1"], "armv8.4-a", &["bf16", "fhm", "fp16", "i8mm", "sve"]),
    (&["neoverse-n2", "neoverse-v2"], "armv9-a", &["bf16", "i8mm", "sve2-bitperm"]),
];

/// Features by Rust's names, with their names in LLVM 14 and later versions.
#[cfg(target_arch = "aarch64")]
const FEATURES: &[(&str, &str)] = &[
    ("crc", "crc"),
    ("lse", "lse"),
    ("rdm", "rdm"),
    ("dpb", "ccpp"),
    ("fcma", "complxnum"),
    ("jsconv", "jsconv"),
    ("rcpc", "rcpc"),
    ("dotprod", "dotprod"),
    ("flagm", "flagm"),
    ("rcpc2", "rcpc-immo"),
    ("fhm", "fp16fml"),
    ("fp16", "fullfp16"),
    ("sve", "sve"),
    ("sve2", "sve2"),
    ("bf16", "bf16"),
    ("i8mm", "i8mm"),
    ("sve2-bitperm", "sve2-bitperm"),
];

#[cfg(target_arch = "aarch64")]
fn cpu_has(feature: &str) -> bool {
    use std::arch::is_aarch64_feature_detected as has;
    macro_rules! ask { ($($name:tt)*) => {
        match feature { $($name => has!($name),)* _ => false }
    }; }
    ask!("crc" "lse" "rdm" "dpb" "fcma" "jsconv" "paca" "rcpc" "dotprod" "flagm" "lse2" "rcpc2" "fhm"
        "fp16" "sve" "sve2" "bf16" "i8mm" "sve2-bitperm")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const LEVELS: &[Level] = &[];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const NAMED_CPUS: NamedCpus = &[];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const FEATURES: &[(&str, &str)] = &[];

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn cpu_has(_feature: &str) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_needs_all_levels_before_it() {
        let all = |_: &str| true;
        let lowest = LEVELS[0].name;
        let highest = LEVELS[LEVELS.len() - 1].name;
        assert!(score_of(highest, &all) > score_of(lowest, &all));
        let lacking = LEVELS[1].adds[0];
        let has = |feature: &str| feature != lacking;
        assert_eq!(score_of(highest, &has), 0);
        assert!(score_of(lowest, &has) > 0);
    }

    #[test]
    fn an_image_with_a_level_is_preferred_and_unknown_names_are_refused() {
        let all = |_: &str| true;
        let exact = score_of(LEVELS[0].name, &all);
        let (names, level, _) = NAMED_CPUS[0];
        assert_eq!(level, LEVELS[0].name);
        let order = ["native", "generic", names[0], LEVELS[0].name, LEVELS[1].name];
        let scores = order.map(|arch| score_of(arch, &all));
        assert!(scores.is_sorted() && scores[0] > 0, "{scores:?}");
        assert!(exact > scores[2], "{scores:?}");
        assert_eq!(score_of("", &all), score_of("generic", &all));
        assert_eq!(score_of("hal9000", &all), 0);
    }

    #[test]
    fn a_named_cpu_needs_its_features_beyond_its_level() {
        for (names, level, further) in NAMED_CPUS {
            assert!(LEVELS.iter().any(|known| known.name == *level), "{level}");
            for lacking in *further {
                let has = |feature: &str| feature != *lacking;
                assert_eq!(score_of(names[0], &has), 0, "{names:?} without {lacking}");
            }
        }
    }

    #[test]
    fn code_is_compiled_for_features_that_the_cpu_has() {
        let target = code_target();
        assert!(score(&ImageEntry::new(&[], &target.triple, "")) > 0, "{target:?}");
        assert!(target.processor == "generic" || score_of(&target.processor, &cpu_has) > 0);
        let features = target.features.split(',').filter_map(|feature| feature.strip_prefix('+'));
        for feature in features {
            let known = FEATURES.iter().find(|(_, in_llvm)| *in_llvm == feature);
            assert!(known.is_some_and(|(name, _)| cpu_has(name)), "{feature}");
        }
    }

    #[test]
    fn only_triples_of_this_machine_are_taken() {
        let entry = |triple| ImageEntry::new(&[], triple, "");
        let own = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        assert!(score(&entry(&own)) > 0 && score(&entry("")) > 0);
        for other in ["nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa", "riscv64-linux-gnu", "x"] {
            assert_eq!(score(&entry(other)), 0, "{other}");
        }
    }
}
