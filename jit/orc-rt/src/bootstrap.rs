//! Addresses by name that a controller must know before it can link for this process.

use std::ffi::c_int;
use std::sync::OnceLock;

use crate::static_tls::StaticTls;
use crate::{
    callback, exit, indirect, names, rebind, reentry, service, tls, tls_descriptor, unwind,
};

static STATIC_TLS: OnceLock<&'static StaticTls> = OnceLock::new();

/// Sets the reserve of static thread-local storage for linked code of this process, unless the
/// controller names another one. Must be called before anything is linked. Returns false, without a
/// change, if a reserve is set already.
///
/// Only an executable can provide a reserve: see
/// [`static_tls_reserve!`](crate::static_tls_reserve).
pub fn set_static_tls(reserve: &'static StaticTls) -> bool {
    STATIC_TLS.set(reserve).is_ok()
}

/// Returns the triple of this process.
pub fn triple() -> &'static str {
    match std::env::consts::ARCH {
        "aarch64" => "aarch64-unknown-linux-gnu",
        "x86_64" => "x86_64-unknown-linux-gnu",
        other => other,
    }
}

/// Returns the addresses that a controller needs, by name: the addresses of [`names`] and of the
/// [services](service). They are constant while this code is loaded.
pub fn bootstrap_symbols() -> Vec<(&'static str, u64)> {
    let mut symbols = vec![
        (names::REGISTER_FRAMES, unwind::register as *const () as u64),
        (names::DEREGISTER_FRAMES, unwind::deregister as *const () as u64),
        (names::RESOLVE_INDIRECT, indirect::resolve as *const () as u64),
        (names::REBIND_DATA, rebind::rebind as *const () as u64),
        (names::RESTORE_DATA, rebind::restore as *const () as u64),
        (names::TLS_GET_ADDR, tls::tls_get_address_function()),
        (names::STATIC_TLS_RESOLVER, tls_descriptor::static_resolver()),
        (names::DYNAMIC_TLS_RESOLVER, tls_descriptor::dynamic_resolver()),
        (names::REENTER, reentry::reenter_function()),
        (names::CONTROLLER_HOOK, reentry::controller_hook_function()),
        (names::NOT_LINKED, reentry::not_linked_function()),
        (names::CALL_CONTROLLER, callback::call_controller_from_c as *const () as u64),
        ("__longshore_pthread_atfork", pthread_atfork as *const () as u64),
        ("__longshore_at_quick_exit", at_quick_exit as *const () as u64),
    ];
    symbols.extend(exit::exit_functions());
    symbols.extend(STATIC_TLS.get().map(|reserve| (names::STATIC_TLS, reserve.address())));
    symbols.extend(service::functions().map(|(name, function)| (name, function as usize as u64)));
    symbols
}

type Handler = Option<unsafe extern "C" fn()>;

unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    fn at_quick_exit(function: Handler) -> c_int;
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn every_name_is_there_once_and_has_an_address() {
        let symbols = bootstrap_symbols();
        let by_name: HashMap<&str, u64> = symbols.iter().copied().collect();
        assert_eq!(by_name.len(), symbols.len());
        assert!(by_name.values().all(|address| *address != 0));
        assert!(by_name.keys().all(|name| name.starts_with("__longshore_")));
    }

    #[test]
    fn every_stand_in_is_there() {
        let by_name: HashMap<&str, u64> = bootstrap_symbols().into_iter().collect();
        for name in [
            "__tls_get_addr",
            "__cxa_atexit",
            "__longshore_atexit",
            "__cxa_thread_atexit",
            "__cxa_thread_atexit_impl",
            "__cxa_finalize",
            "pthread_atfork",
            "at_quick_exit",
        ] {
            assert!(by_name.contains_key(names::stand_in(name).unwrap()), "{name}");
        }
        assert_eq!(names::stand_in("atexit"), None);
    }
}
