//! Values of the plugin interface, as they are sent.

use longshore_plugin_api::{
    Acceptance, ArgumentType, Error, ErrorCode, KernelAttributes, MemoryKind, PoolTracker,
    ProfileSection, ProfileSectionKind, SymbolKind,
};
use serde::{Deserialize, Serialize};

/// What a plugin says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) backend: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) vendor: String,
    pub(super) image_formats: String,
    pub(super) driver: String,
}

/// An [`Acceptance`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Accepts {
    Refused(String),
    Accepted,
    Verified,
}

impl From<Acceptance> for Accepts {
    fn from(from: Acceptance) -> Self {
        match from {
            Acceptance::Refused(why) => Accepts::Refused(why),
            Acceptance::Accepted => Accepts::Accepted,
            Acceptance::Verified => Accepts::Verified,
        }
    }
}

impl From<Accepts> for Acceptance {
    fn from(from: Accepts) -> Self {
        match from {
            Accepts::Refused(why) => Acceptance::Refused(why),
            Accepts::Accepted => Acceptance::Accepted,
            Accepts::Verified => Acceptance::Verified,
        }
    }
}

/// A [`KernelAttributes`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Attributes {
    address: u64,
    code_bytes: u64,
    argument_sizes: Option<Vec<u32>>,
    argument_types: Vec<u32>,
    declaration: String,
    max_group_items: u32,
    static_shared_bytes: u64,
    private_bytes: u64,
    registers: u32,
    required_group: [u32; 3],
}

/// A [`ProfileSection`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Section {
    kind: u32,
    address: u64,
    contents: Vec<u8>,
}

/// An [`Error`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    code: u32,
    message: String,
    vendor: Option<(String, i64)>,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: error.code() as u32,
            message: error.message().to_owned(),
            vendor: error.vendor().map(|vendor| (vendor.name.clone(), vendor.number)),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let error = Error::new(ErrorCode::from_raw(failure.code), failure.message);
        match failure.vendor {
            Some((name, number)) => error.with_vendor(name, number),
            None => error,
        }
    }
}

impl From<KernelAttributes> for Attributes {
    fn from(from: KernelAttributes) -> Self {
        let KernelAttributes {
            address,
            code_bytes,
            argument_sizes,
            argument_types,
            declaration,
            max_group_items,
            static_shared_bytes,
            private_bytes,
            registers,
            required_group,
        } = from;
        Self {
            address,
            code_bytes,
            argument_sizes,
            argument_types: argument_types.into_iter().map(ArgumentType::word).collect(),
            declaration,
            max_group_items,
            static_shared_bytes,
            private_bytes,
            registers,
            required_group,
        }
    }
}

impl From<Attributes> for KernelAttributes {
    fn from(from: Attributes) -> Self {
        Self {
            address: from.address,
            code_bytes: from.code_bytes,
            argument_types: (from.argument_types.into_iter())
                .map(|word| ArgumentType::from_word(word).unwrap_or(ArgumentType::UNKNOWN))
                .collect(),
            declaration: from.declaration,
            argument_sizes: from.argument_sizes,
            max_group_items: from.max_group_items,
            static_shared_bytes: from.static_shared_bytes,
            private_bytes: from.private_bytes,
            registers: from.registers,
            required_group: from.required_group,
        }
    }
}

impl From<ProfileSection> for Section {
    fn from(from: ProfileSection) -> Self {
        Self { kind: from.kind as u32, address: from.address, contents: from.contents }
    }
}

impl Section {
    pub(super) fn into_section(self) -> Option<ProfileSection> {
        let kind = ProfileSectionKind::from_raw(self.kind)?;
        Some(ProfileSection { kind, address: self.address, contents: self.contents })
    }
}

/// A [`PoolTracker`], as it is sent.
pub(super) type Tracker = [u64; 4];

pub(super) fn to_tracker(from: PoolTracker) -> Tracker {
    [from.allocations, from.total_bytes, from.min_bytes, from.max_bytes]
}

pub(super) fn from_tracker(
    [allocations, total_bytes, min_bytes, max_bytes]: Tracker,
) -> PoolTracker {
    PoolTracker { allocations, total_bytes, min_bytes, max_bytes }
}

/// The kind of memory with this number.
///
/// # Errors
/// `InvalidEnumeration`.
pub(super) fn memory_kind(kind: u32) -> Result<MemoryKind, Error> {
    MemoryKind::from_raw(kind).ok_or_else(|| {
        Error::new(ErrorCode::InvalidEnumeration, format!("{kind} is no memory kind"))
    })
}

/// The kind of symbol with this number, if it is one.
pub(super) fn symbol_kind(kind: u32) -> Option<SymbolKind> {
    SymbolKind::from_raw(kind)
}
