//! The plugin's shared library. The backend is a crate of its own, as nodes use its messages.

longshore_plugin_api::export_plugin!(longshore_mpi_backend::MpiBackend);
