//! The declaration of the interface. The arguments of each macro define the C declaration, which
//! `cargo xtask header` writes into `include/OffloadAPI.h`, and the Rust one.

/// Declares enumerations: numbers of 32 bits, as callers may pass any number.
macro_rules! enumerations {
    ($($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $value_doc:literal])* $value:ident = $number:literal,)* })*) => {$(
        $(#[doc = $doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name(pub u32);

        $(
            $(#[doc = $value_doc])*
            pub const $value: $name = $name($number);
        )*

        impl $name {
            /// Names and values of all enumerators.
            pub const ALL: &[(&str, $name)] = &[$((stringify!($value), $value),)*];
        }

        impl crate::types::trace::TraceValue for $name {
            fn show(&self, line: &mut String) {
                let known = Self::ALL.iter().find(|(_, value)| value == self);
                line.push_str(known.map_or("unknown enumerator", |(name, _)| name));
            }
        }
    )*};
}

/// Declares structures.
macro_rules! structures {
    ($($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $field_doc:literal])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($(#[doc = $field_doc])* pub $field: $kind,)*
        }

        impl crate::types::trace::TraceValue for $name {
            fn show(&self, line: &mut String) {
                line.push_str(concat!("(struct ", stringify!($name), "){"));
                let mut fields = crate::types::trace::Fields::new(line);
                $(fields.show(stringify!($field), &self.$field);)*
                line.push('}');
            }
        }
    )*};
}

/// Declares handles: pointers to opaque objects.
macro_rules! handles {
    ($($(#[doc = $doc:literal])* $name:ident = $object:ident;)*) => {$(
        $(#[doc = $doc])*
        pub type $name = *mut $object;

        #[doc = concat!("The object behind a [`", stringify!($name), "`].")]
        pub enum $object {}

        impl crate::types::trace::Pointee for $object {
            fn show_at(_: *const Self, _: &mut String) {}
        }
    )*};
}

pub(crate) use {enumerations, handles, structures};
