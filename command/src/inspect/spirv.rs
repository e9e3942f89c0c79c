//! SPIR-V and WGSL, read as by the Vulkan backend.

use super::report::{
    GlobalReport, ImageReport, KernelReport, MetadataReport, ParameterReport, RequirementsReport,
};
use longshore::units;
use longshore_format_spirv::{
    BlockStorage, GroupSize, Kernel, Module, Parameter, Place, SubgroupSize, Target,
};

/// A device with room for any push constants.
const TARGET: Target = Target::new(u32::MAX);

/// Reads a module. A module that cannot be reflected is a problem in the report.
pub(super) fn read(bytes: &[u8], report: &mut ImageReport) {
    let module = match Module::parse(bytes, TARGET) {
        Ok(module) => module,
        Err(fault) => return report.problems.push(fault.to_string()),
    };
    report.requirements = Some(requirements(&module));
    report.facts.insert("convention", "vulkan".to_owned());
    if let Some(globals) = globals(&module) {
        report.facts.insert("globals", globals);
    }
    report.kernels = module.kernels().iter().map(kernel).collect();
    report.kernels.sort_by(|a, b| a.name.cmp(&b.name));
    for constructor in module.constructors() {
        report.constructors.add(Some(constructor.priority), 1);
    }
    for destructor in module.destructors() {
        report.destructors.add(Some(destructor.priority), 1);
    }
    for global in module.globals() {
        let bytes = global.bytes.into();
        // Source names may omit the leading underscores.
        let section = format!("__{}", global.name.trim_start_matches('_'));
        report.profile.add_section(&section, bytes);
        report.globals.push(GlobalReport { name: global.name.clone(), bytes });
    }
    report.globals.sort_by(|a, b| a.name.cmp(&b.name));
}

fn requirements(module: &Module) -> RequirementsReport {
    let needed = module.requirements();
    RequirementsReport {
        version: format!("{}.{}", needed.version.0, needed.version.1),
        capabilities: needed.capabilities.into_iter().map(|(_, name)| name).collect(),
        extensions: needed.extensions,
    }
}

/// Describes the block of globals and its place in entry points: "24 B, by push constants at 8".
fn globals(module: &Module) -> Option<String> {
    let procedures = module.constructors().iter().chain(module.destructors());
    let kernels = module.kernels().iter().chain(procedures.map(|procedure| &procedure.kernel));
    let mut ways: Vec<_> = kernels
        .flat_map(|kernel| kernel.globals.iter().map(|place| place_report(kernel, *place)))
        .map(|place| place.to_string())
        .collect();
    ways.sort();
    ways.dedup();
    let bytes = u64::from(module.globals_bytes());
    (bytes > 0).then(|| format!("{}, by {}", units::bytes(bytes), ways.join(" and ")))
}

fn kernel(kernel: &Kernel) -> KernelReport {
    let parameters = kernel.parameters.iter().map(|known| parameter(kernel, known));
    let fixed = |size| match size {
        GroupSize::Fixed(items) => items.into(),
        GroupSize::Free(_) => 0,
    };
    let default = |size| match size {
        GroupSize::Fixed(items) | GroupSize::Free(items) => items.into(),
    };
    let metadata = MetadataReport {
        argument_sizes: Some(kernel.parameters.iter().map(|known| known.bytes.into()).collect()),
        parameters: Some(parameters.collect()),
        static_shared_bytes: Some(kernel.static_shared_bytes.into()),
        dynamic_shared: Some(kernel.dynamic_shared),
        required_group: Some(kernel.group.map(fixed).to_vec()),
        default_group: Some(kernel.group.map(default).to_vec()),
        sub_group_items: match kernel.subgroup_size {
            SubgroupSize::Required(items) => Some(items.into()),
            SubgroupSize::Any | SubgroupSize::Usual => None,
        },
        ..MetadataReport::default()
    };
    KernelReport { name: kernel.name.clone(), description: None, metadata }
}

fn parameter(kernel: &Kernel, known: &Parameter) -> ParameterReport {
    ParameterReport {
        name: known.name.clone(),
        kind: if known.pointer { "pointer" } else { "value" },
        bytes: known.bytes,
        ..place_report(kernel, known.place)
    }
}

/// Returns the place of an argument or a block, without a name or a kind.
fn place_report(kernel: &Kernel, place: Place) -> ParameterReport {
    let (memory, at, offset) = match place {
        Place::Block { index, offset } => {
            let (memory, at) = match kernel.blocks.get(index).map(|block| block.storage) {
                Some(BlockStorage::Uniform { set, binding }) => {
                    ("uniform buffer", Some((set, binding)))
                }
                Some(BlockStorage::Storage { set, binding }) => {
                    ("storage buffer", Some((set, binding)))
                }
                Some(BlockStorage::PushConstants) | None => ("push constants", None),
            };
            (memory, at, Some(offset))
        }
        Place::Buffer { index } => {
            let buffer = kernel.buffers.get(index);
            let is_uniform = buffer.is_some_and(|buffer| buffer.uniform);
            let memory = if is_uniform { "uniform buffer" } else { "storage buffer" };
            (memory, buffer.map(|buffer| (buffer.set, buffer.binding)), None)
        }
    };
    let (set, binding) = at.unzip();
    ParameterReport { memory, set, binding, offset, ..ParameterReport::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Translates WGSL by naga.
    fn spirv(source: &str) -> Vec<u8> {
        let module = naga::front::wgsl::parse_str(source).unwrap();
        let (flags, all) = (naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
        let info = naga::valid::Validator::new(flags, all).validate(&module).unwrap();
        let mut options = naga::back::spv::Options::default();
        options.flags.insert(naga::back::spv::WriterFlags::DEBUG);
        let words = naga::back::spv::write_vec(&module, &info, &options, None).unwrap();
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    const SOURCE: &str = "
        struct Sizes { count: u32, factor: f32 }
        @group(0) @binding(1) var<storage, read_write> y: array<f32>;
        @group(1) @binding(0) var<uniform> sizes: Sizes;
        var<workgroup> tile: array<f32, 16>;
        @compute @workgroup_size(16, 2) fn scale(@builtin(local_invocation_index) i: u32) {
            tile[i % 16] = y[i];
            workgroupBarrier();
            y[i] = sizes.factor * tile[(i + sizes.count) % 16];
        }";

    fn report(bytes: &[u8]) -> ImageReport {
        let mut report = ImageReport::new("spirv".into(), bytes.len());
        read(bytes, &mut report);
        report
    }

    #[test]
    fn a_kernel_says_where_its_arguments_go() {
        let report = report(&spirv(SOURCE));
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        let [kernel] = &report.kernels[..] else { panic!("{} kernels", report.kernels.len()) };
        let known = &kernel.metadata;
        let shown: Vec<_> = known.parameters.iter().flatten().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "pointer y in storage buffer 0.1",
                "4 count in uniform buffer 1.0 at 0",
                "4 factor in uniform buffer 1.0 at 4",
            ]
        );
        assert_eq!((&kernel.name[..], known.static_shared_bytes), ("scale", Some(64)));
        assert_eq!(known.required_group, Some(vec![16, 2, 1]));
        assert_eq!(known.argument_sizes, Some(vec![8, 4, 4]));
        let needed = report.requirements.unwrap();
        assert!(needed.capabilities.contains(&"Shader".to_owned()), "{:?}", needed.capabilities);
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_gives_a_report() {
        let whole = spirv(SOURCE);
        for end in 0..whole.len() {
            report(&whole[..end]);
        }
        let mut bytes = whole;
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            report(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
