//! What a module of LLVM bitcode defines, as its own tables say. Nothing of it is compiled for that, no function's body is read, and no
//! tool is run.

mod bitstream;
mod records;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashSet;

use bitstream::{Item, Record, Stream};

use records::Tables;

/// A module's globals, and what is to be known of it to compile it.
pub(crate) struct Module {
    /// What wrote it, as `LLVM19.1.7`; empty if that is not said.
    pub(crate) producer: String,
    /// What it is for.
    pub(crate) triple: String,
    /// Whether it has assembly of its own beside functions.
    pub(crate) has_assembly: bool,
    /// The sections in which it puts something by name.
    pub(crate) sections: HashSet<Vec<u8>>,
    pub(crate) globals: Vec<Global>,
    /// Where it says that it is a part of an executable, if it does: the place of the name of that flag.
    pub(crate) executable_flag: Option<usize>,
    /// The names of its own that an assembler keeps to itself, which pieces could not refer to.
    private_names: Vec<PrivateName>,
    /// The functions, by their places in `globals`, with blocks whose addresses are in initial values of variables.
    pub(crate) block_addresses: HashSet<usize>,
}

/// A name whose symbol begins with [`PRIVATE_PREFIX`].
struct PrivateName {
    /// The place of the prefix among the module's bytes.
    place: usize,
    /// A character that makes the name another one, which no global has, in place of the first one.
    replacement: u8,
}

/// With this, assemblers begin the names of labels that they leave out of an object's symbols.
const PRIVATE_PREFIX: &[u8] = b".L";

/// A function, a variable, or another name of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Global {
    /// Its name in the module; empty if it has none.
    pub(crate) name: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) linkage: Linkage,
    pub(crate) is_hidden: bool,
    /// Whether the module has more of it than its name and type.
    pub(crate) is_defined: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Function,
    Variable {
        thread_local: bool,
    },
    /// Of another global; nothing if it is of a part of one.
    Alias {
        of: Option<usize>,
    },
    /// A function that a resolver chooses.
    Indirect {
        resolver: Option<usize>,
    },
}

/// How a global meets others of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linkage {
    Strong,
    Weak,
    /// No other module sees it.
    Local,
    /// What the module has of it is for the optimizer; another one defines it.
    AvailableExternally,
    /// What LLVM gathers from all modules.
    Appending,
}

/// The name of the flag for position-independent executables, and another one as long.
const EXECUTABLE_FLAG: &[u8] = b"PIE Level";
const OTHER_FLAG: &[u8] = b"PIE_Level";

const IDENTIFICATION: u64 = 13;
const MODULE: u64 = 8;
const STRINGS: u64 = 23;

impl Module {
    /// Reads what a module defines. The error says what is wrong with the bytes.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut stream = Stream::new(unwrapped(bytes)?);
        let (mut producer, mut tables, mut strings) = (String::new(), None, None);
        let mut record = Record::default();
        while let Some((mut block, common)) = stream.next()? {
            match block.id {
                IDENTIFICATION => {
                    while let Some(item) = block.next(common, &mut record)? {
                        if matches!(item, Item::Record) && record.code == 1 {
                            producer = records::text(&record.fields);
                        }
                    }
                }
                MODULE if tables.is_some() => {
                    return Err(
                        "it has several modules, expected one: llvm-modextract takes one out"
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

    /// The module's bytes, which do not say that it is a part of an executable: pieces are not, as what they refer to may be linked
    /// later, with thread-local variables wherever there is room. Names that an assembler would keep to itself are others.
    pub(crate) fn for_pieces<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut bytes = Cow::Borrowed(bytes);
        if let Some(flag) = self.executable_flag {
            // A flag that LLVM does not know.
            bytes.to_mut()[flag..flag + OTHER_FLAG.len()].copy_from_slice(OTHER_FLAG);
        }
        for name in &self.private_names {
            bytes.to_mut()[name.place] = name.replacement;
        }
        bytes
    }

    /// Whether [`Module::for_pieces`] gives globals other names.
    pub(crate) fn renames(&self) -> bool {
        !self.private_names.is_empty()
    }

    /// The version of LLVM that wrote it, if that is one of LLVM's own numbers.
    pub(crate) fn producer_version(&self) -> Option<u32> {
        let version = self.producer.strip_prefix("LLVM")?;
        version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }
}

impl Global {
    /// The name of its symbol. A leading `\1` says that it is that already; nothing else changes names for ELF.
    pub(crate) fn symbol(&self) -> &[u8] {
        self.name.strip_prefix(b"\x01").unwrap_or(&self.name)
    }
}

/// The private names of globals that only the module sees; `names` says where those of all begin in the strings, which begin at
/// `start` of the file.
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
        // Several globals, such as a function and its group, may have one place.
        if let Some(replacement) = replacement.filter(|_| found.iter().all(|it| it.place != place))
        {
            taken.insert(other);
            found.push(PrivateName { place, replacement });
        }
    }
    found
}

const RAW: &[u8] = b"BC\xc0\xde";
const WRAPPED: &[u8] = b"\xde\xc0\x17\x0b";

/// The stream without its signature, and without the header that some writers put before it.
fn unwrapped(bytes: &[u8]) -> Result<&[u8], String> {
    let raw = if bytes.starts_with(WRAPPED) {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?.try_into().ok()?;
            usize::try_from(u32::from_le_bytes(word)).ok()
        };
        let range = word(8).zip(word(12));
        let range = range.and_then(|(offset, size)| Some(offset..offset.checked_add(size)?));
        let inner = range.and_then(|range| bytes.get(range));
        inner.ok_or("damaged bitcode: its header says that it goes on beyond the file's end")?
    } else {
        bytes
    };
    let missing = "it is not LLVM bitcode: expected a file that begins with `BC` and 0xc0de";
    Ok(raw.strip_prefix(RAW).ok_or(missing)?)
}
