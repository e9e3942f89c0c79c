//! Finding plugins: search, judgement, and what became of each candidate.
//!
//! [`discover`] finds the candidates ([`search`]), judges each without opening it (is it the first
//! of its name, did the user select it, is it to be trusted, what does its note say), opens and
//! connects those that are left, and hands back both the connected plugins and a [`Candidate`]
//! with an [`Outcome`] for every file. [`list`] stops before the opening.
//!
//! The first file of a backend's name wins, also if it turns out to be unusable: a broken plugin
//! is to be mended, not to be replaced silently by an older one elsewhere.

mod confine;
mod isolate;
mod library;
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
pub(crate) use isolate::IsolateConfig;
pub(crate) use library::LoadedPlugin;
pub use probe::{Probe, probe_main};
pub use report::{Candidate, Outcome};

use crate::environment::Environment;
use crate::selection::BackendSelection;
use isolate::Isolator;
use library::PluginFile;
use longshore_plugin_api::{Note, Result, abi};
use note::NoNote;
use search::Found;
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trust::{Trust, Trusted};

/// What to search, and for what.
#[derive(Clone, Debug)]
pub(crate) struct DiscoveryConfig {
    /// The user's variables.
    pub(crate) environment: Environment,
    /// Files and folders that are searched first.
    pub(crate) extra: Vec<PathBuf>,
    /// The backends that the program wants. Those of the user's variable hold as well: a backend
    /// must be named by both, and the user's order of preference goes before the program's.
    pub(crate) backends: Option<BackendSelection>,
    /// Try each plugin in a process of its own first; also if the environment asks for it.
    pub(crate) probe: Option<Probe>,
    /// Which plugins run in processes of their own.
    pub(crate) isolate: IsolateConfig,
    /// Search the folders of the executable and of the system, after all others.
    pub(crate) standard_folders: bool,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Discovery {
    /// Every candidate, in the order of the search.
    pub(crate) candidates: Vec<Candidate>,
    /// The connected plugins, in order of preference.
    pub(crate) plugins: Vec<Arc<LoadedPlugin>>,
    /// Whether that order is someone's choice; else it is the order of the search.
    pub(crate) backends_ordered: bool,
    /// The files and folders that were searched, in that order.
    pub(crate) searched: Vec<PathBuf>,
}

/// Where to look for candidates.
struct Places {
    /// Plugins that the program and the user named.
    named: Vec<PathBuf>,
    /// The folders that are searched after them, whoever asks.
    standard: Vec<PathBuf>,
}

impl DiscoveryConfig {
    /// What the environment says, in the standard folders.
    pub(crate) fn new(environment: Environment) -> DiscoveryConfig {
        DiscoveryConfig {
            environment,
            extra: Vec::new(),
            backends: None,
            probe: None,
            isolate: IsolateConfig::default(),
            standard_folders: true,
        }
    }
}

/// Finds, opens and connects plugins. A plugin that cannot be used is no error but an outcome of
/// its candidate. Blocks while the plugins look for their drivers.
///
/// # Errors
/// `InvalidValue` if `LONGSHORE_BACKEND` cannot be parsed, `NotFound` if a selected backend has no
/// candidate at all; no plugin was opened then.
pub(crate) fn discover(config: &DiscoveryConfig) -> Result<Discovery> {
    let rules = Rules::new(config)?;
    let places = Places::from_config(config);
    let mut judged = judge_all(&places, &rules)?;
    let from_environment = || config.environment.probe().then(Probe::beside_executable);
    let probe = config.probe.clone().or_else(from_environment);
    let mut plugins = Vec::new();
    for Judged { candidate, trusted } in &mut judged {
        if let Some(trusted) = trusted {
            match open(candidate, trusted, probe.as_ref(), &rules.isolator, &config.environment) {
                Ok((plugin, outcome)) => {
                    candidate.outcome = outcome;
                    plugins.push(Arc::new(plugin));
                }
                Err(outcome) => candidate.outcome = outcome,
            }
        }
        let level = if candidate.outcome.is_fault() { log::Level::Warn } else { log::Level::Debug };
        log::log!(level, "{candidate}");
    }
    plugins.sort_by_key(|plugin| rules.rank(plugin.backend()).ok());
    let candidates = judged.into_iter().map(|judged| judged.candidate).collect();
    let searched = [places.named, places.standard].concat();
    Ok(Discovery { candidates, plugins, backends_ordered: rules.order(), searched })
}

/// Finds and judges the candidates as [`discover`] does, but opens none: those that it would open
/// are [`Outcome::NotOpened`].
///
/// # Errors
/// As for [`discover`].
pub(crate) fn list(config: &DiscoveryConfig) -> Result<Vec<Candidate>> {
    let judged = judge_all(&Places::from_config(config), &Rules::new(config)?)?;
    Ok(judged.into_iter().map(|judged| judged.candidate).collect())
}

fn open(
    candidate: &Candidate,
    trusted: &Trusted,
    probe: Option<&Probe>,
    isolator: &Isolator,
    environment: &Environment,
) -> Result<(LoadedPlugin, Outcome), Outcome> {
    if isolator.takes(&candidate.backend) {
        // Its own process is a probe too.
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
        Places { named, standard }
    }
}

fn judge_all(places: &Places, rules: &Rules) -> Result<Vec<Judged>> {
    let mut judge = Judge::new(rules);
    let found = search::find(&places.named, &places.standard).into_iter();
    let judged: Vec<Judged> = found.filter_map(|found| judge.judge(found)).collect();
    rules.check(judged.iter().map(|judged| &judged.candidate))?;
    Ok(judged)
}

/// A candidate that has not been opened.
struct Judged {
    candidate: Candidate,
    /// Its file, if it is to be opened.
    trusted: Option<Trusted>,
}

impl Judged {
    /// Returns a candidate that is not to be opened.
    fn unopened(found: Found, note: Option<Note>, outcome: Outcome) -> Judged {
        let Found { path, backend, .. } = found;
        Judged { candidate: Candidate { path, backend, note, outcome }, trusted: None }
    }
}

/// The user's selection and the program's.
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

    /// Where a backend stands, or the selection that rules it out.
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

/// Judges candidates in the order of the search.
struct Judge<'a> {
    rules: &'a Rules,
    trust: Trust,
    /// Device and inode of the files so far, and the backends that they were found for.
    seen: HashSet<(u64, u64, String)>,
    /// The first file for each backend.
    first: HashMap<String, PathBuf>,
}

impl<'a> Judge<'a> {
    fn new(rules: &'a Rules) -> Judge<'a> {
        let trust = Trust::for_process();
        Judge { rules, trust, seen: HashSet::new(), first: HashMap::new() }
    }

    /// `None` for a file that was found before.
    fn judge(&mut self, mut found: Found) -> Option<Judged> {
        if let Some(outcome) = found.verdict.take() {
            return Some(Judged::unopened(found, None, outcome));
        }
        let (file, facts) = match open_to_read(&found.path) {
            Ok(opened) => opened,
            Err(error) => {
                let outcome = search::missing(&found.path, error);
                return Some(Judged::unopened(found, None, outcome));
            }
        };
        if !self.seen.insert((facts.dev(), facts.ino(), found.backend.clone())) {
            return None;
        }
        let note = note::read_note(&file);
        match self.trusted(&found.path, &found.backend, &facts, &note) {
            Err(outcome) => Some(Judged::unopened(found, note.ok(), outcome)),
            Ok(trusted) => {
                let judged = Judged::unopened(found, note.ok(), Outcome::NotOpened);
                Some(Judged { trusted: Some(trusted), ..judged })
            }
        }
    }

    /// Returns the file, if it is to be opened.
    fn trusted(
        &mut self,
        path: &Path,
        backend: &str,
        facts: &Metadata,
        note: &Result<Note, NoNote>,
    ) -> Result<Trusted, Outcome> {
        if let Some(first) = self.first.get(backend) {
            return Err(Outcome::Shadowed { by: first.clone() });
        }
        self.first.insert(backend.to_owned(), path.to_owned());
        if let Err(selection) = self.rules.rank(backend) {
            return Err(Outcome::RuledOut(selection.to_string()));
        }
        if facts.is_dir() {
            return Err(Outcome::NotALibrary("it is a folder".into()));
        }
        let trusted = self.trust.open(path, Some(facts)).map_err(Outcome::Refused)?;
        match note {
            Ok(note) => check_note(note, backend).map(|()| trusted),
            Err(NoNote::NotALibrary(why)) => Err(Outcome::NotALibrary(why.clone())),
            Err(NoNote::NotAPlugin(why)) => Err(Outcome::NotAPlugin(why.clone())),
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

/// Opens a file to read it, without waiting for anyone if it is a pipe.
fn open_to_read(path: &Path) -> std::io::Result<(File, Metadata)> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    Ok((file, facts))
}
