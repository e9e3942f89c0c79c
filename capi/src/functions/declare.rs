//! The macro that declares functions: `cargo xtask header` reads what it is given as well, and writes the C declarations
//! into `include/OffloadAPI.h`.

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
                let mut _fields = crate::types::trace::Parameters::new(_line, _succeeded);
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

pub(crate) use functions;
