//! Failures of a link, with hints.

use super::inputs::Input;
use super::kind::Kind;
use super::names::explained;
use super::undefined;
use crate::failure::{Exit, Failure};
use longshore_jitlink::arch::Fault;
use longshore_jitlink::graph::{Definition, LinkGraph, Scope};
use longshore_jitlink::session::StaticArchive;
use longshore_jitlink::{Architecture, Error, Undefined};

/// An error of the linker, before it is explained with the inputs.
pub(super) struct LinkFailure(Error);

impl From<Error> for LinkFailure {
    fn from(error: Error) -> LinkFailure {
        LinkFailure(error)
    }
}

/// The inputs of a link.
pub(super) struct LinkInputs {
    pub(super) inputs: Vec<Input>,
    pub(super) archives: Vec<Input>,
    pub(super) architecture: Architecture,
    pub(super) entry: String,
    /// Whether bitcode among the inputs is compiled.
    pub(super) lazy: bool,
}

impl LinkFailure {
    /// Converts the error to a failure, with hints that depend on the inputs.
    pub(super) fn explain(self, given: &LinkInputs) -> Failure {
        let is_entry =
            |missing: &Undefined| missing.symbol == given.entry && missing.file.is_empty();
        match &self.0 {
            Error::Undefined(missing) if missing.iter().any(is_entry) => {
                missing_entry(&given.inputs, &given.entry)
            }
            Error::Malformed { file, .. } | Error::Unsupported { file, .. } => {
                unsuitable(given, file).unwrap_or_else(|| self.0.into())
            }
            _ => self.0.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        if let Error::Undefined(missing) = &error {
            return undefined::failure(missing);
        }
        let failure = Failure::new(Exit::Runtime, explained(&error.to_string()));
        match hint(&error) {
            Some(hint) => failure.or_hint(hint),
            None => failure,
        }
    }
}

fn hint(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::Malformed { .. } => {
            "give as FILE a relocatable object, as `cc -c` makes it, or a static archive of objects"
        }
        Error::Duplicate { .. } => {
            "leave out one definition; members of an --archive are linked only when they are needed"
        }
        Error::Relocation(relocation) => match relocation.fault {
            Fault::OutOfRange { .. } => {
                "compile with -fPIC, or choose addresses that are closer together"
            }
            _ => return None,
        },
        Error::Memory { name, .. } if name.starts_with("static thread-local storage") => {
            "compile with -fPIC: then thread-local variables need no fixed offset from the thread pointer"
        }
        Error::Memory { name, .. } if name.contains("thread-local") => return None,
        Error::Memory { .. } => "choose other addresses with --slab-allocate and --slab-address",
        _ => return None,
    })
}

/// Returns a failure for a file of a kind that its option does not take; `None` if the kind is
/// right or unknown.
fn unsuitable(given: &LinkInputs, file: &str) -> Option<Failure> {
    let (kind, is_archive) = kind_of(given, file)?;
    let expected = if is_archive { "a static archive" } else { "a relocatable object" };
    let (problem, hint) = match kind {
        Kind::Object(_) if is_archive => (
            format!("it is an object, expected {expected}"),
            format!("give '{file}' as a FILE, without --archive"),
        ),
        Kind::Object(other) if other != given.architecture => (
            format!("it is for {}, expected {}, as for the first FILE", other.triple(), given.architecture.triple()),
            "compile all files for the same architecture".to_owned(),
        ),
        Kind::SharedLibrary(_) => (
            format!("it is a shared library, expected {expected}"),
            match file.contains('/') {
                true => format!("open it with --dylib {file}"),
                false => format!("open it with --dylib ./{file}"),
            },
        ),
        Kind::Executable => (
            format!("it is an executable, expected {expected}"),
            "give the objects that it was linked from, as `cc -c` makes them".to_owned(),
        ),
        Kind::Foreign(what) => (
            format!("it is for {what}"),
            "compile it for x86-64 (-m64) or AArch64, with 64 bits".to_owned(),
        ),
        Kind::ThinArchive => (
            "it is a thin archive, whose members are other files".to_owned(),
            format!("make a regular one: `ar rcs NEW.a $(ar t {file})`"),
        ),
        Kind::LinkerScript(files) => (
            format!("it is a linker script, text for a system linker, expected {expected}"),
            format!("give the files that it names instead: {}", files.join(" ")),
        ),
        Kind::Bitcode if is_member(given, file) => (
            "it is LLVM bitcode, expected machine code".to_owned(),
            "compile without -flto, or extract it from the archive and give it as a FILE with --lazy: \
             only FILEs are compiled"
                .to_owned(),
        ),
        Kind::Bitcode if is_archive || !given.lazy => (
            "it is LLVM bitcode, expected machine code".to_owned(),
            "compile without -flto, or give it as a FILE with --lazy, which compiles functions at their first call".to_owned(),
        ),
        Kind::AssemblyText => (
            "it is LLVM's assembly text, expected machine code".to_owned(),
            "give it as a FILE with --lazy, which compiles functions at their first call".to_owned(),
        ),
        Kind::Other if is_archive => (
            format!("it is not {expected}"),
            "give as --archive an archive of relocatable objects, as `ar` makes it".to_owned(),
        ),
        Kind::Object(_) | Kind::Archive | Kind::Bitcode | Kind::Other => return None,
    };
    Some(Failure::new(Exit::Runtime, format!("{file}: {problem}")).or_hint(hint))
}

/// Returns the kind of a file or of a member, and whether the file was given as an archive.
fn kind_of(given: &LinkInputs, name: &str) -> Option<(Kind, bool)> {
    let find = |inputs: &[Input]| {
        inputs.iter().find(|input| input.name == name).map(|input| Kind::detect(&input.bytes))
    };
    let of_files = find(&given.inputs).map(|kind| (kind, false));
    of_files.or_else(|| Some((find(&given.archives)?, true))).or_else(|| {
        let inputs = given.inputs.iter().chain(&given.archives);
        let mut archives = inputs.filter(|input| name.starts_with(&input.name));
        archives.find_map(|input| {
            let members = StaticArchive::read_members(&input.name, &input.bytes).ok()?;
            let member = members.iter().find(|(member, _)| member == name)?;
            Some((Kind::detect(&member.1), false))
        })
    })
}

/// Returns whether a name belongs to a member of an archive, not to a file.
fn is_member(given: &LinkInputs, name: &str) -> bool {
    given.inputs.iter().chain(&given.archives).all(|input| input.name != name)
}

fn missing_entry(inputs: &[Input], entry: &str) -> Failure {
    let message = format!("the entry '{entry}' is not defined");
    let similar = similar(inputs, entry);
    let hint = match similar.as_slice() {
        [] => "name the function to call with --entry, or link without an entry by --link-all --no-exec".to_owned(),
        names => format!("similar names are defined: '{}'; name the function to call with --entry", names.join("', '")),
    };
    Failure::new(Exit::Runtime, message).or_hint(hint)
}

/// Returns up to three functions with similar names, the most similar first.
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

/// Returns the similarity of two names, from 0 to 1. The mangled symbol of a C++ function contains
/// its name.
fn likeness(name: &str, entry: &str) -> f64 {
    let mangled = format!("{}{entry}", entry.len());
    match name.starts_with("_Z") && name.contains(&mangled) {
        true => 1.0,
        false => strsim::jaro(&name.to_lowercase(), &entry.to_lowercase()),
    }
}

/// Returns the graphs of an object or of an archive's readable members.
fn graphs(input: &Input) -> Vec<LinkGraph> {
    let read = |(name, bytes): &(String, bytes::Bytes)| LinkGraph::read(name, bytes.clone()).ok();
    match StaticArchive::read_members(&input.name, &input.bytes) {
        Ok(members) => members.iter().filter_map(read).collect(),
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
