//! What is added lazily: pieces with definitions.

use bytes::Bytes;

use crate::Result;
use crate::graph::Linkage;

/// Where definitions come from, piece by piece: an archive's members, or what is compiled when it is asked for.
///
/// It is asked while the session links, on the thread for which it does, so it must not use the session itself. Several threads
/// may ask it, though those of one session do so one after the other. What it answers must not change.
pub trait Source: Send + Sync {
    /// Its name, for messages.
    fn name(&self) -> &str;

    /// What it defines under a name for others; nothing if it does not. Links and compiles nothing.
    ///
    /// # Errors
    /// If that cannot be read.
    fn defined(&self, name: &str) -> Result<Option<Defined>>;

    /// All that it defines for others, each name once, in any order. Links and compiles nothing.
    ///
    /// # Errors
    /// As for [`Self::defined`].
    fn all_defined(&self) -> Result<Vec<(String, Defined)>>;

    /// Does what takes long before the session is locked for a look-up of this name, as a first call makes one: [`Self::objects`] for it,
    /// and for what that needs, is quick afterwards. It is called on the thread that made the call, for different names by several
    /// threads at once, also for one name; the session may be used meanwhile. Nothing, as for an archive, unless said otherwise.
    ///
    /// # Errors
    /// As for [`Self::objects`]. The call fails with it.
    fn prepare(&self, name: &str) -> Result<()> {
        _ = name;
        Ok(())
    }

    /// The objects that define these names, each once, with their names for messages: also names that are hidden from others, as
    /// pieces may refer to each other's. A name that it does not define is not an error. They are linked together. If that fails they
    /// are asked for again.
    ///
    /// # Errors
    /// If an object cannot be read or made. The look-up fails with it.
    fn objects(&self, names: &mut dyn Iterator<Item = &str>) -> Result<Vec<(String, Bytes)>>;

    /// The objects that are linked whether or not anything asks for them, when constructors are first run: those that have some.
    /// None, as for an archive, unless said otherwise. They are asked for once, and the session may be used meanwhile.
    ///
    /// # Errors
    /// As for [`Self::objects`].
    fn initial_objects(&self) -> Result<Vec<(String, Bytes)>> {
        Ok(Vec::new())
    }

    /// Whether a weak reference gets what it defines, as for an object that is given; an archive's member is not taken for one.
    fn answers_weak(&self) -> bool {
        false
    }
}

/// What a name stands for that is defined for others, as its symbol says. Nothing is linked for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defined {
    /// Whether it is a function: only those have entries.
    pub callable: bool,
    /// Strong or weak.
    pub linkage: Linkage,
    /// Whether each thread has one of its own.
    pub thread_local: bool,
    /// Whether it is a function that a resolver chooses.
    pub indirect: bool,
    /// Its size in bytes, 0 if that is not said.
    pub size: u64,
    /// What the file has for it, before any relocation; nothing for what has no content there, or lies beyond its section.
    pub content: Option<Bytes>,
}
