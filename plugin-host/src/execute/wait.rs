//! The states of items that wait for each other.

/// The thing that an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For all items of its group.
    Barrier,
    /// For all items of its sub-group, with a value.
    Gather,
    /// For all items of the launch.
    Grid,
}

/// An item's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    Waiting(Wait),
    Done,
}
