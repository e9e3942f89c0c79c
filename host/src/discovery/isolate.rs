//! Isolated plugins: the choice of plugins, and the executable of their processes.

use super::confine::{IsolateLimits, IsolateSandbox};
use super::library::LoadedPlugin;
use super::report::{Candidate, Outcome};
use super::search::{PLUGIN_FOLDER, standard_folders};
use super::trust::Trust;
use crate::environment::Environment;
use crate::selection::BackendSelection;
use crate::services::{log_record, note_setting};
use log::LevelFilter;
use longshore_executor::controller::Spawn;
use longshore_executor::plugin::{Isolation, OpenOutcome, Record, Refusal};
use longshore_plugin_api::{Error, ErrorCode, Result, log_level};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXECUTABLE: &str = "longshore-executor";
/// The word that selects every backend.
const ALL: &str = "all";

/// The program's choice of isolated plugins, and of their processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct IsolateConfig {
    /// Selections of backends in the grammar of the user's variable, in addition to the user's.
    pub(crate) backends: Vec<String>,
    /// The executable; `None` for the user's, or else the first one found.
    pub(crate) executor: Option<PathBuf>,
    /// The time limit of a call, in place of the user's.
    pub(crate) time_limit: Option<Duration>,
    /// The time limit of connecting, in place of the user's.
    pub(crate) connect_time_limit: Option<Duration>,
    /// The rights of the processes, in place of the user's choice.
    pub(crate) sandbox: Option<IsolateSandbox>,
    /// The resource limits, each in place of the user's.
    pub(crate) limits: IsolateLimits,
    /// Whether no memory is shared with the processes, and all data goes over a stream.
    pub(crate) is_bare: bool,
}

/// The choices of program and user, combined.
pub(super) struct Isolator {
    selections: Vec<BackendSelection>,
    all: bool,
    config: IsolateConfig,
    time_limit: Option<Duration>,
    connect_time_limit: Duration,
    sandbox: IsolateSandbox,
    limits: IsolateLimits,
}

impl Isolator {
    /// Combines the program's choices with the environment's.
    ///
    /// # Errors
    /// `InvalidValue` for a variable or a selection that cannot be parsed.
    pub(super) fn new(config: &IsolateConfig, environment: &Environment) -> Result<Isolator> {
        let mut isolator = Isolator {
            selections: Vec::new(),
            all: false,
            config: config.clone(),
            time_limit: match config.time_limit {
                Some(limit) => Some(limit),
                None => environment.isolate_time_limit()?,
            },
            connect_time_limit: match config.connect_time_limit {
                Some(limit) => limit,
                None => {
                    environment.isolate_connect_time_limit()?.unwrap_or(Isolation::CONNECT_LIMIT)
                }
            },
            sandbox: match config.sandbox {
                Some(sandbox) => sandbox,
                None => IsolateSandbox::from_environment(environment)?.unwrap_or_default(),
            },
            limits: config.limits.or(IsolateLimits::from_environment(environment)?),
        };
        if let Some(text) = environment.isolate() {
            isolator.add(&text).map_err(|error| error.context("LONGSHORE_ISOLATE"))?;
        }
        config.backends.iter().try_for_each(|text| isolator.add(text))?;
        Ok(isolator)
    }

    fn add(&mut self, text: &str) -> Result<()> {
        match text.trim().eq_ignore_ascii_case(ALL) {
            true => self.all = true,
            false => self.selections.push(BackendSelection::parse(text)?),
        }
        Ok(())
    }

    /// Returns whether a backend's plugin runs in a process of its own.
    pub(super) fn takes(&self, backend: &str) -> bool {
        self.all || self.selections.iter().any(|selection| selection.rank(backend).is_some())
    }

    /// Checks that every named backend is in `there`, the backends of the plugins found.
    ///
    /// # Errors
    /// `NotFound` for the first missing backend; the message lists the backends of `there`.
    pub(super) fn check(&self, there: &[&str]) -> Result<()> {
        let mut checked = self.selections.iter().map(|selection| selection.check(there));
        checked.find(Result::is_err).unwrap_or(Ok(())).map_err(|error| error.context("isolation"))
    }

    /// Starts a process for a trusted plugin in the file `library`, and connects the plugin in that
    /// process. Blocks while the plugin looks for its driver.
    ///
    /// # Errors
    /// The outcome of a plugin that is not connected.
    pub(super) fn open(
        &self,
        candidate: &Candidate,
        library: &Path,
        environment: &Environment,
    ) -> Result<(LoadedPlugin, Outcome), Outcome> {
        let executor = self.executor(&candidate.path, environment).map_err(Outcome::Failed)?;
        let spawn = Spawn::new(executor).with_shared_memory(!self.config.is_bare);
        let spawn = self.limits.apply_to(self.sandbox.apply_to(spawn));
        let backend = candidate.backend.clone();
        let log = move |record: Record<'_>| {
            let level = log_level(record.level).filter(|level| *level <= log::max_level());
            if let Some(level) = level {
                log_record(&backend, level, record.target, record.message);
            }
        };
        // At least `Info`, even if the program logs less: the last records are part of the report
        // when the process ends.
        let level = log::max_level().max(LevelFilter::Info) as u32;
        let asking = candidate.backend.clone();
        let isolation = Isolation::new(spawn, library, &candidate.backend)
            .with_settings(environment.settings(&candidate.backend))
            .with_setting_observer(move |name| note_setting(&asking, name))
            .with_time_limit(self.time_limit)
            .with_connect_limit(self.connect_time_limit)
            .with_log(level, log);
        match isolation.open() {
            Ok(OpenOutcome::Platform(platform)) => {
                let outcome = Outcome::Isolated(platform.process());
                Ok((LoadedPlugin::isolated(*platform, &candidate.path), outcome))
            }
            Ok(OpenOutcome::NoDriver(why)) => Err(Outcome::NoDriver(why)),
            Ok(OpenOutcome::NoDevice(why)) => Err(Outcome::NoDevice(why)),
            Err(refusal) => Err(refused(refusal)),
        }
    }

    fn executor(&self, plugin: &Path, environment: &Environment) -> Result<PathBuf> {
        let given = self.config.executor.clone().or_else(|| environment.executor());
        find_executor(given.as_deref(), plugin, "run the plugin")
    }
}

/// Returns the executable for a process that is to `work`: the given one, or the first one found in
/// the standard folders and in that of `plugin`.
///
/// # Errors
/// `HostToolNotFound` if no executable was found, or the first one found is not trusted; the
/// message has the places searched, or the reason.
pub(crate) fn find_executor(given: Option<&Path>, plugin: &Path, work: &str) -> Result<PathBuf> {
    let places = match given {
        Some(given) => vec![given.to_owned()],
        None => places(&standard_folders(), plugin),
    };
    for place in &places {
        let Ok(facts) = std::fs::metadata(place) else { continue };
        if !facts.is_file() {
            continue;
        }
        return match Trust::for_process().open(place, Some(&facts)) {
            Ok(trusted) => Ok(trusted.path().to_owned()),
            Err(why) => {
                let message = format!("the executor '{}' is refused: {why}", place.display());
                Err(Error::new(ErrorCode::HostToolNotFound, message))
            }
        };
    }
    let places: Vec<String> = places.iter().map(|place| format!("'{}'", place.display())).collect();
    let message = format!(
        "there is no '{EXECUTABLE}' to {work} in; looked for {} (set LONGSHORE_EXECUTOR to its \
         path)",
        places.join(", ")
    );
    Err(Error::new(ErrorCode::HostToolNotFound, message))
}

/// Returns the paths at which the executable may be, in the order of the search.
fn places(standard: &[PathBuf], plugin: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    // The standard folders, each `lib/longshore` after the `libexec/longshore` of its installation,
    // and at last the plugin's own folder.
    for folder in standard {
        if folder.ends_with(PLUGIN_FOLDER)
            && let Some(above) = folder.parent().and_then(Path::parent)
        {
            folders.push(above.join("libexec/longshore"));
        }
        folders.push(folder.clone());
    }
    folders.extend(plugin.parent().map(Path::to_owned));
    let mut places: Vec<PathBuf> = Vec::new();
    for place in folders.into_iter().map(|folder| folder.join(EXECUTABLE)) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

fn refused(refusal: Refusal) -> Outcome {
    match refusal {
        Refusal::NotAPlugin(why) => Outcome::NotAPlugin(why),
        Refusal::WrongInterface { plugin, host } => Outcome::WrongInterface { plugin, host },
        Refusal::WrongLayout(why) => Outcome::WrongLayout(why),
        Refusal::Misnamed(says) => Outcome::Misnamed { says },
        Refusal::Crashed(how) => Outcome::Crashed(how),
        slow @ Refusal::Slow(_) => Outcome::Crashed(format!(
            "{slow} (LONGSHORE_ISOLATE_CONNECT_TIME_LIMIT sets the time limit)"
        )),
        Refusal::Failed(error) => Outcome::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn isolator(user: &str, program: &[&str]) -> Result<Isolator> {
        let backends = program.iter().map(|text| (*text).to_owned()).collect();
        let config = IsolateConfig { backends, ..IsolateConfig::default() };
        Isolator::new(&config, &Environment::empty().with("LONGSHORE_ISOLATE", user))
    }

    #[test]
    fn a_backend_is_isolated_if_the_user_or_the_program_says_so() {
        let isolator = isolator("cuda", &["vulkan,host"]).unwrap();
        assert!(["cuda", "vulkan", "host"].iter().all(|backend| isolator.takes(backend)));
        assert!(!isolator.takes("amdgpu"));
        assert!(super::tests::isolator("ALL", &[]).unwrap().takes("amdgpu"));
        assert!(!super::tests::isolator("", &[]).unwrap().takes("host"));
    }

    #[test]
    fn a_name_without_a_plugin_is_an_error_and_so_is_what_is_no_name() {
        let error = isolator("cuda,nothing", &[]).unwrap().check(&["cuda", "host"]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotFound);
        assert!(error.message().contains("'nothing'; there are: cuda, host"), "{error}");
        assert_eq!(isolator("all", &[]).unwrap().check(&[]), Ok(()));
        let error = isolator("cu da", &[]).err().unwrap();
        assert!(error.message().contains("LONGSHORE_ISOLATE"), "{error}");
    }

    #[test]
    fn the_executor_of_an_installation_is_in_libexec_beside_its_lib() {
        let standard = ["/l/lib/longshore/openmp", "/l/lib/longshore"].map(PathBuf::from);
        let places = places(&standard, Path::new("/l/lib/longshore/p.so"));
        let folders = ["/l/lib/longshore/openmp", "/l/libexec/longshore", "/l/lib/longshore"];
        assert_eq!(places, folders.map(|folder| Path::new(folder).join(EXECUTABLE)));
    }

    #[test]
    fn where_the_executor_was_looked_for_is_reported() {
        let nowhere = Environment::empty().with("LONGSHORE_EXECUTOR", "/nowhere/at-all");
        let isolator = isolator("all", &[]).unwrap();
        let error = isolator.executor(Path::new("/p/x.so"), &nowhere).unwrap_err();
        assert_eq!(error.code(), ErrorCode::HostToolNotFound);
        assert!(error.message().contains("'/nowhere/at-all'"), "{error}");
        let places = places(&standard_folders(), Path::new("/p/x.so"));
        assert_eq!(places.last().unwrap(), Path::new("/p/longshore-executor"));
        assert!(places.iter().any(|place| place.ends_with("libexec/longshore/longshore-executor")));
    }
}
