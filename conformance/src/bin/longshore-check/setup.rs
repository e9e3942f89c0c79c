//! The setup that the options describe.

use crate::Options;
use crate::failure::{Exit, Failure};
use longshore::{Error, ErrorCode, Result};
use longshore_conformance::{Fixtures, Setup};
use std::path::Path;

/// Creates the setup: the named plugins with the devices of their backends alone, or without
/// plugins all devices.
pub(super) fn setup(options: &Options) -> Result<Setup, Failure> {
    let mut setup = Setup::new();
    if let Some(folder) = &options.fixtures {
        let fixtures = Fixtures::built_in().with_folder(folder);
        let fixtures = fixtures.map_err(|error| Failure::new(Exit::Usage, error))?;
        setup = setup.with_fixtures(fixtures);
    }
    let mut backends = Vec::new();
    for plugin in &options.plugin {
        backends.extend(backends_at(plugin)?);
        setup = setup.with_plugin(plugin);
    }
    if !backends.is_empty() {
        setup = setup.with_backends(backends.join(","));
    }
    Ok(match &options.device {
        Some(selection) => setup.with_devices(selection),
        None => setup,
    })
}

/// Returns the backend of a plugin, or the backends of all plugins in a folder.
///
/// # Errors
/// `NotFound` for a missing file and a folder without plugins. `InvalidValue` for a file with
/// another name: the host would skip the file, and the suite would pass on other devices.
fn backends_at(plugin: &Path) -> Result<Vec<String>> {
    let shown = plugin.display();
    let not_found = |message| Err(Error::new(ErrorCode::NotFound, message));
    if !plugin.exists() {
        return not_found(format!("no such plugin: '{shown}'"));
    }
    if !plugin.is_dir() {
        return backend_of(plugin).map(|backend| vec![backend]).ok_or_else(|| {
            let message = format!("'{shown}' is no plugin by its name, expected '{FILE_NAME}'");
            Error::new(ErrorCode::InvalidValue, message)
        });
    }
    let entries = plugin.read_dir().map_err(|error| {
        Error::new(ErrorCode::HostIo, format!("cannot read the folder '{shown}': {error}"))
    })?;
    let files = entries.flatten().map(|entry| entry.path()).filter(|file| file.exists());
    let mut backends: Vec<_> = files.filter_map(|file| backend_of(&file)).collect();
    backends.sort();
    if backends.is_empty() {
        return not_found(format!("the folder '{shown}' has no plugin, expected '{FILE_NAME}'"));
    }
    Ok(backends)
}

const FILE_NAME: &str = "liblongshore_plugin_<backend>.so";

/// Returns the name of the backend in the file name of a plugin.
fn backend_of(plugin: &Path) -> Option<String> {
    let name = plugin.file_name()?.to_str()?;
    let backend = name.strip_prefix("liblongshore_plugin_")?.strip_suffix(".so")?;
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    (!backend.is_empty() && backend.chars().all(is_legal)).then(|| backend.to_owned())
}
