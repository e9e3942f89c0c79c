//! The symbols that objects define: their entries in their library's table, and their addresses
//! once they are linked.

use std::ops::Range;

use super::entry::EntryId;

/// Entries of a table in the order in which an object has received them. Most objects have a few
/// runs of consecutive entries.
#[derive(Debug, Clone, Default)]
pub(super) struct EntryList(Vec<Range<u32>>);

impl EntryList {
    pub(super) fn push(&mut self, entry: EntryId) {
        match self.0.last_mut() {
            Some(last) if last.end == entry.0 => last.end += 1,
            _ => self.0.push(entry.0..entry.0 + 1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|run| run.len()).sum()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = EntryId> {
        self.0.iter().cloned().flatten().map(EntryId)
    }
}

impl FromIterator<EntryId> for EntryList {
    fn from_iter<I: IntoIterator<Item = EntryId>>(entries: I) -> Self {
        let mut list = Self::default();
        entries.into_iter().for_each(|entry| list.push(entry));
        list
    }
}

/// Names and addresses of the symbols that a linked object defines. A symbol's place here
/// identifies it.
pub(super) struct LinkedSymbols {
    /// Base of the addresses.
    start: u64,
    /// The 32-bit offset of each symbol's address from the base, the symbol's name and a zero byte.
    symbols: Vec<u8>,
    /// Addresses without a 32-bit offset, by their symbol's place, ascending.
    elsewhere: Vec<(u32, u64)>,
}

/// Addresses of symbols, before their names are added. A link may have many of them, so each takes
/// 4 bytes.
pub(super) struct LinkedAddresses {
    start: u64,
    addresses: Vec<u32>,
    /// The addresses not within 4 GiB behind the base.
    elsewhere: Vec<u64>,
}

/// Symbols while their names are added.
pub(super) struct Naming {
    addresses: std::vec::IntoIter<u32>,
    far: std::vec::IntoIter<u64>,
    symbols: LinkedSymbols,
}

const ELSEWHERE: u32 = u32::MAX;
/// Size in bytes of a symbol's data before its name.
const ADDRESS: usize = size_of::<u32>();
/// Size in bytes of a symbol without its name.
pub(super) const OVERHEAD: usize = ADDRESS + 1;

impl LinkedAddresses {
    /// Creates an empty list with room for `count` symbols, most of them behind `start`.
    pub(super) fn new(start: u64, count: usize) -> Self {
        Self { start, addresses: Vec::with_capacity(count), elsewhere: Vec::new() }
    }

    pub(super) fn push(&mut self, address: u64) {
        let near = address.checked_sub(self.start).and_then(|offset| u32::try_from(offset).ok());
        let near = near.unwrap_or(ELSEWHERE);
        if near == ELSEWHERE {
            self.elsewhere.push(address);
        }
        self.addresses.push(near);
    }

    /// Starts the addition of the names, in the same order. `size` is their approximate total size
    /// in bytes, with [`OVERHEAD`] for each.
    pub(super) fn name(self, size: usize) -> Naming {
        let Self { start, addresses, elsewhere } = self;
        let symbols = Vec::with_capacity(size);
        let symbols = LinkedSymbols { start, symbols, elsewhere: Vec::new() };
        Naming { addresses: addresses.into_iter(), far: elsewhere.into_iter(), symbols }
    }
}

impl Naming {
    /// Adds the name of the next symbol, which must not contain a zero byte, and returns the
    /// symbol's place.
    pub(super) fn push(&mut self, name: &[u8]) -> u32 {
        let LinkedSymbols { symbols, elsewhere, .. } = &mut self.symbols;
        let at = symbols.len() as u32;
        let address = self.addresses.next().expect("there is an address for every name");
        if address == ELSEWHERE {
            elsewhere.extend(self.far.next().map(|address| (at, address)));
        }
        symbols.extend_from_slice(&address.to_le_bytes());
        symbols.extend_from_slice(name);
        symbols.push(0);
        at
    }

    pub(super) fn finish(mut self) -> LinkedSymbols {
        self.symbols.symbols.shrink_to_fit();
        self.symbols
    }
}

impl LinkedSymbols {
    pub(super) fn address(&self, at: u32) -> u64 {
        let offset = &self.symbols[at as usize..][..ADDRESS];
        match u32::from_le_bytes(offset.try_into().expect("it has the length of an address")) {
            ELSEWHERE => {
                let index = self.elsewhere.binary_search_by_key(&at, |(place, _)| *place);
                self.elsewhere[index.expect("each of them is in the list")].1
            }
            offset => self.start + u64::from(offset),
        }
    }

    pub(super) fn name(&self, at: u32) -> &[u8] {
        let rest = &self.symbols[at as usize + ADDRESS..];
        &rest[..memchr::memchr(0, rest).expect("every name is followed by a zero")]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_found_by_their_places() {
        let all = [0x1000, 0x1000 + u64::from(u32::MAX), 0x1234, 7, u64::MAX];
        let names: [&[u8]; 5] = [b"first", b"far", b"", b"absolute", b"last"];
        let mut addresses = LinkedAddresses::new(0x1000, all.len());
        all.iter().for_each(|address| addresses.push(*address));
        let mut naming = addresses.name(0);
        let places = names.map(|name| naming.push(name));
        let symbols = naming.finish();
        let found = |at: &u32| (symbols.address(*at), symbols.name(*at));
        let expected: Vec<_> = all.into_iter().zip(names).collect();
        assert_eq!(places.iter().map(found).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_list_keeps_the_order_of_its_entries() {
        let entries = [3, 4, 5, 1, 2, 9, 8].map(EntryId);
        let list: EntryList = entries.into_iter().collect();
        assert_eq!(list.iter().collect::<Vec<_>>(), entries);
        assert_eq!(list.0.len(), 4);
    }
}
