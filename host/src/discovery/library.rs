//! Opening a plugin's library and connecting its platform.

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
    /// Its name for people.
    pub(super) path: &'a Path,
    /// Its name for the loader.
    pub(super) loader_path: &'a Path,
}

/// A plugin whose platform is connected. Dropping it destroys the platform and then closes the
/// library, if its description says that it may be closed; else the library stays until the
/// process ends. All devices of the platform must be closed before.
pub(crate) struct LoadedPlugin {
    // The order of the fields matters: the platform goes before the library.
    platform: AnyPlatform,
    /// `None` if another process has it.
    library: Option<Resident>,
    description: Description<String>,
    path: PathBuf,
}

impl LoadedPlugin {
    /// Returns the backend that it provides: "cuda".
    pub(crate) fn backend(&self) -> &str {
        &self.description.backend
    }

    /// What the plugin says of itself.
    pub(crate) fn description(&self) -> &Description<String> {
        &self.description
    }

    /// Returns the connected platform.
    pub(crate) fn platform(&self) -> &AnyPlatform {
        &self.platform
    }

    /// Returns whether another process has it.
    pub(crate) fn is_isolated(&self) -> bool {
        self.library.is_none()
    }

    /// Returns the file that it was loaded from.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a plugin that another process has.
    pub(super) fn isolated(platform: IsolatedPlatform, path: &Path) -> LoadedPlugin {
        // Its code is not in this process.
        let description = platform.description().clone().with_unloadable(false);
        let platform = AnyPlatform::There(platform);
        LoadedPlugin { platform, library: None, description, path: path.to_owned() }
    }

    /// Opens the library of a trusted file and connects its platform. Blocks while the plugin
    /// looks for its driver. `Err` holds what became of the file instead.
    pub(super) fn open(
        file: PluginFile<'_>,
        backend: &str,
        environment: &Environment,
    ) -> Result<LoadedPlugin, Outcome> {
        let PluginFile { path, loader_path } = file;
        // SAFETY: the library's constructors run, as with any library that a program links; that
        // the file comes from someone trusted was checked before.
        let library = unsafe { Library::open(Some(loader_path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| failed(path, error))?;
        let mut library = Resident { library: Some(library), closable: false };
        let entry = library.entry()?;
        // SAFETY: the plugin's own entry; `library` outlives all that comes from it.
        let plugin = unsafe { RemotePlugin::new(entry) }.map_err(incompatible)?;
        let description = plugin.description().clone();
        library.closable = description.unloadable;
        if description.backend != backend {
            return Err(Outcome::Misnamed { says: description.backend });
        }
        // SAFETY: these services stay valid for the life of the process.
        match unsafe { plugin.connect(services_for(backend, environment)) } {
            Ok(Connected::Platform(platform)) => {
                let (path, platform) = (path.to_owned(), AnyPlatform::Here(platform));
                Ok(LoadedPlugin { platform, library: Some(library), description, path })
            }
            Ok(Connected::NoDriver(reason)) => Err(Outcome::NoDriver(reason)),
            Ok(Connected::NoDevice(reason)) => Err(Outcome::NoDevice(reason)),
            Err(error) => {
                Err(Outcome::Failed(error.context(format_args!("connecting '{backend}'"))))
            }
        }
    }
}

impl fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedPlugin").field("path", &self.path).finish_non_exhaustive()
    }
}

/// An open library, which is closed on drop only when it has said that it may be: threads and
/// thread-local destructors that it left behind would run code that is gone.
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

fn incompatible(why: Incompatible) -> Outcome {
    match why {
        Incompatible::Interface { plugin, host } => Outcome::WrongInterface { plugin, host },
        Incompatible::NoEntry => Outcome::NotAPlugin(why.to_string()),
        Incompatible::Description(error) => Outcome::Failed(error),
        _ => Outcome::WrongLayout(why.to_string()),
    }
}
