//! Counts of calls of each function, by result.

use longshore_capi::*;
use std::ffi::CStr;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Number of error codes; 0 means success.
const CODES: usize = 25;

const DEVICE: &[ol_errc_t] = &[OL_ERRC_INVALID_NULL_HANDLE, OL_ERRC_INVALID_DEVICE];
const QUEUE: &[ol_errc_t] = &[OL_ERRC_INVALID_NULL_HANDLE, OL_ERRC_INVALID_QUEUE];
const EVENT: &[ol_errc_t] = &[OL_ERRC_INVALID_NULL_HANDLE, OL_ERRC_INVALID_EVENT];
const PROGRAM: &[ol_errc_t] = &[OL_ERRC_INVALID_NULL_HANDLE, OL_ERRC_INVALID_ARGUMENT];
/// Errors for symbols: during the unloading of a program, the object of the backend ends first.
const SYMBOL: &[ol_errc_t] = &[
    OL_ERRC_INVALID_NULL_HANDLE,
    OL_ERRC_INVALID_ARGUMENT,
    OL_ERRC_SYMBOL_KIND,
    OL_ERRC_UNINITIALIZED,
];
const QUERY: &[ol_errc_t] =
    &[OL_ERRC_INVALID_SIZE, OL_ERRC_INVALID_NULL_POINTER, OL_ERRC_INVALID_ENUMERATION];
const POINTER: &[ol_errc_t] = &[OL_ERRC_INVALID_NULL_POINTER];
const VALUE: &[ol_errc_t] = &[OL_ERRC_INVALID_ARGUMENT];
const SIZE: &[ol_errc_t] = &[OL_ERRC_INVALID_SIZE];
const NUMBER: &[ol_errc_t] = &[OL_ERRC_INVALID_ENUMERATION];

/// Declares all functions, with the errors that they may return while the library is in use.
macro_rules! functions {
    ($($name:ident: $($errors:expr),*;)*) => {
        #[allow(non_camel_case_types, clippy::enum_variant_names, reason = "the names are LLVM's")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Function { $($name,)* }

        impl Function {
            pub(crate) const ALL: &[Function] = &[$(Function::$name,)*];

            fn may_answer(self, code: ol_errc_t) -> bool {
                let errors: &[&[ol_errc_t]] = match self { $(Function::$name => &[$($errors),*],)* };
                errors.iter().any(|codes| codes.contains(&code))
            }
        }
    };
}

functions! {
    olInit: ;
    olShutDown: ;
    olGetPlatformInfo: &[OL_ERRC_INVALID_NULL_HANDLE, OL_ERRC_INVALID_PLATFORM], QUERY;
    olGetPlatformInfoSize: &[OL_ERRC_INVALID_NULL_HANDLE, OL_ERRC_INVALID_PLATFORM], QUERY;
    olPlatformRegisterRPCCallback: &[OL_ERRC_INVALID_NULL_HANDLE, OL_ERRC_INVALID_PLATFORM], POINTER;
    olIterateDevices: POINTER;
    olGetDeviceInfo: DEVICE, QUERY, &[OL_ERRC_UNIMPLEMENTED];
    olGetDeviceInfoSize: DEVICE, QUERY, &[OL_ERRC_UNIMPLEMENTED];
    olMemAlloc: DEVICE, SIZE, POINTER, NUMBER;
    olMemAllocAligned: DEVICE, SIZE, POINTER, NUMBER, VALUE;
    olMemFree: POINTER, VALUE;
    olGetMemInfo: QUERY, &[OL_ERRC_NOT_FOUND];
    olGetMemInfoSize: QUERY, &[OL_ERRC_NOT_FOUND];
    olMemRegister: DEVICE, SIZE, POINTER, NUMBER, VALUE, &[OL_ERRC_UNSUPPORTED];
    olMemUnregister: DEVICE, POINTER, NUMBER, VALUE;
    olMemPrefetch: QUEUE, POINTER, NUMBER;
    olMemcpy: QUEUE, DEVICE, POINTER, VALUE;
    olMemFill: QUEUE, SIZE, POINTER, VALUE, &[OL_ERRC_NOT_FOUND];
    olCreateQueue: DEVICE, POINTER;
    olDestroyQueue: QUEUE;
    olSyncQueue: QUEUE;
    olQueryQueue: QUEUE;
    olWaitEvents: QUEUE, EVENT, POINTER;
    olGetQueueInfo: QUEUE, QUERY;
    olGetQueueInfoSize: QUEUE, QUERY;
    olLaunchHostFunction: QUEUE, POINTER;
    olCreateEvent: QUEUE, POINTER, NUMBER;
    olDestroyEvent: EVENT;
    olSyncEvent: EVENT;
    olGetEventInfo: EVENT, QUERY;
    olGetEventInfoSize: EVENT, QUERY;
    olGetEventElapsedTime: EVENT, POINTER, VALUE, &[OL_ERRC_INVALID_DEVICE];
    olCreateProgram: DEVICE, POINTER, &[OL_ERRC_INVALID_BINARY];
    olDestroyProgram: PROGRAM;
    olIsValidBinary: DEVICE, POINTER;
    olGetSymbol: SYMBOL, POINTER, NUMBER, &[OL_ERRC_NOT_FOUND];
    olGetSymbolInfo: SYMBOL, QUERY;
    olGetSymbolInfoSize: SYMBOL, QUERY;
    olLaunchKernel: DEVICE, QUEUE, SYMBOL, POINTER, NUMBER;
    olCalculateOptimalOccupancy: DEVICE, SYMBOL, POINTER, &[OL_ERRC_UNSUPPORTED];
    olGetKernelMaxCooperativeGroupCount: DEVICE, SYMBOL, POINTER, &[OL_ERRC_UNSUPPORTED];
}

/// Counts of calls by function and code.
pub(crate) struct Tally {
    counts: Box<[[AtomicU64; CODES]]>,
    /// Whether there may be times without an olInit in effect.
    may_be_shut_down: AtomicBool,
}

impl Tally {
    pub(crate) fn new(may_be_shut_down: bool) -> Tally {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        let counts = Function::ALL.iter().map(|_| zeros()).collect();
        Tally { counts, may_be_shut_down: AtomicBool::new(may_be_shut_down) }
    }

    /// Sets whether there may be times without an olInit in effect, and returns the former value.
    pub(crate) fn set_shut_down(&self, may_be_shut_down: bool) -> bool {
        self.may_be_shut_down.swap(may_be_shut_down, Relaxed)
    }

    /// Counts the result of a call, and returns whether it succeeded.
    ///
    /// # Panics
    /// If the function must not return this result.
    pub(crate) fn count(&self, function: Function, result: ol_result_t) -> bool {
        // SAFETY: results are null or live until the end of the process.
        let (code, details) = match unsafe { result.as_ref() } {
            None => (OL_ERRC_SUCCESS, c""),
            // SAFETY: `Details` is a text with a NUL at its end.
            Some(error) => (error.Code, unsafe { CStr::from_ptr(error.Details) }),
        };
        let is_expected = code == OL_ERRC_SUCCESS
            || function.may_answer(code)
            || (code == OL_ERRC_UNINITIALIZED && self.may_be_shut_down.load(Relaxed));
        assert!(is_expected, "{function:?}: {code:?}: {}", details.to_string_lossy());
        self.counts[function as usize][code.0 as usize].fetch_add(1, Relaxed);
        code == OL_ERRC_SUCCESS
    }

    pub(crate) fn calls_with(&self, function: Function, code: ol_errc_t) -> u64 {
        self.counts[function as usize][code.0 as usize].load(Relaxed)
    }

    pub(crate) fn count_code(&self, code: ol_errc_t) -> u64 {
        Function::ALL.iter().map(|function| self.calls_with(*function, code)).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for function in Function::ALL {
            write!(f, "{:36}", format!("{function:?}"))?;
            for (name, code) in ol_errc_t::ALL {
                match self.calls_with(*function, *code) {
                    0 => {}
                    count => write!(f, " {} {count}", name.trim_start_matches("OL_ERRC_"))?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
