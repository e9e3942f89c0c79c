//! Kinds of images.

use crate::ptx;

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// NVIDIA's assembly text, which the driver compiles.
    Ptx,
    /// Machine code that is ready to run: a linked ELF file.
    Cubin,
    /// Machine code to be linked: a relocatable ELF file.
    Object,
    /// NVIDIA's container of the other kinds.
    Fatbin,
    /// Another kind, by its number in a fatbin, such as code that is compiled at link time.
    Other(u16),
}

const EM_CUDA: u16 = 190;
const ET_REL: u16 = 1;

impl Kind {
    /// Returns the kind of an image by its first bytes, never `Other`.
    #[must_use]
    pub fn recognise(bytes: &[u8]) -> Option<Kind> {
        match bytes {
            [0x50, 0xed, 0x55, 0xba, ..] => Some(Kind::Fatbin),
            [0x7f, b'E', b'L', b'F', 2, 1, ..] => elf_kind(bytes),
            _ if ptx::starts_here(bytes) => Some(Kind::Ptx),
            _ => None,
        }
    }
}

fn elf_kind(bytes: &[u8]) -> Option<Kind> {
    let half = |at| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    match (half(18)?, half(16)?) {
        (EM_CUDA, ET_REL) => Some(Kind::Object),
        (EM_CUDA, _) => Some(Kind::Cubin),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u8, kind: u8) -> Vec<u8> {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0x41];
        bytes.resize(64, 0);
        (bytes[16], bytes[18]) = (kind, machine);
        bytes
    }

    #[test]
    fn images_are_distinguished_by_their_first_bytes() {
        for (bytes, kind) in [
            (elf(190, 2), Some(Kind::Cubin)),
            (elf(190, 1), Some(Kind::Object)),
            (elf(62, 1), None),
            (vec![0x50, 0xed, 0x55, 0xba, 1, 0], Some(Kind::Fatbin)),
            (b"// made by hand\n/* .target */ .version 8.0".to_vec(), Some(Kind::Ptx)),
            (b".versions".to_vec(), None),
            (b"\x7fELF\x02\x01".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(Kind::recognise(&bytes), kind, "{bytes:?}");
        }
    }
}
