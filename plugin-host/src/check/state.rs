//! The state of a launch that code of checked images reads.

/// The part of a launch that the inlined checks of `jit/checks/src/fast.rs` use.
#[repr(C)]
pub(crate) struct State {
    /// Segment of the current item.
    pub(crate) segment: u32,
    /// Segments below this one are over.
    pub(crate) first: u32,
    /// Segments from `group_first` are over too, this many of them.
    pub(crate) group_first: u32,
    pub(crate) span: u32,
    /// Segments from `first` to this one are of groups that are over. Nothing orders them.
    pub(crate) older_end: u32,
    /// Segments from this one are of the group since its last barrier. Nothing orders two of them.
    pub(crate) two_from: u32,
    /// Segment of the group's first item since the last barrier.
    pub(crate) base: u32,
}

impl State {
    pub(crate) const NONE: State =
        State { segment: 0, first: 0, group_first: 0, span: 0, older_end: 0, two_from: 0, base: 0 };
}
