//! What PTX text or a cubin says of itself.

use crate::Arch;

/// What PTX text or a cubin says of itself. Kernels and variables are in the image's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// What it was built for. Cubins for the variants `sm_100f` and `sm_100` are the same.
    pub arch: Option<Arch>,
    /// The version of the language, of PTX text.
    pub ptx_version: Option<(u32, u32)>,
    /// Functions that can be launched.
    pub kernels: Vec<Kernel>,
    /// Variables in global and constant memory, also those that other images cannot see.
    pub variables: Vec<Variable>,
    /// Functions and variables that it needs and does not have, without those that the driver
    /// defines (`vprintf`, `malloc`, `free`, `__assertfail`).
    pub undefined: Vec<String>,
}

/// A function that can be launched. What the image does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kernel {
    /// Its symbol.
    pub name: String,
    /// In bytes, in the order of the arguments.
    pub argument_sizes: Vec<u32>,
    /// The only size of groups with which it can be launched.
    pub required_group: Option<[u32; 3]>,
    /// The most work-items of a group with which it can be launched.
    pub max_group_items: Option<u64>,
    /// The only size of clusters, in groups, with which it can be launched.
    pub cluster: Option<[u32; 3]>,
    /// Registers of a work-item.
    pub registers: Option<u32>,
    /// Shared memory of a group that is there without a launch asking for it, and without what the
    /// system reserves.
    pub static_shared_bytes: Option<u64>,
    /// Memory of a work-item for what does not fit into registers.
    pub private_bytes: Option<u64>,
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variable {
    /// Its symbol.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Which memory it is in.
    pub space: Space,
    /// Who can see it.
    pub linkage: Linkage,
    /// In bytes, a power of two. Of a cubin: what its place has.
    pub alignment: u64,
    /// Its initial value without the zeros at its end, and with zeros where `references` stand; empty if
    /// it is all zeros. Of a function's address a cubin has a number instead, which the driver knows.
    pub initial: Vec<u8>,
    /// The addresses of 64 bits that stand in its initial value, by their offset.
    pub references: Vec<Reference>,
    /// Where it is, in a cubin.
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

/// Who can see a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// Its image alone: the driver does not find it by name.
    Internal,
    /// All.
    Visible,
    /// All, and another definition may take its place.
    Weak,
}

/// An address in an initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where it stands, in bytes from the variable's start.
    pub offset: u64,
    /// The variable or function whose address it is.
    pub symbol: String,
    /// What is added to that.
    pub addend: i64,
}

/// Where a variable of a cubin is. The distance of two of one section is the same on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The section's index.
    pub section: u32,
    /// In bytes from the section's start.
    pub offset: u64,
}

impl Variable {
    /// The whole initial value, with the zeros at its end; `None` if it is longer than `most_bytes`.
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

/// Gathers references in the order of their offsets. An address that is stored byte by byte is one once
/// all of its bytes, in their order, were seen.
#[derive(Default)]
pub(crate) struct References {
    whole: Vec<Reference>,
    /// The beginning of one, and how many of its bytes were seen.
    part: Option<(Reference, u8)>,
}

impl References {
    pub(crate) fn add(&mut self, reference: Reference) {
        self.whole.push(reference);
    }

    /// Adds byte `index` of the address that `reference` is; it stands at the reference's offset.
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
