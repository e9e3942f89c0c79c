//! Damaged and hostile objects and archives. Each must lead to an error or a link, never to a
//! panic, and never to memory in proportion to its claims.
//!
//! The tests damage objects of the installed compilers in every cheap way. Arithmetic overflow and
//! slices out of bounds are panics here; longer searches are in `fuzz/`.

mod exercise;
mod fixtures;
mod odd;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use exercise::{MODES, SLAB_SIZE};
use fixtures::{Fixture, archives, objects};
use longshore_jitlink::Error;

use crate::heap::is_all;
use crate::heap::usage::Usage;

/// Numbers that are wrong in almost every field.
const NUMBERS: [u64; 10] =
    [0, 1, 3, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 33, 1 << 60, i64::MAX as u64, u64::MAX];

#[test]
fn undamaged_objects_and_archives_link() {
    for fixture in objects().iter().chain(&archives()) {
        for mode in MODES {
            let linked = exercise::link(&fixture.bytes.clone().into(), mode);
            match linked {
                // A stub cannot replace data: code that is not position-independent does not reach
                // far data.
                Err(Error::Relocation(error))
                    if mode.is_far() && fixture.name.contains("-fno-pic") =>
                {
                    assert_eq!(error.symbol, "far_data");
                }
                linked => assert!(linked.is_ok(), "{}: {:?}", fixture.name, linked.err()),
            }
        }
    }
}

#[test]
fn files_cut_short_are_errors() {
    for fixture in objects().iter().chain(&archives()) {
        for length in 0..fixture.bytes.len() {
            survives(fixture, &format_args!("{length} bytes"), |bytes| bytes.truncate(length));
        }
    }
}

#[test]
fn headers_with_flipped_bits_are_survived() {
    for fixture in objects() {
        for place in [0..64, fixture.section_headers()].into_iter().flatten().step_by(3) {
            let bit = 1 << (place / 3 % 8);
            let what = format_args!("byte {place:#x} ^ {bit:#x}");
            survives(fixture, &what, |bytes| bytes[place] ^= bit);
        }
    }
}

#[test]
fn headers_with_absurd_numbers_are_survived() {
    for fixture in objects() {
        for place in [0..64, fixture.section_headers()].into_iter().flatten().step_by(4) {
            replace_numbers(fixture, place, &NUMBERS);
        }
    }
}

#[test]
fn sections_that_claim_absurd_sizes_cost_nothing() {
    // Fields of a section header: flags, address, place in the file, size, alignment, size of
    // entries.
    const FIELDS: [usize; 6] = [8, 16, 24, 32, 48, 56];
    for fixture in objects() {
        for header in fixture.section_headers().step_by(64) {
            for place in FIELDS.map(|field| header + field) {
                for number in [1_u64 << 31, 1 << 60] {
                    let what = format_args!("{number:#x} at {place:#x}");
                    survives(fixture, &what, |bytes| write(bytes, place, &number.to_le_bytes()));
                }
            }
        }
    }
}

#[test]
fn tables_with_flipped_bytes_are_survived() {
    for fixture in objects() {
        // The types of symbols, strings, relocations and groups.
        for place in fixture.content_of(&[2, 3, 4, 17]).into_iter().step_by(7) {
            let what = format_args!("byte {place:#x} inverted");
            survives(fixture, &what, |bytes| bytes[place] ^= 0xff);
        }
    }
}

#[test]
fn tables_with_absurd_numbers_are_survived() {
    const NUMBERS: [u64; 4] = [0xfff2, 0xffff_ffff, 1 << 60, u64::MAX - 3];
    for fixture in objects() {
        for place in fixture.content_of(&[2, 4, 17]).into_iter().step_by(12) {
            replace_numbers(fixture, place, &NUMBERS);
        }
    }
}

#[test]
fn frames_and_notes_with_absurd_numbers_are_survived() {
    for fixture in objects() {
        for place in fixture.content_named(&[".eh_frame", ".note.gnu.property"]) {
            let number = [0, 1, 4, 0x7fff_ffff, 0xffff_fff0, u32::MAX][place % 6];
            let what = format_args!("{number:#x} at {place:#x}");
            survives(fixture, &what, |bytes| write(bytes, place, &number.to_le_bytes()));
        }
    }
}

#[test]
fn sections_of_every_type_in_place_of_any_are_survived() {
    const GNU_HASH: u32 = 0x6fff_fff6;
    const CREL: u32 = 0x4000_0014;
    for fixture in objects() {
        for header in fixture.section_headers().step_by(64) {
            let kinds = (0..=20).chain([GNU_HASH, CREL]);
            for kind in kinds.skip(header / 64 % 3).step_by(3) {
                let what = format_args!("type {kind} at {header:#x}");
                survives(fixture, &what, |bytes| write(bytes, header + 4, &u32::to_le_bytes(kind)));
            }
        }
    }
}

#[test]
fn copied_section_headers_are_survived() {
    for fixture in objects() {
        let headers: Vec<usize> = fixture.section_headers().step_by(64).collect();
        for (index, header) in headers.iter().enumerate() {
            let other = headers[(index * 7 + 3) % headers.len()];
            let what = format_args!("header {header:#x} copied to {other:#x}");
            survives(fixture, &what, |bytes| bytes.copy_within(*header..*header + 64, other));
        }
    }
}

#[test]
fn files_with_random_damage_are_survived() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for fixture in objects().iter().chain(&archives()) {
        for round in 0..200 {
            let damage: Vec<(usize, u8)> = (0..1 + round % 16)
                .map(|_| (random.below(fixture.bytes.len()), random.below(256) as u8))
                .collect();
            survives(fixture, &format_args!("{damage:x?}"), |bytes| {
                damage.iter().for_each(|(place, byte)| bytes[*place] = *byte)
            });
        }
    }
}

#[test]
fn archives_with_absurd_members_are_survived() {
    for fixture in &archives() {
        let ends: Vec<usize> = (0..fixture.bytes.len() - 1)
            .filter(|at| &fixture.bytes[*at..*at + 2] == b"`\n")
            .collect();
        assert!(ends.len() > 1, "{} has members", fixture.name);
        for end in ends {
            for size in ["0", "1", "-1", "60", "9999999999", "0x10", "", "1e9", "18446744073"] {
                survives(fixture, &format_args!("size {size} before {end:#x}"), |bytes| {
                    write(bytes, end - 10, format!("{size:10}").as_bytes())
                });
            }
            for name in
                ["/", "//", "/SYM64/", "/9999999999", "/-1", "#1/99999999", "#1/0", "", "\0"]
            {
                survives(fixture, &format_args!("name {name:?} before {end:#x}"), |bytes| {
                    write(bytes, end - 58, format!("{name:16}").as_bytes())
                });
            }
        }
        for place in 0..fixture.bytes.len().min(600) {
            let what = format_args!("byte {place:#x} inverted");
            survives(fixture, &what, |bytes| bytes[place] ^= 0xff);
        }
    }
}

/// Writes one of the numbers over the eight bytes at a place, and one over the four bytes.
fn replace_numbers(fixture: &Fixture, place: usize, numbers: &[u64]) {
    for width in [4, 8] {
        let number = numbers[place / width % numbers.len()];
        let what = format_args!("{number:#x} in {width} bytes at {place:#x}");
        let number = number.to_le_bytes();
        survives(fixture, &what, |bytes| write(bytes, place, &number[..width]));
    }
}

fn write(bytes: &mut [u8], place: usize, new: &[u8]) {
    if let Some(old) = bytes.get_mut(place..place + new.len()) {
        old.copy_from_slice(new);
    }
}

/// Returns whether the next damage is tried: each, or one in three where tests do not try every
/// case.
fn is_tried() -> bool {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    is_all() || COUNT.fetch_add(1, Ordering::Relaxed).is_multiple_of(3)
}

/// Damages a fixture and does everything with it except execution. An error is fine; a panic, a
/// leak, or more memory than its size explains fails the test.
fn survives(fixture: &Fixture, damage: &dyn Display, change: impl FnOnce(&mut Vec<u8>)) {
    if !is_tried() {
        return;
    }
    let mut bytes = fixture.bytes.clone();
    change(&mut bytes);
    let bytes = Bytes::from(bytes);
    // The first clone makes the counter of the other clones.
    let _shared = bytes.clone();
    let check = |what: &str, allowance: usize, f: &dyn Fn()| {
        let measured = || {
            Usage::measure(|| {
                if catch_unwind(AssertUnwindSafe(f)).is_err() {
                    panic!("{} with {damage}: {what} panicked", fixture.name);
                }
            })
        };
        let Usage { peak, mut kept } = measured();
        if kept != 0 {
            // Some values are made once and stay. A leak grows each time.
            kept = measured().kept;
        }
        assert!(peak <= allowance, "{} with {damage}: {what} took {peak} bytes", fixture.name);
        assert_eq!(kept, 0, "{} with {damage}: {what} kept bytes", fixture.name);
    };
    let few = 4 * fixture.bytes.len() + 0x4000;
    check("reading", few, &|| drop(exercise::read(&bytes)));
    for mode in MODES {
        let all = 4 * few + SLAB_SIZE as usize;
        check("linking", all, &|| drop(exercise::link(&bytes, mode)));
    }
}

/// Xorshift, which gives the same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}
