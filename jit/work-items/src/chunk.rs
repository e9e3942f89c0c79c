//! The parts of a group that one loop runs.

/// Number of items in a sub-group.
pub(crate) const WIDTH: u64 = 32;

/// The items that one loop runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// A row of the group in x.
    Row,
    /// A sub-group, which is part of a row: rows are whole sub-groups, or there is only one row.
    Subgroup,
    /// A sub-group in any group: items with neighbouring indices.
    Flat,
}
