//! The partition of a module into functions, which are compiled on demand, and the rest.
//!
//! A function is a piece of its own, with its aliases. All other globals are one piece, the *rest*:
//! variables with their initial values, the lists of constructors and destructors, assembly, and
//! functions that cannot be separated from them:
//!
//! - functions with blocks whose addresses are in variables,
//! - functions that a resolver chooses, and their resolvers.
//!
//! Names that are local to the module are replaced by unique ones, as pieces are objects of their
//! own and must not clash with others. ORC's `SymbolLinkagePromoter` does the same. A function's
//! new name is like any other name, so that calls between pieces pass through entries. A hidden
//! function has both names: one for other modules, and one for its own.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use longshore_jitlink::graph::Linkage as SymbolLinkage;
use longshore_jitlink::lazy::Defined;

use crate::module::{Global, Kind, Linkage, Module};
use crate::symbols::DefinedSymbol;

/// The pieces of a module, and their symbols.
pub(crate) struct Partition {
    pub(crate) pieces: Vec<Piece>,
    symbols: HashMap<String, Symbol>,
    /// Names inside pieces that differ outside.
    pub(crate) renamed: HashMap<Vec<u8>, RenamedSymbol>,
    /// Symbols of resolvers with their names in the module. Every piece has all resolvers, as the
    /// tools accept no indirect function without its resolver.
    pub(crate) resolvers: HashMap<Vec<u8>, Vec<u8>>,
    /// Symbols of the indirect functions, which resolvers choose.
    pub(crate) indirect: HashSet<Vec<u8>>,
    /// Local symbols of assembly, and the names by which pieces find them.
    pub(crate) assembled: HashMap<Vec<u8>, Vec<u8>>,
    /// Bounds of sections of variables that the module refers to.
    pub(crate) bounds: Vec<SectionBound>,
    /// Suffix that makes this module's names unique.
    pub(crate) tag: String,
    pub(crate) has_constructors: bool,
}

/// A part of the module that is compiled at once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// All globals but the functions and aliases of other pieces.
    Rest {
        functions: Vec<Vec<u8>>,
        aliases: Vec<Vec<u8>>,
    },
    Function {
        name: Vec<u8>,
        aliases: Vec<Vec<u8>>,
    },
}

/// A symbol of the module.
struct Symbol {
    piece: usize,
    /// Definition for other modules; `None` if they cannot see it.
    defined: Option<Defined>,
    /// Whether the name is the partition's choice.
    is_renamed: bool,
}

/// The name outside a piece of a symbol with another name inside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RenamedSymbol {
    pub(crate) name: Vec<u8>,
    /// Whether the symbol is a function, which can have an entry.
    pub(crate) callable: bool,
    /// Whether the symbol also keeps its name, for other modules.
    pub(crate) keeps_name: bool,
}

/// A bound of a section, as linkers define it.
pub(crate) struct SectionBound {
    pub(crate) symbol: Vec<u8>,
    pub(crate) section: Vec<u8>,
    pub(crate) is_end: bool,
    /// Name of the bound among the pieces.
    pub(crate) name: Vec<u8>,
}

/// Index of the rest among the pieces.
pub(crate) const REST: usize = 0;

impl Partition {
    /// Partitions a module. Its name and its bytes make the new names unique.
    pub(crate) fn new(module: &Module, name: &str, bytes: &[u8]) -> Self {
        let own = own_pieces(module);
        let mut partition = Self {
            pieces: Vec::new(),
            symbols: HashMap::new(),
            renamed: HashMap::new(),
            resolvers: HashMap::new(),
            indirect: HashSet::new(),
            assembled: HashMap::new(),
            bounds: Vec::new(),
            tag: tag(name, bytes),
            has_constructors: false,
        };
        partition.take_apart(module, &own);
        for (index, global) in module.globals.iter().enumerate() {
            if let Kind::Indirect { resolver } = global.kind {
                partition.add_resolver(module, resolver);
                // Every piece has its own copy of a local indirect function.
                if global.linkage == Linkage::Local {
                    continue;
                }
                partition.indirect.insert(global.symbol().to_owned());
            }
            if global.name.starts_with(b"llvm.") {
                let is_list = matches!(&*global.name, b"llvm.global_ctors" | b"llvm.global_dtors");
                partition.has_constructors |= is_list && global.is_defined;
            } else if !global.is_defined {
                partition.add_bound(module, global);
            } else if is_defined_here(global) {
                partition.add_symbol(global, own.piece_of[index], is_callable(module, index));
            }
        }
        partition
    }

    /// Returns the piece that defines a name.
    pub(crate) fn piece_of(&self, name: &str) -> Option<usize> {
        self.symbols.get(name).map(|symbol| symbol.piece)
    }

    /// Returns the definition of a name for other modules.
    pub(crate) fn defined(&self, name: &str) -> Option<&Defined> {
        self.symbols.get(name)?.defined.as_ref()
    }

    /// Returns all definitions for other modules under their original names.
    pub(crate) fn all_defined(&self) -> impl Iterator<Item = (&str, &Defined)> {
        let known = self.symbols.iter().filter(|(_, symbol)| !symbol.is_renamed);
        known.filter_map(|(name, symbol)| Some((name.as_str(), symbol.defined.as_ref()?)))
    }

    /// Returns the piece with a symbol of this name.
    pub(crate) fn owner(&self, name: &[u8]) -> Option<usize> {
        self.piece_of(std::str::from_utf8(name).ok()?)
    }

    /// Adds the definitions that the compilation of the rest has revealed, such as assembly's.
    pub(crate) fn add_assembled(&mut self, assembled: Vec<DefinedSymbol>) {
        for DefinedSymbol { name, is_function, is_weak, is_local, is_hidden } in assembled {
            let text = String::from_utf8_lossy(&name).into_owned();
            if self.symbols.contains_key(&text) || self.is_own(&name) {
                continue;
            }
            let linkage = if is_weak { SymbolLinkage::Weak } else { SymbolLinkage::Strong };
            let seen = (!is_local && !is_hidden).then(|| Defined {
                callable: is_function,
                linkage,
                thread_local: false,
                indirect: false,
                size: 0,
                content: None,
            });
            let symbol = Symbol { piece: REST, defined: seen, is_renamed: is_local };
            if is_local {
                let other = format!("{text}.{}", self.tag);
                self.assembled.insert(name, other.clone().into());
                self.symbols.insert(other, symbol);
            } else {
                self.symbols.insert(text, symbol);
            }
        }
    }

    /// Returns whether a symbol of a piece has another name in the module.
    fn is_own(&self, name: &[u8]) -> bool {
        self.renamed.contains_key(name)
            || self.indirect.contains(name)
            || self.resolvers.contains_key(name)
    }

    fn add_resolver(&mut self, module: &Module, resolver: Option<usize>) {
        if let Some(resolver) = resolver {
            let resolver = &module.globals[behind_aliases(module, resolver)];
            self.resolvers.insert(resolver.symbol().to_owned(), resolver.name.clone());
        }
    }

    fn take_apart(&mut self, module: &Module, own: &PieceMap) {
        let (mut functions, mut aliases) = (Vec::new(), Vec::new());
        self.pieces.push(Piece::Rest { functions: Vec::new(), aliases: Vec::new() });
        for function in &own.functions {
            let name = module.globals[*function].name.clone();
            functions.push(name.clone());
            self.pieces.push(Piece::Function { name, aliases: Vec::new() });
        }
        for (index, piece) in own.piece_of.iter().enumerate() {
            let global = &module.globals[index];
            if let (Kind::Alias { .. }, Piece::Function { aliases: own, .. }) =
                (global.kind, &mut self.pieces[*piece])
            {
                own.push(global.name.clone());
                aliases.push(global.name.clone());
            }
        }
        self.pieces[REST] = Piece::Rest { functions, aliases };
    }

    /// Adds an undefined symbol, if it is a bound of one of the module's sections, which linkers
    /// define.
    fn add_bound(&mut self, module: &Module, global: &Global) {
        let name = global.symbol();
        let start = name.strip_prefix(b"__start_").map(|section| (section, false));
        let bound = start.or_else(|| Some((name.strip_prefix(b"__stop_")?, true)));
        let Some((section, is_end)) = bound.filter(|(it, _)| module.sections.contains(*it)) else {
            return;
        };
        let other = format!("{}.{}", String::from_utf8_lossy(name), self.tag);
        self.bounds.push(SectionBound {
            symbol: name.to_owned(),
            section: section.to_owned(),
            is_end,
            name: other.clone().into(),
        });
        self.symbols.insert(other, Symbol { piece: REST, defined: None, is_renamed: true });
    }

    fn add_symbol(&mut self, global: &Global, piece: usize, callable: bool) {
        let is_local = global.linkage == Linkage::Local;
        let name = String::from_utf8_lossy(global.symbol());
        let symbol = |is_seen: bool, is_renamed| {
            let defined = is_seen.then(|| defined(global, callable));
            Symbol { piece, defined, is_renamed }
        };
        if !is_local {
            self.symbols.insert(name.clone().into_owned(), symbol(!global.is_hidden, false));
        }
        if is_local || global.is_hidden && callable {
            let other = format!("{name}.{}", self.tag);
            let renamed =
                RenamedSymbol { name: other.clone().into(), callable, keeps_name: !is_local };
            self.renamed.insert(global.symbol().to_owned(), renamed);
            self.symbols.insert(other, symbol(callable, true));
        }
    }
}

/// The functions that are pieces of their own, and the piece of each global.
struct PieceMap {
    functions: Vec<usize>,
    piece_of: Vec<usize>,
}

fn own_pieces(module: &Module) -> PieceMap {
    let resolvers: HashSet<usize> = module
        .globals
        .iter()
        .filter_map(|global| match global.kind {
            Kind::Indirect { resolver } => resolver.map(|index| behind_aliases(module, index)),
            _ => None,
        })
        .collect();
    let is_own = |index: &usize| {
        let global = &module.globals[*index];
        // The tools take names as arguments, which end at a zero byte.
        global.kind == Kind::Function
            && is_defined_here(global)
            && !global.name.is_empty()
            && !global.name.contains(&0)
            && !resolvers.contains(index)
            && !module.block_addresses.contains(index)
    };
    let functions: Vec<usize> = (0..module.globals.len()).filter(is_own).collect();
    let mut piece_of = vec![REST; module.globals.len()];
    for (number, function) in functions.iter().enumerate() {
        piece_of[*function] = number + 1;
    }
    for index in 0..module.globals.len() {
        piece_of[index] = piece_of[behind_aliases(module, index)];
    }
    PieceMap { functions, piece_of }
}

/// Returns the global at the end of a chain of aliases.
fn behind_aliases(module: &Module, mut index: usize) -> usize {
    for _ in 0..module.globals.len() {
        match module.globals[index].kind {
            Kind::Alias { target: Some(target) } => index = target,
            _ => break,
        }
    }
    index
}

fn is_callable(module: &Module, index: usize) -> bool {
    let kind = module.globals[behind_aliases(module, index)].kind;
    matches!(kind, Kind::Function | Kind::Indirect { .. })
}

fn is_defined_here(global: &Global) -> bool {
    global.is_defined && global.linkage != Linkage::AvailableExternally
}

fn defined(global: &Global, callable: bool) -> Defined {
    Defined {
        callable,
        linkage: match global.linkage {
            Linkage::Weak => SymbolLinkage::Weak,
            _ => SymbolLinkage::Strong,
        },
        thread_local: global.kind == Kind::Variable { thread_local: true },
        indirect: matches!(global.kind, Kind::Indirect { .. }),
        size: 0,
        content: None,
    }
}

/// Returns the suffix for new names: equal for equal modules, and otherwise unique.
fn tag(name: &str, bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    (name, bytes).hash(&mut hasher);
    format!("longshore.{:016x}", hasher.finish())
}
