//! The reader of ELF: relocatable objects and archives of them.
//!
//! The reader checks everything once: tables lie in the file, indices lie in their tables. It
//! copies nothing, and allocates nothing in proportion to a number that the file claims.

mod archive;
mod object;

pub(crate) use archive::{Archive, is_archive};
pub(crate) use object::{
    DefinitionPlace, ElfObject, LE, NO_MACHINE_CODE, Relocation, SLIM, Section, View, is_bitcode,
};
