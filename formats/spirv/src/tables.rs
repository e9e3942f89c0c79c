//! The declarations of a module, by id.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use rspirv::spirv::{Decoration, ExecutionMode, Op, StorageClass};

use crate::constants::Constant;
use crate::fault::Fault;
use crate::types::{Layout, Type};
use crate::words::{self, Instruction};

/// The declarations of a module. Types and constants refer only to earlier ones, so following the
/// references ends; pointees are the exception.
#[derive(Default)]
pub(crate) struct Tables<'a> {
    /// Version of SPIR-V: major and minor.
    pub(crate) version: (u8, u8),
    pub(crate) capabilities: Vec<u32>,
    pub(crate) extensions: Vec<String>,
    pub(crate) entry_points: Vec<EntryPoint<'a>>,
    /// Operands of `LocalSize` and `LocalSizeId`, by function.
    pub(crate) group_sizes: HashMap<(u32, ExecutionMode), &'a [u32]>,
    pub(crate) types: HashMap<u32, Type<'a>>,
    /// Layouts of the types that have one.
    pub(crate) layouts: HashMap<u32, Layout>,
    pub(crate) constants: HashMap<u32, Constant<'a>>,
    pub(crate) variables: HashMap<u32, Variable>,
    pub(crate) functions: HashMap<u32, Function>,
    /// Names of imported symbols.
    pub(crate) imports: Vec<String>,
    /// Ids that `BuiltIn WorkgroupSize` decorates, in the module's order.
    workgroup_sizes: Vec<u32>,
    names: HashMap<u32, String>,
    member_names: HashMap<(u32, u32), String>,
    decorations: HashMap<(u32, Decoration), u32>,
    member_decorations: HashMap<(u32, u32, Decoration), u32>,
    /// Decoration groups of an id.
    groups: HashMap<u32, Vec<u32>>,
}

/// An entry point.
pub(crate) struct EntryPoint<'a> {
    /// Number of the execution model.
    pub(crate) model: u32,
    pub(crate) function: u32,
    pub(crate) name: String,
    pub(crate) interface: &'a [u32],
}

/// A variable outside of functions.
#[derive(Clone, Copy)]
pub(crate) struct Variable {
    /// The storage class; `None` for one outside the grammar.
    pub(crate) storage: Option<StorageClass>,
    /// The type that the variable's type points to.
    pub(crate) pointee: u32,
}

/// A function.
#[derive(Default)]
pub(crate) struct Function {
    /// Ids in the function: variables, called functions, and constants and types that depend on the
    /// choices of a launch.
    pub(crate) uses: Vec<u32>,
}

impl<'a> Tables<'a> {
    /// Reads the declarations of a module whose instructions lie within it.
    pub(crate) fn read(words: &'a [u32]) -> Result<Tables<'a>, Fault> {
        let version = words.get(1).copied().unwrap_or_default();
        let mut tables =
            Tables { version: ((version >> 16) as u8, (version >> 8) as u8), ..Tables::default() };
        let mut body: Option<(u32, HashSet<u32>)> = None;
        for instruction in words::instructions(words) {
            match (&mut body, instruction.op()) {
                (None, Some(Op::Function)) => {
                    body = Some((instruction.operand(1)?, HashSet::new()));
                }
                (None, Some(op)) => tables.read_declaration(op, instruction)?,
                (None, None) => {}
                (Some((function, uses)), Some(Op::FunctionEnd)) => {
                    let uses = uses.drain().collect();
                    define(&mut tables.functions, *function, Function { uses })?;
                    body = None;
                }
                (Some((_, uses)), _) => tables.read_use(instruction, uses)?,
            }
        }
        match body {
            None => Ok(tables),
            Some((function, _)) => {
                Err(Fault::malformed(format!("the function %{function} has no end")))
            }
        }
    }

    fn read_use(&self, found: Instruction<'a>, uses: &mut HashSet<u32>) -> Result<(), Fault> {
        if found.op() == Some(Op::FunctionCall) {
            uses.insert(found.operand(2)?);
        }
        let known = found.ids(|id| {
            if self.variables.contains_key(&id) || !self.dependence(id).is_empty() {
                uses.insert(id);
            }
        });
        known.ok_or_else(|| {
            let opcode = found.opcode;
            Fault::unsupported(format!("an unknown instruction, opcode {opcode}"))
        })
    }

    fn read_declaration(&mut self, op: Op, found: Instruction<'a>) -> Result<(), Fault> {
        match op {
            Op::Capability => self.capabilities.push(found.operand(0)?),
            Op::Extension => self.extensions.push(words::string(found.operands).0),
            Op::EntryPoint => {
                let (name, taken) = words::string(found.operands_from(2));
                let is_odd = |c: char| c == char::REPLACEMENT_CHARACTER || c.is_control();
                if name.contains(is_odd) {
                    return Err(Fault::malformed(format!(
                        "the name {name:?} of an entry point is not UTF-8, or has control characters"
                    )));
                }
                self.entry_points.push(EntryPoint {
                    model: found.operand(0)?,
                    function: found.operand(1)?,
                    name,
                    interface: found.operands_from(2 + taken),
                });
            }
            Op::ExecutionMode | Op::ExecutionModeId => {
                if let Some(mode) = ExecutionMode::from_u32(found.operand(1)?) {
                    self.group_sizes.insert((found.operand(0)?, mode), found.operands_from(2));
                }
            }
            Op::Name => {
                self.names.insert(found.operand(0)?, words::string(found.operands_from(1)).0);
            }
            Op::MemberName => {
                let member = (found.operand(0)?, found.operand(1)?);
                self.member_names.insert(member, words::string(found.operands_from(2)).0);
            }
            Op::Variable => self.read_variable(found)?,
            Op::UntypedVariableKHR => {
                return Err(Fault::unsupported(
                    "variables without types (SPV_KHR_untyped_pointers)",
                ));
            }
            Op::Decorate | Op::MemberDecorate | Op::GroupDecorate | Op::GroupMemberDecorate => {
                self.read_decoration(op, found)?;
            }
            Op::TypeForwardPointer => self.read_forward_pointer(found)?,
            _ if op.is_type() => self.read_type(op, found)?,
            _ if op.is_constant() => self.read_constant(op, found)?,
            _ => {}
        }
        Ok(())
    }

    fn read_decoration(&mut self, op: Op, found: Instruction<'a>) -> Result<(), Fault> {
        let target = found.operand(0)?;
        match op {
            Op::Decorate => {
                let Some(decoration) = Decoration::from_u32(found.operand(1)?) else {
                    return Ok(());
                };
                let value = found.operands.get(2).copied();
                self.decorations.insert((target, decoration), value.unwrap_or_default());
                self.note_decoration(target, decoration, found);
            }
            Op::MemberDecorate => {
                let Some(decoration) = Decoration::from_u32(found.operand(2)?) else {
                    return Ok(());
                };
                let value = found.operands.get(3).copied();
                let member = (target, found.operand(1)?, decoration);
                self.member_decorations.insert(member, value.unwrap_or_default());
            }
            Op::GroupDecorate => {
                for &id in found.operands_from(1) {
                    self.groups.entry(id).or_default().push(target);
                }
            }
            Op::GroupMemberDecorate => {
                return Err(Fault::unsupported("members decorated by groups"));
            }
            _ => {}
        }
        Ok(())
    }

    fn note_decoration(&mut self, target: u32, decoration: Decoration, found: Instruction<'a>) {
        const IMPORT: u32 = rspirv::spirv::LinkageType::Import as u32;
        const WORKGROUP_SIZE: u32 = rspirv::spirv::BuiltIn::WorkgroupSize as u32;
        match decoration {
            Decoration::LinkageAttributes => {
                let (name, taken) = words::string(found.operands_from(2));
                if found.operands.get(2 + taken) == Some(&IMPORT) {
                    self.imports.push(name);
                }
            }
            Decoration::BuiltIn if found.operands.get(2) == Some(&WORKGROUP_SIZE) => {
                self.workgroup_sizes.push(target);
            }
            _ => {}
        }
    }

    fn read_variable(&mut self, found: Instruction<'a>) -> Result<(), Fault> {
        let (pointer, id) = (found.operand(0)?, found.operand(1)?);
        let Some(&Type::Pointer { pointee, .. }) = self.types.get(&pointer) else {
            return Err(Fault::malformed(format!("the type of variable %{id} is not a pointer")));
        };
        let storage = StorageClass::from_u32(found.operand(2)?);
        define(&mut self.variables, id, Variable { storage, pointee })
    }

    /// Returns the constant with the size of an entry point's work-groups; `None` if its execution
    /// mode has the size.
    ///
    /// One constant holds for the whole module. glslang writes one in each module, so that a linked
    /// module has several, one for each entry point in their order.
    pub(crate) fn workgroup_size(
        &self,
        entry_point: &EntryPoint<'_>,
    ) -> Result<Option<u32>, Fault> {
        if let [] | [_] = *self.workgroup_sizes {
            return Ok(self.workgroup_sizes.first().copied());
        }
        let kernels = self.entry_points.iter().filter(|other| other.model == entry_point.model);
        if kernels.clone().count() == self.workgroup_sizes.len() {
            let mut pairs = kernels.zip(&self.workgroup_sizes);
            let own = pairs.find(|(other, _)| other.function == entry_point.function);
            return Ok(own.map(|(_, id)| *id));
        }
        let is_free = |id: &u32| {
            let parts = self.constants.get(id).map_or(&[][..], |constant| constant.parts);
            let mut parts = parts.iter().filter_map(|part| self.constants.get(part));
            parts.any(|part| part.spec_id.is_some())
        };
        if !self.workgroup_sizes.iter().any(is_free) {
            return Ok(None);
        }
        let (sizes, name) = (self.workgroup_sizes.len(), &entry_point.name);
        Err(Fault::unsupported(format!(
            "{name}: the module has {sizes} WorkgroupSize constants, which cannot be assigned to its \
             entry points; link modules with one constant each"
        )))
    }

    /// Returns the name of an id, empty if it has none.
    pub(crate) fn name(&self, id: u32) -> &str {
        self.names.get(&id).map_or("", String::as_str)
    }

    /// Returns the name of a member of a structure, empty if it has none.
    pub(crate) fn member_name(&self, structure: u32, member: u32) -> &str {
        self.member_names.get(&(structure, member)).map_or("", String::as_str)
    }

    /// Returns the first operand of a decoration, 0 if it has no operand; `None` without the
    /// decoration.
    pub(crate) fn decoration(&self, id: u32, decoration: Decoration) -> Option<u32> {
        let own = self.decorations.get(&(id, decoration));
        let mut groups = self.groups.get(&id).into_iter().flatten();
        own.or_else(|| groups.find_map(|&group| self.decorations.get(&(group, decoration))))
            .copied()
    }

    /// Returns the first operand of a member's decoration, as [`Tables::decoration`] does.
    pub(crate) fn member_decoration(
        &self,
        structure: u32,
        member: u32,
        decoration: Decoration,
    ) -> Option<u32> {
        self.member_decorations.get(&(structure, member, decoration)).copied()
    }
}

/// Inserts; a duplicate id is malformed.
pub(crate) fn define<T>(table: &mut HashMap<u32, T>, id: u32, what: T) -> Result<(), Fault> {
    match table.entry(id) {
        Entry::Vacant(place) => {
            place.insert(what);
            Ok(())
        }
        Entry::Occupied(_) => Err(Fault::malformed(format!("%{id} is defined twice"))),
    }
}
