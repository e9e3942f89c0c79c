//! Discovery of plugins: search, checks, and the outcome of each candidate.
//!
//! [`discover`] finds the candidates ([`search`]) and checks each without loading it: precedence of
//! the first file of a backend, the user's selection, trust in the file, and the ELF note. It then
//! loads and connects the remaining candidates, and returns the connected plugins and a
//! [`Candidate`] with an [`Outcome`] for every file. [`list`] stops before loading.
//!
//! The first file of a backend's name wins, even if it is unusable: the user should repair a broken
//! plugin, and no older plugin elsewhere should replace it silently. A plugin that is linked into
//! the program comes after the files that program and user name, and before the standard folders.
//! So an installation does not change the program, but a person can.

mod confine;
mod isolate;
mod library;
mod linked;
mod note;
mod probe;
mod report;
mod search;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trust;

pub use confine::{IsolateLimits, IsolateSandbox};
pub(crate) use isolate::{IsolateConfig, find_executor};
pub(crate) use library::LoadedPlugin;
pub use probe::{Probe, probe_main};
pub use report::{Candidate, Outcome};
pub(crate) use trust::{Trust, TrustedFolder};

use crate::environment::Environment;
use crate::selection::BackendSelection;
use isolate::Isolator;
use library::PluginFile;
use longshore_plugin_api::remote::RemotePlugin;
use longshore_plugin_api::{ErrorCode, LinkedPlugin, Note, Result, abi};
use note::NoteError;
use search::{FoundFile, Origin};
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trust::Trusted;

/// The inputs of discovery: places to search, and choices of backends.
#[derive(Clone, Debug)]
pub(crate) struct DiscoveryConfig {
    /// The user's variables.
    pub(crate) environment: Environment,
    /// Files and folders that are searched first.
    pub(crate) extra: Vec<PathBuf>,
    /// Plugins that the program contains, in addition to the plugins of the crate's features.
    pub(crate) linked: Vec<LinkedPlugin>,
    /// The program's selection of backends. The user's variable applies as well: only backends that
    /// both name are used, and the user's order of preference comes before the program's.
    pub(crate) backends: Option<BackendSelection>,
    /// The probe of each plugin in a process of its own; `None` leaves the choice to the
    /// environment.
    pub(crate) probe: Option<Probe>,
    /// The choice of isolated plugins and of their processes.
    pub(crate) isolate: IsolateConfig,
    /// Whether the folders of the executable and of the system are searched, after all others.
    pub(crate) standard_folders: bool,
    /// Whether a setting that a plugin refuses is an outcome of its candidate instead of an error.
    pub(crate) tolerates_refused_settings: bool,
}

/// The result of discovery.
#[derive(Debug)]
pub(crate) struct Discovery {
    /// Every candidate, in the order of the search.
    pub(crate) candidates: Vec<Candidate>,
    /// The connected plugins, in order of preference.
    pub(crate) plugins: Vec<Arc<LoadedPlugin>>,
    /// Whether the order of `plugins` is the user's or the program's choice; else it is the order
    /// of the search.
    pub(crate) backends_ordered: bool,
    /// The files and folders that were searched, in the order of the search.
    pub(crate) searched: Vec<PathBuf>,
}

/// The places to search for candidates.
struct Places {
    /// Files and folders that the program and the user named.
    named: Vec<PathBuf>,
    /// The plugins that are part of the program.
    linked: Vec<LinkedPlugin>,
    /// The standard folders, searched after the named places.
    standard: Vec<PathBuf>,
}

impl DiscoveryConfig {
    /// Creates a configuration with the environment's choices and the standard folders.
    pub(crate) fn new(environment: Environment) -> DiscoveryConfig {
        DiscoveryConfig {
            environment,
            extra: Vec::new(),
            linked: Vec::new(),
            backends: None,
            probe: None,
            isolate: IsolateConfig::default(),
            standard_folders: true,
            tolerates_refused_settings: false,
        }
    }

    /// Checks that the outcome is not the refusal of a setting.
    ///
    /// # Errors
    /// The plugin's `InvalidValue`, if a setting of its backend is set. A plugin without settings
    /// that returns this code is a broken plugin.
    fn check_settings(&self, backend: &str, outcome: &Outcome) -> Result<()> {
        match outcome {
            Outcome::Failed(error)
                if error.code() == ErrorCode::InvalidValue
                    && !self.tolerates_refused_settings
                    && self.environment.has_settings(backend) =>
            {
                Err(error.clone())
            }
            _ => Ok(()),
        }
    }
}

/// Finds, loads and connects plugins. An unusable plugin is no error, but an outcome of its
/// candidate. Blocks while plugins load and look for their drivers.
///
/// # Errors
/// `InvalidValue` if `LONGSHORE_BACKEND` cannot be parsed, `NotFound` if a selected backend has no
/// candidate; then no plugin was loaded. `InvalidValue` if a plugin refuses a setting.
pub(crate) fn discover(config: &DiscoveryConfig) -> Result<Discovery> {
    let rules = Rules::new(config)?;
    let places = Places::from_config(config);
    let mut checked = check_all(&places, &rules)?;
    let from_environment = || config.environment.probe().then(Probe::beside_executable);
    let probe = config.probe.clone().or_else(from_environment);
    let mut plugins = Vec::new();
    for CheckedCandidate { candidate, source } in &mut checked {
        if let Some(source) = source.take() {
            match open(candidate, source, probe.as_ref(), &rules.isolator, &config.environment) {
                Ok((plugin, outcome)) => {
                    candidate.outcome = outcome;
                    plugins.push(Arc::new(plugin));
                }
                Err(outcome) => {
                    config.check_settings(&candidate.backend, &outcome)?;
                    candidate.outcome = outcome;
                }
            }
        }
        let level = if candidate.outcome.is_fault() { log::Level::Warn } else { log::Level::Debug };
        log::log!(level, "{candidate}");
    }
    plugins.sort_by_key(|plugin| rules.rank(plugin.backend()).ok());
    let candidates = checked.into_iter().map(|checked| checked.candidate).collect();
    let searched = [places.named, places.standard].concat();
    Ok(Discovery { candidates, plugins, backends_ordered: rules.order(), searched })
}

/// Finds and checks the candidates as [`discover`] does, but loads none. The outcome of a candidate
/// that [`discover`] would load is [`Outcome::NotOpened`].
///
/// # Errors
/// As for [`discover`].
pub(crate) fn list(config: &DiscoveryConfig) -> Result<Vec<Candidate>> {
    let checked = check_all(&Places::from_config(config), &Rules::new(config)?)?;
    Ok(checked.into_iter().map(|checked| checked.candidate).collect())
}

fn open(
    candidate: &Candidate,
    source: Source,
    probe: Option<&Probe>,
    isolator: &Isolator,
    environment: &Environment,
) -> Result<(LoadedPlugin, Outcome), Outcome> {
    let trusted = match source {
        Source::File(trusted) => trusted,
        Source::Program(_) if isolator.takes(&candidate.backend) => {
            return Err(linked::not_isolated(&candidate.backend, &candidate.path));
        }
        // A probe cannot protect a program from its own code.
        Source::Program(plugin) => {
            let plugin = LoadedPlugin::linked(&plugin, &candidate.path, environment)?;
            return Ok((plugin, Outcome::Loaded));
        }
    };
    if isolator.takes(&candidate.backend) {
        // The plugin's own process is a probe too.
        return isolator.open(candidate, trusted.path(), environment);
    }
    if let Some(probe) = probe {
        match probe.run(trusted.path(), environment) {
            Outcome::Loaded => {}
            other => return Err(other),
        }
    }
    let file = PluginFile { path: &candidate.path, loader_path: &trusted.loader_path() };
    let plugin = LoadedPlugin::open(file, &candidate.backend, environment)?;
    Ok((plugin, Outcome::Loaded))
}

impl Places {
    fn from_config(config: &DiscoveryConfig) -> Places {
        let named = [config.extra.clone(), config.environment.plugin_path()].concat();
        let standard =
            if config.standard_folders { search::standard_folders() } else { Vec::new() };
        let linked = config.linked.iter().copied().chain(linked::feature_plugins()).collect();
        Places { named, linked, standard }
    }
}

fn check_all(places: &Places, rules: &Rules) -> Result<Vec<CheckedCandidate>> {
    let mut checker = CandidateChecker::new(rules);
    let linked = places.linked.iter().copied().map(linked::candidate).collect();
    let found = search::find(&places.named, linked, &places.standard).into_iter();
    let checked: Vec<CheckedCandidate> = found.filter_map(|found| checker.check(found)).collect();
    rules.check(checked.iter().map(|checked| &checked.candidate))?;
    Ok(checked)
}

/// A checked candidate that is not loaded yet.
struct CheckedCandidate {
    candidate: Candidate,
    /// The plugin's code, if it is to be loaded.
    source: Option<Source>,
}

/// The place of a plugin's code.
enum Source {
    File(Trusted),
    Program(Box<RemotePlugin>),
}

impl CheckedCandidate {
    /// Returns a candidate that is not to be loaded.
    fn unopened(found: FoundFile, note: Option<Note>, outcome: Outcome) -> CheckedCandidate {
        let FoundFile { path, backend, origin, .. } = found;
        let is_linked = matches!(origin, Origin::Program(_));
        let candidate = Candidate { path, backend, is_linked, note, outcome };
        CheckedCandidate { candidate, source: None }
    }

    /// Returns a candidate that is to be loaded.
    fn to_open(found: FoundFile, note: Option<Note>, source: Source) -> CheckedCandidate {
        let unopened = CheckedCandidate::unopened(found, note, Outcome::NotOpened);
        CheckedCandidate { source: Some(source), ..unopened }
    }
}

/// The selections of the user and the program.
struct Rules {
    selections: Vec<BackendSelection>,
    isolator: Isolator,
}

impl Rules {
    fn new(config: &DiscoveryConfig) -> Result<Rules> {
        let user = config.environment.backends().map(|text| {
            BackendSelection::parse(&text).map_err(|error| error.context("LONGSHORE_BACKEND"))
        });
        let selections = user.transpose()?.into_iter().chain(config.backends.clone()).collect();
        let isolator = Isolator::new(&config.isolate, &config.environment)?;
        Ok(Rules { selections, isolator })
    }

    /// Returns the backend's position in each selection.
    ///
    /// # Errors
    /// The first selection without the backend.
    fn rank(&self, backend: &str) -> Result<Vec<usize>, &BackendSelection> {
        self.selections.iter().map(|selection| selection.rank(backend).ok_or(selection)).collect()
    }

    fn order(&self) -> bool {
        !self.selections.is_empty()
    }

    fn check<'a>(&self, candidates: impl Iterator<Item = &'a Candidate>) -> Result<()> {
        let exists = |candidate: &&Candidate| candidate.outcome != Outcome::Missing;
        let there = candidates.filter(exists).map(|candidate| candidate.backend.as_str());
        let there: Vec<&str> = there.collect();
        self.selections.iter().try_for_each(|selection| selection.check(&there))?;
        self.isolator.check(&there)
    }
}

/// The checks of candidates, in the order of the search.
struct CandidateChecker<'a> {
    rules: &'a Rules,
    trust: Trust,
    /// Device, inode and backend of the files checked so far.
    seen: HashSet<(u64, u64, String)>,
    /// The first file for each backend.
    first: HashMap<String, PathBuf>,
}

impl<'a> CandidateChecker<'a> {
    fn new(rules: &'a Rules) -> CandidateChecker<'a> {
        let trust = Trust::for_process();
        CandidateChecker { rules, trust, seen: HashSet::new(), first: HashMap::new() }
    }

    /// Checks a file; `None` for a file that was found before.
    fn check(&mut self, mut found: FoundFile) -> Option<CheckedCandidate> {
        if let Some(outcome) = found.verdict.take() {
            return Some(CheckedCandidate::unopened(found, None, outcome));
        }
        if let Origin::Program(Some(plugin)) = found.origin {
            found.origin = Origin::Program(None);
            return Some(self.check_linked(found, plugin));
        }
        let (file, facts) = match open_to_read(&found.path) {
            Ok(opened) => opened,
            Err(error) => {
                let outcome = search::missing(&found.path, error);
                return Some(CheckedCandidate::unopened(found, None, outcome));
            }
        };
        if !self.seen.insert((facts.dev(), facts.ino(), found.backend.clone())) {
            return None;
        }
        let note = note::read_note(&file);
        match self.trusted(&found.path, &found.backend, &facts, &note) {
            Err(outcome) => Some(CheckedCandidate::unopened(found, note.ok(), outcome)),
            Ok(trusted) => Some(CheckedCandidate::to_open(found, note.ok(), Source::File(trusted))),
        }
    }

    /// Checks a plugin of the program. Its code is as trusted as the
    /// program's own.
    fn check_linked(&mut self, found: FoundFile, plugin: Box<RemotePlugin>) -> CheckedCandidate {
        let note = Some(plugin.note());
        match self.claim(&found.path, &found.backend) {
            Err(outcome) => CheckedCandidate::unopened(found, note, outcome),
            Ok(()) => CheckedCandidate::to_open(found, note, Source::Program(plugin)),
        }
    }

    /// Makes a file, or the program with a linked plugin, the first one of its backend.
    ///
    /// # Errors
    /// The outcome of a file behind another one, or outside the selection.
    fn claim(&mut self, path: &Path, backend: &str) -> Result<(), Outcome> {
        if let Some(first) = self.first.get(backend) {
            return Err(Outcome::Shadowed { by: first.clone() });
        }
        self.first.insert(backend.to_owned(), path.to_owned());
        let selected = self.rules.rank(backend);
        selected.map(drop).map_err(|selection| Outcome::RuledOut(selection.to_string()))
    }

    /// Opens the file by a trusted path, if it is to be loaded.
    ///
    /// # Errors
    /// The outcome of a file that is not to be loaded.
    fn trusted(
        &mut self,
        path: &Path,
        backend: &str,
        facts: &Metadata,
        note: &Result<Note, NoteError>,
    ) -> Result<Trusted, Outcome> {
        self.claim(path, backend)?;
        if facts.is_dir() {
            return Err(Outcome::NotALibrary("it is a folder".into()));
        }
        let trusted = self.trust.open(path, Some(facts)).map_err(Outcome::Refused)?;
        match note {
            Ok(note) => check_note(note, backend).map(|()| trusted),
            Err(NoteError::NotALibrary(why)) => Err(Outcome::NotALibrary(why.clone())),
            Err(NoteError::NotAPlugin(why)) => Err(Outcome::NotAPlugin(why.clone())),
        }
    }
}

fn check_note(note: &Note, backend: &str) -> Result<(), Outcome> {
    if note.interface_major != abi::INTERFACE_MAJOR {
        let plugin = (note.interface_major, note.interface_minor);
        let host = (abi::INTERFACE_MAJOR, abi::INTERFACE_MINOR);
        return Err(Outcome::WrongInterface { plugin, host });
    }
    if note.backend != backend {
        return Err(Outcome::Misnamed { says: note.backend.clone() });
    }
    Ok(())
}

/// Opens a file for reading. Does not block on a pipe without a writer.
fn open_to_read(path: &Path) -> std::io::Result<(File, Metadata)> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    Ok((file, facts))
}
