//! The format of a stream: a greeting from each side, then frames.

use super::EndReason;

/// The version of the protocol. Both sides must have the same.
pub const VERSION: u32 = 2;

/// Greatest number of bytes of a message's content. Larger contents go in pieces, or through shared
/// memory.
pub const MAX_CONTENT: usize = 16 << 20;

/// The first bytes of a greeting, of whatever version.
const MAGIC: [u8; 8] = *b"LNGSHREX";

/// The first message of each side. Its first 16 bytes have the same meaning in all versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) version: u32,
    /// Whether a file descriptor of memory to share comes along.
    pub(super) shares_memory: bool,
    /// The size of the memory's first part, which the connection uses, in bytes.
    pub(super) link_bytes: u64,
}

impl Greeting {
    pub(super) const BYTES: usize = 32;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12] = u8::from(self.shares_memory);
        bytes[16..24].copy_from_slice(&self.link_bytes.to_le_bytes());
        bytes
    }

    /// Parses the other side's greeting.
    pub(super) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self, EndReason> {
        if bytes[..8] != MAGIC {
            let problem = "the other side's greeting is neither an executor's nor a controller's";
            return Err(EndReason::Protocol(problem.to_owned()));
        }
        let version = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
        if version != VERSION {
            return Err(EndReason::Version { ours: VERSION, theirs: version });
        }
        if bytes[12] > 1 || bytes[13..16] != [0; 3] || bytes[24..] != [0; 8] {
            return Err(EndReason::Protocol(
                "a greeting with an invalid flag or nonzero reserved bytes".to_owned(),
            ));
        }
        let link_bytes = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
        Ok(Self { version, shares_memory: bytes[12] == 1, link_bytes })
    }
}

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A call; its reply has the same identity.
    Call,
    /// A reply: `method` is 0 if the call succeeded, otherwise 1, and the content is a text.
    Reply,
    /// A message without a reply.
    Post,
    /// The last frame.
    Bye,
}

/// The header of a message, in a stream and in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) method: u32,
    pub(super) identity: u64,
    /// Bytes of content.
    pub(super) size: usize,
}

impl Header {
    pub(super) const BYTES: usize = 24;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let kind = match self.kind {
            Kind::Call => 1_u32,
            Kind::Reply => 2,
            Kind::Post => 3,
            Kind::Bye => 4,
        };
        let size = u32::try_from(self.size).expect("contents are bounded");
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.identity.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.method.to_le_bytes());
        bytes
    }

    /// Parses a header; any bytes give a header or an error.
    pub(super) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self, EndReason> {
        let word =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let kind = match word(4) {
            1 => Kind::Call,
            2 => Kind::Reply,
            3 => Kind::Post,
            4 => Kind::Bye,
            other => return Err(EndReason::Protocol(format!("a message of kind {other}"))),
        };
        let size = word(0) as usize;
        if size > MAX_CONTENT {
            let problem = format!("a message of {size} bytes, expected at most {MAX_CONTENT}");
            return Err(EndReason::Protocol(problem));
        }
        if word(20) != 0 {
            return Err(EndReason::Protocol("a message with nonzero reserved bytes".to_owned()));
        }
        let identity = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
        Ok(Self { kind, method: word(16), identity, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_and_headers_come_back() {
        let greeting = Greeting { version: VERSION, shares_memory: true, link_bytes: 4096 };
        assert_eq!(Greeting::from_bytes(&greeting.to_bytes()), Ok(greeting));
        for kind in [Kind::Call, Kind::Reply, Kind::Post, Kind::Bye] {
            let header = Header { kind, method: 7, identity: u64::MAX, size: MAX_CONTENT };
            assert_eq!(Header::from_bytes(&header.to_bytes()), Ok(header));
        }
    }

    #[test]
    fn another_version_is_refused_with_both_versions() {
        let greeting = Greeting { version: 7, shares_memory: false, link_bytes: 0 };
        let error = Greeting::from_bytes(&greeting.to_bytes()).unwrap_err();
        assert_eq!(error, EndReason::Version { ours: VERSION, theirs: 7 });
        let text = error.to_string();
        assert!(
            text.contains("version 7") && text.contains(&format!("version {VERSION}")),
            "{text}"
        );
    }

    #[test]
    fn bytes_that_mean_nothing_are_refused() {
        let good = Greeting { version: VERSION, shares_memory: true, link_bytes: 4096 }.to_bytes();
        for at in [0, 7, 12, 13, 15, 24, 31] {
            let mut bytes = good;
            bytes[at] ^= 0x80;
            assert!(
                matches!(Greeting::from_bytes(&bytes), Err(EndReason::Protocol(_))),
                "byte {at}"
            );
        }
        let header = Header { kind: Kind::Call, method: 1, identity: 2, size: 3 }.to_bytes();
        for (at, value) in [(3, 0xff), (4, 0), (4, 5), (7, 1), (20, 1), (23, 1)] {
            let mut bytes = header;
            bytes[at] = value;
            assert!(matches!(Header::from_bytes(&bytes), Err(EndReason::Protocol(_))), "byte {at}");
        }
    }
}
