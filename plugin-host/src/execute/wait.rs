//! The states of items that wait for each other.

/// The reason for an item's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A barrier, for all items of the group.
    Barrier,
    /// An exchange of values, for all items of the sub-group.
    Gather,
    /// A barrier of the grid, for all items of the launch.
    Grid,
}

/// An item's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    Waiting(Wait),
    Done,
}
