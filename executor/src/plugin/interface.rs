//! Messages, proxies and serving code, generated from the declaration of the plugin interface.

longshore_plugin_api::with_interface!(longshore_interface_macros::isolation_of);
