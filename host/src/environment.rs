//! The user's environment variables. No other code of Longshore reads the environment: plugins
//! query their settings through the host's services.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `LONGSHORE_PLUGIN_PATH` | folders or files, separated by `:`, searched for plugins |
//! | `LONGSHORE_BACKEND` | the backends to use, see [`BackendSelection`] |
//! | `LONGSHORE_DEVICES` | the devices to use, see [`DeviceSelection`] |
//! | `LONGSHORE_PROBE` | not empty and not `0`: probe each plugin in a process of its own first |
//! | `LONGSHORE_NODE_BACKEND` | in place of `LONGSHORE_BACKEND` in processes of `longshore-node` |
//! | `LONGSHORE_NODE_DEVICES` | in place of `LONGSHORE_DEVICES` in processes of `longshore-node` |
//! | `LONGSHORE_ISOLATE` | the backends whose plugins run in processes of their own, or `all` |
//! | `LONGSHORE_ISOLATE_TIME_LIMIT` | seconds that a call to such a plugin may take |
//! | `LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT` | seconds for opening and connecting such a plugin |
//! | `LONGSHORE_ISOLATE_SANDBOX` | `1` or `required`: a sandbox around those processes |
//! | `LONGSHORE_ISOLATE_LIMITS` | limits of those processes: `memory=4GiB,time=60,files=256` |
//! | `LONGSHORE_EXECUTOR` | the executable of those processes |
//! | `LONGSHORE_PROFILE_FILE` | the files of unloaded images' profiles: `%p`, `%m`, `%h`, `%t` |
//! | `LONGSHORE_PROFILE_DUMP` | not empty and not `0`: print the counters of unloaded images |
//! | `LONGSHORE_TRACK` | not empty and not `0`: track memory, print leaks and pool trackers |
//! | `LONGSHORE_CLANG` | the compiler of the command's subcommand `cc` |
//! | `LONGSHORE_JIT_OPT_LEVEL` | the optimization level of compiled bitcode, 0 to 3 |
//! | `LONGSHORE_JIT_SKIP_OPT` | not empty and not `0`: no optimization passes for bitcode |
//! | `LONGSHORE_JIT_PRE_OPT_IR_MODULE` | a file for each module's text before optimization |
//! | `LONGSHORE_JIT_POST_OPT_IR_MODULE` | a file for each module's text after optimization |
//! | `LONGSHORE_JIT_REPLACEMENT_MODULE` | the file that is compiled in place of each module |
//! | `LONGSHORE_JIT_REPLACEMENT_OBJECT` | the file that is loaded in place of each result |
//! | `LONGSHORE_JIT_LLVM` | the path or major version of `libLLVM` |
//! | `LONGSHORE_JIT_PROCESS` | the process of LLVM: `worker` or the program's `own` |
//! | `LONGSHORE_JIT_CACHE` | the cache folder of compiled bitcode; `0` or `off`: no cache |
//! | `LONGSHORE_JIT_CACHE_BYTES` | the most bytes of that folder |
//! | `LONGSHORE_JIT_TIME_LIMIT` | seconds that a compilation of bitcode may take |
//! | `LONGSHORE_CACHE` | the parent of the backends' cache folders; `0` or `off`: no caches |
//! | `LONGSHORE_<BACKEND>_CACHE` | a backend's cache folder; `0` or `off`: no cache |
//! | `LONGSHORE_<BACKEND>_<NAME>` | setting `NAME` of a backend's plugin |
//!
//! The host logs a warning, once per process, for a variable without effect that resembles one of
//! this list or a setting that a connected plugin has queried.
//!
//! If `LONGSHORE_CACHE` is not set, `XDG_CACHE_HOME` takes its place, else `$HOME/.cache` if the
//! home folder exists.
//!
//! [`BackendSelection`]: crate::BackendSelection
//! [`DeviceSelection`]: crate::DeviceSelection

mod jit;
mod misspelt;

use crate::services;
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const PREFIX: &str = "LONGSHORE_";
const CACHE: &str = "LONGSHORE_CACHE";
/// The setting with a default for every backend.
const CACHE_SETTING: &str = "CACHE";

/// A snapshot of the environment variables of Longshore. An empty variable counts as not set.
///
/// [`Environment::from_process`] takes the variables of the process; a program or a test can also
/// set its own:
///
/// ```
/// use longshore::{Environment, Host};
///
/// let environment = Environment::empty().with("LONGSHORE_DEVICES", "cuda 0");
/// let error = Host::builder().with_environment(environment).build().err().unwrap();
/// assert_eq!(error.code(), longshore::ErrorCode::InvalidValue);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// Returns a snapshot of the variables of this process. The snapshot is empty where
    /// [`Environment::is_ignored`] is true.
    pub fn from_process() -> Environment {
        if is_set_uid() {
            return Environment::empty();
        }
        let variables = std::env::vars_os().filter(|(name, _)| is_ours(name)).collect();
        Environment { variables }.with_cache_of_user(std::env::var_os)
    }

    /// Returns whether the variables of this process are ignored. They are ignored in a process
    /// with more rights than its caller (set-uid, set-gid, file capabilities): the caller must not
    /// choose its plugins.
    pub fn is_ignored() -> bool {
        is_set_uid()
    }

    /// Creates an environment without variables. Backends then have no cache folders.
    pub fn empty() -> Environment {
        Environment::default()
    }

    /// Returns the environment with one more variable, named in full: `LONGSHORE_BACKEND`.
    #[must_use]
    pub fn with(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Environment {
        self.set(name, value);
        self
    }

    /// Sets a variable, named in full: `LONGSHORE_BACKEND`.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.variables.insert(name.into(), value.into());
    }

    /// Returns the folders and files of `LONGSHORE_PLUGIN_PATH`, in order. Empty parts are skipped:
    /// they do not mean the current folder.
    pub fn plugin_path(&self) -> Vec<PathBuf> {
        let paths = self.get("LONGSHORE_PLUGIN_PATH").map(std::env::split_paths);
        paths.into_iter().flatten().filter(|path| !path.as_os_str().is_empty()).collect()
    }

    /// Returns `LONGSHORE_CLANG`, if set: the compiler of the subcommand `cc`.
    pub fn clang(&self) -> Option<PathBuf> {
        self.get("LONGSHORE_CLANG").map(PathBuf::from)
    }

    /// Returns `LONGSHORE_BACKEND`, if set: the text of a
    /// [`BackendSelection`](crate::BackendSelection).
    pub fn backends(&self) -> Option<String> {
        self.text("LONGSHORE_BACKEND")
    }

    /// Returns `LONGSHORE_DEVICES`, if set: the text of a
    /// [`DeviceSelection`](crate::DeviceSelection).
    pub fn devices(&self) -> Option<String> {
        self.text("LONGSHORE_DEVICES")
    }

    /// Returns whether `LONGSHORE_PROBE` requests a probe of each plugin in a process of its own.
    pub fn probe(&self) -> bool {
        self.text("LONGSHORE_PROBE").is_some_and(|value| value != "0")
    }

    /// Returns `LONGSHORE_ISOLATE`, if set: the backends whose plugins run in processes of their
    /// own, or `all`.
    pub fn isolate(&self) -> Option<String> {
        self.text("LONGSHORE_ISOLATE")
    }

    /// Returns `LONGSHORE_ISOLATE_TIME_LIMIT`, if set: the time limit of a call to an isolated
    /// plugin.
    ///
    /// # Errors
    /// `InvalidValue` unless the value is a positive number of seconds.
    pub fn isolate_time_limit(&self) -> Result<Option<Duration>> {
        self.seconds("LONGSHORE_ISOLATE_TIME_LIMIT")
    }

    /// Returns `LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT`, if set: the time limit for opening and
    /// connecting an isolated plugin.
    ///
    /// # Errors
    /// `InvalidValue` unless the value is a positive number of seconds.
    pub fn isolate_connect_time_limit(&self) -> Result<Option<Duration>> {
        self.seconds("LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT")
    }

    fn seconds(&self, name: &str) -> Result<Option<Duration>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let seconds = text.trim().parse().ok().filter(|seconds: &f64| *seconds > 0.0);
        let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        limit.map(Some).ok_or_else(|| {
            let message = format!("{name} is '{text}', expected a positive number of seconds");
            Error::new(ErrorCode::InvalidValue, message)
        })
    }

    /// Returns `LONGSHORE_ISOLATE_SANDBOX`, if set: `0`, `1` or `required`.
    pub(crate) fn isolate_sandbox(&self) -> Option<String> {
        self.text("LONGSHORE_ISOLATE_SANDBOX")
    }

    /// Returns `LONGSHORE_ISOLATE_LIMITS`, if set: "memory=4GiB,time=60,files=256".
    pub(crate) fn isolate_limits(&self) -> Option<String> {
        self.text("LONGSHORE_ISOLATE_LIMITS")
    }

    /// Returns `LONGSHORE_EXECUTOR`, if set: the executable in which isolated plugins run.
    pub fn executor(&self) -> Option<PathBuf> {
        self.get("LONGSHORE_EXECUTOR").map(PathBuf::from)
    }

    /// Logs a warning for each variable without effect whose name resembles a known one, once per
    /// variable and process.
    #[doc(hidden)]
    pub fn warn_of_misspelt(&self) {
        self.warn_of_misspelt_with([]);
    }

    /// Logs the warnings of [`Environment::warn_of_misspelt`]. Known names then include the
    /// settings that plugins of these backends have queried.
    pub(crate) fn warn_of_misspelt_with<'a>(&self, backends: impl IntoIterator<Item = &'a str>) {
        let mut settings = BTreeSet::new();
        for backend in backends {
            let asked = services::settings_asked_for(backend).into_iter();
            let names = asked.chain([CACHE_SETTING.to_owned()]);
            settings.extend(names.map(|name| spelled(backend, &name)));
        }
        let set = self.variables.iter().filter(|(_, value)| !value.is_empty());
        for name in set.filter_map(|(name, _)| name.to_str()?.strip_prefix(PREFIX)) {
            misspelt::warn(PREFIX, name, &misspelt::resembled(name, &settings));
        }
    }

    /// Returns all settings of a backend, by the names that [`Environment::setting`] takes.
    pub(crate) fn settings(&self, backend: &str) -> Vec<(String, String)> {
        let prefix = format!("{PREFIX}{}", spelled(backend, ""));
        let names = self.variables.keys().filter_map(|name| name.to_str()?.strip_prefix(&prefix));
        let names = names.filter(|name| *name != CACHE_SETTING).chain([CACHE_SETTING]);
        names.filter_map(|name| Some((name.to_owned(), self.setting(backend, name)?))).collect()
    }

    /// Returns whether a setting of a backend's plugin is set. The cache folder does not count: it
    /// has a default.
    pub(crate) fn has_settings(&self, backend: &str) -> bool {
        self.settings(backend).iter().any(|(name, _)| name != CACHE_SETTING)
    }

    /// Returns `LONGSHORE_PROFILE_FILE`, if set: the name pattern of profile files.
    pub fn profile_file(&self) -> Option<String> {
        self.text("LONGSHORE_PROFILE_FILE")
    }

    /// Returns whether `LONGSHORE_PROFILE_DUMP` requests printing the counters of unloaded images.
    pub fn profile_dump(&self) -> bool {
        self.text("LONGSHORE_PROFILE_DUMP").is_some_and(|value| value != "0")
    }

    /// Returns whether `LONGSHORE_TRACK` requests tracking of memory, and printing of leaks and of
    /// the images' memory-pool trackers.
    pub fn track(&self) -> bool {
        self.text("LONGSHORE_TRACK").is_some_and(|value| value != "0")
    }

    /// Returns the setting `LONGSHORE_<BACKEND>_<NAME>`, if set. Both parts are converted to upper
    /// case, and `-` to `_`. Bytes of the value that are not UTF-8 become replacement characters.
    ///
    /// The setting `CACHE` is the backend's own folder, which need not exist. Its default is
    /// `longshore/<backend>` in the folder `LONGSHORE_CACHE`. The result is `None` if either
    /// variable is `0` or `off`.
    pub fn setting(&self, backend: &str, name: &str) -> Option<String> {
        let set = self.text(&format!("{PREFIX}{}", spelled(backend, name)));
        match name.eq_ignore_ascii_case(CACHE_SETTING) {
            true => set.or_else(|| self.default_cache(backend)).filter(|folder| !is_off(folder)),
            false => set,
        }
    }

    /// Sets the setting `LONGSHORE_<BACKEND>_<NAME>`.
    pub(crate) fn set_setting(&mut self, backend: &str, name: &str, value: &str) {
        self.set(format!("{PREFIX}{}", spelled(backend, name)), value);
    }

    /// Gives a child process these variables and no other variable of Longshore. Without a cache
    /// folder here, the child has none either.
    pub(crate) fn apply_to(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
            command.env_remove(name);
        }
        command.env(CACHE, "off").envs(&self.variables);
    }

    /// Sets `LONGSHORE_CACHE` to the user's cache folder, unless the variable is set. Relative
    /// folders are ignored, as the XDG Base Directory Specification requires.
    fn with_cache_of_user(
        self,
        variable: impl Fn(&'static str) -> Option<OsString>,
    ) -> Environment {
        if self.get(CACHE).is_some() {
            return self;
        }
        let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        // A missing home folder, as that of the user `nobody`, is not created for the cache.
        let home = || folder("HOME").filter(|home| home.is_dir()).map(|home| home.join(".cache"));
        match folder("XDG_CACHE_HOME").or_else(home) {
            Some(folder) => self.with(CACHE, folder),
            None => self,
        }
    }

    /// Returns the backend's folder in `LONGSHORE_CACHE`. `None` for a path that is not UTF-8: the
    /// services pass text, and replacement characters would make it another folder.
    fn default_cache(&self, backend: &str) -> Option<String> {
        let home = self.get(CACHE)?.to_str().filter(|home| !is_off(home))?;
        Path::new(home).join("longshore").join(backend).into_os_string().into_string().ok()
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn get(&self, name: &str) -> Option<&OsStr> {
        let value = self.variables.get(OsStr::new(name))?;
        (!value.is_empty()).then_some(value.as_os_str())
    }
}

/// Returns whether the process has more rights than its caller: set-uid, set-gid or capabilities.
pub(crate) fn is_set_uid() -> bool {
    // SAFETY: reads a word of the auxiliary vector; an unknown entry reads as 0.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the name of a setting's variable without the prefix: "MY_GPU_STACK_SIZE".
fn spelled(backend: &str, name: &str) -> String {
    format!("{backend}_{name}").to_uppercase().replace('-', "_")
}

fn is_off(value: &str) -> bool {
    matches!(value, "0" | "off")
}

fn is_ours(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_counts_as_not_set() {
        let environment = Environment::empty().with("LONGSHORE_BACKEND", "");
        assert_eq!(environment.backends(), None);
        assert_eq!(Environment::empty().with("LONGSHORE_DEVICES", "x:*").devices().unwrap(), "x:*");
    }

    #[test]
    fn empty_parts_of_the_plugin_path_do_not_mean_the_current_folder() {
        let environment = Environment::empty().with("LONGSHORE_PLUGIN_PATH", ":/a::/b/c.so:");
        assert_eq!(environment.plugin_path(), [PathBuf::from("/a"), PathBuf::from("/b/c.so")]);
    }

    #[test]
    fn probing_is_off_when_not_set_empty_or_zero() {
        let probe = |value: &str| Environment::empty().with("LONGSHORE_PROBE", value).probe();
        assert!(!Environment::empty().probe());
        assert!(!probe("") && !probe("0"));
        assert!(probe("1") && probe("yes"));
    }

    #[test]
    fn a_setting_is_found_by_backend_and_name_in_any_case() {
        let environment = Environment::empty().with("LONGSHORE_MY_GPU_STACK_SIZE", "4096");
        assert_eq!(environment.setting("my-gpu", "stack_size").as_deref(), Some("4096"));
        assert_eq!(environment.setting("my-gpu", "stack"), None);
        assert_eq!(environment.setting("other", "stack_size"), None);
    }

    #[test]
    fn all_settings_of_a_backend_are_found_and_its_cache() {
        let environment = Environment::empty()
            .with("LONGSHORE_MY_GPU_STACK_SIZE", "4096")
            .with("LONGSHORE_MY_GPU_EMPTY", "")
            .with("LONGSHORE_MY_GPUS", "x")
            .with("LONGSHORE_CACHE", "/c");
        let expected = [("STACK_SIZE", "4096"), ("CACHE", "/c/longshore/my-gpu")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(environment.settings("my-gpu"), expected);
        assert_eq!(environment.with("LONGSHORE_CACHE", "off").settings("my-gpu").len(), 1);
    }

    #[test]
    fn a_time_limit_is_a_positive_number_of_seconds() {
        let limit = |text: &str| {
            Environment::empty().with("LONGSHORE_ISOLATE_TIME_LIMIT", text).isolate_time_limit()
        };
        assert_eq!(limit(""), Ok(None));
        assert_eq!(limit("0.5"), Ok(Some(Duration::from_millis(500))));
        for wrong in ["0", "-1", "x", "nan", "1e300"] {
            assert_eq!(limit(wrong).unwrap_err().code(), ErrorCode::InvalidValue, "{wrong}");
        }
        let name = "LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT";
        let limit = |text: &str| Environment::empty().with(name, text).isolate_connect_time_limit();
        assert_eq!(limit("2.5"), Ok(Some(Duration::from_millis(2500))));
        assert!(limit("soon").unwrap_err().message().contains(name));
    }

    #[test]
    fn a_child_sees_these_variables_alone() {
        let mut command = Command::new("env");
        let environment = Environment::empty().with("LONGSHORE_TOY_X", "1");
        environment.apply_to(&mut command);
        let printed = command.output().unwrap().stdout;
        let printed = String::from_utf8_lossy(&printed);
        let mut ours: Vec<_> = printed.lines().filter(|line| line.starts_with(PREFIX)).collect();
        ours.sort();
        assert_eq!(ours, ["LONGSHORE_CACHE=off", "LONGSHORE_TOY_X=1"]);
    }

    #[test]
    fn a_backends_cache_lies_in_that_of_the_user() {
        let cache = |set: &[(&str, &str)]| {
            let find = |name: &str| set.iter().find(|(set, _)| *set == name);
            let variable = |name: &str| find(name).map(|(_, value)| (*value).into());
            let ours = set.iter().filter(|(name, _)| is_ours(OsStr::new(name)));
            let ours = ours.fold(Environment::empty(), |all, (name, value)| all.with(name, value));
            ours.with_cache_of_user(variable).setting("my-gpu", "cache")
        };
        let folder = tempfile::tempdir().unwrap();
        let at_home = folder.path().to_str().unwrap();
        let (home, xdg) = (("HOME", at_home), ("XDG_CACHE_HOME", "/x"));
        let (ours, own) = (("LONGSHORE_CACHE", "/l"), ("LONGSHORE_MY_GPU_CACHE", "/own"));
        let expected = format!("{at_home}/.cache/longshore/my-gpu");
        assert_eq!(cache(&[home]), Some(expected));
        assert_eq!(cache(&[("HOME", "/nonexistent/home")]), None, "a missing home is not made");
        assert_eq!(cache(&[home, xdg]).as_deref(), Some("/x/longshore/my-gpu"));
        assert_eq!(cache(&[home, xdg, ours]).as_deref(), Some("/l/longshore/my-gpu"));
        assert_eq!(cache(&[home, xdg, ours, own]).as_deref(), Some("/own"));
        assert_eq!(cache(&[("HOME", "h"), ("XDG_CACHE_HOME", "./x")]), None);
        for off in ["0", "off"] {
            assert_eq!(cache(&[home, ("LONGSHORE_CACHE", off)]), None);
            assert_eq!(cache(&[home, ("LONGSHORE_MY_GPU_CACHE", off)]), None);
            let own = cache(&[("LONGSHORE_CACHE", off), own]);
            assert_eq!(own.as_deref(), Some("/own"), "one backend's cache, where others have none");
        }
    }

    #[test]
    fn an_environment_made_by_hand_has_no_cache() {
        assert_eq!(Environment::empty().setting("host", "CACHE"), None);
        let by_hand = Environment::empty().with("LONGSHORE_CACHE", "/c");
        assert_eq!(by_hand.setting("host", "CACHE").as_deref(), Some("/c/longshore/host"));
    }
}
