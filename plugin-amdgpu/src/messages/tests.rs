use super::*;

/// Host memory in place of a ring's.
struct Memory(Vec<u64>);

impl Memory {
    fn ring(&mut self) -> Ring {
        // SAFETY: the vector outlives the ring, and its size is a multiple of 8 bytes.
        unsafe { Ring::new(self.0.as_mut_ptr() as u64, self.0.len() * 8) }
    }

    /// Writes a record as `longshore_print_` of the device header does; a record without space is
    /// dropped.
    fn say(&mut self, arguments: &[Argument<'_>]) {
        let mut record = Vec::from((arguments.len() as u32).to_le_bytes());
        let mut texts = Vec::new();
        for argument in arguments {
            let (kind, text, value): (u32, &[u8], u64) = match argument {
                Argument::Word(word) => (1, &[], u64::from(*word)),
                Argument::Long(long) => (2, &[], *long),
                Argument::Float(float) => (3, &[], float.to_bits()),
                Argument::Pointer(value) => (4, &[], *value),
                Argument::Text(text) => (5, text, 0x1234),
            };
            let text_bytes = if kind == 5 { text.len() as u32 + 1 } else { 0 };
            record.extend(kind.to_le_bytes());
            record.extend(text_bytes.to_le_bytes());
            record.extend(value.to_le_bytes());
            texts.extend_from_slice(text);
            texts.extend((kind == 5).then_some(0));
        }
        record.extend(texts);
        let bytes = (record.len() + 4).next_multiple_of(8);
        let memory: &mut [u8] = bytes_of(&mut self.0);
        let head = |memory: &[u8], at: usize| {
            u32::from_le_bytes(memory[at..at + 4].try_into().unwrap()) as usize
        };
        let (capacity, at) = (head(memory, 0), head(memory, 4));
        memory[4..8].copy_from_slice(&((at + bytes) as u32).to_le_bytes());
        if at > capacity || bytes > capacity - at {
            return;
        }
        let at = HEAD_BYTES + at;
        memory[at + 4..at + 4 + record.len()].copy_from_slice(&record);
        memory[at..at + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
    }
}

fn bytes_of(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: every byte pattern is a valid word, and a word consists of valid bytes.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

fn said(arguments: &[Argument<'_>]) -> String {
    let mut memory = Memory(vec![0; 8192]);
    let mut ring = memory.ring();
    memory.say(arguments);
    let used = ring.word(4).load(Ordering::Relaxed);
    String::from_utf8(ring.take(used)).unwrap()
}

#[test]
fn messages_are_as_c_prints_them() {
    use Argument::{Float, Long, Pointer, Text, Word};
    let minus = (-7i32).cast_unsigned();
    assert_eq!(said(&[Text(b"100%% of nothing\n")]), "100% of nothing\n");
    assert_eq!(said(&[Text(b"%d %u %5d|"), Word(minus), Word(7), Word(42)]), "-7 7    42|");
    assert_eq!(
        said(&[Text(b"%x %#lx %llu"), Word(minus), Long(255), Long(1 << 40)]),
        "fffffff9 0xff 1099511627776"
    );
    assert_eq!(said(&[Text(b"%ld"), Long((-5i64).cast_unsigned())]), "-5");
    assert_eq!(said(&[Text(b"%hhd %hu"), Word(0x1ff), Word(0x12345)]), "-1 9029");
    assert_eq!(
        said(&[Text(b"%.3f %e %g"), Float(1.0 / 3.0), Float(0.5), Float(1e9)]),
        "0.333 5.000000e-01 1e+09"
    );
    assert_eq!(
        said(&[Text(b"[%-6s|%.2s|%c]"), Text(b"abc"), Text(b"abc"), Word(65)]),
        "[abc   |ab|A]"
    );
    assert_eq!(said(&[Text(b"%p"), Pointer(0x1000)]), "0x1000");
    assert_eq!(said(&[Text(b"%*.*f|"), Word(8), Word(1), Float(2.25)]), "     2.2|");
    // A conversion without a fitting argument is copied unchanged.
    assert_eq!(said(&[Text(b"%s %d %n %"), Word(1)]), "%s %d %n %");
    assert_eq!(said(&[Text(b"%9999999999d"), Word(1)]).len(), 1 << 16);
}

#[test]
fn a_ring_is_emptied_when_all_is_printed() {
    let mut memory = Memory(vec![0; 32]);
    let mut ring = memory.ring();
    for _ in 0..20 {
        memory.say(&[Argument::Text(b"%d"), Argument::Word(1)]);
        ring.print(|| false);
        assert_eq!((ring.printed, memory.0[1..].iter().sum::<u64>()), (0, 0));
    }
}

#[test]
fn messages_without_room_are_lost_and_later_ones_arrive() {
    let mut memory = Memory(vec![0; 16]);
    let mut ring = memory.ring();
    for _ in 0..9 {
        memory.say(&[Argument::Text(b"hello")]);
    }
    // A kernel may be about to write the next record.
    ring.print(|| false);
    assert!(ring.printed > 0);
    ring.print(|| true);
    assert_eq!((ring.printed, ring.word(4).load(Ordering::Relaxed)), (0, 0));
    memory.say(&[Argument::Text(b"again")]);
    let used = ring.word(4).load(Ordering::Relaxed);
    assert_eq!(ring.take(used), b"again");
}

#[test]
fn broken_records_are_harmless() {
    for bytes in [1u32, 4, 8, 12, 16, 0xffff_fff8, u32::MAX] {
        for count in [0, 1, 5, u32::MAX] {
            let mut memory = Memory(vec![0; 64]);
            let mut ring = memory.ring();
            memory.0[0] |= 496 << 32;
            memory.0[1] = u64::from(bytes) | u64::from(count) << 32;
            memory.0[2] = 5 | 0xffff_ffff << 32;
            ring.print(|| true);
        }
    }
}
