//! Targets of NVIDIA, limited to the processors and the versions of PTX that a `libLLVM` knows.
//!
//! LLVM ignores an unknown processor or version, and then generates code for its oldest ones. PTX
//! for an earlier processor also runs on a later one.

use crate::Target;

/// The newest version of PTX, times ten, and the newest processor of each major version of LLVM
/// from [`longshore_llvm::OLDEST`] on. LLVM 17, 20 and 21 may know later ones.
const NEWEST: [(u32, u32); 9] =
    [(75, 86), (75, 86), (78, 90), (78, 90), (83, 90), (85, 90), (86, 120), (87, 121), (90, 121)];

/// Returns the target with processor and version that LLVM `major` knows. Other targets are
/// unchanged.
pub(crate) fn known(target: &Target, major: u32) -> Target {
    let index = major.saturating_sub(longshore_llvm::OLDEST) as usize;
    let (ptx, processor) = NEWEST[index.min(NEWEST.len() - 1)];
    let mut target = target.clone();
    if !target.triple.starts_with("nvptx") {
        return target;
    }
    if number(&target.cpu, "sm_").is_some_and(|number| number > processor) {
        target.cpu = format!("sm_{processor}");
    }
    let features = target.features.split(',').map(|feature| match number(feature, "+ptx") {
        Some(number) if number > ptx => format!("+ptx{ptx}"),
        _ => feature.to_owned(),
    });
    target.features = features.collect::<Vec<_>>().join(",");
    target
}

/// Returns the number after a prefix, without the letter that may follow it.
fn number(text: &str, prefix: &str) -> Option<u32> {
    text.strip_prefix(prefix)?.trim_end_matches(char::is_alphabetic).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_llvm_gets_the_newest_target_that_it_knows() {
        let of = |triple: &str, cpu: &str, features: &str, major| {
            let target = Target {
                triple: triple.to_owned(),
                cpu: cpu.to_owned(),
                features: features.to_owned(),
            };
            let known = known(&target, major);
            (known.cpu, known.features)
        };
        let cuda = |cpu, features, major| of("nvptx64-nvidia-cuda", cpu, features, major);
        let pair = |cpu: &str, features: &str| (cpu.to_owned(), features.to_owned());
        assert_eq!(cuda("sm_90", "+ptx85", 14), pair("sm_86", "+ptx75"));
        assert_eq!(cuda("sm_90a", "+ptx85", 19), pair("sm_90a", "+ptx85"));
        assert_eq!(cuda("sm_120a", "+ptx90", 19), pair("sm_90", "+ptx85"));
        assert_eq!(cuda("sm_121", "+ptx91", 22), pair("sm_121", "+ptx90"));
        assert_eq!(cuda("sm_70", "+ptx63", 30), pair("sm_70", "+ptx63"));
        assert_eq!(of("x86_64-linux-gnu", "sm_999", "+ptx99", 14), pair("sm_999", "+ptx99"));
    }
}
