//! The names by which a controller looks up addresses of this process, except the names of
//! [services](crate::service).

/// The action function that registers frames with the unwinder, called with
/// [`unwind::argument`](crate::unwind::argument).
pub const REGISTER_FRAMES: &str = "__longshore_register_frames";
/// The action function that deregisters the frames, called with the same argument.
pub const DEREGISTER_FRAMES: &str = "__longshore_deregister_frames";
/// The action function that resolves an indirect function, called with
/// [`indirect::argument`](crate::indirect::argument).
pub const RESOLVE_INDIRECT: &str = "__longshore_resolve_indirect";
/// The action function that makes the libraries of the process use a copy of data, called with
/// [`rebind::argument`](crate::rebind::argument).
pub const REBIND_DATA: &str = "__longshore_rebind_data";
/// The action function that undoes the rebinding, called with the same argument.
pub const RESTORE_DATA: &str = "__longshore_restore_data";
/// The `__tls_get_addr` of linked code: see
/// [`tls::tls_get_address_function`](crate::tls::tls_get_address_function).
pub const TLS_GET_ADDR: &str = "__longshore_tls_get_addr";
/// The resolver of [`tls_descriptor::static_resolver`](crate::tls_descriptor::static_resolver).
pub const STATIC_TLS_RESOLVER: &str = "__longshore_static_tls_resolver";
/// The resolver of [`tls_descriptor::dynamic_resolver`](crate::tls_descriptor::dynamic_resolver).
pub const DYNAMIC_TLS_RESOLVER: &str = "__longshore_dynamic_tls_resolver";
/// The process's own [`StaticTls`](crate::StaticTls); absent without
/// [`set_static_tls`](crate::set_static_tls).
pub const STATIC_TLS: &str = "__longshore_static_tls";
/// The target of trampolines of linked code: see
/// [`reentry::reenter_function`](crate::reentry::reenter_function).
pub const REENTER: &str = "__longshore_reenter";
/// The hook of trampolines whose context is a tag of the controller: see
/// [`reentry::controller_hook_function`](crate::reentry::controller_hook_function).
pub const CONTROLLER_HOOK: &str = "__longshore_reentry_of_controller";
/// The function that ends the process: see
/// [`reentry::not_linked_function`](crate::reentry::not_linked_function).
pub const NOT_LINKED: &str = "__longshore_not_linked";
/// The function that calls the controller: see [`callback`](crate::callback).
pub const CALL_CONTROLLER: &str = "__longshore_call_controller";

/// Returns the replacement in linked code for a name of the C or C++ library, if that name needs
/// one. `atexit` needs one that is made for each library: see
/// [`exit::LONGSHORE_ATEXIT`](crate::exit::LONGSHORE_ATEXIT).
pub fn stand_in(name: &str) -> Option<&'static str> {
    Some(match name {
        "__tls_get_addr" => TLS_GET_ADDR,
        "__cxa_atexit" => "__longshore_cxa_atexit",
        "__longshore_atexit" => "__longshore_atexit",
        "__cxa_thread_atexit" | "__cxa_thread_atexit_impl" => "__longshore_cxa_thread_atexit",
        "__cxa_finalize" => "__longshore_cxa_finalize",
        // The C library has these in a part that is linked into every program.
        "pthread_atfork" => "__longshore_pthread_atfork",
        "at_quick_exit" => "__longshore_at_quick_exit",
        _ => return None,
    })
}
