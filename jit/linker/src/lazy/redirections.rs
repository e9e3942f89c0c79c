//! Functions that are redirected by name.

use hashbrown::HashMap;

use super::trampolines::local;
use super::{RedirectableSymbol, RedirectableSymbols};
use crate::graph::{Definition, LinkGraph, Linkage, NewSymbol, Scope};
use crate::session::{Library, Object, Removal};
use crate::{Error, Result, Undefined};

/// Functions of a library with destinations that the caller sets and changes (as by ORC's
/// `createRedirectableSymbols` of `RedirectableSymbolManager`). They serve to replace running code
/// by better code. Dropping the value leaves the functions as they are. Any thread may use it.
pub struct Redirections<R> {
    symbols: R,
    /// Address of each function's slot, by its name.
    slots: HashMap<Box<str>, u64>,
    object: Object,
}

impl<R: RedirectableSymbols + Clone + 'static> Redirections<R> {
    /// Defines functions and links them: each name with the address that its calls reach at first.
    ///
    /// # Errors
    /// The errors of [`Library::add_graph`], and of the link. On error, nothing has changed.
    pub fn define(
        library: &Library,
        symbols: R,
        functions: impl IntoIterator<Item = (String, u64)>,
    ) -> Result<Self> {
        let functions: Vec<(String, u64)> = functions.into_iter().collect();
        let architecture = library.architecture();
        let first = functions.first().map_or("nothing", |(name, _)| name);
        let base = format!("__slots_of_{first}");
        let names = functions.iter().map(|(name, _)| Box::from(name.as_str()));
        let names: Vec<Box<str>> = names.collect();

        let (emitter, symbol) = (symbols.clone(), base.clone());
        let object = library.add_graph(move || {
            let mut graph = LinkGraph::new(&symbol, architecture);
            emit(&mut graph, &emitter, &functions, &symbol);
            graph
        })?;
        match library.lookup_own(&base) {
            Ok(base) => {
                let slots = names.into_iter().zip((base..).step_by(8)).collect();
                Ok(Self { symbols, slots, object })
            }
            Err(error) => {
                object.remove(Removal::Unused)?;
                Err(error)
            }
        }
    }

    /// Redirects further calls of a function to another address, also calls by code that has its
    /// address (ORC's `RedirectionManager::redirect`). A call under way may still reach the old
    /// one.
    ///
    /// # Errors
    /// [`Error::Undefined`] for a name that was not defined here, and an error if the executing
    /// side cannot be reached.
    pub fn redirect(&self, name: &str, destination: u64) -> Result<()> {
        let Some(slot) = self.slots.get(name) else {
            let file = "a redirection".to_owned();
            return Err(Error::Undefined(vec![Undefined { symbol: name.to_owned(), file }]));
        };
        self.symbols.redirect(*slot, destination)
    }

    /// Removes the functions, as [`Object::remove`] does.
    ///
    /// # Errors
    /// The errors of [`Object::remove`].
    pub fn remove(self, removal: Removal) -> Result<()> {
        self.object.remove(removal)
    }
}

/// Adds the functions, their destinations, and a name by which their slots are found.
fn emit(
    graph: &mut LinkGraph,
    emitter: &impl RedirectableSymbols,
    functions: &[(String, u64)],
    slots_name: &str,
) {
    let of_name =
        |name| RedirectableSymbol { name, linkage: Linkage::Strong, scope: Scope::Default };
    let symbols: Vec<_> = functions.iter().map(|(name, _)| of_name(name.as_str())).collect();
    let slots = emitter.emit(graph, &symbols);
    for (index, (_, destination)) in (0..).zip(functions) {
        let first = local(graph, "first_destination", Definition::Absolute(*destination));
        slots.point(graph, index, first, 0);
    }
    graph.add_symbol(NewSymbol {
        name: slots_name,
        definition: Definition::Block(slots.block, 0),
        size: 8 * functions.len() as u64,
        linkage: Linkage::Strong,
        scope: Scope::Hidden,
        callable: false,
    });
}
