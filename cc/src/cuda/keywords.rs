//! The keyword `template` before the members of types that depend on the parameters of a template:
//! `T::template f<3>()`. CUDA's compiler does not need the keyword.

use super::diagnostics::refusals;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Most lines from the beginning of an expression to the name that lacks the keyword.
const LINES: usize = 4;

/// The names that lack the keyword.
#[derive(Default)]
pub(crate) struct Keywords {
    /// The lines, from 1, and the names in them, for each file.
    names: BTreeMap<String, BTreeSet<(usize, String)>>,
}

impl Keywords {
    /// Adds the names that clang refuses. Returns whether one of them is new.
    pub(crate) fn add(&mut self, diagnostics: &str, is_of_user: impl Fn(&Path) -> bool) -> bool {
        let mut is_new = false;
        for refusal in refusals(diagnostics) {
            let place = refusal.places[0];
            let Some(name) = refusal.name_without_template() else { continue };
            if is_of_user(Path::new(place.file)) {
                let names = self.names.entry(place.file.to_owned()).or_default();
                is_new |= names.insert((place.line, name.to_owned()));
            }
        }
        is_new
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the texts of files with the keyword before the names; files that `texts` lacks are
    /// read.
    pub(crate) fn added_to(&self, texts: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut texts = texts.clone();
        for (file, names) in &self.names {
            let read = || std::fs::read(file).map(|it| String::from_utf8_lossy(&it).into_owned());
            let Some(text) = texts.get(file).cloned().or_else(|| read().ok()) else { continue };
            texts.insert(file.clone(), with_keywords(&text, names));
        }
        texts
    }
}

fn with_keywords(text: &str, names: &BTreeSet<(usize, String)>) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    for (line, name) in names {
        let near = lines.iter_mut().skip(line.saturating_sub(1)).take(LINES);
        for line in near {
            if let Some(changed) = with_keyword(line, name) {
                *line = changed;
                break;
            }
        }
    }
    lines.concat()
}

/// Returns a line with the keyword before each use of a name with arguments; `None` if it has no
/// such use without the keyword.
fn with_keyword(line: &str, name: &str) -> Option<String> {
    let uses = line.match_indices(name).filter(|(at, _)| {
        let before = line[..*at].trim_end();
        let behind = line[at + name.len()..].trim_start();
        let is_member = ["::", ".", "->"].iter().any(|it| before.ends_with(it));
        is_member && behind.starts_with('<')
    });
    let places: Vec<usize> = uses.map(|(at, _)| at).collect();
    let mut changed = line.to_owned();
    for at in places.iter().rev() {
        changed.insert_str(*at, "template ");
    }
    (!places.is_empty()).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_members_get_the_keyword() {
        let diagnostics = "k.cu:2:3: error: missing 'template' keyword prior to dependent template \
                           name 'f'\nk.cu:3:9: error: use 'template' keyword to treat 'g' as a \
                           dependent template name\n/usr/a.h:1:1: error: use 'template' keyword to \
                           treat 'g' as a dependent template name\n";
        let mut keywords = Keywords::default();
        let is_of_user = |file: &Path| !file.starts_with("/usr");
        assert!(keywords.add(diagnostics, is_of_user));
        assert!(!keywords.add(diagnostics, is_of_user));
        let text = "f<2>();\nC<T>::f<N>(p) + q->f<3>;\nC<T>::\n  g <int>(g);\n";
        let texts = keywords.added_to(&BTreeMap::from([("k.cu".to_owned(), text.to_owned())]));
        let expected =
            "f<2>();\nC<T>::template f<N>(p) + q->template f<3>;\nC<T>::\n  g <int>(g);\n";
        assert_eq!(texts["k.cu"], expected);
        assert_eq!(texts.len(), 1);
    }
}
