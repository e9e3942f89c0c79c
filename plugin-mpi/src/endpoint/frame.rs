//! Frames: the parts of a message.

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call; the reply has a message of its own, with the tag of the slot.
    Call,
    /// A call whose content is a message of its own; this frame has its size.
    LongCall,
    /// A message without a reply.
    Post,
    /// A sign of life.
    Beat,
    /// The end of the program: its nodes end.
    Bye,
}

/// The header of a frame, before its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// The number of the plugin on the node.
    pub(super) plugin: u16,
    pub(super) method: u32,
    /// The caller's slot for the reply.
    pub(super) slot: u32,
    /// Bytes of content.
    pub(super) size: u32,
}

impl Header {
    pub(super) const BYTES: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let kind = match self.kind {
            Kind::Call => 1_u16,
            Kind::Post => 2,
            Kind::Beat => 3,
            Kind::Bye => 4,
            Kind::LongCall => 5,
        };
        let mut bytes = [0; Self::BYTES];
        bytes[..2].copy_from_slice(&kind.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.plugin.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.method.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.slot.to_le_bytes());
        bytes[12..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    /// Takes the first frame of a message; `None` for bytes that are no frame.
    pub(super) fn take<'a>(from: &mut &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (bytes, rest) = from.split_first_chunk::<{ Self::BYTES }>()?;
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let kind = match half(0) {
            1 => Kind::Call,
            2 => Kind::Post,
            3 => Kind::Beat,
            4 => Kind::Bye,
            5 => Kind::LongCall,
            _ => return None,
        };
        let header = Self { kind, plugin: half(2), method: word(4), slot: word(8), size: word(12) };
        let (content, rest) = rest.split_at_checked(header.size as usize)?;
        *from = rest;
        Some((header, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_in_order_and_broken_frames_are_refused() {
        let mut message = Vec::new();
        for (kind, content) in [(Kind::Post, &b"one"[..]), (Kind::Call, b""), (Kind::Bye, b"x")] {
            let size = content.len() as u32;
            let header = Header { kind, plugin: 7, method: 1 << 20, slot: 3, size };
            message.extend_from_slice(&header.to_bytes());
            message.extend_from_slice(content);
        }
        let mut rest = &message[..];
        let all: Vec<_> = std::iter::from_fn(|| Header::take(&mut rest)).collect();
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].0.kind, all[0].1, all[0].0.plugin), (Kind::Post, &b"one"[..], 7));
        assert_eq!((all[1].0.kind, all[1].0.method), (Kind::Call, 1 << 20));
        for end in 0..message.len() {
            let mut cut = &message[..end];
            assert!(std::iter::from_fn(|| Header::take(&mut cut)).count() < 3);
        }
        message[0] = 9;
        assert!(Header::take(&mut &message[..]).is_none());
    }

    #[test]
    fn any_bytes_are_frames_or_none() {
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..48)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    if seed >> 60 < 8 { (seed >> 33) as u8 & 7 } else { (seed >> 33) as u8 }
                })
                .collect();
            let mut rest = &bytes[..];
            while Header::take(&mut rest).is_some() {}
        }
    }
}
