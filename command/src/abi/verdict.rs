//! Judgement of a plugin, and comparison of two.

use super::Interface;
use super::file::numbers;
use longshore_plugin_api::abi;
use serde::Serialize;

/// A difference of the second plugin from the first.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Change {
    /// "added", "removed" or "changed".
    pub(super) kind: &'static str,
    pub(super) text: String,
    /// Whether a program that works with the first plugin need not work with the second.
    pub(super) is_breaking: bool,
}

/// Returns the reasons why a host of this version does not use a plugin.
pub(super) fn problems(plugin: &Interface) -> Vec<String> {
    let mut problems = Vec::new();
    let Some(note) = &plugin.file.note else {
        return vec!["it has no note of owner 'Longshore' (P-2)".to_owned()];
    };
    let (major, minor) = note.interface;
    if major != abi::INTERFACE_MAJOR {
        let ours = abi::INTERFACE_MAJOR;
        problems.push(format!("its interface is {major}.{minor}, hosts have {ours} (P-5)"));
    }
    match plugin.file.entry_interface {
        None => problems.push("it exports no entry 'longshore_plugin' (P-4)".to_owned()),
        Some(entry) if entry != note.interface => problems.push(format!(
            "its note has interface {major}.{minor}, its entry {}.{} (P-5)",
            entry.0, entry.1
        )),
        Some(_) => {}
    }
    if let Some(why) = plugin.not_opened.as_ref().filter(|_| plugin.fails) {
        problems.push(format!("hosts cannot open it: {why} (P-3)"));
    }
    if let Some(refusal) = plugin.opened.as_ref().and_then(|opened| opened.refusal.clone()) {
        problems.push(refusal);
    }
    let tables = plugin.opened.iter().flat_map(|opened| &opened.tables);
    for (name, table) in tables.filter(|(_, table)| !table.null_functions.is_empty()) {
        let functions = table.null_functions.join(", ");
        problems.push(format!("functions of \"{name}\" are null: {functions} (P-11)"));
    }
    problems
}

/// Returns faults of a plugin that hosts bear.
pub(super) fn warnings(plugin: &Interface) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(note) = &plugin.file.note else { return warnings };
    let expected = format!("liblongshore_plugin_{}.so", note.backend);
    if plugin.path.rsplit('/').next() != Some(&expected) {
        warnings.push(format!("hosts find '{}' in a file '{expected}' alone (P-1)", note.backend));
    }
    let names = &plugin.file.other_symbols;
    if !names.is_empty() {
        let shown = names.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        let more = if names.len() > 5 { ", ..." } else { "" };
        warnings.push(format!(
            "it exports {} symbols beside 'longshore_plugin', which may meet symbols of a program: \
             {shown}{more}",
            names.len()
        ));
    }
    if let Some(why) = plugin.not_opened.as_ref().filter(|_| !plugin.fails) {
        warnings.push(format!("its tables are unknown: {why}"));
    }
    let driver = note.driver.as_ref();
    if let Some(driver) = driver.filter(|driver| plugin.file.needed.contains(driver)) {
        warnings.push(format!(
            "it links its driver '{driver}': without the driver it cannot be opened (P-14)"
        ));
    }
    warnings
}

/// Returns the reasons why a comparison with a first plugin is incomplete.
pub(super) fn incomplete(old: &Interface) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.file.note.is_none() {
        warnings.push(
            "the first plugin has no note of owner 'Longshore' (P-2): its interface, backend, \
             image formats and driver are unknown, and were not compared"
                .to_owned(),
        );
    }
    if let Some(why) = &old.not_opened {
        warnings.push(format!(
            "the tables of the first plugin are unknown, and were not compared: {why}"
        ));
    }
    if let Some(why) = old.opened.as_ref().and_then(|opened| opened.refusal.as_ref()) {
        warnings.push(format!("hosts do not take the first plugin: {why}"));
    }
    warnings
}

/// Returns the differences between two plugins.
pub(super) fn changes(old: &Interface, new: &Interface) -> Vec<Change> {
    let mut changes = Changes(Vec::new());
    let architecture = |plugin: &Interface| plugin.file.architecture.clone();
    changes.compare("architecture", architecture(old), architecture(new), true);
    if let (Some(old), Some(new)) = (&old.file.note, &new.file.note) {
        let version = |(major, minor): (u32, u32)| format!("{major}.{minor}");
        let is_breaking = old.interface.0 != new.interface.0;
        changes.compare("interface", version(old.interface), version(new.interface), is_breaking);
        changes.compare("backend", old.backend.clone(), new.backend.clone(), true);
        changes.lists("image format", &old.image_formats, &new.image_formats, true);
        let driver = |driver: &Option<String>| driver.clone().unwrap_or("none".to_owned());
        changes.compare("driver", driver(&old.driver), driver(&new.driver), false);
    }
    tables(old, new, &mut changes);
    changes.lists("library", &old.file.needed, &new.file.needed, false);
    let glibc = |plugin: &Interface| plugin.file.glibc.clone().unwrap_or("none".to_owned());
    let needs_newer = numbers(&glibc(new)) > numbers(&glibc(old));
    changes.compare("glibc", glibc(old), glibc(new), needs_newer);
    changes.0
}

fn tables(old: &Interface, new: &Interface, changes: &mut Changes) {
    let (Some(old), Some(new)) = (&old.opened, &new.opened) else { return };
    let names = |opened: &super::OpenedFacts| -> Vec<String> {
        let tables = opened.tables.iter();
        let versions = tables.flat_map(|(name, table)| {
            table.versions.iter().map(move |version| format!("{name} {version}"))
        });
        versions.collect()
    };
    changes.lists("table", &names(old), &names(new), true);
    let yes = |unloadable| if unloadable { "yes" } else { "no" }.to_owned();
    changes.compare("unloadable", yes(old.unloadable), yes(new.unloadable), false);
    changes.compare("version", old.version.clone(), new.version.clone(), false);
}

struct Changes(Vec<Change>);

impl Changes {
    fn add(&mut self, kind: &'static str, text: String, is_breaking: bool) {
        self.0.push(Change { kind, text, is_breaking });
    }

    fn compare(&mut self, what: &str, old: String, new: String, is_breaking: bool) {
        if old != new {
            self.add("changed", format!("{what} {old} became {new}"), is_breaking);
        }
    }

    /// Compares lists. `is_breaking` is for removals.
    fn lists(&mut self, what: &str, old: &[String], new: &[String], is_breaking: bool) {
        for name in old.iter().filter(|name| !new.contains(name)) {
            self.add("removed", format!("{what} {name} is gone"), is_breaking);
        }
        for name in new.iter().filter(|name| !old.contains(name)) {
            self.add("added", format!("{what} {name} is new"), false);
        }
    }
}
