//! The contents of PTX text or a cubin.

use crate::Arch;

/// The contents of PTX text or a cubin. Kernels and variables are in the image's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// The architecture of the image. Cubins for `sm_100f` and `sm_100` cannot be distinguished.
    pub arch: Option<Arch>,
    /// The language version of PTX text.
    pub ptx_version: Option<(u32, u32)>,
    /// Kernels, which programs launch.
    pub kernels: Vec<Kernel>,
    /// Variables in global and constant memory, including internal ones.
    pub variables: Vec<Variable>,
    /// Functions and variables that the image needs and does not define, without the functions of
    /// the driver (`vprintf`, `malloc`, `free`, `__assertfail`).
    pub undefined: Vec<String>,
}

/// A kernel. Facts that the image lacks are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kernel {
    /// The kernel's symbol.
    pub name: String,
    /// Sizes of the arguments in bytes, in their order.
    pub argument_sizes: Vec<u32>,
    /// The only size of work-groups for launches.
    pub required_group: Option<[u32; 3]>,
    /// Most work-items of a work-group for launches.
    pub max_group_items: Option<u64>,
    /// The only size of clusters, in groups, for launches.
    pub cluster: Option<[u32; 3]>,
    /// Registers of a work-item.
    pub registers: Option<u32>,
    /// Bytes of shared memory of a work-group, without dynamic shared memory and the system's
    /// reserved part.
    pub static_shared_bytes: Option<u64>,
    /// Bytes of memory of a work-item for values that do not fit into registers.
    pub private_bytes: Option<u64>,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// The variable's symbol.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// The kind of memory.
    pub space: Space,
    /// The visibility of the symbol.
    pub linkage: Linkage,
    /// Alignment in bytes, a power of two. In a cubin, the alignment of the variable's place.
    pub alignment: u64,
    /// The initial value without its trailing zeros, with zeros in place of `references`; empty if
    /// it is all zeros. A linked cubin has a number of the driver's in place of a function's
    /// address.
    pub initial: Vec<u8>,
    /// The 64-bit addresses in the initial value, by their offset.
    pub references: Vec<Reference>,
    /// The place in a cubin.
    pub place: Option<Place>,
}

/// The memory of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Global memory.
    Global,
    /// Constant memory, which kernels cannot change.
    Constant,
}

/// The visibility of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// Visible in its image alone: the driver does not find it by name.
    Internal,
    /// Visible to all images.
    Visible,
    /// Visible to all images; another definition can replace it.
    Weak,
}

/// An address in an initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Offset in bytes from the variable's start.
    pub offset: u64,
    /// The variable or function that the address refers to.
    pub symbol: String,
    /// Number of bytes added to the symbol's address.
    pub addend: i64,
}

/// The place of a variable of a cubin. The distance between two variables of a section is the same
/// on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The section's index.
    pub section: u32,
    /// Offset in bytes from the section's start.
    pub offset: u64,
}

impl Variable {
    /// Returns the whole initial value, with its trailing zeros; `None` if it is longer than
    /// `most_bytes`.
    #[must_use]
    pub fn content(&self, most_bytes: usize) -> Option<Vec<u8>> {
        let bytes = usize::try_from(self.bytes).ok().filter(|bytes| *bytes <= most_bytes)?;
        let mut content = self.initial.clone();
        content.resize(bytes, 0);
        Some(content)
    }
}

/// Functions that the driver defines.
const OF_DRIVER: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

pub(crate) fn is_of_driver(function: &str) -> bool {
    OF_DRIVER.contains(&function)
}

pub(crate) fn without_zeros_at_end(mut value: Vec<u8>) -> Vec<u8> {
    let end = value.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    value.truncate(end);
    value
}

/// Gathers references in the order of their offsets. An address that is stored byte by byte counts
/// once all its 8 bytes have come in order.
#[derive(Default)]
pub(crate) struct References {
    whole: Vec<Reference>,
    /// An incomplete reference, and the number of its bytes so far.
    part: Option<(Reference, u8)>,
}

impl References {
    pub(crate) fn add(&mut self, reference: Reference) {
        self.whole.push(reference);
    }

    /// Adds byte `index` of an address. `reference` has the address and this byte's offset.
    pub(crate) fn add_byte(&mut self, reference: Reference, index: u8) {
        if index == 0 {
            self.part = Some((reference, 1));
            return;
        }
        let Some((first, seen)) = self.part.as_mut() else { return };
        let is_next = *seen == index
            && first.offset.checked_add(index.into()) == Some(reference.offset)
            && (&first.symbol, first.addend) == (&reference.symbol, reference.addend);
        match (is_next, index) {
            (true, 7) => self.whole.extend(self.part.take().map(|(first, _)| first)),
            (true, _) => *seen += 1,
            (false, _) => self.part = None,
        }
    }

    pub(crate) fn finish(self) -> Vec<Reference> {
        self.whole
    }
}
