//! Values of the plugin interface, as they are sent.

use std::fmt::{self, Display};
use std::marker::PhantomData;

use longshore_plugin_api::bounds::{self, ARGUMENTS, PROFILE_SECTIONS, SYMBOLS};
use longshore_plugin_api::{
    Acceptance, ArgumentType, Error, ErrorCode, KernelAttributes, MemoryKind, PoolTracker,
    ProfileSection, ProfileSectionKind, SymbolKind,
};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

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
    argument_sizes: Option<Bounded<u32, ARGUMENTS>>,
    argument_types: Bounded<u32, ARGUMENTS>,
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
    is_breach: bool,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: error.code() as u32,
            message: error.message().to_owned(),
            vendor: error.vendor().map(|vendor| (vendor.name.clone(), vendor.number)),
            is_breach: error.is_breach(),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let mut error = Error::new(ErrorCode::from_raw(failure.code), failure.message);
        if failure.is_breach {
            error = error.into_breach();
        }
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
            argument_sizes: argument_sizes.map(Bounded::from),
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

impl Attributes {
    /// The attributes of a plugin's kernel.
    ///
    /// # Errors
    /// A breach for values beyond their bounds.
    pub(super) fn checked(self, plugin: &str, name: &str) -> Result<KernelAttributes, Error> {
        let place = format!("longshore.module, kernel '{name}', argument_count");
        let types = self.argument_types.checked(plugin, &place, "arguments")?.into_iter();
        let sizes = self.argument_sizes.map(|sizes| sizes.checked(plugin, &place, "arguments"));
        let attributes = KernelAttributes {
            address: self.address,
            code_bytes: self.code_bytes,
            argument_types: types
                .map(|word| ArgumentType::from_word(word).unwrap_or(ArgumentType::UNKNOWN))
                .collect(),
            declaration: self.declaration,
            argument_sizes: sizes.transpose()?,
            max_group_items: self.max_group_items,
            static_shared_bytes: self.static_shared_bytes,
            private_bytes: self.private_bytes,
            registers: self.registers,
            required_group: self.required_group,
        };
        bounds::kernel(plugin, name, &attributes).map(|()| attributes)
    }
}

impl Description {
    /// # Errors
    /// A breach for a text beyond its bound.
    pub(super) fn check(&self, plugin: &str) -> Result<(), Error> {
        let Description { backend, name, version, vendor, image_formats, driver } = self;
        let texts = [
            ("backend", backend),
            ("name", name),
            ("version", version),
            ("vendor", vendor),
            ("image_formats", image_formats),
            ("driver", driver),
        ];
        texts.into_iter().try_for_each(|(field, text)| {
            check_text(plugin, format_args!("describe, {field}"), text, bounds::DESCRIPTION_BYTES)
        })
    }
}

/// Checks the length of a text or an answer.
///
/// # Errors
/// A breach above `most`.
pub(super) fn check_text(
    plugin: &str,
    place: impl Display,
    text: impl AsRef<[u8]>,
    most: usize,
) -> Result<(), Error> {
    bounds::at_most(plugin, place, text.as_ref().len() as u64, "bytes", most as u64)
}

/// A list of which no more than `MOST` elements are kept when it is read.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct Bounded<T, const MOST: usize> {
    kept: Vec<T>,
    /// Elements that were read.
    #[serde(skip)]
    count: usize,
}

impl<T, const MOST: usize> Bounded<T, MOST> {
    /// The elements, if they are all here.
    ///
    /// # Errors
    /// A breach for more than `MOST`.
    pub(super) fn checked(
        self,
        plugin: &str,
        place: impl Display,
        unit: &str,
    ) -> Result<Vec<T>, Error> {
        bounds::at_most(plugin, place, self.count as u64, unit, MOST as u64)?;
        Ok(self.kept)
    }
}

impl<T, const MOST: usize> From<Vec<T>> for Bounded<T, MOST> {
    fn from(kept: Vec<T>) -> Self {
        Self { count: kept.len(), kept }
    }
}

impl<T, const MOST: usize> FromIterator<T> for Bounded<T, MOST> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Vec::from_iter(elements).into()
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Bounded<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Elements<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Elements<T, MOST> {
            type Value = Bounded<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
                let (mut kept, mut count) = (Vec::new(), 0);
                while let Some(element) = from.next_element()? {
                    count += 1;
                    if count <= MOST {
                        kept.push(element);
                    }
                }
                Ok(Bounded { kept, count })
            }
        }

        from.deserialize_seq(Elements(PhantomData))
    }
}

impl From<ProfileSection> for Section {
    fn from(from: ProfileSection) -> Self {
        Self { kind: from.kind as u32, address: from.address, contents: from.contents }
    }
}

/// The names of the settings that a plugin has asked for while it was connected; no more than these are told.
pub(super) type Asked = Bounded<String, ASKED>;
/// The most names in [`Asked`].
pub(super) const ASKED: usize = 100;
/// All of a module.
pub(super) type Sections = Bounded<Section, PROFILE_SECTIONS>;
/// All of a module, with their kinds.
pub(super) type Symbols = Bounded<(String, u32), SYMBOLS>;

impl Asked {
    /// All names.
    ///
    /// # Errors
    /// A breach for too many names and for one that is too long.
    pub(super) fn names(self, plugin: &str) -> Result<Vec<String>, Error> {
        let place = "services, settings that were asked for";
        let names = self.checked(plugin, place, "names")?;
        for name in &names {
            check_text(plugin, format_args!("{place}, name"), name, bounds::DESCRIPTION_BYTES)?;
        }
        Ok(names)
    }
}

impl Symbols {
    /// All symbols of a known kind.
    ///
    /// # Errors
    /// A breach for too many symbols and for a name beyond its bound.
    pub(super) fn known(self, plugin: &str) -> Result<Vec<(String, SymbolKind)>, Error> {
        let place = "longshore.module, symbols";
        let symbols = self.checked(plugin, place, "symbols")?;
        for (name, _) in &symbols {
            check_text(plugin, format_args!("{place}, name"), name, bounds::SYMBOL_BYTES)?;
        }
        let known = |(name, kind)| Some((name, SymbolKind::from_raw(kind)?));
        Ok(symbols.into_iter().filter_map(known).collect())
    }
}

impl Sections {
    /// All sections of a known kind.
    ///
    /// # Errors
    /// A breach for too many sections and for one that reaches beyond the last address.
    pub(super) fn known(self, plugin: &str) -> Result<Vec<ProfileSection>, Error> {
        let sections = self.checked(plugin, "longshore.instrumentation, profile", "sections")?;
        for section in &sections {
            bounds::section(plugin, section.address, section.contents.len() as u64)?;
        }
        Ok(sections.into_iter().filter_map(Section::into_section).collect())
    }
}

impl Section {
    fn into_section(self) -> Option<ProfileSection> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::protocol::{decode, encode};

    #[test]
    fn of_a_long_list_the_bound_is_kept_and_the_number_told() {
        for (count, kept) in [(0, Some(0)), (3, Some(3)), (4, None), (1 << 20, None)] {
            let bytes = encode(&(vec![7_u32; count], "behind"));
            let (list, behind): (Bounded<u32, 3>, &str) = decode(&bytes).unwrap();
            assert!(list.kept.capacity() <= 4 && behind == "behind");
            let checked = list.checked("toy", "here", "numbers");
            assert_eq!(checked.as_ref().ok().map(Vec::len), kept);
            if let Err(error) = checked {
                let said = format!("plugin 'toy': here: {count} numbers, expected at most 3");
                assert!(error.is_breach() && error.message() == said, "{error}");
            }
        }
    }

    #[test]
    fn a_breach_comes_back_as_one() {
        let breach = bounds::devices("toy", u32::MAX).unwrap_err();
        assert_eq!(Error::from(Failure::from(breach.clone())), breach);
    }
}
