//! The facts as text. Names in files may have newlines, which must not look like further lines.

use super::Interface;
use super::verdict::Change;
use crate::escape;
use longshore_plugin_api::abi;

/// Returns the plugins, their differences, and the verdict on the last one.
pub(super) fn text(
    plugins: &[Interface],
    changes: &[Change],
    problems: &[String],
    warnings: &[String],
) -> String {
    let mut lines: Vec<_> = plugins.iter().flat_map(plugin).collect();
    if plugins.len() > 1 {
        lines.push("differences of the second from the first".to_owned());
        let shown = changes.iter().map(|change| {
            let sign = match change.kind {
                "added" => '+',
                "removed" => '-',
                _ => '~',
            };
            let breaking = if change.is_breaking { " (breaks programs)" } else { "" };
            format!("  {sign} {}{breaking}", change.text)
        });
        lines.extend(shown);
        if changes.is_empty() {
            lines.push("  none".to_owned());
        }
    }
    lines.extend(warnings.iter().map(|warning| format!("warning: {warning}")));
    // The minor version never decides: each host of the major version judges alike.
    let major = abi::INTERFACE_MAJOR;
    match problems {
        [] => lines.push(format!("compatible: hosts of interface {major}.0 and later take it")),
        problems => {
            lines.extend(problems.iter().map(|problem| format!("incompatible: {problem}")));
        }
    }
    lines.iter().map(|line| escape::line(line)).collect::<Vec<_>>().join("\n")
}

fn plugin(plugin: &Interface) -> Vec<String> {
    let file = &plugin.file;
    let mut lines = vec![plugin.path.clone()];
    let mut fact = |name: &str, value: String| lines.push(format!("  {name:<12} {value}"));
    if let Some(note) = &file.note {
        fact("backend", escape::name(&note.backend));
        fact("interface", format!("{}.{}", note.interface.0, note.interface.1));
        fact("formats", list(&note.image_formats));
        fact("driver", note.driver.as_deref().map_or("none".to_owned(), escape::name));
    }
    fact("architecture", file.architecture.clone());
    fact("libraries", list(&file.needed));
    fact("glibc", file.glibc.clone().unwrap_or("none".to_owned()));
    if let Some(opened) = &plugin.opened {
        let [name, version, vendor] =
            [&opened.name, &opened.version, &opened.vendor].map(|text| escape::name(text));
        fact("name", format!("{name} {version}, by {vendor}"));
        let versions = |versions: &[u32]| {
            versions.iter().map(u32::to_string).collect::<Vec<_>>().join(" and ")
        };
        let is_there = |it: &(&String, &super::opened::TableFacts)| !it.1.versions.is_empty();
        let (there, missing): (Vec<_>, Vec<_>) = opened.tables.iter().partition(is_there);
        let there =
            there.iter().map(|(name, table)| format!("{name} {}", versions(&table.versions)));
        fact("tables", list(&there.collect::<Vec<_>>()));
        let missing: Vec<_> = missing.iter().map(|(name, _)| (*name).clone()).collect();
        fact("without", list(&missing));
        fact("opened", "in a process of its own, for name and tables".to_owned());
    }
    lines
}

fn list(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| escape::name(name)).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
