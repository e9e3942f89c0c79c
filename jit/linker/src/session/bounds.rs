//! The bounds that the linker defines for all members of a batch: of sections, and of the program.

mod program;
mod sections;

use super::batch::Batch;
use crate::Result;

pub(super) use program::program_bound;

use program::ProgramBounds;
use sections::SharedSections;

/// The bounds to which members of a batch refer.
pub(super) struct Bounds {
    sections: SharedSections,
    program: ProgramBounds,
}

impl Bounds {
    /// Finds the bounds, and makes the sections between them lie together. Bounds of sections that
    /// no member has count as missing, except for weak references and if `may_be_missing` is set.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) if sections between the same bounds need
    /// different kinds of memory.
    pub(super) fn find(batch: &mut Batch, may_be_missing: bool) -> Result<Self> {
        let mut sections = SharedSections::default();
        let program = ProgramBounds::find(batch, &mut sections)?;
        sections.share_bounds(batch, may_be_missing)?;
        Ok(Self { sections, program })
    }

    /// Returns whether there are no bounds, so that members can lie anywhere.
    pub(super) fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.program.is_empty()
    }

    /// Gives the bounds their addresses, once memory is allocated.
    pub(super) fn define(&self, batch: &mut Batch) {
        self.sections.define(batch);
        self.program.define(batch, &self.sections);
    }
}
