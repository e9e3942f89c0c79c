//! Kernels: marked functions, and their facts in sections with their names.

use super::attributes::{
    self, Attribute, CLUSTER, FRAME_BYTES, LARGE_PARAMETER, MAX_GROUP, PARAMETER, REGISTERS,
    REQUIRED_GROUP, STACK_BYTES,
};
use super::file::File;
use crate::{Kernel, Malformed};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Bytes that the linker reserves for the system at the start of shared memory, since sm_90.
const RESERVED_SHARED_BYTES: u64 = 1024;
const FIRST_TO_RESERVE: u32 = 90;

/// Returns the kernels of a cubin for architecture `number`.
pub(super) fn read(file: &File<'_>, number: u32) -> Result<Vec<Kernel>, Malformed> {
    let facts = FunctionFacts::read(file)?;
    let mut seen = HashSet::new();
    let mut kernels = Vec::new();
    for (index, symbol) in (0..).zip(&file.symbols) {
        if !symbol.is_kernel() || symbol.name.is_empty() || !seen.insert(symbol.name) {
            continue;
        }
        let mut kernel = Kernel { name: symbol.name.to_owned(), ..Kernel::default() };
        let own = file.take_data_of(&format!(".nv.info.{}", symbol.name))?;
        add_attributes(&mut kernel, attributes::read(own));
        kernel.registers = facts.registers.get(&index).copied();
        kernel.private_bytes = facts.private_bytes.get(&index).map(|bytes| u64::from(*bytes));
        kernel.static_shared_bytes = Some(shared_bytes(file, symbol.name, number));
        kernels.push(kernel);
    }
    Ok(kernels)
}

/// Facts of functions in the whole image's section, by the indices of their symbols.
#[derive(Default)]
struct FunctionFacts {
    registers: HashMap<u32, u32>,
    private_bytes: HashMap<u32, u32>,
}

impl FunctionFacts {
    fn read(file: &File<'_>) -> Result<FunctionFacts, Malformed> {
        let mut facts = FunctionFacts::default();
        let mut stacks = HashMap::new();
        for attribute in attributes::read(file.take_data_of(".nv.info")?) {
            let list = match attribute.id {
                REGISTERS => &mut facts.registers,
                FRAME_BYTES => &mut facts.private_bytes,
                STACK_BYTES => &mut stacks,
                _ => continue,
            };
            list.extend(attribute.word(0).zip(attribute.word(1)));
        }
        facts.private_bytes.extend(stacks);
        Ok(facts)
    }
}

fn add_attributes<'a>(kernel: &mut Kernel, attributes: impl Iterator<Item = Attribute<'a>>) {
    let mut arguments = BTreeMap::new();
    for attribute in attributes {
        match attribute.id {
            PARAMETER => {
                let size = attribute.word(2).map(|packed| packed >> 18);
                arguments.extend(attribute.half(4).zip(size));
            }
            LARGE_PARAMETER => arguments.extend(attribute.half(4).zip(attribute.word(2))),
            REQUIRED_GROUP => kernel.required_group = attribute.three_words(),
            MAX_GROUP => {
                let sizes = attribute.three_words();
                let items = |all: u64, size: u32| all.saturating_mul(size.into());
                kernel.max_group_items = sizes.map(|sizes| sizes.into_iter().fold(1, items));
            }
            CLUSTER => kernel.cluster = attribute.three_words(),
            _ => {}
        }
    }
    kernel.argument_sizes = arguments.into_values().collect();
}

/// Returns the size of the kernel's section, without its reserved part.
fn shared_bytes(file: &File<'_>, kernel: &str, number: u32) -> u64 {
    let bytes = file.section(&format!(".nv.shared.{kernel}")).map_or(0, |section| section.bytes);
    let is_reserving = !file.is_object && number >= FIRST_TO_RESERVE;
    bytes.saturating_sub(if is_reserving { RESERVED_SHARED_BYTES } else { 0 })
}
