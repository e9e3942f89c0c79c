//! The start of a plugin in a process of its own.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_plugin_api::{Error, ErrorCode, Result, bounds};
use serde::de::DeserializeOwned;

use super::callbacks::{Callbacks, Log, Record};
use super::link::Link;
use super::platform::IsolatedPlatform;
use super::watchdog::Watchdog;
use crate::controller::Spawn;
use crate::plugin::protocol::{Connected, Request, RequestedSettings};

/// A plugin to run in a process of its own, and the settings for it.
#[derive(Clone)]
pub struct Isolation {
    spawn: Spawn,
    library: PathBuf,
    backend: String,
    settings: Vec<(String, String)>,
    asked: Arc<dyn Fn(&str) + Send + Sync>,
    log_level: u32,
    log: Log,
    time_limit: Option<Duration>,
    connect_limit: Duration,
}

/// The outcome of a successful [`Isolation::open`].
pub enum OpenOutcome {
    /// A platform with at least one device.
    Platform(Box<IsolatedPlatform>),
    /// No driver of the vendor is installed; the reason is for people.
    NoDriver(String),
    /// No device of the driver; the reason is for people.
    NoDevice(String),
}

/// The reason why a library is no plugin for this host.
#[derive(Debug)]
pub enum Refusal {
    /// A library that is not a plugin; holds the reason.
    NotAPlugin(String),
    /// A plugin for another major version of the interface.
    WrongInterface {
        /// Major and minor version of the plugin.
        plugin: (u32, u32),
        /// Major and minor version of the host.
        host: (u32, u32),
    },
    /// A table that differs from the interface; holds the difference.
    WrongLayout(String),
    /// A plugin of another backend than the requested one; holds its backend.
    Misnamed(String),
    /// The end of the process that tried the plugin; holds the cause.
    Crashed(String),
    /// A plugin that was not opened and connected within this time. Its process was killed.
    Slow(Duration),
    /// Failure to open or connect the plugin, or to start the executor.
    Failed(Error),
}

impl Isolation {
    /// Creates the settings to run the plugin `library`, of this backend, in an executor started by
    /// `spawn`.
    pub fn new(spawn: Spawn, library: impl Into<PathBuf>, backend: impl Into<String>) -> Self {
        Self {
            spawn,
            library: library.into(),
            backend: backend.into(),
            settings: Vec::new(),
            asked: Arc::new(|_| {}),
            log_level: 0,
            log: Arc::new(|_| {}),
            time_limit: None,
            connect_limit: Self::CONNECT_LIMIT,
        }
    }

    /// Sets the names and values of the plugin's settings, which the plugin looks up.
    #[must_use]
    pub fn with_settings(mut self, settings: Vec<(String, String)>) -> Self {
        self.settings = settings;
        self
    }

    /// Sets a function that receives, once the plugin is connected, the name of each setting that
    /// the plugin has looked up meanwhile. For a plugin that looks up many, it receives some of
    /// them.
    #[must_use]
    pub fn with_setting_observer(mut self, asked: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.asked = Arc::new(asked);
        self
    }

    /// Sets the receiver of the plugin's log records up to `level`: 0 for none, 1 for errors, up to
    /// 5. Called from any thread; it must not block for long.
    #[must_use]
    pub fn with_log(
        mut self,
        level: u32,
        log: impl Fn(Record<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.log_level = level;
        self.log = Arc::new(log);
        self
    }

    /// Sets the time limit of a call, including calls that wait for kernels. A process that exceeds
    /// it is killed. The default is no limit.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Option<Duration>) -> Self {
        self.time_limit = limit;
        self
    }

    /// Sets the time limit for opening and connecting the plugin, and for each query about the
    /// platform and its devices: see [`Isolation::CONNECT_LIMIT`]. A process that exceeds it is
    /// killed.
    #[must_use]
    pub fn with_connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// The default of [`Isolation::with_connect_limit`]: 10 s.
    pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);

    /// Sends a request whose duration does not depend on the program.
    ///
    /// # Errors
    /// Every error of [`Link::ask_within`].
    pub(super) fn ask<T: DeserializeOwned>(&self, link: &Link, request: &Request<'_>) -> Result<T> {
        link.ask_within(self.connect_limit, request)
    }

    /// Starts the process and connects the plugin. Blocks while the plugin looks for its driver,
    /// for at most [`Isolation::with_connect_limit`].
    ///
    /// # Errors
    /// The reason why there is no platform; no process remains then.
    pub fn open(self) -> Result<OpenOutcome, Refusal> {
        let (link, connected) = self.connect()?;
        match connected {
            Connected::Platform { description, devices } => {
                let platform = IsolatedPlatform::new(self, link, description, devices);
                Ok(OpenOutcome::Platform(Box::new(platform)))
            }
            Connected::NoDriver(why) => Ok(OpenOutcome::NoDriver(why)),
            Connected::NoDevice(why) => Ok(OpenOutcome::NoDevice(why)),
            Connected::NotAPlugin(why) => Err(Refusal::NotAPlugin(why)),
            Connected::WrongInterface { plugin, host } => {
                Err(Refusal::WrongInterface { plugin, host })
            }
            Connected::WrongLayout(why) => Err(Refusal::WrongLayout(why)),
            Connected::Misnamed(says) => Err(Refusal::Misnamed(says)),
        }
    }

    /// Connects again, for a platform whose process is gone.
    ///
    /// # Errors
    /// The reason why the plugin can no longer be used.
    pub(super) fn reopen(&self, devices: u32) -> Result<Arc<Link>> {
        let changed = |what: String| Err(Error::new(ErrorCode::BackendFailure, what));
        match self.connect() {
            Ok((link, Connected::Platform { devices: now, .. })) if now == devices => Ok(link),
            Ok((_, Connected::Platform { devices: now, .. })) => changed(format!(
                "the isolated plugin '{}' had {devices} devices and now has {now}",
                self.backend
            )),
            Ok((_, other)) => changed(format!(
                "the isolated plugin '{}' cannot be connected again: {other:?}",
                self.backend
            )),
            Err(Refusal::Failed(error)) => Err(error),
            Err(other) => changed(other.to_string()),
        }
    }

    fn connect(&self) -> Result<(Arc<Link>, Connected), Refusal> {
        let watchdog = Watchdog::new(self.time_limit);
        let callbacks = Arc::new(Callbacks::new(Arc::clone(&self.log), watchdog));
        let service: Arc<Callbacks> = Arc::clone(&callbacks);
        let executor = self.spawn.start(service).map_err(|error| {
            Refusal::Failed(Error::new(ErrorCode::HostToolNotFound, error.to_string()))
        })?;
        let link = Link::new(executor, callbacks, &self.backend).map_err(Refusal::Failed)?;
        let settings = self.settings.iter();
        let request = Request::Connect {
            path: self.library.as_os_str().as_bytes(),
            backend: &self.backend,
            log_level: self.log_level,
            settings: settings.map(|(name, value)| (name.as_str(), value.as_str())).collect(),
        };
        match self.ask::<(Connected, RequestedSettings)>(&link, &request) {
            Ok((connected, asked)) => {
                self.check(&connected).map_err(Refusal::Failed)?;
                let asked = asked.names(&self.backend).map_err(Refusal::Failed)?;
                asked.iter().for_each(|name| (self.asked)(name));
                Ok((link, connected))
            }
            Err(_) if link.silence() == Some(self.connect_limit) => {
                Err(Refusal::Slow(self.connect_limit))
            }
            Err(error) if !link.is_alive() => Err(Refusal::Crashed(error.message().to_owned())),
            Err(error) => Err(Refusal::Failed(error)),
        }
    }
}

impl Isolation {
    /// # Errors
    /// A breach of the interface for more devices or longer texts than a plugin may have.
    fn check(&self, connected: &Connected) -> Result<()> {
        let plugin = &self.backend;
        match connected {
            Connected::Platform { description, devices } => {
                bounds::description(plugin, description)?;
                bounds::devices(plugin, *devices)
            }
            Connected::Misnamed(says) => {
                bounds::text(plugin, "describe, backend", says, bounds::DESCRIPTION_BYTES)
            }
            Connected::NoDriver(why)
            | Connected::NoDevice(why)
            | Connected::NotAPlugin(why)
            | Connected::WrongLayout(why) => {
                bounds::text(plugin, "connect, reason", why, bounds::REASON_BYTES)
            }
            Connected::WrongInterface { .. } => Ok(()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAPlugin(why) | Self::WrongLayout(why) | Self::Crashed(why) => f.write_str(why),
            Self::WrongInterface { plugin, host } => write!(
                f,
                "it has interface {}.{}, this host has {}.{}",
                plugin.0, plugin.1, host.0, host.1
            ),
            Self::Misnamed(says) => write!(f, "the plugin names its backend '{says}'"),
            Self::Slow(limit) => write!(
                f,
                "no answer within {limit:?} while it was opened and connected; its process was killed"
            ),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Isolation").field("library", &self.library).finish_non_exhaustive()
    }
}
