//! Constructors and destructors in objects' lists.

use crate::graph::{BlockId, LinkGraph};
use crate::memory::Lifetime;

/// The functions of an object that run before and after all other functions, each with its
/// priority. A lower priority is constructed earlier and destroyed later.
#[derive(Debug, Default)]
pub(super) struct Initializers {
    pub(super) constructors: Vec<(u32, u64)>,
    pub(super) destructors: Vec<(u32, u64)>,
}

/// The priority of functions without one. The functions of `.preinit_array` come first of all.
const DEFAULT_PRIORITY: u32 = 65536;

impl Initializers {
    /// Reads the lists of a graph with final content.
    pub(super) fn new(graph: &mut LinkGraph) -> Self {
        let lists: Vec<(BlockId, List)> = graph
            .blocks()
            .filter(|block| block.live && !block.zero_fill)
            .filter_map(|block| {
                let section = graph.section(block.section);
                (section.lifetime != Lifetime::NoAlloc)
                    .then_some((block.id, List::named(section.name)?))
            })
            .collect();
        let mut initializers = Self::default();
        for (block, list) in lists {
            let mut functions = match list.form {
                Form::Code => vec![graph.block(block).address],
                Form::Forwards | Form::Backwards => listed(graph.content_mut(block)),
            };
            if list.form == Form::Backwards {
                functions.reverse();
            }
            let functions = functions.into_iter().map(|function| (list.priority, function));
            if list.constructs {
                initializers.constructors.extend(functions);
            } else {
                initializers.destructors.extend(functions);
            }
        }
        initializers
    }

    /// Returns whether an object has constructors or destructors, by the names of its sections.
    pub(super) fn are_in(names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> bool {
        names.into_iter().any(|name| List::named(name.as_ref()).is_some())
    }
}

/// Returns the priority of a section's functions within their kind.
pub(super) fn priority_of(section: &[u8]) -> u32 {
    List::named(section).map_or(u32::MAX, |list| list.priority)
}

/// Returns the functions that a section lists, without the values 0 and -1 that start files put at
/// the ends.
fn listed(content: &[u8]) -> Vec<u64> {
    let words = content.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    words.filter(|function| *function != 0 && *function != u64::MAX).collect()
}

/// A section with functions to run.
struct List {
    constructs: bool,
    priority: u32,
    form: Form,
}

/// The form in which a section has its functions. Destructors are reversed once more when they run.
#[derive(PartialEq, Eq)]
enum Form {
    /// The code of one function.
    Code,
    /// The functions' addresses, in the order in which they run.
    Forwards,
    /// The functions' addresses, in reverse order.
    Backwards,
}

impl List {
    fn named(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        let priority = |rest: &str| match rest.strip_prefix('.') {
            Some(number) => number.parse().ok(),
            None => rest.is_empty().then_some(DEFAULT_PRIORITY),
        };
        let one = |constructs, priority, form| Some(Self { constructs, priority, form });
        match name {
            ".preinit_array" => return one(true, 0, Form::Forwards),
            ".init" => return one(true, 1, Form::Code),
            ".fini" => return one(false, 1, Form::Code),
            _ => {}
        }
        for (prefix, constructs, is_old) in [
            (".init_array", true, false),
            (".fini_array", false, false),
            (".ctors", true, true),
            (".dtors", false, true),
        ] {
            let Some(rest) = name.strip_prefix(prefix) else { continue };
            let priority: u32 = priority(rest)?;
            // The priorities of the old sections count down, and their lists run in reverse.
            let priority = if is_old && priority != DEFAULT_PRIORITY {
                65535_u32.saturating_sub(priority)
            } else {
                priority
            };
            let form = if is_old { Form::Backwards } else { Form::Forwards };
            // The functions of `.preinit_array` and `.init` come before all others.
            return one(constructs, priority.saturating_add(2), form);
        }
        None
    }
}
