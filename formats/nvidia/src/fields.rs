//! Little-endian numbers at given offsets. Offsets beyond the end give `None`.

/// The bytes that offsets are relative to.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn u16(self, at: u64) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(self, at: u64) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(self, at: u64) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    pub(crate) fn range(self, at: u64, bytes: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(at).ok()?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        self.0.get(start..end)
    }

    fn array<const N: usize>(self, at: u64) -> Option<[u8; N]> {
        self.range(at, N as u64)?.try_into().ok()
    }
}
