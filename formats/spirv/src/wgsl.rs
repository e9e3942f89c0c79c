//! Translation of WGSL by naga.

mod layouts;
mod length;
mod nesting;
mod overrides;
mod weight;

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::thread;

use naga::back::spv::{self, Options, WriterFlags, ZeroInitializeWorkgroupMemoryMode};
use naga::back::{PipelineConstants, pipeline_constants};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, ArraySize, Handle, ShaderStage, Type, TypeInner, VectorSize, front};

use crate::fault::Fault;
use crate::kernel::{Kernel, Member, Specialization, Target};
use crate::reflect::Hints;

/// Bytes of stack for naga, whose use grows with the nesting of the source. Most of them are never
/// touched.
const STACK_BYTES: usize = 256 << 20;
/// Version of the SPIR-V output: subgroups and storage buffers need it, and Vulkan 1.2 accepts
/// later versions.
const SPIRV_VERSION: (u8, u8) = (1, 3);

/// The result of translating a source.
pub(crate) struct Translation {
    /// SPIR-V with the defaults of overrides.
    pub(crate) words: Vec<u32>,
    /// Facts that the SPIR-V lacks.
    pub(crate) hints: Hints,
    /// The program to translate for each launch that chooses overrides; `None` without overrides.
    pub(crate) program: Option<Program>,
}

/// A source with overrides.
pub(crate) struct Program {
    module: naga::Module,
    info: ModuleInfo,
    target: Target,
}

/// Translates a source.
pub(crate) fn translate(source: &str, target: Target) -> Result<Translation, Fault> {
    let source = &nesting::checked(source)?;
    on_large_stack(|| {
        weight::check(source)?;
        let module = front::wgsl::parse_str(source).map_err(|error| {
            let notes = error.labels().map(|(_, label)| label.to_owned());
            let notes =
                notes.filter(|label| !label.is_empty()).chain(error.notes().map(str::to_owned));
            fault_at(error.location(source), error.message(), notes.collect())
        })?;
        let mut validator = Validator::new(ValidationFlags::all(), spv::supported_capabilities());
        let info = validator.validate(&module).map_err(|error| {
            fault_at(
                error.location(source),
                &error.as_inner().to_string(),
                causes(error.as_inner()),
            )
        })?;
        let program = Program { module, info, target };
        let constants = overrides::defaults(&program.module);
        let (resolved, info) = program.resolve(None, &constants)?;
        let words = write(&resolved, &info, target)?;
        let mut hints = overrides::hints(&program.module, &resolved);
        hints.values = values(&resolved);
        let has_overrides = !program.module.overrides.is_empty();
        Ok(Translation { words, hints, program: has_overrides.then_some(program) })
    })
}

impl Program {
    /// Translates one kernel for a launch.
    pub(crate) fn code(&self, kernel: &Kernel, wanted: &Specialization) -> Result<Vec<u32>, Fault> {
        on_large_stack(|| {
            let constants = overrides::chosen(&self.module, kernel, wanted);
            let (resolved, info) = self.resolve(Some(&kernel.name), &constants)?;
            for entry_point in &resolved.entry_points {
                if entry_point.workgroup_size != wanted.group {
                    return Err(Fault::unsupported(format!(
                        "{}: groups are {:?} items with these overrides, but {:?} are requested",
                        kernel.name, entry_point.workgroup_size, wanted.group
                    )));
                }
            }
            write(&resolved, &info, self.target)
        })
    }

    /// Returns the module with values of overrides, of one kernel or of all.
    fn resolve(
        &self,
        kernel: Option<&str>,
        constants: &PipelineConstants,
    ) -> Result<(Cow<'_, naga::Module>, Cow<'_, ModuleInfo>), Fault> {
        let entry_point = kernel.map(|name| (ShaderStage::Compute, name));
        pipeline_constants::process_overrides(&self.module, &self.info, entry_point, constants)
            .map_err(|error| Fault::source(format!("overrides: {}", with_causes(&error))))
    }
}

/// Writes SPIR-V in which every index is restricted to its bounds.
fn write(module: &naga::Module, info: &ModuleInfo, target: Target) -> Result<Vec<u32>, Fault> {
    let options = Options {
        lang_version: SPIRV_VERSION,
        flags: WriterFlags::DEBUG,
        bounds_check_policies: BoundsCheckPolicies {
            index: BoundsCheckPolicy::Restrict,
            buffer: BoundsCheckPolicy::Restrict,
            image_load: BoundsCheckPolicy::Restrict,
            binding_array: BoundsCheckPolicy::Restrict,
        },
        zero_initialize_workgroup_memory: match target.zeroes_shared_memory {
            true => ZeroInitializeWorkgroupMemoryMode::Native,
            false => ZeroInitializeWorkgroupMemoryMode::Polyfill,
        },
        // For inputs and outputs of stages, which kernels do not have.
        use_storage_input_output_16: false,
        ..Options::default()
    };
    spv::write_vec(module, info, &options, None)
        .map(|words| layouts::strip(&words))
        .map_err(|error| Fault::source(format!("writing SPIR-V: {}", with_causes(&error))))
}

/// Returns the members of uniform buffers. The SPIR-V has other ones, as naga splits some matrices.
fn values(module: &naga::Module) -> HashMap<(u32, u32), Vec<Member>> {
    let uniforms = module.global_variables.iter().map(|(_, variable)| variable);
    let uniforms = uniforms.filter(|variable| variable.space == AddressSpace::Uniform);
    let members = uniforms.filter_map(|variable| {
        let binding = variable.binding.as_ref()?;
        let members = match &module.types[variable.ty].inner {
            TypeInner::Struct { members, .. } => {
                let members = members.iter().map(|member| Member {
                    name: member.name.clone().unwrap_or_default(),
                    offset: member.offset,
                    bytes: bytes(module, member.ty),
                });
                members.collect()
            }
            _ => vec![Member {
                name: variable.name.clone().unwrap_or_default(),
                offset: 0,
                bytes: bytes(module, variable.ty),
            }],
        };
        Some(((binding.group, binding.binding), members))
    });
    members.collect()
}

/// Returns the size in bytes of a value in memory, without padding after its last element.
fn bytes(module: &naga::Module, mut of: Handle<Type>) -> u32 {
    let mut before_last = 0u32;
    loop {
        let (others, last) = match module.types[of].inner {
            TypeInner::Array { base, size: ArraySize::Constant(count), stride } => {
                ((count.get() - 1).saturating_mul(stride), base)
            }
            TypeInner::Struct { ref members, .. } => match members.last() {
                Some(member) => (member.offset, member.ty),
                None => return before_last,
            },
            TypeInner::Matrix { columns, rows, scalar } => {
                let width = u32::from(scalar.width);
                let stride = width * if rows == VectorSize::Bi { 2 } else { 4 };
                let bytes = (columns as u32 - 1) * stride + rows as u32 * width;
                return before_last.saturating_add(bytes);
            }
            ref inner => {
                let bytes = inner.try_size(module.to_ctx()).unwrap_or(0);
                return before_last.saturating_add(bytes);
            }
        };
        before_last = before_last.saturating_add(others);
        of = last;
    }
}

/// Runs naga on a stack for deep sources, and converts a panic of naga to a fault.
fn on_large_stack<T: Send>(work: impl FnOnce() -> Result<T, Fault> + Send) -> Result<T, Fault> {
    thread::scope(|scope| {
        let thread =
            thread::Builder::new().name("longshore-wgsl".to_owned()).stack_size(STACK_BYTES);
        let thread = thread
            .spawn_scoped(scope, work)
            .map_err(|error| Fault::source(format!("starting a thread for WGSL: {error}")))?;
        thread.join().unwrap_or_else(|_| {
            Err(Fault::malformed("naga panicked on this source, which is a defect of naga"))
        })
    })
}

/// Returns a fault with a message, its place in the source, and further lines.
fn fault_at(place: Option<naga::SourceLocation>, message: &str, notes: Vec<String>) -> Fault {
    let place = place.map(|place| format!("{}:{}: ", place.line_number, place.line_position));
    let notes: String = notes.iter().map(|note| format!("\n  {note}")).collect();
    Fault::source(format!("{}{message}{notes}", place.unwrap_or_default()))
}

fn with_causes(error: &dyn Error) -> String {
    [vec![error.to_string()], causes(error)].concat().join(": ")
}

fn causes(error: &dyn Error) -> Vec<String> {
    let mut causes = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes
}
