//! The arguments of a kernel, and the place of each.

use std::collections::BTreeMap;

use rspirv::spirv::{Decoration, StorageClass};

use super::block::Block;
use super::usage::Usage;
use super::{GLOBALS, Hints};
use crate::fault::Fault;
use crate::kernel::{self, BlockStorage, Buffer, Parameter, Place};
use crate::push_constants::BlockBindings;
use crate::tables::{Tables, Variable};
use crate::types::Type;

/// Size in bytes of the largest uniform buffer that is passed by value.
const LARGEST_VALUE: u32 = 4096;

/// The arguments of a kernel.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) parameters: Vec<Parameter>,
    pub(super) blocks: Vec<kernel::Block>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) globals: Vec<Place>,
    /// The block of globals.
    pub(super) globals_block: Option<Block>,
}

/// The role of a variable in a launch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    PushConstants,
    Uniform,
    Storage,
}

/// Returns the arguments of the kernel that uses these variables.
pub(super) fn arguments(
    tables: &Tables<'_>,
    moved: &BlockBindings,
    hints: &Hints,
    usage: &Usage,
    kernel: &str,
) -> Result<Arguments, Fault> {
    let mut arguments = Arguments::default();
    let mut bindings: BTreeMap<(u32, u32), Vec<(u32, Kind)>> = BTreeMap::new();
    let mut pushed = Vec::new();
    for &id in &usage.variables {
        let name = variable_name(tables, id);
        let at = |message: String| Fault::unsupported(format!("{kernel}, {name}: {message}"));
        match kind(tables, moved, id).map_err(at)? {
            None => {}
            Some(Kind::PushConstants) => pushed.push(id),
            Some(kind) => {
                let set = tables.decoration(id, Decoration::DescriptorSet);
                let binding = tables.decoration(id, Decoration::Binding);
                let Some(place) = set.zip(binding) else {
                    let message = format!("{kernel}, {name}: has no descriptor set or no binding");
                    return Err(Fault::malformed(message));
                };
                bindings.entry(place).or_default().push((id, kind));
            }
        }
    }
    if let [first, second, ..] = pushed.as_slice() {
        let names = [first, second].map(|&id| variable_name(tables, id));
        return Err(Fault::malformed(format!("{kernel}: two blocks of push constants, {names:?}")));
    }
    for id in pushed {
        let place = moved.get(&id).map(|&(set, binding)| BlockStorage::Storage { set, binding });
        let block = Block::new(tables, tables.variables[&id].pointee, variable_name(tables, id))?;
        arguments.pass_by_value(tables, block, place.unwrap_or(BlockStorage::PushConstants))?;
    }
    for ((set, binding), variables) in bindings {
        arguments.bind(tables, hints, (set, binding), &variables).map_err(|fault| Fault {
            message: format!("{kernel}, set {set}, binding {binding}: {}", fault.message),
            ..fault
        })?;
    }
    Ok(arguments)
}

impl Arguments {
    fn bind(
        &mut self,
        tables: &Tables<'_>,
        hints: &Hints,
        (set, binding): (u32, u32),
        variables: &[(u32, Kind)],
    ) -> Result<(), Fault> {
        let &[(id, kind), ref aliases @ ..] = variables else { return Ok(()) };
        if aliases.iter().any(|&(_, other)| other != kind) {
            return Err(Fault::unsupported("both a uniform and a storage buffer"));
        }
        let least_bytes = |id| {
            let layout = tables.layout(tables.variables[&id].pointee);
            u32::try_from(layout.bytes.unwrap_or(0)).map_err(|_| {
                Fault::malformed(format!("{} is larger than 4 GiB", variable_name(tables, id)))
            })
        };
        let mut bytes = least_bytes(id)?;
        for &(alias, _) in aliases {
            bytes = bytes.max(least_bytes(alias)?);
        }
        if kind == Kind::Uniform && bytes <= LARGEST_VALUE {
            if !aliases.is_empty() {
                return Err(Fault::unsupported("several uniform buffers"));
            }
            let block = match hints.values.get(&(set, binding)) {
                Some(members) => Block::from_values(members),
                None => {
                    Block::new(tables, tables.variables[&id].pointee, variable_name(tables, id))?
                }
            };
            return self.pass_by_value(tables, block, BlockStorage::Uniform { set, binding });
        }
        let uniform = kind == Kind::Uniform;
        self.buffers.push(Buffer { set, binding, uniform, least_bytes: bytes });
        let place = Place::Buffer { index: self.buffers.len() - 1 };
        if !uniform && is_globals(tables, id) {
            return self.reach_globals(tables, tables.variables[&id].pointee, place);
        }
        let name = variable_name(tables, id).to_owned();
        self.parameters.push(Parameter { name, bytes: 8, pointer: true, number: None, place });
        Ok(())
    }

    fn pass_by_value(
        &mut self,
        tables: &Tables<'_>,
        block: Block,
        storage: BlockStorage,
    ) -> Result<(), Fault> {
        if block.runtime {
            return Err(Fault::unsupported(format!(
                "a block passed by value, {block}, ends in an array without a length"
            )));
        }
        let index = self.blocks.len();
        let bytes = block.bytes.checked_next_multiple_of(4).unwrap_or(u32::MAX - 3);
        self.blocks.push(kernel::Block { storage, bytes });
        for member in block.members {
            let place = Place::Block { index, offset: member.what.offset };
            if member.what.name == GLOBALS && !matches!(storage, BlockStorage::Uniform { .. }) {
                let Some(pointee) = member.pointee else {
                    return Err(Fault::unsupported(format!(
                        "{GLOBALS} must be a pointer to a block"
                    )));
                };
                self.reach_globals(tables, pointee, place)?;
                continue;
            }
            self.parameters.push(Parameter {
                name: member.what.name,
                bytes: member.what.bytes,
                pointer: member.pointee.is_some(),
                number: member.number,
                place,
            });
        }
        Ok(())
    }

    fn reach_globals(
        &mut self,
        tables: &Tables<'_>,
        structure: u32,
        place: Place,
    ) -> Result<(), Fault> {
        let block = Block::new(tables, structure, GLOBALS)?;
        if block.runtime {
            return Err(Fault::unsupported(format!(
                "{GLOBALS} ends in an array without a length: a module's globals have a size"
            )));
        }
        if let Some(other) = &self.globals_block
            && (other.bytes != block.bytes || other.globals() != block.globals())
        {
            return Err(Fault::unsupported(format!(
                "{GLOBALS} is both {other} and {block}: it must be one block"
            )));
        }
        self.globals.push(place);
        self.globals_block = Some(block);
        Ok(())
    }
}

/// Returns the role of a variable in a launch; `None` if it has none. An error is the reason why
/// the variable is not supported.
fn kind(tables: &Tables<'_>, moved: &BlockBindings, id: u32) -> Result<Option<Kind>, String> {
    let Variable { storage, pointee } = tables.variables[&id];
    let kind = match storage {
        _ if moved.contains_key(&id) => Kind::PushConstants,
        Some(StorageClass::PushConstant) => Kind::PushConstants,
        Some(StorageClass::StorageBuffer) => Kind::Storage,
        Some(StorageClass::Uniform)
            if tables.decoration(pointee, Decoration::BufferBlock).is_some() =>
        {
            Kind::Storage
        }
        Some(StorageClass::Uniform) => Kind::Uniform,
        Some(
            StorageClass::Input
            | StorageClass::Output
            | StorageClass::Private
            | StorageClass::Workgroup,
        ) => return Ok(None),
        Some(StorageClass::UniformConstant) => {
            return Err(
                "images, samplers and other opaque kinds of bindings are not supported".into()
            );
        }
        Some(other) => return Err(format!("variables of {other:?} are not supported")),
        None => return Err("its storage class is unknown".into()),
    };
    match tables.types.get(&pointee) {
        Some(Type::Structure { .. }) => Ok(Some(kind)),
        Some(Type::Array { .. } | Type::RuntimeArray { .. }) => {
            Err("arrays of bindings are not supported".into())
        }
        _ => Err("not a block: its type is not a structure".into()),
    }
}

fn is_globals(tables: &Tables<'_>, id: u32) -> bool {
    [id, tables.variables[&id].pointee].iter().any(|&id| tables.name(id) == GLOBALS)
}

/// Returns the name of a variable, or of its type, which has the name of a block without an
/// instance name.
fn variable_name<'t>(tables: &'t Tables<'_>, id: u32) -> &'t str {
    match tables.name(id) {
        "" => tables.name(tables.variables[&id].pointee),
        name => name,
    }
}
