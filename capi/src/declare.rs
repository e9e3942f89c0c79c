//! How the interface is declared: what each macro is given says the C declaration, which
//! `cargo xtask header` writes into `include/OffloadAPI.h`, and the Rust one.

/// Enumerations: numbers of 32 bits, as callers may pass any.
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

        impl crate::trace::Shown for $name {
            fn show(&self, line: &mut String) {
                let known = Self::ALL.iter().find(|(_, value)| value == self);
                line.push_str(known.map_or("unknown enumerator", |(name, _)| name));
            }
        }
    )*};
}

/// Structures.
macro_rules! structures {
    ($($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $field_doc:literal])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $($(#[doc = $field_doc])* pub $field: $kind,)*
        }

        impl crate::trace::Shown for $name {
            fn show(&self, line: &mut String) {
                line.push_str(concat!("(struct ", stringify!($name), "){"));
                let mut fields = crate::trace::Fields::new(line);
                $(fields.show(stringify!($field), &self.$field);)*
                line.push('}');
            }
        }
    )*};
}

/// Handles: pointers to what nobody looks into.
macro_rules! handles {
    ($($(#[doc = $doc:literal])* $name:ident = $object:ident;)*) => {$(
        $(#[doc = $doc])*
        pub type $name = *mut $object;

        #[doc = concat!("What [`", stringify!($name), "`] stands for.")]
        pub enum $object {}

        impl crate::trace::Pointee for $object {
            fn show_at(_: *const Self, _: &mut String) {}
        }
    )*};
}

/// Functions: their parameters, what is refused in this order (said with what C has too, and questions for null), what
/// does the work, and what shows the property that the last parameter points to. Each has a twin that takes the place
/// in the program from which it is called.
macro_rules! functions {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident, $twin:ident ($($parameter:ident: $kind:ty),*)
        $({ $($wrong:expr => $code:ident,)* })?
        => $($body:ident)::+
        $([$query:ident $size:ident $value:ident])?;
    )*) => {$(
        $(#[doc = $doc])*
        ///
        /// # Safety
        /// Pointers are null, or point to what is read and written as said above.
        #[allow(clippy::too_many_arguments, reason = "they are the interface's")]
        #[allow(clippy::manual_is_multiple_of, reason = "checks are said in C too")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($parameter: $kind),*) -> ol_result_t {
            let check = || {
                $($(if $wrong {
                    return Err(crate::call::refused(ErrorCode::$code, stringify!($wrong)));
                })*)?
                Ok(())
            };
            // SAFETY: promised by the caller.
            let body = || unsafe { $($body)::+($($parameter),*) };
            let show = |_line: &mut String, _succeeded: bool| {
                let mut _fields = crate::trace::Parameters::new(_line, _succeeded);
                $(_fields.show(stringify!($parameter), &$parameter);)*
                $(if _succeeded {
                    $query.show_value($size, $value, _line);
                })?
            };
            let needs_init = const { !matches!(stringify!($name).as_bytes(), b"olInit") };
            crate::call::run(stringify!($name), needs_init, check, body, show)
        }

        #[doc = concat!("[`", stringify!($name), "`], called from a place in the program, which errors name.")]
        ///
        /// # Safety
        /// As there; `CodeLocation` is null or points to a location.
        #[allow(clippy::too_many_arguments, reason = "they are the interface's")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $twin(
            $($parameter: $kind,)*
            CodeLocation: *const ol_code_location_t,
        ) -> ol_result_t {
            // SAFETY: promised by the caller.
            unsafe { crate::call::at(CodeLocation, || $name($($parameter),*)) }
        }
    )*};
}

pub(crate) use {enumerations, functions, handles, structures};
