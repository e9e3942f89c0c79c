//! What profiles need beside the options that ask for them: `-fprofile-generate`,
//! `-fprofile-instr-generate`, `-fprofile-use=` and `-fprofile-instr-use=`.

use crate::cc::clang::Clang;
use crate::cc::target::Target;
use std::ffi::{OsStr, OsString};

/// The first compiler that leaves a GPU's counters where they can be found, and whose own options for
/// profiles reach AMD's GPUs. NVIDIA's are reached by the compiler proper alone.
const FIRST_FOR_GPUS: u32 = 22;

/// Returns whether atomic counters, without which kernels that run in parallel count wrong, are added.
pub(super) fn adds_atomic_counters(options: &[OsString]) -> bool {
    let says = |option: &OsString| update(option).is_some();
    options.iter().any(|option| generates(option).is_some()) && !options.iter().any(says)
}

/// Returns the options as a target needs them.
///
/// # Errors
/// What to do about instrumentation that this target cannot have.
pub(super) fn prepared(
    options: &[OsString],
    target: &Target,
    clang: &Clang,
    several: bool,
) -> Result<Vec<OsString>, String> {
    if options.iter().any(|option| generates(option).is_some()) {
        check(target, clang, several)?;
    }
    if matches!(target, Target::Nvptx(_)) || target.is_gpu() && clang.major < FIRST_FOR_GPUS {
        return Ok(for_compiler_proper(options, clang.major >= FIRST_FOR_GPUS));
    }
    let atomic = adds_atomic_counters(options).then(|| "-fprofile-update=atomic".into());
    Ok(atomic.into_iter().chain(options.iter().cloned()).collect())
}

fn check(target: &Target, clang: &Clang, several: bool) -> Result<(), String> {
    if target.is_gpu() && clang.major < FIRST_FOR_GPUS {
        let (path, major) = (clang.path.display(), clang.major);
        return Err(format!(
            "{target}: instrumentation for profiles needs clang {FIRST_FOR_GPUS} or later: '{path}' is \
             clang {major}, in whose images the counters cannot be found"
        ));
    }
    match target.is_gpu() && several {
        true => Err(format!(
            "{target}: instrumentation for profiles needs a single source: include the others into it"
        )),
        false => Ok(()),
    }
}

/// Options that clang leaves out for a GPU, as it would give them to the compiler proper. For NVIDIA
/// no record points at its counters: data there cannot refer to each other in a circle. `names_kind`:
/// the kind of a profile that is used must be told.
fn for_compiler_proper(options: &[OsString], names_kind: bool) -> Vec<OsString> {
    let is_atomic = adds_atomic_counters(options)
        || options.iter().filter_map(|option| update(option)).any(|how| how.ends_with("atomic"));
    let mut prepared: Vec<OsString> = Vec::new();
    for option in options {
        if let Some(kind) = generates(option) {
            let kind = format!("-fprofile-instrument={kind}");
            let words = ["-Xclang", &kind, "-mllvm", "-profile-correlate=binary"];
            prepared.extend(words.map(OsString::from));
            let atomic = ["-mllvm", "-instrprof-atomic-counter-update-all"];
            prepared.extend(atomic.into_iter().filter(|_| is_atomic).map(OsString::from));
        } else if let Some((kind, file)) = used(option) {
            let kind = names_kind.then(|| format!("-fprofile-instrument-use={kind}"));
            prepared.extend(kind.into_iter().flat_map(|kind| ["-Xclang".into(), kind.into()]));
            let used = format!("-fprofile-instrument-use-path={file}");
            prepared.extend(["-Xclang".into(), used.into()]);
        } else if update(option).is_none() {
            prepared.push(option.clone());
        }
    }
    prepared
}

/// What the compiler proper calls the instrumentation that an option asks for.
fn generates(option: &OsStr) -> Option<&'static str> {
    match option.to_str()?.split('=').next()? {
        "-fprofile-generate" => Some("llvm"),
        "-fprofile-instr-generate" => Some("clang"),
        _ => None,
    }
}

/// Returns the profile that an option names, and what the compiler proper calls its kind.
fn used(option: &OsStr) -> Option<(&'static str, &str)> {
    match option.to_str()?.split_once('=')? {
        ("-fprofile-use", file) => Some(("llvm", file)),
        ("-fprofile-instr-use", file) => Some(("clang", file)),
        _ => None,
    }
}

/// How an option says that counters are updated.
fn update(option: &OsStr) -> Option<&str> {
    option.to_str()?.strip_prefix("-fprofile-update=")
}
