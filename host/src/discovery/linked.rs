//! Plugins that are part of the program: it passes them to the builder, or the crate's features add
//! them.

use super::library::incompatible;
use super::report::Outcome;
use super::search::{FoundFile, Origin, library_of};
use crate::selection::is_backend_name;
use longshore_plugin_api::remote::RemotePlugin;
use longshore_plugin_api::{Error, ErrorCode, LinkedPlugin};
use std::path::Path;

/// Returns the plugins that the crate's features link into the program.
pub(super) fn feature_plugins() -> Vec<LinkedPlugin> {
    vec![
        #[cfg(feature = "host")]
        LinkedPlugin::new::<longshore_plugin_host::HostBackend>(),
    ]
}

/// Returns the candidate of a linked plugin. Its path is that of the executable or library with the
/// plugin's entry.
pub(super) fn candidate(plugin: LinkedPlugin) -> FoundFile {
    let path = library_of(plugin.entry().cast()).or_else(|| std::env::current_exe().ok());
    let path = path.unwrap_or_default();
    match check(plugin) {
        Ok(plugin) => {
            let backend = plugin.description().backend.clone();
            FoundFile {
                path,
                backend,
                origin: Origin::Program(Some(Box::new(plugin))),
                verdict: None,
            }
        }
        Err(outcome) => {
            let (backend, origin) = (String::new(), Origin::Program(None));
            FoundFile { path, backend, origin, verdict: Some(outcome) }
        }
    }
}

fn check(plugin: LinkedPlugin) -> Result<RemotePlugin, Outcome> {
    // SAFETY: the host destroys modules, queues, events, devices and platforms in this order.
    let plugin = unsafe { plugin.check() }.map_err(incompatible)?;
    let backend = &plugin.description().backend;
    if is_backend_name(backend) {
        return Ok(plugin);
    }
    Err(Outcome::NotAPlugin(format!(
        "it names its backend '{backend}', expected lower case letters, digits, '-' and '_'"
    )))
}

/// Returns the outcome of a linked plugin that program or user want in another process.
pub(super) fn not_isolated(backend: &str, path: &Path) -> Outcome {
    let message = format!(
        "'{}' contains the plugin of '{backend}', and only a plugin in a file can run in another \
         process. Name a file 'liblongshore_plugin_{backend}.so' or its folder in \
         LONGSHORE_PLUGIN_PATH, or do not isolate '{backend}'",
        path.display()
    );
    Outcome::Failed(Error::new(ErrorCode::Unsupported, message))
}
