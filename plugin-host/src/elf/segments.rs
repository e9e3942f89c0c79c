//! Program headers, which map the file to addresses.

use super::header::Header;
use super::read::{u32_at, u64_at};
use super::{ensure, malformed, range};
use longshore_plugin_api::Result;
use object::elf;
use std::ops::Range;

/// Most address space that an image may span: 64 GiB.
const MOST_SPAN: u64 = 1 << 36;
/// Largest alignment of a segment: 1 GiB, the largest page.
const MOST_ALIGNMENT: u64 = 1 << 30;
/// Most thread-local storage per thread: 1 GiB.
const MOST_TLS: u64 = 1 << 30;
/// Largest alignment of thread-local storage: 1 MiB.
const MOST_TLS_ALIGNMENT: u64 = 1 << 20;

const ENTRY_BYTES: usize = 56;

/// A `PT_LOAD` segment. Addresses are relative to the load base.
#[derive(Clone, Debug)]
pub struct Segment {
    /// First address.
    pub address: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// File offset of its bytes.
    pub offset: u64,
    /// Bytes in the file; the rest of the memory is zero-filled.
    pub file_bytes: u64,
    flags: u32,
}

/// The `PT_LOAD` segments, ascending, no two on one page.
#[derive(Clone, Debug)]
pub struct Segments(Vec<Segment>);

/// The facts from the program headers.
pub(super) struct Headers {
    pub(super) segments: Segments,
    /// Addresses of `PT_DYNAMIC`, all in the file.
    pub(super) dynamic: Range<u64>,
    /// Thread-local bytes per thread; 0 without `PT_TLS`.
    pub(super) tls_bytes: u64,
    /// File ranges and alignments of `PT_NOTE` and `PT_GNU_PROPERTY`.
    pub(super) notes: Vec<(Range<usize>, u64)>,
    /// Addresses of the program headers themselves.
    pub(super) table: Range<u64>,
    /// Whole pages of `PT_GNU_RELRO`.
    pub(super) read_only: Range<u64>,
}

struct Entry {
    kind: elf::ProgramType,
    flags: u32,
    offset: u64,
    address: u64,
    file_bytes: u64,
    memory_bytes: u64,
    alignment: u64,
}

/// Checks the program headers.
pub(super) fn parse(bytes: &[u8], header: &Header) -> Result<Headers> {
    let entries = entries(bytes, header)?;
    let segments = Segments::parse(bytes, &entries)?;
    let table_bytes = ENTRY_BYTES as u64 * u64::from(header.segment_count);
    check_stack(&entries)?;
    let read_only = read_only(&entries, &segments)?;
    check_unwind_table(&entries, &segments)?;
    let table = segments.address_of_file(header.segments_at, table_bytes).ok_or_else(|| {
        malformed(format!(
            "the program headers at offset {:#x} are not inside a segment",
            header.segments_at
        ))
    })?;
    if let Some(entry) = only(&entries, elf::PT_PHDR, "PT_PHDR")? {
        ensure!(
            Some(&table) == range(entry.address, table_bytes).as_ref(),
            "PT_PHDR is {:#x}, but the program headers are mapped at {table:#x?}",
            entry.address
        );
    }
    Ok(Headers {
        dynamic: dynamic(&entries, &segments)?,
        tls_bytes: tls(&entries, &segments)?,
        notes: notes(&entries, &segments)?,
        segments,
        table,
        read_only,
    })
}

impl Segments {
    /// Returns the addresses from the first segment to the end of the last one.
    pub fn span(&self) -> Range<u64> {
        let (first, last) = (self.0.first(), self.0.last());
        first.map_or(0, |first| first.address)..last.map_or(0, Segment::end)
    }

    fn parse(bytes: &[u8], entries: &[Entry]) -> Result<Segments> {
        let page = rustix::param::page_size() as u64;
        let mut list: Vec<Segment> = Vec::new();
        for entry in entries.iter().filter(|entry| entry.kind == elf::PT_LOAD) {
            check_load(entry, bytes.len() as u64, page)?;
            if let Some(last) = list.last() {
                let (end, start) = (last.end().next_multiple_of(page), entry.address / page * page);
                ensure!(
                    end <= start,
                    "the segment at {:#x} does not start on a page after the segment at {:#x}",
                    entry.address,
                    last.address
                );
            }
            list.push(Segment {
                address: entry.address,
                memory_bytes: entry.memory_bytes,
                offset: entry.offset,
                file_bytes: entry.file_bytes,
                flags: entry.flags,
            });
        }
        let (Some(first), Some(last)) = (list.first(), list.last()) else {
            return Err(malformed("the image has no PT_LOAD segment, expected one".to_owned()));
        };
        let span = last.end() - first.address;
        ensure!(
            span <= MOST_SPAN,
            "the image spans {span:#x} bytes, expected at most {MOST_SPAN:#x}"
        );
        Ok(Segments(list))
    }

    /// Returns the file range of an address range, if the file has all bytes of it in one segment.
    pub fn file_range(&self, address: u64, bytes: u64) -> Option<Range<usize>> {
        let segment = self.at(address)?;
        let start = address - segment.address;
        (start.checked_add(bytes)? <= segment.file_bytes).then_some(())?;
        let offset = usize::try_from(segment.offset + start).ok()?;
        Some(offset..offset.checked_add(usize::try_from(bytes).ok()?)?)
    }

    /// Returns whether one segment contains the range.
    pub fn holds(&self, address: u64, bytes: u64) -> bool {
        self.at(address).is_some_and(|segment| segment.has_room(address, bytes))
    }

    /// Returns the number of bytes from an address to the end of its segment; 0 outside of all
    /// segments.
    pub fn room_at(&self, address: u64) -> u64 {
        self.at(address).map_or(0, |segment| segment.end() - address)
    }

    /// Returns whether one writable segment contains the range.
    pub fn holds_writable(&self, address: u64, bytes: u64) -> bool {
        self.at(address)
            .is_some_and(|segment| segment.is(elf::PF_W) && segment.has_room(address, bytes))
    }

    /// Returns whether one executable segment contains the range, with all bytes of it in the file.
    pub fn holds_code(&self, address: u64, bytes: u64) -> bool {
        self.at(address).is_some_and(|segment| segment.is(elf::PF_X))
            && self.file_range(address, bytes.max(1)).is_some()
    }

    /// Returns whether a part of the range is in a writable segment.
    pub fn any_writable(&self, range: &Range<u64>) -> bool {
        self.0.iter().any(|segment| {
            segment.is(elf::PF_W) && segment.address < range.end && range.start < segment.end()
        })
    }

    /// Returns the whole pages of executable segments that cannot be written to.
    pub fn code_pages(&self, page_bytes: u64) -> impl Iterator<Item = Range<u64>> {
        let is_code =
            |segment: &&Segment| segment.flags & (elf::PF_X.0 | elf::PF_W.0) == elf::PF_X.0;
        self.0.iter().filter(is_code).map(move |segment| {
            let start = segment.address / page_bytes * page_bytes;
            start..(segment.address + segment.memory_bytes).next_multiple_of(page_bytes)
        })
    }

    /// Returns whether an address lies in a segment, or at a segment's end.
    pub(super) fn touches(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    /// Returns the last segment that starts at or before the address, if the segment reaches it.
    fn at(&self, address: u64) -> Option<&Segment> {
        let behind = self.0.partition_point(|segment| segment.address <= address);
        self.0.get(behind.checked_sub(1)?).filter(|segment| address <= segment.end())
    }

    /// Returns the addresses that the loader assumes for a part of the file: in the first segment
    /// whose pages contain it.
    fn address_of_file(&self, offset: u64, bytes: u64) -> Option<Range<u64>> {
        let page = rustix::param::page_size() as u64;
        let end = offset.checked_add(bytes)?;
        let segment = self.0.iter().find(|segment| {
            let file_end = (segment.offset + segment.file_bytes).next_multiple_of(page);
            segment.offset / page * page <= offset && end <= file_end
        })?;
        let address = segment.address + offset.checked_sub(segment.offset)?;
        (end <= segment.offset + segment.file_bytes).then_some(())?;
        range(address, bytes)
    }
}

impl Segment {
    fn end(&self) -> u64 {
        self.address + self.memory_bytes
    }

    fn is(&self, flag: elf::ProgramFlags) -> bool {
        self.flags & flag.0 != 0
    }

    fn has_room(&self, address: u64, bytes: u64) -> bool {
        bytes <= self.end().saturating_sub(address)
    }
}

fn entries(bytes: &[u8], header: &Header) -> Result<Vec<Entry>> {
    let cut_off = || {
        malformed(format!(
            "{} program headers at {:#x} do not fit into the image's {} bytes",
            header.segment_count,
            header.segments_at,
            bytes.len()
        ))
    };
    let start = usize::try_from(header.segments_at).map_err(|_| cut_off())?;
    (0..usize::from(header.segment_count))
        .map(|index| Entry::read(bytes, start.checked_add(index * ENTRY_BYTES)?))
        .collect::<Option<_>>()
        .ok_or_else(cut_off)
}

impl Entry {
    fn read(bytes: &[u8], at: usize) -> Option<Entry> {
        let entry = bytes.get(at..)?.get(..ENTRY_BYTES)?;
        Some(Entry {
            kind: elf::ProgramType(u32_at(entry, 0)?),
            flags: u32_at(entry, 4)?,
            offset: u64_at(entry, 8)?,
            address: u64_at(entry, 16)?,
            file_bytes: u64_at(entry, 32)?,
            memory_bytes: u64_at(entry, 40)?,
            alignment: u64_at(entry, 48)?,
        })
    }
}

fn check_load(entry: &Entry, image_bytes: u64, page: u64) -> Result<()> {
    let Entry { flags, offset, address, file_bytes, memory_bytes, alignment, .. } = *entry;
    let place = format!("the segment at {address:#x}");
    ensure!(
        offset.checked_add(file_bytes).is_some_and(|end| end <= image_bytes),
        "{place} takes {file_bytes:#x} bytes at {offset:#x}, the image has {image_bytes:#x}"
    );
    ensure!(
        file_bytes <= memory_bytes,
        "{place} has {file_bytes:#x} bytes in the file and only {memory_bytes:#x} in memory"
    );
    ensure!(
        memory_bytes <= MOST_SPAN && address <= u64::MAX / 4,
        "{place} has {memory_bytes:#x} bytes, expected at most {MOST_SPAN:#x}"
    );
    ensure!(
        alignment.is_power_of_two() && (page..=MOST_ALIGNMENT).contains(&alignment),
        "{place} has alignment {alignment:#x}, expected a power of two of at least {page:#x}"
    );
    ensure!(
        address % alignment == offset % alignment,
        "{place} has offset {offset:#x}, which differs modulo its alignment {alignment:#x}"
    );
    let (read, write, execute) = (elf::PF_R.0, elf::PF_W.0, elf::PF_X.0);
    ensure!(flags & read != 0, "{place} is not readable");
    ensure!(
        flags & (write | execute) != write | execute,
        "{place} is both writable and executable, expected at most one of them"
    );
    Ok(())
}

fn only<'a>(entries: &'a [Entry], kind: elf::ProgramType, name: &str) -> Result<Option<&'a Entry>> {
    let mut found = entries.iter().filter(|entry| entry.kind == kind);
    let first = found.next();
    ensure!(found.next().is_none(), "the image has more than one {name}");
    Ok(first)
}

fn dynamic(entries: &[Entry], segments: &Segments) -> Result<Range<u64>> {
    let Some(entry) = only(entries, elf::PT_DYNAMIC, "PT_DYNAMIC")? else {
        return Err(malformed(
            "the image has no PT_DYNAMIC, expected a dynamically linked shared object".to_owned(),
        ));
    };
    let (address, bytes) = (entry.address, entry.file_bytes);
    ensure!(
        segments.file_range(address, bytes).is_some() && segments.holds_writable(address, bytes),
        "PT_DYNAMIC, {bytes:#x} bytes at {address:#x}, is not inside a writable segment's file part"
    );
    ensure!(address.is_multiple_of(8), "PT_DYNAMIC is at {address:#x}, expected a multiple of 8");
    Ok(address..address + bytes)
}

fn tls(entries: &[Entry], segments: &Segments) -> Result<u64> {
    let Some(entry) = only(entries, elf::PT_TLS, "PT_TLS")? else {
        return Ok(0);
    };
    let (address, bytes) = (entry.address, entry.memory_bytes);
    ensure!(
        entry.file_bytes <= bytes && bytes <= MOST_TLS,
        "PT_TLS has {:#x} bytes in the file and {bytes:#x} in memory, expected at most {MOST_TLS:#x}",
        entry.file_bytes
    );
    ensure!(
        entry.file_bytes == 0 || segments.file_range(address, entry.file_bytes).is_some(),
        "PT_TLS, {:#x} bytes at {address:#x}, is not inside a segment",
        entry.file_bytes
    );
    ensure!(
        entry.alignment.is_power_of_two() && entry.alignment <= MOST_TLS_ALIGNMENT,
        "PT_TLS has alignment {:#x}, expected a power of two up to {MOST_TLS_ALIGNMENT:#x}",
        entry.alignment
    );
    Ok(bytes)
}

fn notes(entries: &[Entry], segments: &Segments) -> Result<Vec<(Range<usize>, u64)>> {
    entries
        .iter()
        .filter(|entry| matches!(entry.kind, elf::PT_NOTE | elf::PT_GNU_PROPERTY))
        .map(|entry| {
            ensure!(
                entry.file_bytes == entry.memory_bytes,
                "the notes at {:#x} have {:#x} bytes in the file and {:#x} in memory",
                entry.address,
                entry.file_bytes,
                entry.memory_bytes
            );
            let range = segments.file_range(entry.address, entry.file_bytes);
            let range = range.ok_or_else(|| {
                malformed(format!("the notes at {:#x} are not inside a segment", entry.address))
            })?;
            Ok((range, entry.alignment))
        })
        .collect()
}

fn check_stack(entries: &[Entry]) -> Result<()> {
    let stack = only(entries, elf::PT_GNU_STACK, "PT_GNU_STACK")?;
    ensure!(
        stack.is_some_and(|entry| entry.flags & elf::PF_X.0 == 0),
        "the image requests an executable stack{}, expected PT_GNU_STACK without PF_X",
        if stack.is_none() { " (it has no PT_GNU_STACK)" } else { "" }
    );
    Ok(())
}

/// Checks `PT_GNU_RELRO` and returns its whole pages. The loader protects whole pages, so the range
/// may reach to the end of its segment's last page.
fn read_only(entries: &[Entry], segments: &Segments) -> Result<Range<u64>> {
    let Some(entry) = only(entries, elf::PT_GNU_RELRO, "PT_GNU_RELRO")? else {
        return Ok(0..0);
    };
    let page = rustix::param::page_size() as u64;
    let fits = |segment: &Segment| {
        let room = segment.end().next_multiple_of(page).checked_sub(entry.address);
        segment.is(elf::PF_W) && room.is_some_and(|room| entry.memory_bytes <= room)
    };
    ensure!(
        segments.at(entry.address).is_some_and(fits),
        "PT_GNU_RELRO, {:#x} bytes at {:#x}, is not inside a writable segment",
        entry.memory_bytes,
        entry.address
    );
    Ok(entry.address / page * page..(entry.address + entry.memory_bytes) / page * page)
}

fn check_unwind_table(entries: &[Entry], segments: &Segments) -> Result<()> {
    for entry in entries.iter().filter(|entry| entry.kind == elf::PT_GNU_EH_FRAME) {
        ensure!(
            segments.file_range(entry.address, entry.memory_bytes).is_some(),
            "PT_GNU_EH_FRAME, {:#x} bytes at {:#x}, is not inside a segment",
            entry.memory_bytes,
            entry.address
        );
    }
    Ok(())
}
