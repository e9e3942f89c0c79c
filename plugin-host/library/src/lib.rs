//! The plugin's shared library. The backend is a crate of its own, so that a program can contain it
//! without the symbol that this library exports.

longshore_plugin_api::export_plugin!(longshore_plugin_host::HostBackend);
