//! Additional options for profiles, beside the options that request them: `-fprofile-generate`,
//! `-fprofile-instr-generate`, `-fprofile-use=` and `-fprofile-instr-use=`.

use crate::clang::Clang;
use crate::target::Target;
use std::ffi::{OsStr, OsString};

/// The first major version of clang that leaves a GPU's counters where the runtime finds them, and
/// whose driver passes profile options on for AMD's GPUs. For NVIDIA's GPUs only options to the
/// compiler proper (`-Xclang`) work.
const FIRST_FOR_GPUS: u32 = 22;

/// Returns whether `-fprofile-update=atomic` must be added. Kernels run in parallel, so that
/// counters that are not atomic lose counts.
pub(crate) fn adds_atomic_counters(options: &[OsString]) -> bool {
    let says = |option: &OsString| update(option).is_some();
    options.iter().any(|option| generates(option).is_some()) && !options.iter().any(says)
}

/// Returns the options, adapted to a target.
///
/// # Errors
/// A message for instrumentation that this target does not support, with a remedy.
pub(crate) fn prepared(
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
            "{target}: instrumentation for profiles needs clang {FIRST_FOR_GPUS} or later, but '{path}' \
             is clang {major}, whose counters cannot be found; name a later one with --clang \
             (with_clang in a build script)"
        ));
    }
    match target.is_gpu() && several {
        true => Err(format!(
            "{target}: instrumentation for profiles needs a single source: include the other sources in it"
        )),
        false => Ok(()),
    }
}

/// Passes on, by `-Xclang` and `-mllvm`, the profile options that clang's driver drops for a GPU.
/// On NVIDIA no record refers to the counters, because initial values there cannot refer to each
/// other in a circle. `names_kind`: whether the compiler needs the kind of a used profile.
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

/// Returns the compiler proper's name of the instrumentation that an option requests.
fn generates(option: &OsStr) -> Option<&'static str> {
    match option.to_str()?.split('=').next()? {
        "-fprofile-generate" => Some("llvm"),
        "-fprofile-instr-generate" => Some("clang"),
        _ => None,
    }
}

/// Returns the kind of a profile, in the compiler proper's terms, and the file that an option
/// names.
fn used(option: &OsStr) -> Option<(&'static str, &str)> {
    match option.to_str()?.split_once('=')? {
        ("-fprofile-use", file) => Some(("llvm", file)),
        ("-fprofile-instr-use", file) => Some(("clang", file)),
        _ => None,
    }
}

/// Returns the value of `-fprofile-update=`.
fn update(option: &OsStr) -> Option<&str> {
    option.to_str()?.strip_prefix("-fprofile-update=")
}
