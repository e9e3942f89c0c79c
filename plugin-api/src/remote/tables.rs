//! Requests for a plugin's tables, and checks of the plugin's answers.

use crate::abi;
use crate::error::Error;
use crate::layout::check_layout;
use crate::raw::text;
use abi_stable::StableAbi;
use std::fmt;
use std::sync::Arc;

with_interface!(longshore_interface_macros::remote_tables_of);

/// The reason why this host cannot use a library as a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Incompatible {
    /// A symbol that is not an entry.
    NoEntry,
    /// A plugin built for another major version of the interface.
    Interface {
        /// Major and minor version of the plugin.
        plugin: (u32, u32),
        /// Major and minor version of the host.
        host: (u32, u32),
    },
    /// A missing table that every plugin must have; its name.
    MissingTable(&'static str),
    /// A table with a null function.
    NullFunction {
        /// Name of the table.
        table: &'static str,
        /// Index of the function in the table, counted from 0.
        index: usize,
    },
    /// A table whose layout is not the published layout of its name and version.
    Layout {
        /// Name of the table, or "entry".
        table: &'static str,
        /// Difference, for people.
        difference: String,
    },
    /// A text of the description beyond its bound; the error names the text and the bound.
    Description(Error),
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incompatible::NoEntry => {
                write!(f, "its symbol 'longshore_plugin' is not a plugin entry (wrong magic)")
            }
            Incompatible::Interface { plugin, host } => write!(
                f,
                "it has interface {}.{}, this host has {}.{}",
                plugin.0, plugin.1, host.0, host.1
            ),
            Incompatible::MissingTable(table) => {
                write!(f, "it lacks the required table \"{table}\" version 1")
            }
            Incompatible::NullFunction { table, index } => {
                write!(f, "function {index} of its table \"{table}\" is null")
            }
            Incompatible::Layout { table, difference } => {
                write!(f, "the layout of \"{table}\" differs from the host's: {difference}")
            }
            Incompatible::Description(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Incompatible {}

/// Returns a table that every plugin must have.
///
/// # Safety
/// `entry` was checked, and its library stays loaded as long as the table is used.
unsafe fn required<T: StableAbi>(
    entry: &abi::Entry,
    name: &'static str,
) -> Result<&'static T, Incompatible> {
    // SAFETY: promised by the caller.
    unsafe { optional(entry, name)? }.ok_or(Incompatible::MissingTable(name))
}

/// Returns version 1 of a table; `None` if the plugin does not know the table.
///
/// # Safety
/// `entry` was checked, and its library stays loaded as long as the table is used.
unsafe fn optional<T: StableAbi>(
    entry: &abi::Entry,
    name: &'static str,
) -> Result<Option<&'static T>, Incompatible> {
    // SAFETY: a checked entry; the layout is null or one that the glue made.
    unsafe {
        let found = (entry.table)(text(name), 1);
        if found.table.is_null() {
            return Ok(None);
        }
        if !found.table.cast::<usize>().is_aligned() {
            let difference = format!("it is at {:p}, which is not a multiple of 8", found.table);
            return Err(Incompatible::Layout { table: name, difference });
        }
        check_layout::<T>(found.layout)
            .map_err(|difference| Incompatible::Layout { table: name, difference })?;
        // Every table consists of function pointers alone, none of which may be null.
        let count = size_of::<T>() / size_of::<usize>();
        let functions = std::slice::from_raw_parts(found.table.cast::<usize>(), count);
        if let Some(index) = functions.iter().position(|function| *function == 0) {
            return Err(Incompatible::NullFunction { table: name, index });
        }
        Ok(Some(&*found.table.cast::<T>()))
    }
}

#[cfg(test)]
mod tests {
    use crate::abi;
    use crate::remote::{Incompatible, RemotePlugin};
    use std::mem::MaybeUninit;
    use std::ptr::{null, null_mut, without_provenance};

    unsafe extern "C" fn describe(_: *mut abi::Description) {}

    unsafe extern "C" fn connect(
        _: *const abi::Services,
        _: *mut u32,
        _: *mut *mut abi::PlatformHandle,
        _: abi::Sink,
    ) -> *mut abi::ErrorObject {
        null_mut()
    }

    unsafe extern "C" fn table(_: abi::Text, _: u32) -> abi::TableRef {
        abi::TableRef { table: without_provenance(9), layout: null() }
    }

    #[test]
    fn an_entry_or_a_table_at_an_odd_address_is_refused() {
        let entry = abi::Entry {
            magic: abi::ENTRY_MAGIC,
            interface_major: abi::INTERFACE_MAJOR,
            interface_minor: abi::INTERFACE_MINOR,
            layout: null(),
            describe,
            connect,
            table,
        };
        let mut room = [MaybeUninit::<abi::Entry>::uninit(); 2];
        let odd = room.as_mut_ptr().cast::<u8>().wrapping_add(1).cast::<abi::Entry>();
        // SAFETY: the room has a place for the entry behind its first byte; no function of a
        // misaligned entry is called.
        let odd_entry = unsafe {
            odd.write_unaligned(entry);
            RemotePlugin::new(odd)
        };
        assert_eq!(odd_entry.err(), Some(Incompatible::NoEntry));
        // SAFETY: the functions stay loaded, and do nothing.
        let odd_table = unsafe { RemotePlugin::new(&raw const entry) };
        let Err(Incompatible::Layout { table, difference }) = odd_table else { panic!() };
        assert_eq!(
            (table, &*difference),
            ("longshore.platform", "it is at 0x9, which is not a multiple of 8")
        );
    }
}
