//! The target of a module: a requested one, or the module's own.

use longshore_llvm::types::{FUNCTION_INDEX, ValueRef};

use crate::context::LoadedModule;
use crate::{CompileError, Target};

/// Attribute with a function's processor.
const CPU: &str = "target-cpu";
/// Attribute with a function's features.
const FEATURES: &str = "target-features";

/// Attribute with the bits of a function's widest vectors, unless the source asks for wider ones.
const VECTOR_WIDTH: &str = "prefer-vector-width";

/// Intel's CPUs that keep their frequency with vectors of 512 bits. LLVM prefers 256 bits on all of
/// them, because the first CPUs with AVX-512 do not.
const WIDE: [&str; 6] = [
    "icelake-server",
    "sapphirerapids",
    "emeraldrapids",
    "graniterapids",
    "graniterapids-d",
    "diamondrapids",
];

/// A feature that these CPUs have, and the first ones with AVX-512 do not.
const SECOND: &str = "+avx512vbmi2";

/// Returns whether kernels for an x86-64 CPU, by LLVM's name for it, are faster with vectors of 512
/// bits than with LLVM's choice.
pub fn has_wide_vectors(cpu: &str) -> bool {
    WIDE.contains(&cpu)
}

/// Returns the target for which code is generated, and gives the module its triple, and each
/// function the requested processor and features.
///
/// # Errors
/// [`CompileError::Target`] for a module of another target.
pub(crate) fn settle(module: &LoadedModule<'_>, wanted: &Target) -> Result<Target, CompileError> {
    let own = module.triple();
    let triple = match (own.is_empty(), wanted.triple.is_empty()) {
        (true, true) => {
            let problem = "the module has no target triple, and none is requested";
            return Err(CompileError::Target(problem.to_owned()));
        }
        (true, false) => {
            module.set_triple(&wanted.triple);
            wanted.triple.clone()
        }
        (false, true) => own,
        (false, false) if agree(&own, &wanted.triple) => own,
        (false, false) => {
            let wanted = &wanted.triple;
            return Err(CompileError::Target(format!(
                "the module is for {own}, and code for {wanted} is requested: compile it with \
                 --target={wanted}"
            )));
        }
    };
    let mut target = Target { triple, ..wanted.clone() };
    for function in module.defined_functions() {
        if target.cpu.is_empty() {
            target.cpu = attribute(module, function, CPU).unwrap_or_default();
        }
        if wanted.cpu.is_empty() && target.features.is_empty() {
            target.features = attribute(module, function, FEATURES).unwrap_or_default();
        }
        set_processor(module, function, wanted, target.is_amd());
    }
    Ok(target)
}

impl Target {
    /// Returns whether code for an AMD GPU is generated.
    pub(crate) fn is_amd(&self) -> bool {
        self.triple.starts_with("amdgcn") || self.triple.starts_with("amdgpu")
    }
}

/// Returns whether code of one triple runs where code of another one does.
fn agree(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(Parts::new);
    one == other
}

/// The parts of a triple that make code incompatible.
#[derive(PartialEq, Eq)]
struct Parts<'a> {
    architecture: &'a str,
    system: Option<&'a str>,
    is_narrow: bool,
}

impl<'a> Parts<'a> {
    fn new(triple: &'a str) -> Self {
        let mut parts = triple.split('-');
        let architecture = match parts.next().unwrap_or_default() {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            "amdgpu" => "amdgcn",
            other => other,
        };
        const SYSTEMS: [&str; 7] =
            ["linux", "cuda", "amdhsa", "windows", "darwin", "macosx", "freebsd"];
        let system = SYSTEMS.into_iter().find(|system| triple.contains(system));
        let is_narrow = triple.ends_with("x32") || triple.ends_with("ilp32");
        Self { architecture, system, is_narrow }
    }
}

/// Returns the value of a function's attribute.
fn attribute(module: &LoadedModule<'_>, function: ValueRef, name: &str) -> Option<String> {
    let table = module.functions();
    // SAFETY: the function is live, and LLVM returns the value with its length.
    unsafe {
        let attribute = (table.LLVMGetStringAttributeAtIndex)(
            function,
            FUNCTION_INDEX,
            name.as_ptr().cast(),
            name.len() as u32,
        );
        let mut length = 0;
        let value = (table.LLVMGetStringAttributeValue)(attribute.present()?, &mut length);
        let value = std::slice::from_raw_parts(value.cast::<u8>(), length as usize);
        Some(String::from_utf8_lossy(value).into_owned())
    }
}

fn set_attribute(module: &LoadedModule<'_>, function: ValueRef, name: &str, value: &str) {
    let table = module.functions();
    // SAFETY: the function is live, and LLVM copies both texts.
    unsafe {
        let attribute = (table.LLVMCreateStringAttribute)(
            module.context.context,
            name.as_ptr().cast(),
            name.len() as u32,
            value.as_ptr().cast(),
            value.len() as u32,
        );
        (table.LLVMAddAttributeAtIndex)(function, FUNCTION_INDEX, attribute);
    }
}

/// Gives a function the requested processor and features.
///
/// A function on a CPU keeps the features that it has itself: its code may use them in any case. On
/// an AMD GPU the processor implies all features, so other features are dropped.
fn set_processor(module: &LoadedModule<'_>, function: ValueRef, wanted: &Target, is_amd: bool) {
    if !wanted.cpu.is_empty() {
        set_attribute(module, function, CPU, &wanted.cpu);
    }
    let has_second = wanted.features.split(',').any(|feature| feature == SECOND);
    let is_wide = has_second || has_wide_vectors(&wanted.cpu);
    if is_wide && attribute(module, function, VECTOR_WIDTH).is_none() {
        set_attribute(module, function, VECTOR_WIDTH, "512");
    }
    let drops_own = is_amd && !wanted.cpu.is_empty();
    if wanted.features.is_empty() && !drops_own {
        return;
    }
    let own = attribute(module, function, FEATURES).unwrap_or_default();
    let own = own.split(',').filter(|feature| !is_amd && feature.starts_with('+'));
    let all = wanted.features.split(',').filter(|feature| !feature.is_empty()).chain(own);
    set_attribute(module, function, FEATURES, &all.collect::<Vec<_>>().join(","));
}

#[cfg(test)]
mod tests {
    use super::agree;

    #[test]
    fn triples_agree_in_what_makes_code_incompatible() {
        for (one, other, expected) in [
            ("x86_64-pc-linux-gnu", "x86_64-unknown-linux-gnu", true),
            ("x86_64-unknown-linux-musl", "amd64-linux", true),
            ("amdgcn-amd-amdhsa", "amdgcn-amd-amdhsa-unknown", true),
            ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", false),
            ("x86_64-unknown-linux-gnux32", "x86_64-unknown-linux-gnu", false),
            ("aarch64-apple-darwin", "aarch64-unknown-linux-gnu", false),
            ("amdgcn-amd-amdpal", "amdgcn-amd-amdhsa", false),
        ] {
            assert_eq!(agree(one, other), expected, "{one} {other}");
        }
    }
}
