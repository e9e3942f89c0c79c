//! The host's services for its plugins: the log and the user's settings. There are no further
//! tables yet.
//!
//! A plugin may use its services until its library is closed, and most libraries stay loaded until
//! the process ends. So each backend has one context that is never freed, created when the backend
//! is first connected and shared by every host that connects the backend again. The context has the
//! settings of the host that connected the backend last.

use crate::environment::Environment;
use log::{Level, Record};
use longshore_plugin_api::bounds::{self, MESSAGE_BYTES};
use longshore_plugin_api::{abi, log_level, printable};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::panic::catch_unwind;

/// Returns the services for a backend's plugin, and makes them return the settings of `environment`
/// from now on. The services stay valid until the process ends. Any thread may call them.
pub(crate) fn services_for(backend: &str, environment: &Environment) -> &'static abi::Services {
    let mut contexts = CONTEXTS.lock();
    let context = context_of(&mut contexts, backend);
    *context.environment.write() = environment.clone();
    &context.services
}

/// Records that an isolated plugin of a backend has queried a setting.
pub(crate) fn note_setting(backend: &str, name: &str) {
    context_of(&mut CONTEXTS.lock(), backend).note(name);
}

/// Returns the settings that the plugins of a backend have queried, in this process or isolated.
pub(crate) fn settings_asked_for(backend: &str) -> BTreeSet<String> {
    let context = CONTEXTS.lock().get(backend).copied();
    context.map(|context| context.asked_for.lock().clone()).unwrap_or_default()
}

/// Most names of settings that are recorded for a backend.
const MOST_SETTINGS: usize = 100;

type Contexts = BTreeMap<String, &'static Context>;

static CONTEXTS: Mutex<Contexts> = Mutex::new(BTreeMap::new());

fn context_of(contexts: &mut Contexts, backend: &str) -> &'static Context {
    contexts.entry(backend.to_owned()).or_insert_with(|| Context::leaked(backend.to_owned()))
}

/// The object behind the context pointer of the services' functions. `services.context` points at
/// this object.
struct Context {
    services: abi::Services,
    backend: String,
    environment: RwLock<Environment>,
    /// The names of queried settings.
    asked_for: Mutex<BTreeSet<String>>,
}

// SAFETY: the pointer in `services` points at this context, whose other fields are `Send` and
// `Sync`.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    fn leaked(backend: String) -> &'static Context {
        let services = abi::Services {
            context: std::ptr::null_mut(),
            interface_major: abi::INTERFACE_MAJOR,
            interface_minor: abi::INTERFACE_MINOR,
            log_level: log_level_of_host,
            log,
            setting,
            table,
        };
        let environment = RwLock::new(Environment::empty());
        let asked_for = Mutex::default();
        let context = Box::new(Context { services, backend, environment, asked_for });
        let context = Box::into_raw(context);
        // SAFETY: the box is ours alone until it is returned, and is never freed.
        unsafe {
            (*context).services.context = context.cast();
            &*context
        }
    }

    /// Records the name of a queried setting, up to [`MOST_SETTINGS`] names. Names that cannot be
    /// part of a variable are skipped.
    fn note(&self, name: &str) {
        let is_usable =
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        let mut asked_for = self.asked_for.lock();
        if is_usable && asked_for.len() < MOST_SETTINGS && !asked_for.contains(name) {
            asked_for.insert(name.to_owned());
        }
    }

    /// # Safety
    /// `raw` is the context of services that `leaked` made.
    unsafe fn from_raw(raw: *mut c_void) -> &'static Context {
        // SAFETY: promised by the caller; such a context is never freed.
        unsafe { &*raw.cast::<Context>() }
    }
}

unsafe extern "C" fn log_level_of_host(_: *mut c_void) -> u32 {
    log::max_level() as u32
}

unsafe extern "C" fn log(context: *mut c_void, level: u32, target: abi::Text, message: abi::Text) {
    let Some(level) = log_level(level).filter(|level| *level <= log::max_level()) else {
        return;
    };
    // SAFETY: the plugin passes its context back, and strings that are readable during the call.
    let (context, target, message) = unsafe {
        let context = Context::from_raw(context);
        let [target, message] = [("log, target", target), ("log, message", message)]
            .map(|(what, text)| read(context, what, text));
        (context, target, message)
    };
    log_record(&context.backend, level, &target, &message);
}

/// Logs a record of a backend's plugin.
pub(crate) fn log_record(backend: &str, level: Level, target: &str, message: &str) {
    let (target, message) = (printable(target), printable(message));
    let mut whole = format!("longshore::plugin::{backend}");
    if !target.is_empty() {
        whole = format!("{whole}::{target}");
    }
    // A logger that panics must not unwind into the plugin.
    let _ = catch_unwind(|| {
        let mut record = Record::builder();
        record.level(level).target(&whole);
        log::logger().log(&record.args(format_args!("{message}")).build());
    });
}

unsafe extern "C" fn setting(context: *mut c_void, name: abi::Text, value: abi::Sink) -> u32 {
    // SAFETY: the plugin passes its context back, and a string that is readable during the call.
    let context = unsafe { Context::from_raw(context) };
    // SAFETY: as above.
    let name = unsafe { read(context, "setting, name", name) };
    context.note(&name);
    let Some(found) = context.environment.read().setting(&context.backend, &name) else {
        return 0;
    };
    // SAFETY: the sink of this call.
    unsafe { (value.write)(value.context, found.as_ptr(), found.len()) };
    1
}

unsafe extern "C" fn table(_: *mut c_void, _: abi::Text, _: u32) -> abi::TableRef {
    abi::TableRef { table: std::ptr::null(), layout: std::ptr::null() }
}

/// Returns a copy of a plugin's string, or the error message for a string that breaches its bound.
///
/// # Safety
/// The string is readable during the call, unless it is null or longer than its bound.
unsafe fn read(context: &Context, what: &str, text: abi::Text) -> String {
    // SAFETY: promised by the caller.
    let copied = unsafe { bounds::copy_text(&context.backend, what, text, MESSAGE_BYTES) };
    copied.unwrap_or_else(|error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use log::{LevelFilter, Log, Metadata};
    use longshore_plugin_api::Services;

    fn plugin_side(services: &'static abi::Services) -> Services {
        // SAFETY: valid for ever.
        unsafe { Services::from_raw(services) }
    }

    #[test]
    fn a_plugin_reads_its_own_settings() {
        let environment = Environment::empty()
            .with("LONGSHORE_SERVED_THREADS", "3")
            .with("LONGSHORE_OTHER_SECRET", "x");
        let services = plugin_side(services_for("served", &environment));
        assert_eq!(services.setting("threads").as_deref(), Some("3"));
        assert_eq!(services.setting("secret"), None);
    }

    #[test]
    fn connecting_a_backend_again_keeps_the_services_and_renews_the_settings() {
        let first = services_for("again", &Environment::empty());
        let environment = Environment::empty().with("LONGSHORE_AGAIN_X", "1");
        let second = services_for("again", &environment);
        assert!(std::ptr::eq(first, second));
        assert_eq!(plugin_side(first).setting("x").as_deref(), Some("1"));
    }

    #[test]
    fn a_plugins_records_reach_the_hosts_log_under_its_backends_target() {
        static SEEN: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());
        struct RecordingLogger;
        impl Log for RecordingLogger {
            fn enabled(&self, _: &Metadata<'_>) -> bool {
                true
            }
            fn log(&self, record: &Record<'_>) {
                SEEN.lock().push((record.target().to_owned(), record.args().to_string()));
            }
            fn flush(&self) {}
        }
        log::set_logger(&RecordingLogger).expect("the only test that sets a logger");
        log::set_max_level(LevelFilter::Info);
        let raw = services_for("logs", &Environment::empty());
        let text = |value: &'static str| abi::Text { data: value.as_ptr(), bytes: value.len() };
        // SAFETY: services of ours and readable strings.
        unsafe {
            assert_eq!((raw.log_level)(raw.context), 3);
            (raw.log)(raw.context, 2, text("queue"), text("slow \u{1b}[2J"));
            (raw.log)(raw.context, 5, text("queue"), text("too verbose"));
            (raw.log)(raw.context, 0, text("queue"), text("no level"));
        }
        let seen = SEEN.lock();
        let ours = seen.iter().filter(|(target, _)| target.contains("plugin::logs"));
        let expected = ("longshore::plugin::logs::queue".to_owned(), "slow \\u{1b}[2J".to_owned());
        assert_eq!(ours.collect::<Vec<_>>(), [&expected]);
    }
}
