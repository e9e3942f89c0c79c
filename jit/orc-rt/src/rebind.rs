//! Copies of the process's data that replace the originals, as the dynamic linker does for a
//! program's copy relocations.
//!
//! A library refers to its own exported data by slots that the dynamic linker has filled with the
//! address of the prevailing definition. To make a copy that definition, the bytes are copied, and
//! every such slot of every library is changed. Each slot is changed by one store, but all slots
//! take many: meanwhile other threads of the process may use either object. So the process must not
//! use the data during the change.
//!
//! Code that holds the address without such a slot keeps the original. That is the executable for
//! its own data, and a library that binds its symbols itself (`-Bsymbolic`). Pointers computed
//! before and libraries opened later keep it too.

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use object::LittleEndian as LE;
use object::elf::{self, Dyn64, Rela64, Sym64};
use parking_lot::Mutex;

use crate::actions::message;
use crate::images::{Image, Loaded};

/// Returns the argument of the actions that rebind data and undo it. `size` bytes at `copy` become
/// the object that the libraries of this process mean by `name`, in place of the one at `original`.
/// A version after the name, as in `name@VERSION`, is ignored.
pub fn argument(name: &str, original: u64, copy: u64, size: u64) -> Vec<u8> {
    let name = name.split('@').next().unwrap_or_default();
    let numbers = [original, copy, size].map(u64::to_le_bytes);
    [numbers.as_flattened(), name.as_bytes()].concat()
}

/// The objects replaced by copies, by address. Held while an action runs.
static REBOUND: Mutex<Rebound> = Mutex::new(Rebound(BTreeMap::new()));

struct Rebound(BTreeMap<u64, Replacement>);

/// The address of a copy, and its size in bytes.
struct Replacement {
    address: u64,
    size: u64,
}

/// Copies the current bytes of an object, and makes the libraries use the copy: an
/// `ActionFunction`. It does no more than copy if the executable defines the original, or if the
/// original already has a copy, which is then the source. Any thread may call it.
///
/// # Safety
/// The argument must be made by [`argument`]. Both objects must exist, and no other code may use
/// them meanwhile.
pub(crate) unsafe extern "C" fn rebind(argument: *const u8, size: usize) -> *mut c_char {
    // SAFETY: the caller passes the size of the argument.
    let argument = unsafe { std::slice::from_raw_parts(argument, size) };
    let Some(Data { name, original, copy, size }) = Data::read(argument) else {
        return message(BAD_ARGUMENT);
    };
    let mut rebound = REBOUND.lock();
    let source = rebound.0.get(&original).map_or(original, |copy| copy.address);
    // SAFETY: both objects exist, as the creator of the actions guarantees.
    unsafe { std::ptr::copy(source as *const u8, copy as *mut u8, size as usize) };
    let library = Image::find(|image| !image.is_executable && image.contains(original, size));
    if source != original || library.is_none() {
        return null_mut();
    }
    rebound.0.insert(original, Replacement { address: copy, size });
    let Err(problem) = rebound.switch(name, original, copy) else { return null_mut() };
    rebound.0.remove(&original);
    // Changes back as many slots as possible.
    let _ = rebound.switch(name, copy, original);
    message(&problem)
}

/// Undoes [`rebind`]: copies the bytes back, unless the original is read-only. The original's
/// library may be closed by then.
///
/// # Safety
/// As for [`rebind`], which was called with this argument.
pub(crate) unsafe extern "C" fn restore(argument: *const u8, size: usize) -> *mut c_char {
    // SAFETY: the caller passes the size of the argument.
    let argument = unsafe { std::slice::from_raw_parts(argument, size) };
    let Some(Data { name, original, copy, size }) = Data::read(argument) else {
        return message(BAD_ARGUMENT);
    };
    let mut rebound = REBOUND.lock();
    if rebound.0.get(&original).is_none_or(|of_original| of_original.address != copy) {
        return null_mut();
    }
    rebound.0.remove(&original);
    Image::find(|image| {
        let is_here = image.contains(original, size);
        if is_here && image.is_writable(original, size) {
            // SAFETY: the original is writable memory of a library that is not closed during this
            // call, and the copy still exists.
            unsafe { std::ptr::copy(copy as *const u8, original as *mut u8, size as usize) };
        }
        is_here
    });
    rebound.switch(name, copy, original).err().map_or(null_mut(), |problem| message(&problem))
}

const BAD_ARGUMENT: &str = "the argument of a rebinding is two addresses, a size and a name";

/// The argument of an action.
struct Data<'a> {
    name: &'a [u8],
    original: u64,
    copy: u64,
    size: u64,
}

impl<'a> Data<'a> {
    fn read(argument: &'a [u8]) -> Option<Self> {
        let (numbers, name) = argument.split_at_checked(3 * size_of::<u64>())?;
        let mut numbers =
            numbers.as_chunks().0.iter().map(|number: &[u8; 8]| u64::from_le_bytes(*number));
        let [original, copy, size] = [numbers.next()?, numbers.next()?, numbers.next()?];
        Some(Self { name, original, copy, size })
    }
}

impl Rebound {
    /// Makes every slot that holds the symbol's address `from` hold `to`. A slot in an object that
    /// has a copy is changed in the copy too.
    fn switch(&self, name: &[u8], from: u64, to: u64) -> Result<(), String> {
        let mut result = Ok(());
        Image::find(|image| {
            let Some(tables) = Tables::from_image(image) else { return false };
            result = tables.slots().try_for_each(|slot| {
                let (old, new) = (from.wrapping_add(slot.addend), to.wrapping_add(slot.addend));
                let own = image.load(slot.address) == Some(old);
                let copied =
                    self.copied(slot.address).filter(|word| word.load(Ordering::Relaxed) == old);
                if !own && copied.is_none() || !tables.refers_to(slot.symbol, name) {
                    return Ok(());
                }
                if let Some(word) = copied {
                    word.store(new, Ordering::Relaxed);
                }
                if own { image.store(slot.address, new) } else { Ok(()) }
            });
            result.is_err()
        });
        result
    }

    /// Returns the copied word for a word of an object that has a copy.
    fn copied(&self, address: u64) -> Option<&AtomicU64> {
        let (original, copy) = self.0.range(..=address).next_back()?;
        let offset = address - original;
        let word = copy.address.wrapping_add(offset);
        let is_whole = copy.size.checked_sub(offset).is_some_and(|rest| rest >= 8);
        // SAFETY: the word is aligned and in the copy, which stays until it is removed from this
        // table.
        (is_whole && word.is_multiple_of(8)).then(|| unsafe { &*(word as *const AtomicU64) })
    }
}

/// A word that the dynamic linker has filled with the address of a symbol.
struct Slot {
    address: u64,
    addend: u64,
    symbol: u32,
}

/// An image's dynamic tables, as far as they are within the image.
struct Tables<'a> {
    image: &'a Loaded,
    relocations: Range<u64>,
    symbols: u64,
    strings: u64,
}

impl<'a> Tables<'a> {
    fn from_image(image: &'a Loaded) -> Option<Self> {
        let [mut relocations, mut relocations_size, mut symbols, mut strings] = [None; 4];
        for (tag, value) in dynamic_entries(image)? {
            match tag {
                elf::DT_RELA => relocations = Some(value),
                elf::DT_RELASZ => relocations_size = Some(value),
                elf::DT_SYMTAB => symbols = Some(value),
                elf::DT_STRTAB => strings = Some(value),
                _ => {}
            }
        }
        // The C library replaces the file's addresses by addresses in memory; other C libraries,
        // and some images, leave them.
        let located = |value: Option<u64>, size| {
            let value = value?;
            [value, image.base.wrapping_add(value)]
                .into_iter()
                .find(|address| image.contains(*address, size))
        };
        let start = located(relocations, relocations_size?)?;
        Some(Self {
            image,
            relocations: start..start + relocations_size?,
            symbols: located(symbols, 1)?,
            strings: located(strings, 1)?,
        })
    }

    /// Returns the slots with addresses of symbols.
    fn slots(&self) -> impl Iterator<Item = Slot> {
        const SIZE: u64 = size_of::<Rela64<LE>>() as u64;
        let count = (self.relocations.end - self.relocations.start) / SIZE;
        (0..count).filter_map(move |index| {
            let relocation: Rela64<LE> = self.image.read(self.relocations.start + index * SIZE)?;
            ADDRESSES.contains(&relocation.r_type(LE, false)).then(|| Slot {
                address: self.image.base.wrapping_add(relocation.r_offset.get(LE)),
                addend: relocation.r_addend.get(LE) as u64,
                symbol: relocation.r_sym(LE, false),
            })
        })
    }

    /// Returns whether a symbol with the value of `name` is that symbol, or other data at the same
    /// address: `environ` is `__environ` for the C library. Any other symbol could be the end of
    /// the object before it.
    fn refers_to(&self, symbol: u32, name: &[u8]) -> bool {
        self.symbol(symbol).is_some_and(|symbol| {
            symbol.st_type() == elf::STT_OBJECT || self.is_named(&symbol, name)
        })
    }

    fn symbol(&self, index: u32) -> Option<Sym64<LE>> {
        let offset = u64::from(index) * size_of::<Sym64<LE>>() as u64;
        (index != 0).then(|| self.image.read(self.symbols.wrapping_add(offset)))?
    }

    fn is_named(&self, symbol: &Sym64<LE>, name: &[u8]) -> bool {
        let start = self.strings.wrapping_add(symbol.st_name.get(LE).into());
        name.iter().chain(&[0]).zip(start..).all(|(byte, at)| self.image.read(at) == Some(*byte))
    }
}

/// The relocations whose field is the address of a symbol plus an addend.
#[cfg(not(target_arch = "aarch64"))]
const ADDRESSES: [elf::RelocationType; 2] = [elf::R_X86_64_GLOB_DAT, elf::R_X86_64_64];
#[cfg(target_arch = "aarch64")]
const ADDRESSES: [elf::RelocationType; 2] = [elf::R_AARCH64_GLOB_DAT, elf::R_AARCH64_ABS64];

fn dynamic_entries(image: &Loaded) -> Option<impl Iterator<Item = (elf::DynamicTag, u64)>> {
    const SIZE: u64 = size_of::<Dyn64<LE>>() as u64;
    let header = image.headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC)?;
    let start = image.base.wrapping_add(header.p_vaddr);
    let entries = (0..header.p_memsz / SIZE).map_while(move |index| {
        let entry: Dyn64<LE> = image.read(start.wrapping_add(index * SIZE))?;
        Some((entry.d_tag.get(LE), entry.d_val.get(LE)))
    });
    Some(entries.take_while(|(tag, _)| *tag != elf::DT_NULL))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELOCATION: usize = 10;
    const SYMBOLS: usize = 13;
    const SLOT: usize = 19;

    /// Returns an image of 20 words: five dynamic entries, a relocation, two symbols and a slot.
    /// The names of symbols begin at the slot.
    fn words() -> Box<[u64; 20]> {
        let mut words = Box::new([0; 20]);
        let start = words.as_ptr() as u64;
        let at = |word: usize| start + 8 * word as u64;
        let entries = [
            (elf::DT_RELA, at(RELOCATION)),
            (elf::DT_RELASZ, 24),
            (elf::DT_SYMTAB, at(SYMBOLS)),
            (elf::DT_STRTAB, at(SLOT)),
            (elf::DT_NULL, 0),
        ];
        for (entry, (tag, value)) in words.as_chunks_mut().0.iter_mut().zip(entries) {
            *entry = [tag.0 as u64, value];
        }
        let kind = 1 << 32 | u64::from(ADDRESSES[0].0);
        words[RELOCATION..SYMBOLS].copy_from_slice(&[at(SLOT), kind, 4]);
        words[SLOT] = u64::from_le_bytes(*b"name\0\0\0\0");
        words
    }

    fn image(words: &[u64; 20]) -> Loaded {
        let (p_vaddr, p_memsz) = (words.as_ptr() as u64, size_of_val(words) as u64);
        let header = |p_type| libc::Elf64_Phdr {
            p_type,
            p_flags: libc::PF_R | libc::PF_W,
            p_offset: 0,
            p_vaddr,
            p_paddr: 0,
            p_filesz: p_memsz,
            p_memsz,
            p_align: 8,
        };
        Loaded::made_up(vec![header(libc::PT_LOAD), header(libc::PT_DYNAMIC)])
    }

    #[test]
    fn a_slot_has_an_address_an_addend_and_a_symbol() {
        let words = words();
        let image = image(&words);
        let tables = Tables::from_image(&image).unwrap();
        let slots: Vec<Slot> = tables.slots().collect();
        let [Slot { address, addend: 4, symbol: 1 }] = slots[..] else { panic!("{}", slots.len()) };
        assert_eq!(address, &raw const words[SLOT] as u64);
        assert!(tables.refers_to(1, b"name"));
        for (symbol, name) in
            [(1, "nam"), (1, "names"), (0, "name"), (2, "name"), (u32::MAX, "name")]
        {
            assert!(!tables.refers_to(symbol, name.as_bytes()), "{symbol} {name}");
        }
    }

    #[test]
    fn data_by_another_name_is_meant_too() {
        let mut words = words();
        words[SYMBOLS + 3] = u64::from(elf::STT_OBJECT.0) << 32;
        let image = image(&words);
        assert!(Tables::from_image(&image).unwrap().refers_to(1, b"other"));
    }

    #[test]
    fn tables_outside_of_the_image_are_ignored() {
        const VALUES_OF_RELA_RELASZ_SYMTAB_STRTAB: [usize; 4] = [1, 3, 5, 7];
        for value in VALUES_OF_RELA_RELASZ_SYMTAB_STRTAB {
            for absurd in [1 << 40, u64::MAX - 7, u64::MAX] {
                let mut words = words();
                words[value] = absurd;
                assert!(Tables::from_image(&image(&words)).is_none(), "{value} {absurd:#x}");
            }
        }
        let mut words = words();
        words[0] = 0;
        assert!(Tables::from_image(&image(&words)).is_none());
    }

    #[test]
    fn names_and_slots_that_are_not_within_the_image_are_nothing() {
        let mut words = words();
        words[SYMBOLS + 3] = u64::from(u32::MAX);
        words[RELOCATION] += 8;
        let image = image(&words);
        let tables = Tables::from_image(&image).unwrap();
        assert!(!tables.refers_to(1, b"name"));
        let slot = tables.slots().next().unwrap();
        assert!(image.load(slot.address).is_none() && image.store(slot.address, 0).is_err());
        assert!(image.load(slot.address - 8).is_some() && image.load(slot.address - 4).is_none());
    }

    #[test]
    fn a_word_of_a_copy_is_found_by_that_of_its_original() {
        let copy = [1u64, 2, 3];
        let rebound = Replacement { address: copy.as_ptr() as u64, size: 20 };
        let rebound = Rebound(BTreeMap::from([(0x1000, rebound)]));
        let found = |address| Some(rebound.copied(address)?.load(Ordering::Relaxed));
        assert_eq!([0x1000, 0x1008].map(found), [Some(1), Some(2)]);
        assert_eq!([0xff8, 0x1004, 0x1010, 0x1018, u64::MAX].map(found), [None; 5]);
    }
}
