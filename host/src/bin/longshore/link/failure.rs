//! Why a link failed, and what to do about it.

use super::inputs::Input;
use crate::failure::{Exit, Failure};
use longshore_jitlink::graph::{Definition, LinkGraph, Scope};
use longshore_jitlink::session::StaticArchive;
use longshore_jitlink::{Error, Undefined};

/// An error of which the inputs are known to whoever has it.
pub(super) struct LinkFailure(Error);

impl From<Error> for LinkFailure {
    fn from(error: Error) -> LinkFailure {
        LinkFailure(error)
    }
}

impl LinkFailure {
    /// For an entry that is missing says what may have been meant.
    pub(super) fn explain(self, inputs: &[Input], entry: &str) -> Failure {
        let is_entry = |missing: &Undefined| missing.symbol == entry && missing.file.is_empty();
        match &self.0 {
            Error::Undefined(missing) if missing.iter().any(is_entry) => {
                missing_entry(inputs, entry)
            }
            _ => self.0.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let failure = Failure::new(Exit::Runtime, error.to_string());
        match hint(&error) {
            Some(hint) => failure.or_hint(hint),
            None => failure,
        }
    }
}

fn hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Undefined(_) => {
            "name what defines them: an object, an --archive, a shared library with --dylib or an \
             address with --abs; --phony-externals does without"
        }
        Error::Malformed { .. } => {
            "a FILE is a relocatable object, as `cc -c` makes it, or a static archive of them"
        }
        Error::Duplicate { .. } => {
            "leave one of them out; members of an --archive are linked only when they are needed"
        }
        Error::Relocation { .. } => {
            "compile with -fPIC, or choose addresses that are closer to each other"
        }
        Error::Memory { .. } => "--slab-allocate and --slab-address choose other addresses",
        _ => return None,
    })
}

fn missing_entry(inputs: &[Input], entry: &str) -> Failure {
    let message = format!("the entry '{entry}' is not defined");
    let similar = similar(inputs, entry);
    let hint = match similar.as_slice() {
        [] => "--entry names the function to call; --link-all --no-exec does without".to_owned(),
        names => format!("there is '{}': --entry names the function to call", names.join("', '")),
    };
    Failure::new(Exit::Runtime, message).or_hint(hint)
}

/// The functions whose names are most like this one, the likest first.
fn similar(inputs: &[Input], entry: &str) -> Vec<String> {
    let mut names: Vec<(f64, String)> = Vec::new();
    for graph in inputs.iter().flat_map(graphs) {
        let functions = graph.symbols().filter(|symbol| {
            symbol.callable
                && symbol.scope != Scope::Local
                && symbol.definition != Definition::External
        });
        names.extend(functions.map(|symbol| {
            let name = String::from_utf8_lossy(symbol.name).into_owned();
            (likeness(&name, entry), name)
        }));
    }
    names.retain(|(likeness, _)| *likeness > 0.75);
    names.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    names.dedup();
    names.into_iter().take(3).map(|(_, name)| name).collect()
}

/// From 0 to 1. A function of C++ has its name and more in its symbol.
fn likeness(name: &str, entry: &str) -> f64 {
    let mangled = format!("{}{entry}", entry.len());
    match name.starts_with("_Z") && name.contains(&mangled) {
        true => 1.0,
        false => strsim::jaro(&name.to_lowercase(), &entry.to_lowercase()),
    }
}

/// The graphs of an object or of the members of an archive, as far as they can be read.
fn graphs(input: &Input) -> Vec<LinkGraph> {
    let read = |(name, bytes): &(String, bytes::Bytes)| LinkGraph::read(name, bytes.clone()).ok();
    match StaticArchive::new(&input.name, input.bytes.clone()) {
        Ok(archive) => archive.members().iter().filter_map(read).collect(),
        Err(_) => read(&(input.name.clone(), input.bytes.clone())).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_another_case_or_mangled_are_like_an_entry() {
        assert!(likeness("Main", "main") > 0.75);
        assert!(likeness("man", "main") > 0.75);
        assert!(likeness("_Z3runv", "run") > 0.75);
        assert!(likeness("compress", "main") < 0.75);
    }
}
