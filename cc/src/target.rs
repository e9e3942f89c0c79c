//! The targets.

use std::fmt;

/// The forms of a target, as errors and the help show them.
pub(crate) const FORMS: &str = "x86_64[:CPU], aarch64[:CPU], host[:CPU] (this machine's kind), \
     nvptx64:sm_NN, amdgcn:gfxNNN[:FEATURE+|-...], spirv (Vulkan)";

/// Name of this machine's own kind of CPU.
const THIS_MACHINE: &str = "host";
/// Name of SPIR-V.
const SPIRV: &str = "spirv";

/// A target: "x86_64:native", "nvptx64:sm_90", "amdgcn:gfx90a:xnack+".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A CPU: its kind, and its name unless it is the baseline of the kind.
    Cpu(Machine, Option<String>),
    /// An NVIDIA GPU, by its architecture, such as "sm_90".
    Nvptx(String),
    /// An AMD GPU, with its features in alphabetical order: "gfx90a:sramecc+:xnack-".
    Amdgcn(String),
    /// Any GPU, by SPIR-V for Vulkan.
    Spirv,
}

/// A kind of CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    X86_64,
    /// AArch64.
    Aarch64,
}

/// The kind of an image, in the words of LLVM's `OffloadBinary`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageKind {
    /// An ELF object or shared object.
    Object,
    /// NVIDIA's machine code.
    Cubin,
    /// NVIDIA's assembly text.
    Ptx,
    /// SPIR-V.
    Spirv,
}

impl Machine {
    /// Returns this machine's kind; `None` if it is another one.
    pub(crate) fn own() -> Option<Machine> {
        [Machine::X86_64, Machine::Aarch64]
            .into_iter()
            .find(|machine| machine.name() == std::env::consts::ARCH)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86_64",
            Machine::Aarch64 => "aarch64",
        }
    }

    /// Returns the baseline of this kind, as `-march` names it.
    fn baseline(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86-64",
            Machine::Aarch64 => "armv8-a",
        }
    }
}

impl Target {
    /// Parses a target: "host", "x86_64:x86-64-v3", "nvptx64:sm_90", "amdgcn:gfx942", "spirv".
    ///
    /// # Errors
    /// The expected forms, with a suggestion for a misspelt name.
    pub fn parse(text: &str) -> Result<Target, String> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        let machines = [Machine::X86_64, Machine::Aarch64];
        if let Some(machine) = machines.into_iter().find(|machine| machine.name() == kind) {
            return cpu(machine, rest);
        }
        match kind {
            "nvptx64" => nvptx(rest),
            "amdgcn" => amdgcn(rest),
            SPIRV => match rest {
                None => Ok(Target::Spirv),
                Some(_) => Err("spirv has no architecture; expected 'spirv' alone".to_owned()),
            },
            THIS_MACHINE => {
                let own = Machine::own();
                cpu(own.ok_or("this machine is neither x86_64 nor aarch64")?, rest)
            }
            _ => Err(format!("expected one of {FORMS}{}", suggestion(text))),
        }
    }

    /// Returns the target's triple in a container.
    pub fn triple(&self) -> &'static str {
        match self {
            Target::Cpu(Machine::X86_64, _) => "x86_64-unknown-linux-gnu",
            Target::Cpu(Machine::Aarch64, _) => "aarch64-unknown-linux-gnu",
            Target::Nvptx(_) => "nvptx64-nvidia-cuda",
            Target::Amdgcn(_) => "amdgcn-amd-amdhsa",
            Target::Spirv => "spirv-unknown-vulkan",
        }
    }

    /// Returns the target's architecture in a container.
    pub fn architecture(&self) -> &str {
        match self {
            Target::Cpu(machine, cpu) => cpu.as_deref().unwrap_or(machine.baseline()),
            Target::Nvptx(architecture) | Target::Amdgcn(architecture) => architecture,
            Target::Spirv => "vulkan1.2",
        }
    }

    /// Returns the target's name in `clang --print-targets`; `None` if no backend is needed.
    pub(crate) fn backend(&self) -> Option<&'static str> {
        Some(match self {
            Target::Cpu(Machine::X86_64, _) => "x86-64",
            Target::Cpu(Machine::Aarch64, _) => "aarch64",
            Target::Nvptx(_) => "nvptx64",
            Target::Amdgcn(_) => "amdgcn",
            Target::Spirv => return None,
        })
    }

    /// Returns whether the target is no CPU.
    pub fn is_gpu(&self) -> bool {
        !matches!(self, Target::Cpu(..))
    }

    /// Returns whether the target is a CPU of another kind than this machine's.
    pub(crate) fn is_foreign_cpu(&self) -> bool {
        matches!(self, Target::Cpu(machine, _) if Machine::own() != Some(*machine))
    }

    /// Returns the kind of the target's images.
    pub(crate) fn image_kind(&self, is_cubin: bool) -> ImageKind {
        match self {
            Target::Nvptx(_) if is_cubin => ImageKind::Cubin,
            Target::Nvptx(_) => ImageKind::Ptx,
            Target::Spirv => ImageKind::Spirv,
            _ => ImageKind::Object,
        }
    }

    /// Returns the file extension of the target's images.
    pub fn extension(&self, is_cubin: bool) -> &'static str {
        match self {
            Target::Cpu(..) => "o",
            Target::Nvptx(_) if is_cubin => "cubin",
            Target::Nvptx(_) => "ptx",
            Target::Amdgcn(_) => "co",
            Target::Spirv => "spv",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Cpu(machine, None) => f.write_str(machine.name()),
            Target::Cpu(machine, Some(cpu)) => write!(f, "{}:{cpu}", machine.name()),
            Target::Nvptx(architecture) => write!(f, "nvptx64:{architecture}"),
            Target::Amdgcn(architecture) => write!(f, "amdgcn:{architecture}"),
            Target::Spirv => f.write_str(SPIRV),
        }
    }
}

fn cpu(machine: Machine, name: Option<&str>) -> Result<Target, String> {
    let machine_name = machine.name();
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    match name {
        Some(name) if name.is_empty() || !name.bytes().all(is_known) => Err(format!(
            "'{name}' is not a CPU; expected clang's name of a CPU after '{machine_name}:', a level \
             such as {}, or native",
            machine.baseline()
        )),
        Some("native") if Machine::own() != Some(machine) => Err(format!(
            "native is unknown: this machine is not {machine_name}; expected the name of a CPU"
        )),
        name => Ok(Target::Cpu(machine, name.map(str::to_owned))),
    }
}

fn nvptx(architecture: Option<&str>) -> Result<Target, String> {
    let Some(architecture) = architecture else {
        return Err("nvptx64 has no architecture; expected one, such as nvptx64:sm_90".to_owned());
    };
    let number = architecture.strip_prefix("sm_").unwrap_or_default();
    let digits = number.strip_suffix(['a', 'f']).unwrap_or(number);
    match !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(Target::Nvptx(architecture.to_owned())),
        false => Err(format!(
            "'{architecture}' is not an architecture of NVIDIA; expected one such as sm_90"
        )),
    }
}

fn amdgcn(architecture: Option<&str>) -> Result<Target, String> {
    let Some(architecture) = architecture else {
        return Err("amdgcn has no processor; expected one, such as amdgcn:gfx942".to_owned());
    };
    let mut parts = architecture.split(':');
    let processor = parts.next().unwrap_or_default();
    let name = processor.strip_prefix("gfx").unwrap_or_default();
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.is_empty() || !name.bytes().all(is_known) {
        return Err(format!(
            "'{processor}' is not a processor of AMD; expected one such as gfx942"
        ));
    }
    let mut features: Vec<_> = parts.collect();
    let is_feature = |feature: &str| {
        let name = feature.strip_suffix(['+', '-']).unwrap_or_default();
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    if let Some(other) = features.iter().find(|feature| !is_feature(feature)) {
        return Err(format!(
            "'{other}' is not a feature; expected a name with + or -, such as xnack+ or sramecc-"
        ));
    }
    features.sort_unstable();
    features.insert(0, processor);
    Ok(Target::Amdgcn(features.join(":")))
}

/// Returns a suggestion for a malformed target, or an empty text.
fn suggestion(text: &str) -> String {
    let machine = match text.split(['-', ':']).next().unwrap_or_default() {
        gpu if gpu.starts_with("sm_") => format!("nvptx64:{text}"),
        gpu if gpu.starts_with("gfx") => format!("amdgcn:{text}"),
        "amd64" | "x86" | "x64" | "x86_64" => "x86_64".to_owned(),
        "arm64" | "aarch64" => "aarch64".to_owned(),
        "nvptx" | "nvptx64" => "nvptx64:sm_90".to_owned(),
        "amdgcn" => "amdgcn:gfx942".to_owned(),
        "spir" | "spir64" | "spirv64" | "spv" | "vulkan" => SPIRV.to_owned(),
        _ => return String::new(),
    };
    format!("; did you mean '{machine}'?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_shown_as_they_are_read() {
        for text in
            ["x86_64", "spirv", "aarch64:neoverse-v1", "nvptx64:sm_100a", "amdgcn:gfx9-4-generic"]
        {
            assert_eq!(Target::parse(text).unwrap().to_string(), text);
        }
        let parsed = Target::parse("amdgcn:gfx90a:xnack-:sramecc+").unwrap();
        assert_eq!(parsed.to_string(), "amdgcn:gfx90a:sramecc+:xnack-");
        assert_eq!(Target::parse("x86_64").unwrap().architecture(), "x86-64");
    }

    #[test]
    fn an_invalid_target_is_reported_with_a_suggestion() {
        let cases = [
            ("sm_90", "did you mean 'nvptx64:sm_90'?"),
            ("gfx942:xnack+", "did you mean 'amdgcn:gfx942:xnack+'?"),
            ("arm64", "did you mean 'aarch64'?"),
            ("x86_64-unknown-linux-gnu", "did you mean 'x86_64'?"),
            ("", "expected one of x86_64[:CPU]"),
            ("riscv64", "expected one of x86_64[:CPU]"),
            ("x86_64:", "'' is not a CPU"),
            ("x86_64:a b", "'a b' is not a CPU"),
            ("nvptx64", "nvptx64:sm_90"),
            ("nvptx64:90", "'90' is not an architecture"),
            ("nvptx64:sm_a", "'sm_a' is not an architecture"),
            ("amdgcn", "amdgcn:gfx942"),
            ("spirv64", "did you mean 'spirv'?"),
            ("spirv:vulkan1.2", "spirv has no architecture"),
            ("amdgcn:942", "'942' is not a processor"),
            ("amdgcn:gfx942:xnack", "'xnack' is not a feature"),
            ("amdgcn:gfx942:", "'' is not a feature"),
        ];
        for (text, expected) in cases {
            let error = Target::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
