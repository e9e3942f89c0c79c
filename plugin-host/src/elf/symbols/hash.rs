//! The two forms of the symbol hash table. If an image has both, the loader uses the GNU form.

use super::SymbolTable;
use crate::elf::dynamic::{Dynamic, Table};
use crate::elf::read::{u32_at, u64_at};
use crate::elf::segments::Segments;
use crate::elf::{ensure, malformed};
use longshore_plugin_api::Result;
use object::elf;
use std::ops::Range;

const WORD_BYTES: u64 = 4;
const BLOOM_BYTES: u64 = 8;

/// A checked hash table: it lies in the file and its chains end.
#[derive(Clone, Debug)]
pub(super) enum Hash {
    Gnu(Gnu),
    SystemV(SystemV),
}

/// `DT_GNU_HASH`: symbols from `first` on are sorted by bucket.
#[derive(Clone, Debug)]
pub(super) struct Gnu {
    table: Table,
    buckets: u32,
    first: u32,
    bloom_words: u32,
    bloom_shift: u32,
    symbol_count: u32,
}

/// `DT_HASH`: a chain of symbols for each bucket.
#[derive(Clone, Debug)]
pub(super) struct SystemV {
    table: Table,
    buckets: u32,
    chains: u32,
}

impl Hash {
    pub(super) fn parse(bytes: &[u8], dynamic: &Dynamic, segments: &Segments) -> Result<Hash> {
        if let Some(address) = dynamic.get(elf::DT_GNU_HASH) {
            return Gnu::parse(bytes, segments, address).map(Hash::Gnu);
        }
        let address = dynamic.require(elf::DT_HASH, "DT_GNU_HASH and no DT_HASH")?;
        SystemV::parse(bytes, segments, address).map(Hash::SystemV)
    }

    /// Returns the number of symbols that the table covers.
    pub(super) fn symbol_count(&self) -> u32 {
        match self {
            Hash::Gnu(hash) => hash.symbol_count,
            Hash::SystemV(hash) => hash.chains,
        }
    }

    /// Checks that the table finds every name that is defined and not local.
    pub(super) fn check(&self, bytes: &[u8], symbols: &SymbolTable) -> Result<()> {
        match self {
            Hash::Gnu(hash) => hash.check(bytes, symbols),
            Hash::SystemV(hash) => hash.check(bytes, symbols),
        }
    }

    /// Returns whether a lookup by name can find this symbol, provided that it is defined and not
    /// local.
    pub(super) fn has(&self, index: u32) -> bool {
        match self {
            Hash::Gnu(hash) => (hash.first..hash.symbol_count).contains(&index),
            Hash::SystemV(hash) => index < hash.chains,
        }
    }

    pub(super) fn addresses(&self) -> Range<u64> {
        match self {
            Hash::Gnu(hash) => hash.table.addresses.clone(),
            Hash::SystemV(hash) => hash.table.addresses.clone(),
        }
    }
}

impl Gnu {
    fn parse(bytes: &[u8], segments: &Segments, address: u64) -> Result<Gnu> {
        ensure!(address.is_multiple_of(8), "DT_GNU_HASH is {address:#x}, expected a multiple of 8");
        let header = Table::new(segments, address, 4 * WORD_BYTES, "DT_GNU_HASH")?;
        let word = |index: usize| u32_at(bytes, header.file.start + index * 4).unwrap_or(0);
        let (buckets, first, bloom_words, bloom_shift) = (word(0), word(1), word(2), word(3));
        ensure!(
            buckets > 0 && bloom_words.is_power_of_two() && bloom_shift < 32,
            "DT_GNU_HASH has {buckets} buckets, {bloom_words} filter words and shift \
             {bloom_shift}, expected at least 1, a power of two and less than 32"
        );
        let fixed =
            4 * WORD_BYTES + u64::from(bloom_words) * BLOOM_BYTES + u64::from(buckets) * WORD_BYTES;
        let table = Table::new(segments, address, fixed, "DT_GNU_HASH")?;
        let mut hash = Gnu { table, buckets, first, bloom_words, bloom_shift, symbol_count: first };
        hash.find_end(bytes, segments)?;
        Ok(hash)
    }

    /// Counts the symbols: the chain that starts last ends with the last symbol.
    fn find_end(&mut self, bytes: &[u8], segments: &Segments) -> Result<()> {
        let mut last = 0;
        for bucket in 0..self.buckets {
            let start = self.bucket(bytes, bucket);
            ensure!(
                start == 0 || start >= self.first,
                "DT_GNU_HASH's bucket {bucket} starts at symbol {start}, before the first, {}",
                self.first
            );
            last = last.max(start);
        }
        if last == 0 {
            return Ok(());
        }
        let unfinished =
            || malformed("DT_GNU_HASH's last chain does not end inside its segment".to_owned());
        let chains = self.table.addresses.end;
        let mut index = last;
        loop {
            let address = chains + u64::from(index - self.first) * WORD_BYTES;
            let place = segments.file_range(address, WORD_BYTES).ok_or_else(unfinished)?;
            if u32_at(bytes, place.start).ok_or_else(unfinished)? & 1 == 1 {
                break;
            }
            index = index.checked_add(1).ok_or_else(unfinished)?;
        }
        self.symbol_count = index.checked_add(1).ok_or_else(unfinished)?;
        let start = self.table.addresses.start;
        let end = chains + u64::from(self.symbol_count - self.first) * WORD_BYTES;
        self.table = Table::new(segments, start, end - start, "DT_GNU_HASH")?;
        Ok(())
    }

    fn check(&self, bytes: &[u8], symbols: &SymbolTable) -> Result<()> {
        let strings = &bytes[symbols.strings()];
        let mut seen = 0;
        for bucket in 0..self.buckets {
            let start = self.bucket(bytes, bucket);
            if start == 0 {
                continue;
            }
            for index in start..self.symbol_count {
                let chain = self.chain(bytes, index);
                let symbol = symbols.get(bytes, index);
                let name = symbol.and_then(|symbol| symbol.name(strings)).unwrap_or_default();
                let hash = elf::gnu_hash(name);
                ensure!(
                    chain | 1 == hash | 1
                        && hash % self.buckets == bucket
                        && self.passes_filter(bytes, hash),
                    "DT_GNU_HASH does not find symbol {index} '{}'",
                    String::from_utf8_lossy(name)
                );
                seen += 1;
                if chain & 1 == 1 {
                    break;
                }
            }
        }
        let hashed = self.symbol_count - self.first;
        ensure!(seen == hashed, "DT_GNU_HASH's buckets have {seen} symbols, expected {hashed}");
        Ok(())
    }

    fn passes_filter(&self, bytes: &[u8], hash: u32) -> bool {
        let index = (hash / 64) & (self.bloom_words - 1);
        let place = self.table.file.start + 16 + index as usize * BLOOM_BYTES as usize;
        let word = u64_at(bytes, place).unwrap_or(0);
        (word >> (hash % 64)) & (word >> ((hash >> self.bloom_shift) % 64)) & 1 == 1
    }

    fn bucket(&self, bytes: &[u8], index: u32) -> u32 {
        let start = 16 + self.bloom_words as usize * BLOOM_BYTES as usize;
        self.word(bytes, start + index as usize * 4)
    }

    fn chain(&self, bytes: &[u8], index: u32) -> u32 {
        let start = 16 + self.bloom_words as usize * BLOOM_BYTES as usize;
        let entry = self.buckets as usize + (index - self.first) as usize;
        self.word(bytes, start + entry * 4)
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        u32_at(bytes, self.table.file.start + at).unwrap_or(0)
    }
}

impl SystemV {
    fn parse(bytes: &[u8], segments: &Segments, address: u64) -> Result<SystemV> {
        ensure!(address.is_multiple_of(4), "DT_HASH is {address:#x}, expected a multiple of 4");
        let header = Table::new(segments, address, 2 * WORD_BYTES, "DT_HASH")?;
        let buckets = u32_at(bytes, header.file.start).unwrap_or(0);
        let chains = u32_at(bytes, header.file.start + 4).unwrap_or(0);
        ensure!(buckets > 0, "DT_HASH has no buckets, expected at least 1");
        let size = (2 + u64::from(buckets) + u64::from(chains)) * WORD_BYTES;
        let table = Table::new(segments, address, size, "DT_HASH")?;
        Ok(SystemV { table, buckets, chains })
    }

    fn check(&self, bytes: &[u8], symbols: &SymbolTable) -> Result<()> {
        let strings = &bytes[symbols.strings()];
        let mut seen = vec![false; self.chains as usize];
        for bucket in 0..self.buckets {
            let mut index = self.word(bytes, bucket as usize);
            while index != 0 {
                let place = seen.get_mut(index as usize);
                ensure!(
                    place.is_some_and(|seen| !std::mem::replace(seen, true)),
                    "DT_HASH's bucket {bucket} has symbol {index}, expected each of its {} symbols \
                     once",
                    self.chains
                );
                let symbol = symbols.get(bytes, index);
                let name = symbol.and_then(|symbol| symbol.name(strings)).unwrap_or_default();
                ensure!(
                    elf::hash(name) % self.buckets == bucket,
                    "DT_HASH does not find symbol {index} '{}'",
                    String::from_utf8_lossy(name)
                );
                index = self.word(bytes, self.buckets as usize + index as usize);
            }
        }
        let missing = symbols.iter(bytes).zip(&seen).position(|(symbol, seen)| {
            symbol.is_defined() && symbol.binding() != elf::STB_LOCAL && !seen
        });
        ensure!(missing.is_none(), "DT_HASH lacks symbol {}", missing.unwrap_or(0));
        Ok(())
    }

    /// Returns word `index` after the header: the buckets, then the chains.
    fn word(&self, bytes: &[u8], index: usize) -> u32 {
        u32_at(bytes, self.table.file.start + 8 + index * 4).unwrap_or(0)
    }
}
