//! Reading ELF: relocatable objects and archives of them.
//!
//! What is read here is checked once: tables lie in the file, indices lie in their tables. Nothing is copied and nothing
//! is allocated in proportion to a number that the file claims.

mod archive;
mod object;

pub(crate) use archive::{Archive, is_archive};
pub(crate) use object::{
    ElfObject, Home, LE, NO_MACHINE_CODE, Relocation, SLIM, Section, View, is_bitcode,
};
