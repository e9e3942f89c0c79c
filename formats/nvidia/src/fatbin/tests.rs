use super::*;
use crate::Contents;

/// An entry to store.
struct EntrySpec {
    kind: u16,
    arch: u32,
    flags: u64,
    stored: Vec<u8>,
    compressed_bytes: u32,
    inflated_bytes: u64,
    /// The bytes after the header's fixed part.
    more: Vec<u8>,
}

fn stored(kind: u16, arch: u32, flags: u64, image: &[u8]) -> EntrySpec {
    let stored = image.to_vec();
    EntrySpec {
        kind,
        arch,
        flags,
        stored,
        compressed_bytes: 0,
        inflated_bytes: 0,
        more: vec![0; 16],
    }
}

fn compressed(kind: u16, arch: u32, flags: u64, image: &[u8]) -> EntrySpec {
    let packed = match flags & LZ4 {
        0 => ruzstd::encoding::compress_to_vec(image, ruzstd::encoding::CompressionLevel::Fastest),
        _ => lz4_flex::block::compress(image),
    };
    let (compressed_bytes, inflated_bytes) = (packed.len() as u32, image.len() as u64);
    EntrySpec { compressed_bytes, inflated_bytes, ..stored(kind, arch, flags, &packed) }
}

fn header(made: &EntrySpec, second: u32, bytes: u64) -> Vec<u8> {
    let mut header = vec![0; 64];
    let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
    put(0, &made.kind.to_le_bytes());
    put(2, &[1, 1]);
    put(4, &second.to_le_bytes());
    put(8, &bytes.to_le_bytes());
    put(16, &made.compressed_bytes.to_le_bytes());
    put(28, &made.arch.to_le_bytes());
    put(40, &made.flags.to_le_bytes());
    put(56, &made.inflated_bytes.to_le_bytes());
    header
}

fn made(entries: &[EntrySpec]) -> Vec<u8> {
    let mut body = Vec::new();
    for entry in entries {
        let padded = entry.stored.len().next_multiple_of(8);
        body.extend(header(entry, 64 + entry.more.len() as u32, padded as u64));
        body.extend(&entry.more);
        body.extend(&entry.stored);
        body.resize(body.len() + padded - entry.stored.len(), 0);
    }
    let mut bytes = [&MAGIC.to_le_bytes()[..], &[1, 0, 16, 0], &body.len().to_le_bytes()].concat();
    bytes.extend(body);
    bytes
}

const TEXT: &[u8] =
    b".version 8.0\n.target sm_90a\n.visible .entry k(.param .u64 x) { ret; }\n// ........";

fn one_of_each() -> Vec<u8> {
    let joined = compressed(JOINED, 0, ZSTD, &[&[7; 100][..], TEXT].concat());
    let list = [
        words(&[2, 136]),
        header(&stored(ELF, 80, 0, &[]), 0, 100),
        header(&stored(PTX, 90, SPECIFIC, &[]), 100, TEXT.len() as u64),
    ];
    made(&[
        stored(ELF, 80, 0x11, &[1, 2, 3, 4, 5, 6, 7, 8]),
        compressed(PTX, 90, LZ4 | SPECIFIC, TEXT),
        compressed(PTX, 100, ZSTD | FAMILY, TEXT),
        stored(8, 75, 0, b"BC"),
        EntrySpec { more: list.concat(), ..joined },
    ])
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn entries_are_decompressed_by_the_method_that_they_say() {
    let bytes = one_of_each();
    let entries = fatbin(&bytes).unwrap();
    let facts = |entry: &FatbinEntry<'_>| (entry.kind, entry.arch.to_string(), entry.compressed);
    let found: Vec<_> = entries.iter().map(facts).collect();
    let expected = [
        (Kind::Cubin, "sm_80", false),
        (Kind::Ptx, "sm_90a", true),
        (Kind::Ptx, "sm_100f", true),
        (Kind::Other(8), "sm_75", false),
        (Kind::Cubin, "sm_80", true),
        (Kind::Ptx, "sm_90a", true),
    ];
    assert_eq!(found, expected.map(|(kind, arch, packed)| (kind, arch.to_owned(), packed)));
    let images: Vec<_> = entries.iter().map(|entry| entry.image().unwrap()).collect();
    assert_eq!(images[0][..], [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(images[1] == TEXT && images[2] == TEXT && images[5] == TEXT);
    assert_eq!(images[4][..], [7; 100]);
}

#[test]
fn bytes_after_a_fatbin_are_ignored() {
    let mut bytes = one_of_each();
    bytes.extend([0xff; 100]);
    assert_eq!(fatbin(&bytes).unwrap().len(), 6);
}

#[test]
fn a_claim_that_compressed_data_does_not_keep_is_malformed() {
    for flags in [LZ4, ZSTD, 0] {
        for claim in [0, 5, 1 << 20, u64::MAX] {
            let image = compressed(PTX, 90, flags, TEXT);
            let bytes = made(&[EntrySpec { inflated_bytes: claim, ..image }]);
            let entries = fatbin(&bytes).unwrap();
            assert!(entries[0].image().is_err(), "{flags:#x} {claim}");
        }
    }
}

#[test]
fn ranges_beyond_the_file_are_malformed() {
    let short = made(&[stored(PTX, 90, 0, TEXT)]);
    let mut huge = short.clone();
    huge[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut entry = short.clone();
    entry[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
    for bytes in [&b"P\xed"[..], &[0; 64], &short[..short.len() - 1], &huge, &entry] {
        assert!(fatbin(bytes).is_err());
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_read_to_its_end() {
    let mut bytes = one_of_each();
    let read = |bytes: &[u8]| {
        for entry in fatbin(bytes).unwrap_or_default() {
            let _ = entry.image().map(|image| Contents::from_ptx(&image));
        }
    };
    (0..bytes.len()).for_each(|end| read(&bytes[..end]));
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        read(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}
