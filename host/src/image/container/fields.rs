//! Little-endian fields and strings of a container. Reads beyond the container return `None`.

/// Most bytes of a string; longer strings are cut.
const LONGEST_TEXT: usize = 1024;

/// The bytes of a container, to which offsets are relative.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn u16(self, at: u64) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(self, at: u64) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn u64(self, at: u64) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }

    pub(super) fn range(self, at: u64, bytes: u64) -> Option<&'a [u8]> {
        let start = usize::try_from(at).ok()?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        self.0.get(start..end)
    }

    /// Returns the NUL-terminated string at an offset.
    pub(super) fn terminated(self, at: u64) -> Option<String> {
        let rest = self.0.get(usize::try_from(at).ok()?..)?;
        let end = rest.iter().take(LONGEST_TEXT).position(|byte| *byte == 0);
        Some(text(&rest[..end.unwrap_or(rest.len().min(LONGEST_TEXT))]))
    }

    pub(super) fn text(self, at: u64, bytes: u64) -> Option<String> {
        self.range(at, bytes).map(text)
    }

    fn array<const N: usize>(self, at: u64) -> Option<[u8; N]> {
        self.range(at, N as u64)?.try_into().ok()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_TEXT)]).into_owned()
}
