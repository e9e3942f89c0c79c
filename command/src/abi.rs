//! `longshore abi`: the interface of a plugin file, and the comparison of two.
//!
//! Most facts are read from the file ([`file`]). The tables are behind a function of the plugin, so
//! a process of its own opens the plugin for them ([`opened`]). [`verdict`] compares.

mod file;
mod opened;
mod show;
mod verdict;

use crate::failure::Failure;
use crate::output;
use clap::Args;
use file::FileFacts;
use opened::OpenedFacts;
pub(crate) use opened::Opener;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the interface of a plugin, or compare the interfaces of two
///
/// With one file, exits with status 1 if this version of Longshore cannot use the plugin. With two,
/// exits with status 1 if a program that works with the first file need not work with the second.
#[derive(Args)]
pub(crate) struct Abi {
    /// The plugin, `liblongshore_plugin_NAME.so`
    file: PathBuf,
    /// The plugin to compare with the first one
    new: Option<PathBuf>,
    /// Print the facts as JSON
    #[arg(long)]
    json: bool,
    /// Read the files alone, and run no code of the plugins: the tables stay unknown
    #[arg(long)]
    no_load: bool,
}

/// A plugin file with its facts.
#[derive(Serialize)]
struct Interface {
    path: String,
    #[serde(flatten)]
    file: FileFacts,
    /// Facts of a process that opened the plugin; `None` without such a process.
    opened: Option<OpenedFacts>,
    /// The reason why a process did not report such facts.
    not_opened: Option<String>,
    /// Whether a process tried to open the plugin and failed.
    #[serde(skip)]
    fails: bool,
}

/// The JSON of a comparison.
#[derive(Serialize)]
struct Comparison<'a> {
    plugins: &'a [Interface],
    changes: &'a [verdict::Change],
    /// Reasons against the plugin, or the second plugin.
    problems: &'a [String],
    warnings: &'a [String],
    compatible: bool,
}

impl Abi {
    pub(crate) fn execute(&self) -> Result<ExitCode, Failure> {
        let files = [Some(&self.file), self.new.as_ref()].into_iter().flatten();
        let plugins = files.map(|file| self.read(file)).collect::<Result<Vec<_>, _>>()?;
        let last = plugins.last().expect("there is a first file");
        let mut problems = verdict::problems(last);
        let mut warnings = verdict::warnings(last);
        let changes = match &plugins[..] {
            [old, new] => {
                warnings.extend(verdict::incomplete(old));
                verdict::changes(old, new)
            }
            _ => Vec::new(),
        };
        let breaking = changes.iter().filter(|change| change.is_breaking);
        problems.extend(breaking.map(|change| change.text.clone()));
        let compatible = problems.is_empty();
        if self.json {
            let (plugins, changes) = (&plugins[..], &changes[..]);
            let (problems, warnings) = (&problems[..], &warnings[..]);
            output::print_json(&Comparison { plugins, changes, problems, warnings, compatible })?;
        } else {
            output::print(&show::text(&plugins, &changes, &problems, &warnings))?;
        }
        Ok(if compatible { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    fn read(&self, path: &Path) -> Result<Interface, Failure> {
        let file = FileFacts::read(path)?;
        let reason = match (self.no_load, file.note.is_some() && file.is_for_this_machine()) {
            (true, _) => Some("--no-load was given".to_owned()),
            (_, false) => Some("it is no plugin for this machine".to_owned()),
            (false, true) => None,
        };
        let is_tried = reason.is_none();
        let (opened, not_opened) = match reason.map_or_else(|| opened::open(path), Err) {
            Ok(facts) => (Some(facts), None),
            Err(why) => (None, Some(why)),
        };
        let (path, fails) = (path.display().to_string(), is_tried && opened.is_none());
        Ok(Interface { path, file, opened, not_opened, fails })
    }
}
