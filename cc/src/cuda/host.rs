//! The host's half of a source in CUDA or HIP. Clang reads it, because it may name kernels of
//! templates; what clang cannot read is declared here, or left out.

use super::assembly;
use super::diagnostics::{Place, Refusal, refusals};
use super::items::{Item, Kind, device_words, is_in_device_function, items};
use super::libraries;
use super::names::{declared, is_type};
use super::statements::{is_empty, statement};
use super::unknown::{Unknown, launched};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

/// Most rounds: a declaration that is left out may be missing in others.
const ROUNDS: usize = 32;
/// Number of the first rounds that leave out statements, and not yet their functions.
const ROUNDS_OF_STATEMENTS: usize = 8;

/// A source without the parts that clang refuses.
#[derive(Default)]
pub(crate) struct Reduced {
    /// The new texts of the source, by the name that the user gave, and of headers.
    pub(crate) texts: BTreeMap<String, String>,
    /// Headers that do not exist, which are empty files.
    pub(crate) missing: BTreeSet<String>,
    /// Names of vendors' libraries.
    unknown: BTreeMap<String, Unknown>,
    /// The parts of the host's code that are left out, as lines with their beginnings.
    pub(crate) left_out: Vec<String>,
    /// The parts of the device's code that are left out, each with the library that it needs.
    pub(crate) needing: Vec<(String, &'static str)>,
    /// Kernels of templates that these parts name, such as `k<float, 256>`.
    pub(crate) launched: Vec<String>,
    /// Whether functions of the host lack some of their statements.
    has_shortened_functions: bool,
    /// The functions and types among the parts of the device's code.
    without: BTreeMap<String, &'static str>,
    /// The functions of the host without some of their statements, by file and line. Each one has
    /// the lines of these statements.
    shortened: BTreeMap<(String, usize), (String, BTreeSet<usize>)>,
}

/// A declaration with errors.
struct Refused<'r, 'd> {
    file: &'r str,
    text: &'r str,
    item: &'r Item,
    errors: Vec<&'r Refusal<'d>>,
    /// The declaration's place and beginning.
    shown: String,
}

/// Changes a source until clang accepts it, or none of its errors has a remedy. `check` returns
/// clang's diagnostics, in which the source has the name `name`; `None` if there is no error. It
/// stops at the first header that does not exist; `missing_headers` returns all of them. Returns
/// `None` if nothing helps.
pub(crate) fn reduce(
    text: &str,
    name: &str,
    is_of_user: impl Fn(&Path) -> bool,
    check: impl Fn(&Reduced) -> Option<String>,
    missing_headers: impl Fn(&Reduced) -> Vec<String>,
) -> Option<Reduced> {
    let run = |rounds| run(text, name, &is_of_user, &check, &missing_headers, rounds);
    let (reduced, is_accepted) = run(ROUNDS_OF_STATEMENTS)?;
    // The rest of a function may use a template in a way that clang refuses.
    match is_accepted || !reduced.has_shortened_functions {
        true => Some(reduced),
        false => run(0).map(|(reduced, _)| reduced),
    }
}

/// Changes a source as [`reduce`] does. The first `rounds` leave out statements. Returns also
/// whether clang accepts the result.
fn run(
    text: &str,
    name: &str,
    is_of_user: &impl Fn(&Path) -> bool,
    check: &impl Fn(&Reduced) -> Option<String>,
    missing_headers: &impl Fn(&Reduced) -> Vec<String>,
    rounds: usize,
) -> Option<(Reduced, bool)> {
    let mut reduced = Reduced::default();
    reduced.texts.insert(name.to_owned(), text.to_owned());
    let mut helps = false;
    let mut is_accepted = false;
    for round in 0..ROUNDS {
        let Some(diagnostics) = check(&reduced) else {
            is_accepted = true;
            break;
        };
        let mut found = refusals(&diagnostics);
        found.retain_mut(|it| {
            let is_foreign = it.is_assembly() && reduced.is_foreign(it, is_of_user);
            let is_kept = is_foreign || !it.is_assembly();
            it.message = if is_foreign { Refusal::ASSEMBLY } else { it.message };
            is_kept
        });
        let missing = found.iter().filter_map(Refusal::missing_header);
        let lacks_headers = reduced.add_headers(missing);
        if lacks_headers {
            let further = missing_headers(&reduced);
            reduced.add_headers(further.iter().map(String::as_str));
        }
        let is_better = lacks_headers
            || reduced.translate(&found, is_of_user)
            || reduced.leave_out_users(&found, name, is_of_user)
            || reduced.declare(&found, is_of_user)
            || reduced.leave_out(&found, name, is_of_user, round < rounds);
        if !is_better {
            break;
        }
        helps = true;
    }
    reduced.name_functions();
    helps.then_some((reduced, is_accepted))
}

impl Reduced {
    /// Returns the text of a file; `None` if it is not one of the user's.
    fn text(&mut self, file: &str, is_of_user: &impl Fn(&Path) -> bool) -> Option<&str> {
        if !self.texts.contains_key(file) {
            let path = Path::new(file);
            let text = is_of_user(path).then(|| std::fs::read(path).ok()).flatten()?;
            self.texts.insert(file.to_owned(), String::from_utf8_lossy(&text).into_owned());
        }
        self.texts.get(file).map(String::as_str)
    }

    /// Returns whether inline assembly is for a GPU of another kind, also in a macro.
    fn is_foreign(&mut self, found: &Refusal<'_>, is_of_user: &impl Fn(&Path) -> bool) -> bool {
        found.places.iter().any(|place| {
            let text = self.text(place.file, is_of_user).unwrap_or_default();
            libraries::is_assembly_of_gpu(behind(text, *place, ""))
        })
    }

    /// Translates the assembly of NVIDIA GPUs in the files with errors about it.
    fn translate(&mut self, found: &[Refusal<'_>], is_of_user: &impl Fn(&Path) -> bool) -> bool {
        let of_assembly = found.iter().filter(|it| it.message == Refusal::ASSEMBLY);
        let places = of_assembly.flat_map(|it| &it.places);
        let files: BTreeSet<&str> = places.map(|place| place.file).collect();
        let mut is_better = false;
        for file in files {
            let Some(text) = self.text(file, is_of_user).and_then(assembly::translated) else {
                continue;
            };
            log::info!("'{file}': the inline assembly in PTX is translated for other devices");
            self.texts.insert(file.to_owned(), text);
            is_better = true;
        }
        is_better
    }

    /// Adds headers that do not exist. Returns whether one of them is new.
    fn add_headers<'h>(&mut self, missing: impl Iterator<Item = &'h str>) -> bool {
        // The path of a file in the folder of missing headers.
        let missing = missing.filter(|it| !it.starts_with('/') && !it.contains(".."));
        let before = self.missing.len();
        self.missing.extend(missing.map(str::to_owned));
        self.missing.len() > before
    }

    /// Leaves out the functions of the device that use unknown types of the vendors' libraries: a
    /// declaration would give a type the wrong size.
    fn leave_out_users(
        &mut self,
        found: &[Refusal<'_>],
        name: &str,
        is_of_user: &impl Fn(&Path) -> bool,
    ) -> bool {
        let words = device_words(self.texts.values());
        let of_device = found.iter().filter(|refusal| {
            let Some((name, is_type)) = refusal.unknown_name() else { return false };
            let place = refusal.places[0];
            let text = self.text(place.file, is_of_user).unwrap_or_default();
            libraries::is_of_host(name)
                && Unknown::new(name, is_type, behind(text, place, name)).is_type()
                && is_in_device_function(text, &words, place.offset(text))
        });
        let of_device: Vec<Refusal<'_>> = of_device.cloned().collect();
        self.leave_out(&of_device, name, is_of_user, false)
    }

    /// Declares the names of vendors' libraries that clang does not know.
    fn declare(&mut self, found: &[Refusal<'_>], is_of_user: &impl Fn(&Path) -> bool) -> bool {
        let mut is_better = false;
        for refusal in found {
            let Some((name, is_type)) = refusal.unknown_name() else { continue };
            if !libraries::is_of_host(name) || self.unknown.contains_key(name) {
                continue;
            }
            let place = refusal.places[0];
            let text = self.text(place.file, is_of_user).unwrap_or_default();
            let unknown = Unknown::new(name, is_type, behind(text, place, name));
            self.unknown.insert(name.to_owned(), unknown);
            is_better = true;
        }
        is_better
    }

    /// Returns the declarations of the unknown names, each in a line.
    pub(crate) fn declarations(&self) -> String {
        let each = self.unknown.iter().map(|(name, unknown)| unknown.declaration(name));
        each.collect::<Vec<_>>().join("\n")
    }

    /// Leaves out the declarations that clang refuses, or statements of them.
    fn leave_out(
        &mut self,
        found: &[Refusal<'_>],
        name: &str,
        is_of_user: &impl Fn(&Path) -> bool,
        keeps_functions: bool,
    ) -> bool {
        let files: BTreeSet<&str> =
            found.iter().flat_map(|it| &it.places).map(|place| place.file).collect();
        let mut is_better = false;
        let of_user = |file: &&str| self.text(file, is_of_user).is_some();
        let files: Vec<&str> = files.into_iter().filter(of_user).collect();
        let words = device_words(self.texts.values());
        for file in files {
            let text = self.texts[file].clone();
            let all = items(&text, &words);
            let mut next = text.clone().into_bytes();
            for item in all.iter().filter(|item| item.kind == Kind::Declaration) {
                let errors = found.iter().filter(|it| self.is_in(it, file, item));
                let errors: Vec<&Refusal<'_>> = errors.collect();
                if errors.is_empty() {
                    continue;
                }
                let place = if file == name { String::new() } else { format!("'{file}', ") };
                let shown = shown(&text[item.begin..item.end], item.lines.0);
                let shown = format!("{place}{shown}");
                let refused = Refused { file, text: &text, item, errors, shown };
                for part in self.parts(refused, keeps_functions) {
                    blank(&mut next[part]);
                    is_better = true;
                }
            }
            self.texts.insert(file.to_owned(), String::from_utf8_lossy(&next).into_owned());
        }
        is_better
    }

    /// Returns the parts of a text to leave out for the errors in a declaration.
    fn parts(&mut self, refused: Refused<'_, '_>, keeps_functions: bool) -> Vec<Range<usize>> {
        let Refused { file, text, item, .. } = refused;
        let whole = item.begin..item.end;
        let part = &text[whole.clone()];
        // Kernels may use a type of the host's.
        let may_need = item.is_of_device || is_type(part);
        if let Some((library, message)) = self.needed(&refused).filter(|_| may_need) {
            self.needing.push((format!("{} ({message})", refused.shown), library));
            let names = declared(part).map(|name| (name.to_owned(), library));
            self.without.extend(names);
            return Vec::from([whole]);
        }
        if item.is_of_device {
            return Vec::new();
        }
        let key = (file.to_owned(), item.lines.0);
        let statements = keeps_functions.then(|| refused.statements(&self.texts)).flatten();
        let parts = statements.unwrap_or_else(|| Vec::from([whole.clone()]));
        for part in &parts {
            let more: Vec<String> = launched(&text[part.clone()], self.texts.values()).collect();
            self.launched.extend(more);
        }
        if parts.first() == Some(&whole) {
            self.shortened.remove(&key);
            self.left_out.push(refused.shown);
        } else {
            self.has_shortened_functions = true;
            let line = |part: &Range<usize>| {
                let begin = part.end - text[part.clone()].trim_start().len();
                text[..begin].matches('\n').count() + 1
            };
            let (_, lines) = self.shortened.entry(key).or_insert((refused.shown, BTreeSet::new()));
            lines.extend(parts.iter().map(line));
        }
        parts
    }

    /// Names the functions without some of their statements among the parts that are left out.
    fn name_functions(&mut self) {
        for (shown, lines) in std::mem::take(&mut self.shortened).into_values() {
            let all: Vec<String> = lines.iter().map(usize::to_string).collect();
            let word = if all.len() == 1 { "line" } else { "lines" };
            self.left_out.push(format!("{shown} (only {word} {})", all.join(", ")));
        }
    }

    fn is_known(&self, file: &str) -> bool {
        self.texts.contains_key(file)
    }

    /// Returns whether an error is in an item of a file. An error in a file that is not the user's
    /// belongs to the place from which a template was used.
    fn is_in(&self, refusal: &Refusal<'_>, file: &str, item: &Item) -> bool {
        let place = refusal.places.iter().find(|place| self.is_known(place.file));
        let (first, last) = item.lines;
        place.is_some_and(|it| it.file == file && (first..=last).contains(&it.line))
    }

    /// Returns the library that a declaration needs, with the reason.
    fn needed(&self, refused: &Refused<'_, '_>) -> Option<(&'static str, String)> {
        let Refused { file, text, item, .. } = refused;
        let part = &text[item.begin..item.end];
        let mut errors = refused.errors.iter();
        errors.find_map(|it| Some((self.library(part, it)?, reason(it, file, text))))
    }

    /// Returns the library that a part of the device's code needs, which has this error.
    fn library(&self, part: &str, refusal: &Refusal<'_>) -> Option<&'static str> {
        let named = refusal.unknown_name().map(|(name, _)| name);
        named
            .or_else(|| refusal.unfit_name())
            .and_then(|name| self.without.get(name).copied())
            .or_else(|| libraries::missing_feature(refusal.message))
            .or_else(|| libraries::needed(part))
            .or_else(|| libraries::incomplete(refusal))
            .or_else(|| libraries::vendors_library(refusal.message, named))
    }
}

impl Refused<'_, '_> {
    /// Returns the statements of a function that have its errors. `None` if another part of the
    /// function has one, or no statement would stay.
    fn statements(&self, files: &BTreeMap<String, String>) -> Option<Vec<Range<usize>>> {
        let (begin, end) = (self.item.begin, self.item.end);
        let part = &self.text[begin..end];
        let mut rest = part.as_bytes().to_vec();
        let mut found = Vec::new();
        for error in &self.errors {
            let place = error.places.iter().find(|place| files.contains_key(place.file))?;
            let at = place.offset(self.text).checked_sub(begin).filter(|at| *at < end - begin)?;
            let statement = statement(part, at)?;
            blank(&mut rest[statement.clone()]);
            let statement = begin + statement.start..begin + statement.end;
            if !found.contains(&statement) {
                found.push(statement);
            }
        }
        let stays = !is_empty(&String::from_utf8_lossy(&rest));
        stays.then_some(found)
    }
}

/// Replaces a declaration by space. Its lines and the preprocessor's conditions stay, which may
/// belong to what surrounds the declaration.
fn blank(part: &mut [u8]) {
    const KEPT: [&[u8]; 6] = [b"if", b"el", b"endif", b"define", b"undef", b"include"];
    let mut is_kept = false;
    for line in part.split_inclusive_mut(|byte| *byte == b'\n') {
        let directive = line.trim_ascii_start().strip_prefix(b"#").map(<[u8]>::trim_ascii_start);
        is_kept |= directive.is_some_and(|rest| KEPT.iter().any(|it| rest.starts_with(it)));
        if is_kept {
            is_kept = line.trim_ascii_end().ends_with(b"\\");
            continue;
        }
        line.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
}

/// Returns an error in a file, with the line and the instruction of assembly.
fn reason(refusal: &Refusal<'_>, file: &str, text: &str) -> String {
    let Some(first) = refusal.places.iter().find(|place| place.file == file) else {
        return refusal.message.to_owned();
    };
    if refusal.message != Refusal::ASSEMBLY {
        return refusal.message.to_owned();
    }
    let places = refusal.places.iter().filter(|place| place.file == file);
    let named = places.filter_map(|place| assembly::obstacle(behind(text, *place, ""))).next();
    let named = named.map_or_else(String::new, |instruction| format!(": '{instruction}'"));
    format!("{} in line {}{named}", refusal.message, first.line)
}

/// Returns the text behind a name at a place, or else behind its first use.
fn behind<'t>(text: &'t str, place: Place<'_>, name: &str) -> &'t str {
    let here = text.get(place.offset(text)..);
    let here = here.and_then(|rest| rest.strip_prefix(name));
    here.or_else(|| text.split_once(name).map(|(_, rest)| rest)).unwrap_or_default()
}

/// Returns the names in a list of kernels, of which clang's diagnostics refuse some. The names are
/// lines of a file `--kernel`.
pub(crate) fn accepted(names: &[String], diagnostics: &str) -> Vec<String> {
    let refused = refused(names, diagnostics, |_| true);
    names.iter().filter(|name| !refused.contains(name)).cloned().collect()
}

/// Returns the names that stand for several kernels.
pub(crate) fn overloaded<'n>(names: &'n [String], diagnostics: &str) -> Vec<&'n String> {
    refused(names, diagnostics, |message| message.contains("overloaded function"))
}

/// Returns the names in a list of kernels that clang refuses with messages of one kind.
fn refused<'n>(
    names: &'n [String],
    diagnostics: &str,
    is_of_kind: impl Fn(&str) -> bool,
) -> Vec<&'n String> {
    let refused: BTreeSet<usize> = refusals(diagnostics)
        .iter()
        .filter(|refusal| is_of_kind(refusal.message))
        .flat_map(|refusal| &refusal.places)
        .filter(|place| place.file == "--kernel")
        .map(|place| place.line)
        .collect();
    let lines = names.iter().enumerate().filter(|(index, _)| {
        // An error at the end of a name is in the next line.
        refused.contains(&(index * 2 + 1)) || refused.contains(&(index * 2 + 2))
    });
    lines.map(|(_, name)| name).collect()
}

fn shown(item: &str, line: usize) -> String {
    const LONGEST: usize = 60;
    let head = item.split(['{', ';']).next().unwrap_or_default();
    let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = head.chars().take(LONGEST).collect();
    let dots = if short.len() < head.len() { "..." } else { "" };
    format!("line {line}: {short}{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(source: &str, check: impl Fn(&Reduced) -> Option<String>) -> Option<Reduced> {
        reduce(source, "k.cu", |_| false, check, |_| Vec::new())
    }

    #[test]
    fn declarations_of_the_host_with_errors_are_left_out() {
        let source = "#include <none.h>\n__global__ void k() {}\nint main() {\n  none();\n}\n";
        let reduced = reduced(source, |reduced| {
            if !reduced.missing.contains("none.h") {
                return Some("k.cu:1:10: fatal error: 'none.h' file not found".to_owned());
            }
            let has_main = reduced.texts["k.cu"].contains("none()");
            has_main.then(|| "k.cu:4:3: error: use of undeclared identifier 'none'".to_owned())
        });
        let reduced = reduced.expect("there are parts to leave out");
        assert_eq!(reduced.texts["k.cu"].trim(), "#include <none.h>\n__global__ void k() {}");
        assert_eq!(reduced.left_out, ["line 3: int main()"]);
        assert_eq!(reduced.texts["k.cu"].lines().count(), source.lines().count());
    }

    #[test]
    fn all_missing_headers_are_added_at_once() {
        let runs = std::cell::Cell::new(0);
        let check = |reduced: &Reduced| {
            runs.set(runs.get() + 1);
            let error = "k.cu:1:10: fatal error: 'a.h' file not found".to_owned();
            (!reduced.missing.contains("a.h")).then_some(error)
        };
        let all = |_: &Reduced| vec!["b/c.h".to_owned(), "/d.h".to_owned(), "../e.h".to_owned()];
        let reduced = reduce("", "k.cu", |_| false, check, all).expect("the headers are added");
        assert_eq!(reduced.missing.iter().collect::<Vec<_>>(), ["a.h", "b/c.h"]);
        assert_eq!(runs.get(), 2);
    }

    #[test]
    fn conditions_inside_of_declarations_stay() {
        let mut text = *b"int f()\n#ifdef A\n{ x; }\n # endif\n{ #y }\n";
        blank(&mut text);
        assert_eq!(&text, b"       \n#ifdef A\n      \n # endif\n      \n");
    }

    #[test]
    fn names_of_vendors_libraries_are_declared() {
        let reduced = reduced("int main() { cublasInit(); }\n", |reduced| {
            let is_known = reduced.declarations().contains("cublasInit");
            let error = "k.cu:1:14: error: use of undeclared identifier 'cublasInit'";
            (!is_known).then(|| error.to_owned())
        });
        let reduced = reduced.expect("the name is declared");
        assert_eq!(reduced.declarations(), "LONGSHORE_UNKNOWN_CALL_(cublasInit)");
        assert!(reduced.left_out.is_empty());
    }

    #[test]
    fn kernels_that_need_a_library_are_left_out_with_their_callers() {
        let source = "__device__ int f() { return thrust::x(); }\n__global__ void k() { f(); }\n\
                      __global__ void l() {}\n";
        let reduced = reduced(source, |reduced| {
            let text = &reduced.texts["k.cu"];
            if text.contains("thrust") {
                return Some("k.cu:1:29: error: use of undeclared identifier 'thrust'".to_owned());
            }
            let calls = text.contains("k()");
            calls.then(|| "k.cu:2:23: error: use of undeclared identifier 'f'".to_owned())
        });
        let reduced = reduced.expect("there are parts to leave out");
        let libraries: Vec<&str> = reduced.needing.iter().map(|(_, library)| *library).collect();
        assert_eq!(libraries, ["Thrust", "Thrust"]);
        assert_eq!(reduced.texts["k.cu"].trim(), "__global__ void l() {}");
    }

    #[test]
    fn kernels_among_the_names_may_be_refused() {
        let names = ["k<1>".to_owned(), "r<2>".to_owned()];
        assert_eq!(accepted(&names, "--kernel:3:2: error: none"), ["k<1>"]);
        assert!(overloaded(&names, "--kernel:3:2: error: none").is_empty());
        let several = "--kernel:1:7: error: address of overloaded function 'k' cannot be cast";
        assert_eq!(overloaded(&names, several), ["k<1>"]);
    }

    #[test]
    fn an_error_in_a_kernel_stays() {
        let source = "__global__ void k() { none(); }\n";
        assert!(reduced(source, |_| Some("k.cu:1:23: error: none".to_owned())).is_none());
    }
}
