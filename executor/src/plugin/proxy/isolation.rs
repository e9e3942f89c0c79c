//! Starting a plugin in a process of its own.

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
use crate::plugin::protocol::{Asked, Connected, Request};

/// A plugin that is to run in a process of its own, and how.
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

/// How [`Isolation::open`] ended.
pub enum Opened {
    /// It has at least one device.
    Platform(Box<IsolatedPlatform>),
    /// The vendor's driver is not installed; the reason is for people.
    NoDriver(String),
    /// The driver has no device; the reason is for people.
    NoDevice(String),
}

/// Why a library is no plugin for this host.
#[derive(Debug)]
pub enum Refusal {
    /// It is none.
    NotAPlugin(String),
    /// It was built for another major version of the interface.
    WrongInterface {
        /// Major and minor version of the plugin.
        plugin: (u32, u32),
        /// Major and minor version of the host.
        host: (u32, u32),
    },
    /// A table is not what the interface promises; holds the difference.
    WrongLayout(String),
    /// It provides this backend, not the one that was wanted.
    Misnamed(String),
    /// The process that tried it ended; holds how.
    Crashed(String),
    /// It was not opened and connected within this time, so its process was killed.
    Slow(Duration),
    /// It could not be opened or connected, or the executor could not be started.
    Failed(Error),
}

impl Isolation {
    /// Runs the plugin `library`, of this backend, in an executor that is started so.
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

    /// What the plugin is answered when it asks for its settings: names and values.
    #[must_use]
    pub fn with_settings(mut self, settings: Vec<(String, String)>) -> Self {
        self.settings = settings;
        self
    }

    /// Called with the name of each setting that the plugin has asked for while it was connected, when it is; for a plugin that asks for
    /// many, with some of them.
    #[must_use]
    pub fn with_setting_observer(mut self, asked: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.asked = Arc::new(asked);
        self
    }

    /// Where its log goes, up to this level: 0 for nothing, 1 for errors, up to 5. Called from any thread; must not block for long.
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

    /// How long a call may take, what waits for kernels too. Then the process is killed. There is no limit unless it is said.
    #[must_use]
    pub fn with_time_limit(mut self, limit: Option<Duration>) -> Self {
        self.time_limit = limit;
        self
    }

    /// How long opening and connecting the plugin may take, and each query about the platform and its devices: see
    /// [`Isolation::CONNECT_LIMIT`]. Then the process is killed.
    #[must_use]
    pub fn with_connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// The usual [`Isolation::with_connect_limit`]: 10 s.
    pub const CONNECT_LIMIT: Duration = Duration::from_secs(10);

    /// Asks what does not depend on the program.
    ///
    /// # Errors
    /// Errors of [`Link::ask_within`].
    pub(super) fn ask<T: DeserializeOwned>(&self, link: &Link, request: &Request<'_>) -> Result<T> {
        link.ask_within(self.connect_limit, request)
    }

    /// Starts the process and connects the plugin. Blocks while the plugin looks for its driver, for
    /// [`Isolation::with_connect_limit`] at most.
    ///
    /// # Errors
    /// Why there is no platform; no process is left then.
    pub fn open(self) -> Result<Opened, Refusal> {
        let (link, connected) = self.connect()?;
        match connected {
            Connected::Platform { description, devices } => {
                let platform = IsolatedPlatform::new(self, link, description, devices);
                Ok(Opened::Platform(Box::new(platform)))
            }
            Connected::NoDriver(why) => Ok(Opened::NoDriver(why)),
            Connected::NoDevice(why) => Ok(Opened::NoDevice(why)),
            Connected::NotAPlugin(why) => Err(Refusal::NotAPlugin(why)),
            Connected::WrongInterface { plugin, host } => {
                Err(Refusal::WrongInterface { plugin, host })
            }
            Connected::WrongLayout(why) => Err(Refusal::WrongLayout(why)),
            Connected::Misnamed(says) => Err(Refusal::Misnamed(says)),
        }
    }

    /// Once more, for a platform whose process is gone.
    ///
    /// # Errors
    /// Why it cannot be used any more.
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
        match self.ask::<(Connected, Asked)>(&link, &request) {
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
    /// A breach for more devices or longer texts than a plugin may have.
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
                "it speaks interface {}.{}, this host {}.{}",
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
