//! The states of items that wait for each other.

/// The reason for an item's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A barrier, for all items of the group.
    Barrier,
    /// A barrier of the group, for all items that have not returned.
    BarrierOfRest,
    /// An exchange of values, for all items of the sub-group that have not returned.
    Gather,
    /// An exchange of values among these lanes of the sub-group. With 0, it is among the lanes that
    /// wait for it when all other lanes wait elsewhere.
    GatherOf(u32),
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
