//! The plugin's library, and the services it is offered.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Weak};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use longshore_plugin_api::abi::{self, ENTRY_SYMBOL, Entry};
use longshore_plugin_api::bounds::{self, MESSAGE_BYTES};
use longshore_plugin_api::remote::{Incompatible, Remote, RemotePlugin};
use longshore_plugin_api::{Backend, Connected as Found, Error, ErrorCode, Platform as _, Result};
use parking_lot::Mutex;

use super::SharedPlatform;
use crate::plugin::channel::Channel;
use crate::plugin::protocol::{CHUNK, Callback, Connected, POST, REQUESTED_SETTINGS, encode};

/// The host's request to open a plugin.
pub(super) struct OpenRequest<'a> {
    pub(super) path: &'a [u8],
    pub(super) backend: &'a str,
    pub(super) log_level: u32,
    pub(super) settings: Vec<(&'a str, &'a str)>,
}

/// An open library, and the outcome of connecting its platform.
pub(super) struct ConnectedLibrary<B: Backend = Remote> {
    pub(super) connected: Connected,
    /// Names of the settings that the plugin has looked up.
    pub(super) asked: Vec<String>,
    pub(super) platform: Option<SharedPlatform<B>>,
}

impl<B: Backend> From<Connected> for ConnectedLibrary<B> {
    fn from(connected: Connected) -> Self {
        Self { connected, asked: Vec::new(), platform: None }
    }
}

/// Opens a library, which stays open until the process ends, and connects its platform. Blocks
/// while the plugin looks for its driver.
///
/// # Errors
/// `BackendFailure` if the library cannot be opened, and every error of the plugin.
pub(super) fn open(peer: &Arc<dyn Channel>, wanted: &OpenRequest<'_>) -> Result<ConnectedLibrary> {
    let path = OsStr::from_bytes(wanted.path);
    // SAFETY: the library's constructors run; the process exists to run them.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = Box::leak(Box::new(library.map_err(|error| failed(path, &error))?));
    // SAFETY: the symbol is data; only its address is taken.
    let symbol = unsafe { library.get::<*const Entry>(ENTRY_SYMBOL) };
    let entry = symbol.map(|symbol| symbol.into_raw().cast_const().cast::<Entry>());
    let Some(entry) = entry.ok().filter(|entry| !entry.is_null()) else {
        let problem = "it does not export 'longshore_plugin'".to_owned();
        return Ok(Connected::NotAPlugin(problem).into());
    };
    // SAFETY: the entry is the plugin's own, and the library stays open.
    let plugin = match unsafe { RemotePlugin::new(entry) } {
        Ok(plugin) => plugin,
        Err(Incompatible::Description(error)) => return Err(error),
        Err(why) => return Ok(incompatible(&why).into()),
    };
    let said = plugin.description().clone();
    if said.backend != wanted.backend {
        return Ok(Connected::Misnamed(said.backend).into());
    }
    let (services, context) = services(peer, wanted);
    // SAFETY: the services are never freed.
    let found = unsafe { plugin.connect(services) };
    let found =
        found.map_err(|error| error.context(format_args!("connecting '{}'", wanted.backend)))?;
    let (connected, platform) = match found {
        Found::Platform(platform) => {
            let devices = platform.device_count();
            let platform: SharedPlatform<Remote> = Arc::new(Box::new(platform));
            (Connected::Platform { description: said, devices }, Some(platform))
        }
        Found::NoDriver(why) => (Connected::NoDriver(why), None),
        Found::NoDevice(why) => (Connected::NoDevice(why), None),
    };
    let asked = context.asked.lock().iter().cloned().collect();
    Ok(ConnectedLibrary { connected, asked, platform })
}

fn failed(path: &OsStr, error: &libloading::Error) -> Error {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let message = format!("opening '{}': {error}{}", path.display(), cause.unwrap_or_default());
    Error::new(ErrorCode::BackendFailure, message)
}

fn incompatible(why: &Incompatible) -> Connected {
    match why {
        Incompatible::Interface { plugin, host } => {
            Connected::WrongInterface { plugin: *plugin, host: *host }
        }
        Incompatible::NoEntry => Connected::NotAPlugin(why.to_string()),
        _ => Connected::WrongLayout(why.to_string()),
    }
}

/// The context of the services that a plugin is offered.
struct Context {
    peer: Weak<dyn Channel>,
    log_level: u32,
    settings: BTreeMap<String, String>,
    /// Names of the settings that the plugin has looked up, the first [`REQUESTED_SETTINGS`].
    asked: Mutex<BTreeSet<String>>,
}

impl Context {
    fn note(&self, name: &str) {
        let mut asked = self.asked.lock();
        let is_usable = name.len() <= bounds::DESCRIPTION_BYTES && asked.len() < REQUESTED_SETTINGS;
        if is_usable && !asked.contains(name) {
            asked.insert(name.to_owned());
        }
    }
}

fn services(
    peer: &Arc<dyn Channel>,
    wanted: &OpenRequest<'_>,
) -> (&'static abi::Services, &'static Context) {
    let settings =
        wanted.settings.iter().map(|(name, value)| (spelled(name), (*value).to_owned())).collect();
    let peer = Arc::downgrade(peer);
    let asked = Mutex::default();
    let context = Context { peer, log_level: wanted.log_level, settings, asked };
    let context: &'static Context = Box::leak(Box::new(context));
    let services = Box::leak(Box::new(abi::Services {
        context: std::ptr::from_ref(context).cast_mut().cast(),
        interface_major: abi::INTERFACE_MAJOR,
        interface_minor: abi::INTERFACE_MINOR,
        log_level,
        log,
        setting,
        table,
    }));
    (services, context)
}

fn spelled(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// # Safety
/// `context` is the context of the services above.
unsafe fn context_ref<'a>(context: *mut c_void) -> &'a Context {
    // SAFETY: guaranteed by the caller; the context is never freed.
    unsafe { &*context.cast::<Context>() }
}

/// Copies a string of the plugin. For a string that is too long, returns the description of the
/// error.
///
/// # Safety
/// `text` is readable during the call, unless it is null or longer than its bound.
unsafe fn read(what: &str, text: abi::Text) -> String {
    // SAFETY: guaranteed by the caller.
    let copied = unsafe { bounds::copy_text("services", what, text, MESSAGE_BYTES) };
    copied.unwrap_or_else(|error| error.message().to_owned())
}

unsafe extern "C" fn log_level(context: *mut c_void) -> u32 {
    // SAFETY: the plugin passes its context back.
    unsafe { context_ref(context) }.log_level
}

unsafe extern "C" fn log(context: *mut c_void, level: u32, target: abi::Text, message: abi::Text) {
    // SAFETY: the plugin passes its context back, and strings that are readable during the call.
    let (context, mut target, mut message) = unsafe {
        (context_ref(context), read("log, target", target), read("log, message", message))
    };
    if level == 0 || level > context.log_level {
        return;
    }
    for text in [&mut target, &mut message] {
        text.truncate(text.floor_char_boundary(CHUNK / 2));
    }
    if let Some(peer) = context.peer.upgrade() {
        let record = Callback::Log { level, target: &target, message: &message };
        // A failed post means that the host is gone.
        let _ = peer.post(POST, &encode(&record));
    }
}

unsafe extern "C" fn setting(context: *mut c_void, name: abi::Text, value: abi::Sink) -> u32 {
    // SAFETY: the plugin passes its context back, and a string that is readable during the call.
    let (context, name) = unsafe { (context_ref(context), read("setting, name", name)) };
    context.note(&name);
    let Some(found) = context.settings.get(&spelled(&name)) else { return 0 };
    // SAFETY: the sink belongs to this call.
    unsafe { (value.write)(value.context, found.as_ptr(), found.len()) };
    1
}

unsafe extern "C" fn table(_: *mut c_void, _: abi::Text, _: u32) -> abi::TableRef {
    abi::TableRef { table: std::ptr::null(), layout: std::ptr::null() }
}
