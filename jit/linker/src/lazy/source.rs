//! Sources of lazy additions: pieces with definitions.

use bytes::Bytes;

use crate::Result;
use crate::graph::Linkage;

/// A source of definitions, piece by piece: the members of an archive, or code that is compiled on
/// demand.
///
/// The session calls it during a link, on the linking thread, so it must not use the session
/// itself. Several threads may call it, although one session calls it from one thread at a time.
/// Its replies must not change.
pub trait Source: Send + Sync {
    /// Returns the source's name, for messages.
    fn name(&self) -> &str;

    /// Returns the source's definition of a name that other pieces see; `None` for an undefined
    /// name. Links and compiles nothing.
    ///
    /// # Errors
    /// An error if the definitions cannot be read.
    fn defined(&self, name: &str) -> Result<Option<Defined>>;

    /// Returns all definitions that other pieces see, each name once, in any order. Links and
    /// compiles nothing.
    ///
    /// # Errors
    /// The errors of [`Self::defined`].
    fn all_defined(&self) -> Result<Vec<(String, Defined)>>;

    /// Does the long work for a look-up of this name by a first call, before the session is locked.
    /// A call of [`Self::objects`] for the name, and for the names that it needs, is quick
    /// afterwards.
    ///
    /// The method runs on the calling thread, for several threads at once, with different names or
    /// the same. It may use the session. The default, as for an archive, does nothing.
    ///
    /// # Errors
    /// The errors of [`Self::objects`]. The call fails with the error.
    fn prepare(&self, name: &str) -> Result<()> {
        _ = name;
        Ok(())
    }

    /// Returns the objects that define these names, each once, with their names for messages.
    /// Hidden names count too, as pieces may refer to each other's. A name that the source does not
    /// define is not an error. The objects are linked together. If the link fails, they are
    /// requested again.
    ///
    /// # Errors
    /// An error if an object cannot be read or made. The look-up fails with the error.
    fn objects(&self, names: &mut dyn Iterator<Item = &str>) -> Result<Vec<(String, Bytes)>>;

    /// Returns the objects that are linked without a request when constructors first run: the
    /// objects that have constructors. The default, as for an archive, returns none. The method is
    /// called once, and may use the session.
    ///
    /// # Errors
    /// The errors of [`Self::objects`].
    fn initial_objects(&self) -> Result<Vec<(String, Bytes)>> {
        Ok(Vec::new())
    }

    /// Returns whether the source's definitions satisfy weak references, as an object's do; the
    /// definitions of archive members do not.
    fn answers_weak(&self) -> bool {
        false
    }
}

/// The definition of a name that other pieces see, from its symbol. Reading it links nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defined {
    /// Whether it is a function: only functions have entries.
    pub callable: bool,
    /// Strong or weak.
    pub linkage: Linkage,
    /// Whether each thread has its own copy.
    pub thread_local: bool,
    /// Whether it is a function that a resolver chooses.
    pub indirect: bool,
    /// Size in bytes, 0 if unknown.
    pub size: u64,
    /// The symbol's content in the file, before any relocation; `None` if it has none there, or
    /// lies beyond its section.
    pub content: Option<Bytes>,
}
