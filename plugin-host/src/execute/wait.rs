//! How far items are that wait for each other.

/// What an item waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// For all items of its group.
    Barrier,
    /// For all items of its sub-group, with a value.
    Gather,
    /// For all items of the launch.
    Grid,
}

/// Where an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    Waiting(Wait),
    Done,
}
