//! Sources in CUDA and HIP: their options, and kernels of templates.

mod assembly;
mod diagnostics;
mod host;
mod items;
mod keywords;
mod libraries;
mod names;
mod ptx;
mod scanner;
mod statements;
mod unknown;

pub(crate) use host::{Reduced, accepted, overloaded, reduce};
pub(crate) use keywords::Keywords;
pub(crate) use unknown::declares;

use crate::failure::{Exit, Failure};
use crate::headers::CUDA_HEADER;
use crate::source::{Language, Source};
use crate::target::{Machine, Target};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::io;
use std::path::Path;

/// Options by which clang describes the parameters of kernels.
pub(crate) const DESCRIBED: [&str; 3] = ["-fno-discard-value-names", "-g", "-fstandalone-debug"];
const DESCRIBED_FOR_NVIDIA: [&str; 3] =
    ["-fno-discard-value-names", "-Xclang", "-debug-info-kind=standalone"];
/// Options by which clang compiles the device's half of a source for a CPU. A pass makes kernels of
/// a CPU from its bitcode.
const FOR_CPU: [&str; 12] = [
    "--cuda-host-only",
    "-nogpuinc",
    "-nogpulib",
    "-Wno-unknown-cuda-version",
    "-Xclang",
    "-fcuda-is-device",
    "-Xclang",
    "-fcuda-allow-variadic-functions",
    "-ffp-contract=on",
    "-U__CUDA_ARCH__",
    "-D__CUDA_ARCH__=900",
    "-Xclang",
];

/// Names that the vendors' compilers define.
const OF_CUDA: [&str; 6] = [
    "-D__NVCC__=1",
    "-D__CUDACC__=1",
    "-D__CUDACC_VER_MAJOR__=12",
    "-D__CUDACC_VER_MINOR__=4",
    "-D__CUDACC_VER_BUILD__=131",
    "-DCUDART_VERSION=12040",
];
const OF_HIP: [&str; 2] = ["-D__HIP_PLATFORM_AMD__=1", "-DHIP_VERSION=60000000"];

/// Options of sources in HIP for NVIDIA. Without its name, libstdc++ does not use `__float128`,
/// which clang before 17 refuses for these GPUs.
const HIP_FOR_NVIDIA: [&str; 4] =
    ["-D__HIPCC__=1", "-D__HIP_DEVICE_COMPILE__=1", "-U__SIZEOF_FLOAT128__", "-U__FLOAT128__"];

pub(crate) fn for_cpu(machine: Machine, language: Language) -> impl Iterator<Item = String> {
    // Clang would define the names of a GPU too.
    let aux = ["-aux-triple", "-Xclang"].map(str::to_owned);
    let triple = format!("{}-unknown-linux-gnu", machine.name());
    let described = DESCRIBED.map(str::to_owned);
    described
        .into_iter()
        .chain(FOR_CPU.map(str::to_owned))
        .chain(aux)
        .chain([triple])
        .chain(names(language))
}

pub(crate) fn for_gpu(target: &Target, language: Language) -> impl Iterator<Item = String> {
    // Sources ask for the version of the architecture, which AMD GPUs do not have.
    let is_other = language == Language::Cuda && matches!(target, Target::Amdgcn(_));
    let version = is_other.then(|| "-D__CUDA_ARCH__=900".to_owned());
    let compiles_hip = language == Language::Hip && matches!(target, Target::Nvptx(_));
    let hip = HIP_FOR_NVIDIA.map(str::to_owned);
    let hip = hip.into_iter().filter(move |_| compiles_hip);
    // For NVIDIA, clang's driver leaves types out of optimised code.
    let described = match target {
        Target::Nvptx(_) => DESCRIBED_FOR_NVIDIA,
        _ => DESCRIBED,
    };
    let described = described.map(str::to_owned);
    version.into_iter().chain(hip).chain(described).chain(names(language))
}

fn names(language: Language) -> impl Iterator<Item = String> {
    let names: &[&str] = if language == Language::Hip { &OF_HIP } else { &OF_CUDA };
    names.iter().map(|name| (*name).to_owned())
}

/// Writes a source with the text of another one, or with the text of `reduced` and its keywords in
/// its place. The source makes the compiler generate the kernels in `names`, such as
/// `k<float, 256>`. Returns the new source. The `index` of the source is a part of the names of its
/// files.
///
/// # Errors
/// The file cannot be written, or the source cannot be read.
pub(crate) fn rewritten(
    source: &Source,
    index: usize,
    reduced: Option<(&Reduced, &Keywords)>,
    names: &[String],
    folder: &Path,
) -> Result<Source, Failure> {
    let fail = |error: std::io::Error| {
        let shown = source.shown.display();
        Failure::new(Exit::Runtime, format!("cannot write a copy of '{shown}': {error}"))
    };
    let shown = source.shown.to_string_lossy();
    let reduced = reduced.map(|(it, keywords)| (it, keywords.added_to(&it.texts)));
    let (declarations, text) = match &reduced {
        Some((reduced, texts)) => {
            let text = texts.get(shown.as_ref()).map_or("", String::as_str);
            (reduced.declarations(), text.as_bytes().to_vec())
        }
        None => (String::new(), std::fs::read(&source.shown).map_err(fail)?),
    };
    // Clang shows neither warnings nor macros of a system's header. A line marker, unlike an
    // include, can name any file.
    let file = shown.replace('\\', "\\\\").replace('"', "\\\"");
    let begin = format!("# 1 \"{CUDA_HEADER}\" 3\n{declarations}\n# 1 \"{file}\"\n");
    // A byte order mark is only allowed at the beginning.
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text);
    let whole = [begin.as_bytes(), text, instantiations(names).as_bytes()].concat();
    // Sources in several folders, or in CUDA and HIP, may have the same name.
    let stem = source.shown.file_stem().unwrap_or_default().to_string_lossy();
    let stem = format!("{stem}.{index}");
    let file = folder.join(format!("{stem}.copy.{}", source.language.name()));
    std::fs::write(&file, whole).map_err(fail)?;
    let options =
        reduced.map(|(it, texts)| replaced(it, &texts, &shown, &stem, folder)).transpose();
    let options = options.map_err(fail)?;
    Ok(Source { file, options: options.unwrap_or_default(), ..source.clone() })
}

/// Returns functions of the host whose use of the kernels makes the compiler instantiate them.
fn instantiations(names: &[String]) -> String {
    let mut text = String::from("\n");
    for (index, name) in names.iter().enumerate() {
        let _ = writeln!(
            text,
            "__attribute__((host, unused)) static void longshore_kernel_{index}_() {{\n\
             #line {} \"--kernel\"\n(void){name}\n;}}",
            2 * index + 1
        );
    }
    text
}

/// Writes the headers of a reduced source, which `texts` has. Returns the options by which clang
/// reads them.
fn replaced(
    reduced: &Reduced,
    texts: &BTreeMap<String, String>,
    source: &str,
    stem: &str,
    folder: &Path,
) -> io::Result<Vec<OsString>> {
    let mut options: Vec<OsString> = Vec::new();
    let empty = folder.join(format!("{stem}.missing"));
    for header in &reduced.missing {
        let file = empty.join(header);
        std::fs::create_dir_all(file.parent().unwrap_or(&empty))?;
        std::fs::write(file, "")?;
        if options.is_empty() {
            options = vec!["-idirafter".into(), empty.clone().into()];
        }
    }
    let headers = texts.iter().filter(|(name, _)| *name != source);
    let mut entries = Vec::new();
    for (index, (name, text)) in headers.enumerate() {
        let file = folder.join(format!("{stem}.header.{index}"));
        std::fs::write(&file, text)?;
        let name = std::path::absolute(name)?;
        entries.push(serde_json::json!({
            "name": name.to_string_lossy(),
            "type": "file",
            "external-contents": file.to_string_lossy(),
        }));
    }
    if !entries.is_empty() {
        let overlay = folder.join(format!("{stem}.headers.yaml"));
        let whole = serde_json::json!({
            "version": 0,
            "case-sensitive": "true",
            "use-external-names": "false",
            "roots": entries,
        });
        std::fs::write(&overlay, whole.to_string())?;
        options.extend(["-ivfsoverlay".into(), overlay.into()]);
    }
    Ok(options)
}

/// Returns whether a source has code of a host, which is not compiled.
pub(crate) fn has_host_code(source: &Source) -> bool {
    let text = std::fs::read_to_string(&source.file).unwrap_or_default();
    let ends_name = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let mut mains = text.match_indices("main(").map(|(at, _)| &text[..at]);
    let has_host_code = text.contains("<<<") || mains.any(|before| !ends_name(before));
    source.language.has_kernels() && has_host_code
}

/// Returns whether a source in C or C++ has kernels of CUDA or HIP.
pub(crate) fn is_misnamed(source: &Source) -> bool {
    let text = std::fs::read(&source.shown).unwrap_or_default();
    !source.language.has_kernels() && String::from_utf8_lossy(&text).contains("__global__")
}
