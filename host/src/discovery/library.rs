//! Loading of a plugin's library, and connection of its platform.

use super::report::Outcome;
use crate::backend::AnyPlatform;
use crate::environment::Environment;
use crate::services::services_for;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use longshore_executor::plugin::IsolatedPlatform;
use longshore_plugin_api::abi::{ENTRY_SYMBOL, Entry};
use longshore_plugin_api::remote::{Incompatible, RemotePlugin};
use longshore_plugin_api::{Connected, Description, Error, ErrorCode};
use std::fmt;
use std::path::{Path, PathBuf};

/// A plugin's file.
#[derive(Clone, Copy)]
pub(super) struct PluginFile<'a> {
    /// Path for messages.
    pub(super) path: &'a Path,
    /// Path for the loader.
    pub(super) loader_path: &'a Path,
}

/// A plugin with a connected platform. Dropping it destroys the platform, then closes the library
/// if the plugin's description declares it unloadable; else the library stays loaded until the
/// process ends. All devices of the platform must be closed before.
pub(crate) struct LoadedPlugin {
    // The order of the fields matters: the platform is dropped before the library.
    platform: AnyPlatform,
    /// The library; `None` for an isolated plugin, and for one linked into the program.
    library: Option<Resident>,
    description: Description<String>,
    path: PathBuf,
}

impl LoadedPlugin {
    /// Returns the name of the plugin's backend: "cuda".
    pub(crate) fn backend(&self) -> &str {
        &self.description.backend
    }

    /// Returns the plugin's description of itself.
    pub(crate) fn description(&self) -> &Description<String> {
        &self.description
    }

    /// Returns the connected platform.
    pub(crate) fn platform(&self) -> &AnyPlatform {
        &self.platform
    }

    /// Returns whether the plugin runs in another process.
    pub(crate) fn is_isolated(&self) -> bool {
        matches!(self.platform, AnyPlatform::There(_))
    }

    /// Returns whether the plugin is linked into the program.
    pub(crate) fn is_linked(&self) -> bool {
        self.library.is_none() && !self.is_isolated()
    }

    /// Returns the path of the plugin's file, or of the executable or library that contains it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a plugin from the connected platform of another process.
    pub(super) fn isolated(platform: IsolatedPlatform, path: &Path) -> LoadedPlugin {
        // No code of the plugin is in this process, so there is no library to close.
        let description = platform.description().clone().with_unloadable(false);
        let platform = AnyPlatform::There(platform);
        LoadedPlugin { platform, library: None, description, path: path.to_owned() }
    }

    /// Loads the library of a trusted file and connects its platform. Blocks while the plugin looks
    /// for its driver.
    ///
    /// # Errors
    /// The outcome of a file that is not loaded and connected.
    pub(super) fn open(
        file: PluginFile<'_>,
        backend: &str,
        environment: &Environment,
    ) -> Result<LoadedPlugin, Outcome> {
        let PluginFile { path, loader_path } = file;
        // SAFETY: the library's constructors run, as with any library that a program links;
        // discovery has checked that only trusted users could write the file.
        let library = unsafe { Library::open(Some(loader_path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| failed(path, error))?;
        let mut library = Resident { library: Some(library), closable: false };
        let entry = library.entry()?;
        // SAFETY: the plugin's own entry; `library` outlives the plugin and its platform.
        let plugin = unsafe { RemotePlugin::new(entry) }.map_err(incompatible)?;
        let description = plugin.description().clone();
        library.closable = description.unloadable;
        if description.backend != backend {
            return Err(Outcome::Misnamed { says: description.backend });
        }
        let platform = connect(&plugin, environment)?;
        Ok(LoadedPlugin { platform, library: Some(library), description, path: path.to_owned() })
    }

    /// Connects the platform of a plugin that is linked into the program. Blocks while the plugin
    /// looks for its driver.
    ///
    /// # Errors
    /// The outcome of a plugin that is not connected.
    pub(super) fn linked(
        plugin: &RemotePlugin,
        path: &Path,
        environment: &Environment,
    ) -> Result<LoadedPlugin, Outcome> {
        let platform = connect(plugin, environment)?;
        let description = plugin.description().clone().with_unloadable(false);
        Ok(LoadedPlugin { platform, library: None, description, path: path.to_owned() })
    }
}

fn connect(plugin: &RemotePlugin, environment: &Environment) -> Result<AnyPlatform, Outcome> {
    let backend = &plugin.description().backend;
    // SAFETY: these services stay valid for the life of the process.
    match unsafe { plugin.connect(services_for(backend, environment)) } {
        Ok(Connected::Platform(platform)) => Ok(AnyPlatform::Here(platform)),
        Ok(Connected::NoDriver(reason)) => Err(Outcome::NoDriver(reason)),
        Ok(Connected::NoDevice(reason)) => Err(Outcome::NoDevice(reason)),
        Err(error) => Err(Outcome::Failed(error.context(format_args!("connecting '{backend}'")))),
    }
}

impl fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedPlugin").field("path", &self.path).finish_non_exhaustive()
    }
}

/// An open library. Dropping it closes the library only if the plugin declares it unloadable:
/// remaining threads and thread-local destructors of the library would otherwise run unmapped code.
struct Resident {
    library: Option<Library>,
    closable: bool,
}

impl Resident {
    fn entry(&self) -> Result<*const Entry, Outcome> {
        let library = self.library.as_ref().expect("taken only on drop");
        // SAFETY: the symbol is data; only its address is taken.
        let symbol = unsafe { library.get::<*const Entry>(ENTRY_SYMBOL) };
        let address = symbol.map(|symbol| symbol.into_raw().cast_const().cast::<Entry>());
        match address {
            Ok(address) if !address.is_null() => Ok(address),
            _ => Err(Outcome::NotAPlugin("it does not export 'longshore_plugin'".to_owned())),
        }
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        let library = self.library.take();
        if !self.closable {
            std::mem::forget(library);
        }
    }
}

fn failed(path: &Path, error: libloading::Error) -> Outcome {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
    let message = format!("opening '{}': {error}{}", path.display(), cause.unwrap_or_default());
    Outcome::Failed(Error::new(ErrorCode::BackendFailure, message).with_source(error))
}

pub(super) fn incompatible(why: Incompatible) -> Outcome {
    match why {
        Incompatible::Interface { plugin, host } => Outcome::WrongInterface { plugin, host },
        Incompatible::NoEntry => Outcome::NotAPlugin(why.to_string()),
        Incompatible::Description(error) => Outcome::Failed(error),
        _ => Outcome::WrongLayout(why.to_string()),
    }
}
