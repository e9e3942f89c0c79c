//! The layouts of LLVM's raw profiles, for plugins that read the sections and for the host, which
//! writes the files. The numbers equal `INSTR_PROF_DATA` in LLVM's `InstrProfData.inc`.

use crate::{Error, ErrorCode, Result};
use std::ops::Range;

/// A raw version with its variant bits, as `__llvm_profile_raw_version` holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawVersion(pub u64);

/// The offsets of the fields in a record of a data section, in bytes from the record's start. All
/// numbers are little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordLayout {
    /// Size of a record in bytes.
    pub bytes: usize,
    /// Offset of 64 bits: the first counter's address minus the record's.
    pub counters: usize,
    /// Offset of 64 bits: the bitmap's address minus the record's.
    pub bitmap: Option<usize>,
    /// Size of a counter in bytes: 8, or 1 for coverage alone. A coverage counter has the value 0
    /// if its part ran, else the value 255.
    pub counter_bytes: usize,
    /// Offset of 32 bits: the number of the function's counters.
    pub counter_count: usize,
    /// Offsets of 16 bits for each kind of value: the number of places that record it.
    pub value_sites: Range<usize>,
    /// Offset of 32 bits: the size of the function's bitmap in bytes.
    pub bitmap_bytes: Option<usize>,
}

/// Mask of the number; the upper half of the version holds variant bits.
const NUMBER: u64 = 0xffff_ffff;
/// Accepted variants: counted loop entries, instrumentation of IR, context sensitivity, entries
/// that are always counted, counters of 1 byte, counts of entries alone, times of first runs.
const PASSED_ON: u64 = 1 << 55 | 1 << 56 | 1 << 57 | 1 << 58 | BYTE_COVERAGE | 1 << 61 | TEMPORAL;
const BYTE_COVERAGE: u64 = 1 << 60;
const TEMPORAL: u64 = 1 << 63;
/// Variants with another layout of profiles, and the options of clang that select them.
const REFUSED: [(u64, &str, &str); 2] = [
    (1 << 59, "has its records in debug information", "-profile-correlate=debug-info"),
    (1 << 62, "profiles memory", "-fmemory-profile"),
];

impl RawVersion {
    /// Returns the number without variant bits: 8 for LLVM 13 to 17, 9 for LLVM 18, 10 for LLVM 19
    /// to 22.
    pub fn number(self) -> u64 {
        self.0 & NUMBER
    }

    /// Returns whether the first counter of a function is not a count but the time of its first
    /// run.
    pub fn is_temporal(self) -> bool {
        self.0 & TEMPORAL != 0
    }

    /// Returns the layout of the records.
    ///
    /// # Errors
    /// `Unsupported` for versions other than 8 to 10, and for variants with records in debug
    /// information or profiles of memory.
    pub fn layout(self) -> Result<RecordLayout> {
        let refuse = |message: String| Err(Error::new(ErrorCode::Unsupported, message));
        if let Some((_, what, option)) = REFUSED.iter().find(|(bit, ..)| self.0 & bit != 0) {
            return refuse(format!("the image {what}; compile it without {option}"));
        }
        let unknown = self.0 & !NUMBER & !PASSED_ON;
        if unknown != 0 {
            let raw = self.0;
            return refuse(format!(
                "the image's profile has raw version {raw:#x}, whose variant bits {unknown:#x} are \
                 not known"
            ));
        }
        let layout = match self.number() {
            8 => RecordLayout {
                bytes: 48,
                counters: 16,
                bitmap: None,
                counter_bytes: 8,
                counter_count: 40,
                value_sites: 44..48,
                bitmap_bytes: None,
            },
            9 => with_bitmap(52..56, 56),
            10 => with_bitmap(52..58, 60),
            other => {
                return refuse(format!(
                    "the image's profile has raw version {other}, expected 8 to 10; compile it \
                     with clang 14 to 22"
                ));
            }
        };
        let counter_bytes = if self.0 & BYTE_COVERAGE == 0 { 8 } else { 1 };
        Ok(RecordLayout { counter_bytes, ..layout })
    }
}

fn with_bitmap(value_sites: Range<usize>, bitmap_bytes: usize) -> RecordLayout {
    RecordLayout {
        bytes: 64,
        counters: 16,
        bitmap: Some(24),
        counter_bytes: 8,
        counter_count: 48,
        value_sites,
        bitmap_bytes: Some(bitmap_bytes),
    }
}

impl RecordLayout {
    /// Returns the number of counters of a record's function; 0 for a truncated record.
    pub fn counters_of(&self, record: &[u8]) -> u32 {
        let field = record.get(self.counter_count..).and_then(<[u8]>::first_chunk);
        field.map_or(0, |field| u32::from_le_bytes(*field))
    }

    /// Returns the address of a record's first counter, for a record at `address`; `None` for a
    /// truncated record.
    pub fn counters_at(&self, record: &[u8], address: u64) -> Option<u64> {
        let field = record.get(self.counters..)?.first_chunk()?;
        Some(address.wrapping_add(u64::from_le_bytes(*field)))
    }
}

/// Infers the raw version of an image that does not state it, as some front ends leave it to the
/// runtime. The version's layout must place every record's counters among the counters of the
/// image. `None` if no version fits, or without a record. Versions 9 and 10 differ in the place of
/// the bitmaps' sizes; without bitmaps the version is 9 if `compiler` is LLVM 18.
///
/// `records` are parts of the data section, each with its address. `counters` are the addresses of
/// counters, in ascending order.
pub fn infer_version(
    records: &[(u64, &[u8])],
    counters: &[Range<u64>],
    compiler: Option<u32>,
) -> Option<RawVersion> {
    let fits = |number: &u64| {
        let layout = RawVersion(*number).layout().expect("a known version");
        records.iter().all(|part| fit(&layout, *part, counters))
    };
    if records.iter().all(|(_, contents)| contents.is_empty()) {
        return None;
    }
    let version = [10, 8].into_iter().find(fits)?;
    let sized_as = |number| {
        let at = RawVersion(number).layout().ok()?.bitmap_bytes?;
        Some(records.iter().any(|(_, contents)| {
            contents.chunks_exact(64).any(|record| record[at..at + 4] != [0; 4])
        }))
    };
    let may_be_9 = version == 10 && sized_as(10) == Some(false);
    let is_9 = may_be_9 && (sized_as(9) == Some(true) || compiler == Some(18));
    Some(RawVersion(if is_9 { 9 } else { version }))
}

fn fit(layout: &RecordLayout, (start, contents): (u64, &[u8]), counters: &[Range<u64>]) -> bool {
    let mut records = contents.chunks_exact(layout.bytes).enumerate();
    let is_fit = |(index, record): (usize, &[u8])| {
        let address = start.wrapping_add((index * layout.bytes) as u64);
        let (count, first) = (layout.counters_of(record), layout.counters_at(record, address));
        let Some(first) = first.filter(|_| count > 0) else { return false };
        let behind = counters.partition_point(|range| range.start <= first);
        let range = counters[..behind].last();
        range.is_some_and(|range| {
            range
                .end
                .checked_sub(first)
                .is_some_and(|left| u64::from(count) * layout.counter_bytes as u64 <= left)
        })
    };
    contents.len() % layout.bytes == 0 && records.all(is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records at 0x1000 with three counters each, from 0x8000 on.
    fn records(version: u64, count: usize) -> Vec<u8> {
        let layout = RawVersion(version).layout().unwrap();
        let mut data = vec![0; layout.bytes * count];
        for (index, record) in data.chunks_exact_mut(layout.bytes).enumerate() {
            let distance = 0x8000 + index * 24 - (0x1000 + index * layout.bytes);
            record[layout.counters..][..8].copy_from_slice(&(distance as u64).to_le_bytes());
            record[layout.counter_count] = 3;
        }
        data
    }

    #[test]
    fn the_version_of_an_image_without_one_is_inferred_from_its_records() {
        // Four records of 48 bytes are as long as three of 64 bytes.
        for (version, count) in [(8, 1), (8, 4), (10, 1), (10, 3)] {
            let data = records(version, count);
            let counters = 0x8000..0x8000 + 24 * count as u64;
            let inferred = infer_version(&[(0x1000, &data)], std::slice::from_ref(&counters), None);
            assert_eq!(inferred, Some(RawVersion(version)), "{count} records");
            let fewer = counters.start..counters.end - 1;
            assert_eq!(infer_version(&[(0x1000, &data)], &[fewer], None), None);
        }
        let counters = 0x8000..0x8018;
        let inferred = |data: &[u8], compiler| {
            infer_version(&[(0x1000, data)], std::slice::from_ref(&counters), compiler)
        };
        let mut data = records(9, 1);
        assert_eq!(inferred(&data, Some(18)), Some(RawVersion(9)));
        data[56] = 1;
        assert_eq!(inferred(&data, None), Some(RawVersion(9)));
        data[60] = 1;
        assert_eq!(inferred(&data, Some(18)), Some(RawVersion(10)));
        assert_eq!(inferred(&records(8, 1), Some(18)), Some(RawVersion(8)));
        assert_eq!(infer_version(&[], &[], None), None);
    }

    #[test]
    fn records_of_any_content_are_distinguished_or_refused() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            for bytes in [1, 48, 63, 64, 192] {
                let data = vec![byte; bytes];
                let whole = 0..u64::MAX;
                infer_version(&[(u64::MAX - 100, &data)], std::slice::from_ref(&whole), None);
                infer_version(&[(u64::MAX, &data)], &[], Some(18));
            }
        }
    }

    #[test]
    fn variants_change_no_records() {
        for number in 8..=10 {
            let plain = RawVersion(number).layout().unwrap();
            assert_eq!(plain.counter_bytes, 8);
            let all = RawVersion(number | PASSED_ON).layout();
            assert_eq!(all, Ok(RecordLayout { counter_bytes: 1, ..plain }));
        }
    }

    #[test]
    fn other_versions_and_variants_are_unsupported() {
        for version in [0, 7, 11, 10 | 1 << 40, 10 | 1 << 59, 10 | 1 << 62] {
            let error = RawVersion(version).layout().unwrap_err();
            assert_eq!(error.code(), ErrorCode::Unsupported, "{version:#x}");
        }
    }

    #[test]
    fn a_record_that_is_cut_off_has_no_counters() {
        let layout = RawVersion(10).layout().unwrap();
        let record = [1; 64];
        for bytes in 0..52 {
            assert_eq!(layout.counters_of(&record[..bytes]), 0);
        }
        assert_eq!(layout.counters_of(&record), 0x0101_0101);
        assert_eq!(layout.counters_at(&record[..23], 0), None);
        assert_eq!(layout.counters_at(&record, u64::MAX), Some(0x0101_0101_0101_0100));
    }
}
