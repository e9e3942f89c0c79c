//! Pages of the repository in an installation. Links lead to installed files; links to other files
//! become plain text.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// A map from a file of the repository to its place below the prefix, or `None` if it is not
/// installed. Both paths are relative.
pub(crate) type Places<'a> = &'a dyn Fn(&Path) -> Option<PathBuf>;

/// Returns the text of an installed page, a Markdown file of the repository, with its links
/// changed.
pub(crate) fn with_links_to_installed(page: &Path, text: &str, places: Places<'_>) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, label, target, after)) = next_link(rest) {
        changed.push_str(before);
        match target_from(page, target, places) {
            Some(target) => changed.push_str(&format!("[{label}]({target})")),
            None => changed.push_str(label),
        }
        rest = after;
    }
    changed + rest
}

/// Returns the text before a link `[label](target)`, its parts, and the text after it.
fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let middle = text.find("](")?;
    let end = middle + text[middle..].find(')')?;
    let start = text[..middle].rfind('[')?;
    Some((&text[..start], &text[start + 1..middle], &text[middle + 2..end], &text[end + 1..]))
}

/// Returns the target of a link for the installed page, or `None` for a target that is not
/// installed.
fn target_from(page: &Path, target: &str, places: Places<'_>) -> Option<String> {
    let (path, anchor) = match target.find('#') {
        Some(at) => target.split_at(at),
        None => (target, ""),
    };
    if path.is_empty() || path.contains("://") {
        return Some(target.to_owned());
    }
    let from = places(page)?;
    let to = places(&normal(&page.parent()?.join(path)))?;
    Some(format!("{}{anchor}", relative(from.parent()?, &to).display()))
}

/// Returns the path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, part| {
        match part {
            Component::ParentDir => _ = normal.pop(),
            Component::CurDir => {}
            part => normal.push(part),
        }
        normal
    })
}

/// Returns the relative path from a folder to a file, both below one folder.
fn relative(folder: &Path, file: &Path) -> PathBuf {
    let common = folder.components().zip(file.components()).take_while(|(one, other)| one == other);
    let common = common.count();
    let up = folder.components().skip(common).map(|_| OsStr::new(".."));
    up.chain(file.components().skip(common).map(Component::as_os_str)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_installed_files_or_are_text() {
        let places = |file: &Path| match file.to_str()? {
            "include/a.h" => Some("include/a.h".into()),
            page => page.ends_with(".md").then(|| Path::new("share/doc").join(page)),
        };
        let text = "[`a`](../include/a.h) [b](b.md#c) [up](../README.md) [`x/`](../x/) [d](#d) \
                    [e](https://e.org) a[0](1";
        let expected = "[`a`](../../../include/a.h) [b](b.md#c) [up](../README.md) `x/` [d](#d) \
                        [e](https://e.org) a[0](1";
        assert_eq!(with_links_to_installed(Path::new("docs/p.md"), text, &places), expected);
    }
}
