//! The definitions of a module of LLVM bitcode, from the module's own tables. Reading them compiles
//! nothing, reads no function's body, and runs no tool.

mod records;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;

use longshore_compiler::Producer;
use longshore_compiler::bitstream::{Item, Record, Stream};
use longshore_compiler::producer::{IDENTIFICATION, unwrapped};

use records::Tables;

/// The globals of a module, and the facts that its compilation needs.
pub(crate) struct Module {
    pub(crate) producer: Producer,
    /// Target triple.
    pub(crate) triple: String,
    /// Whether the module has assembly outside of functions.
    pub(crate) has_assembly: bool,
    /// Names of sections that the module mentions.
    pub(crate) sections: HashSet<Vec<u8>>,
    pub(crate) globals: Vec<Global>,
    /// Offset of the name of the flag that makes the module a part of an executable, if it has the
    /// flag.
    pub(crate) executable_flag: Option<usize>,
    /// Private names of local globals, which an assembler leaves out, so that other pieces could
    /// not refer to them.
    private_names: Vec<PrivateName>,
    /// Functions, by their indices in `globals`, with blocks whose addresses are in initial values
    /// of variables.
    pub(crate) block_addresses: HashSet<usize>,
}

/// A name whose symbol begins with [`PRIVATE_PREFIX`].
struct PrivateName {
    /// Offset of the prefix in the module's bytes.
    place: usize,
    /// Replacement for the name's first character, which makes the name unique and not private.
    replacement: u8,
}

/// Prefix of labels that assemblers leave out of an object's symbols.
const PRIVATE_PREFIX: &[u8] = b".L";

/// A function, a variable, or an alias.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Global {
    /// Name in the module; empty for none.
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) linkage: Linkage,
    pub(crate) is_hidden: bool,
    /// Whether the module has more of it than a declaration.
    pub(crate) is_defined: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Function,
    Variable {
        thread_local: bool,
    },
    /// An alias of another global; `None` for an alias of a part of one.
    Alias {
        target: Option<usize>,
    },
    /// A function that a resolver chooses.
    Indirect {
        resolver: Option<usize>,
    },
}

/// The linkage of a global.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linkage {
    Strong,
    Weak,
    /// Linkage inside the module only.
    Local,
    /// A definition for the optimizer only; another module has the real one.
    AvailableExternally,
    /// An array that LLVM concatenates from all modules.
    Appending,
}

/// Name of the flag for position-independent executables, and another name of the same length.
const EXECUTABLE_FLAG: &[u8] = b"PIE Level";
const OTHER_FLAG: &[u8] = b"PIE_Level";

const MODULE: u64 = 8;
const STRINGS: u64 = 23;

impl Module {
    /// Reads the definitions of a module. The error describes the malformed part.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut stream = Stream::new(unwrapped(bytes)?);
        let (mut producer, mut tables, mut strings) = (Producer::default(), None, None);
        let mut record = Record::default();
        while let Some((mut block, common)) = stream.next_block()? {
            match block.id {
                IDENTIFICATION => {
                    while let Some(item) = block.next(common, &mut record)? {
                        if let Some(named) = Producer::from_record(&item, &record) {
                            producer = named;
                        }
                    }
                }
                MODULE if tables.is_some() => {
                    return Err(
                        "it has several modules, expected one: extract one with llvm-modextract"
                            .to_owned(),
                    );
                }
                MODULE => tables = Some(Tables::read(block, common)?),
                STRINGS => {
                    while let Some(item) = block.next(common, &mut record)? {
                        if matches!(item, Item::Record) && record.code == 1 {
                            strings = Some(record.blob);
                        }
                    }
                }
                _ => {}
            }
        }
        let tables = tables.ok_or("damaged bitcode: it has no module")?;
        let place = tables.texts.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
        let flag = tables.texts.windows(EXECUTABLE_FLAG.len()).position(|it| it == EXECUTABLE_FLAG);
        let strings = strings.unwrap_or_default();
        let (mut module, names) = tables.into_module(producer, strings)?;
        module.executable_flag = flag.map(|flag| place + flag);
        let start = strings.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr());
        module.private_names = private_names(&module.globals, &names, start);
        Ok(module)
    }

    /// Returns the module's bytes for the compilation of pieces, without the flag for executables.
    /// Pieces are not parts of an executable: a reference may be linked later, and thread-local
    /// variables may be placed anywhere. Private names of local globals are replaced.
    pub(crate) fn for_pieces<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut bytes = Cow::Borrowed(bytes);
        if let Some(flag) = self.executable_flag {
            // LLVM ignores an unknown flag.
            bytes.to_mut()[flag..flag + OTHER_FLAG.len()].copy_from_slice(OTHER_FLAG);
        }
        for name in &self.private_names {
            bytes.to_mut()[name.place] = name.replacement;
        }
        bytes
    }

    /// Returns whether [`Module::for_pieces`] renames globals.
    pub(crate) fn renames(&self) -> bool {
        !self.private_names.is_empty()
    }
}

impl Global {
    /// Returns the name of the symbol. A leading `\1` marks a name that is used unchanged; for ELF,
    /// all names are.
    pub(crate) fn symbol(&self) -> &[u8] {
        self.name.strip_prefix(b"\x01").unwrap_or(&self.name)
    }
}

/// Returns the private names of local globals. `names` has the offsets of all names in the strings,
/// which begin at `start` in the file.
fn private_names(globals: &[Global], names: &[usize], start: usize) -> Vec<PrivateName> {
    let mut taken: HashSet<Vec<u8>> = HashSet::new();
    let mut found: Vec<PrivateName> = Vec::new();
    for (global, name) in globals.iter().zip(names) {
        let is_private = global.symbol().starts_with(PRIVATE_PREFIX);
        if !is_private || !global.is_defined || global.linkage != Linkage::Local {
            continue;
        }
        if taken.is_empty() {
            taken.extend(globals.iter().map(|global| global.symbol().to_owned()));
        }
        let place = start + name + global.name.len() - global.symbol().len();
        let mut other = global.symbol().to_owned();
        let replacement = (b'a'..=b'z').chain(b'A'..=b'Z').chain(*b"_$").find(|character| {
            other[0] = *character;
            !taken.contains(&other)
        });
        // Several globals, such as a function and its group, may share one name in the strings.
        if let Some(replacement) = replacement.filter(|_| found.iter().all(|it| it.place != place))
        {
            taken.insert(other);
            found.push(PrivateName { place, replacement });
        }
    }
    found
}
