//! Clang's diagnostics of a source, as far as the places of errors.

/// An error in a source or in a file that it includes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal<'d> {
    pub(crate) message: &'d str,
    /// The place of the error, then the places from which a template was used.
    pub(crate) places: Vec<Place<'d>>,
}

/// A place in a file, with its line and column from 1, and the message about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'d> {
    pub(crate) file: &'d str,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: &'d str,
}

/// Reads clang's diagnostics, which have no colours.
pub(crate) fn refusals(diagnostics: &str) -> Vec<Refusal<'_>> {
    let mut found: Vec<Refusal<'_>> = Vec::new();
    let mut is_open = false;
    for line in diagnostics.lines() {
        let Some((place, kind)) = parts(line) else { continue };
        match kind {
            "error" | "fatal error" => {
                found.push(Refusal { message: place.message, places: vec![place] });
                is_open = true;
            }
            "note" if is_open => {
                let last = found.last_mut().expect("an open error is in the list");
                last.places.push(place);
            }
            _ => is_open = false,
        }
    }
    found
}

/// Divides a line `file:line:column: kind: message`.
fn parts(line: &str) -> Option<(Place<'_>, &str)> {
    for (at, _) in line.match_indices(':') {
        let mut fields = line[at + 1..].splitn(4, ':');
        let numbers = (fields.next()?.parse(), fields.next().map(str::parse));
        let (Ok(number), Some(Ok(column))) = numbers else { continue };
        let (kind, message) = (fields.next()?.trim(), fields.next()?.trim());
        return Some((Place { file: &line[..at], line: number, column, message }, kind));
    }
    None
}

impl Place<'_> {
    /// Returns the place's distance from the begin of its file, in bytes.
    pub(crate) fn offset(self, text: &str) -> usize {
        let before = text.split_inclusive('\n').take(self.line.saturating_sub(1));
        before.map(str::len).sum::<usize>() + self.column.saturating_sub(1)
    }
}

impl<'d> Refusal<'d> {
    /// The message about inline assembly where it is for another device.
    pub(crate) const ASSEMBLY: &'static str = "inline assembly";

    /// Returns whether the error is inline assembly, of which `Build::errors` makes errors.
    pub(crate) fn is_assembly(&self) -> bool {
        self.message == "GNU-style inline assembly is disabled"
    }

    /// Returns the header that clang did not find.
    pub(crate) fn missing_header(&self) -> Option<&'d str> {
        self.message.strip_suffix(" file not found")?.strip_prefix('\'')?.strip_suffix('\'')
    }

    /// Returns the name that clang does not know, and whether a type is expected.
    pub(crate) fn unknown_name(&self) -> Option<(&'d str, bool)> {
        const UNKNOWN: [(&str, bool); 5] = [
            ("unknown class name '", true),
            ("unknown type name '", true),
            ("use of undeclared identifier '", false),
            ("no template named '", false),
            ("use of undeclared template name '", false),
        ];
        UNKNOWN.iter().find_map(|(before, is_type)| {
            let rest = self.message.strip_prefix(before)?;
            Some((rest.split('\'').next()?, *is_type))
        })
    }

    /// Returns the namespace or type that lacks a member.
    pub(crate) fn owner(&self) -> Option<&'d str> {
        let rest = self.message.strip_prefix("no ")?;
        let (_, rest) = rest.split_once(" named '")?;
        let (_, rest) = rest.split_once("' in ")?;
        rest.trim_start_matches("namespace ").strip_prefix('\'')?.split('\'').next()
    }

    /// Returns the name before which clang misses the keyword `template`.
    pub(crate) fn name_without_template(&self) -> Option<&'d str> {
        const MISSING: [&str; 2] = [
            "missing 'template' keyword prior to dependent template name '",
            "use 'template' keyword to treat '",
        ];
        let rest = MISSING.iter().find_map(|before| self.message.strip_prefix(before))?;
        rest.split('\'').next()
    }

    /// Returns the name of which no declaration fits.
    pub(crate) fn unfit_name(&self) -> Option<&'d str> {
        const UNFIT: [&str; 5] = [
            "no matching function for call to '",
            "explicit instantiation of '",
            "no function template matches function template specialization '",
            "explicit specialization of undeclared template struct '",
            "explicit specialization of undeclared template class '",
        ];
        let rest = UNFIT.iter().find_map(|before| self.message.strip_prefix(before))?;
        rest.split('\'').next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_places_of_uses() {
        let found = refusals(
            "In file included from k.cu:1:\na/b.h:3:7: error: use of undeclared identifier 'x'; did \
             you mean 'y'?\n    3 |   x\nk.cu:9:1: note: in instantiation of function\nk.cu:2:3: \
             warning: none\nk.cu:4:4: note: of the warning\nk.cu:1:10: fatal error: 'cub/cub.cuh' \
             file not found\n2 errors generated.\n",
        );
        let lines: Vec<Vec<usize>> =
            found.iter().map(|it| it.places.iter().map(|place| place.line).collect()).collect();
        assert_eq!(lines, [vec![3, 9], vec![1]]);
        assert_eq!(found[0].places[0].file, "a/b.h");
        assert_eq!(found[0].unknown_name(), Some(("x", false)));
        assert_eq!(found[1].missing_header(), Some("cub/cub.cuh"));
    }
}
