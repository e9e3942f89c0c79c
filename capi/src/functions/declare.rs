//! The macro that declares functions. `cargo xtask header` reads the declaration too, and writes
//! the C declarations into `include/OffloadAPI.h`.

/// Declares functions: parameters, refusals in their order, the function that does the work, and
/// the function that shows the property behind the last parameter. Refusals are conditions that are
/// valid in C too, or tests for null. Each function has a twin that takes the location of its call
/// in the program.
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
        /// Pointers are null, or point to values that the call reads or writes as described above.
        #[allow(clippy::too_many_arguments, reason = "they are the interface's")]
        #[allow(clippy::manual_is_multiple_of, reason = "checks are valid in C too")]
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

        #[doc = concat!("[`", stringify!($name), "`] with the location of its call, which errors name.")]
        ///
        /// # Safety
        /// As for that function; `CodeLocation` is null or points to a location.
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
