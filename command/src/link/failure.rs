//! Why a link failed, and what to do about it.

use super::inputs::Input;
use super::kind::Kind;
use super::names::explained;
use super::undefined;
use crate::failure::{Exit, Failure};
use longshore_jitlink::arch::Fault;
use longshore_jitlink::graph::{Definition, LinkGraph, Scope};
use longshore_jitlink::session::StaticArchive;
use longshore_jitlink::{Architecture, Error, Undefined};

/// An error of which the inputs are known to whoever has it.
pub(super) struct LinkFailure(Error);

impl From<Error> for LinkFailure {
    fn from(error: Error) -> LinkFailure {
        LinkFailure(error)
    }
}

/// What was to be linked.
pub(super) struct Given {
    pub(super) inputs: Vec<Input>,
    pub(super) archives: Vec<Input>,
    pub(super) architecture: Architecture,
    pub(super) entry: String,
    /// Whether bitcode is compiled.
    pub(super) lazy: bool,
}

impl LinkFailure {
    /// Says what may have been meant.
    pub(super) fn explain(self, given: &Given) -> Failure {
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
            "a FILE is a relocatable object, as `cc -c` makes it, or a static archive of them"
        }
        Error::Duplicate { .. } => {
            "leave one of them out; members of an --archive are linked only when they are needed"
        }
        Error::Relocation(relocation) => match relocation.fault {
            Fault::OutOfRange { .. } => {
                "compile with -fPIC, or choose addresses that are closer to each other"
            }
            _ => return None,
        },
        Error::Memory { name, .. } if name.starts_with("static thread-local storage") => {
            "compile with -fPIC, then thread-local variables need no fixed offset from the thread pointer"
        }
        Error::Memory { name, .. } if name.contains("thread-local") => return None,
        Error::Memory { .. } => "--slab-allocate and --slab-address choose other addresses",
        _ => return None,
    })
}

/// For a file that is something else than it was given as.
fn unsuitable(given: &Given, file: &str) -> Option<Failure> {
    let (kind, is_archive) = kind_of(given, file)?;
    let expected = if is_archive { "a static archive" } else { "a relocatable object" };
    let (problem, hint) = match kind {
        Kind::Object(_) if is_archive => (
            format!("it is an object, expected {expected}"),
            format!("give '{file}' as a FILE, without --archive"),
        ),
        Kind::Object(other) if other != given.architecture => (
            format!("it is for {}, others for {}", other.triple(), given.architecture.triple()),
            "all that is linked must be for one architecture, that of the first FILE".to_owned(),
        ),
        Kind::SharedLibrary(_) => (
            format!("it is a shared library, expected {expected}"),
            match file.contains('/') {
                true => format!("--dylib {file} opens it"),
                false => format!("--dylib ./{file} opens it"),
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
            format!("give what it names instead: {}", files.join(" ")),
        ),
        Kind::Bitcode if is_member(given, file) => (
            "it is LLVM bitcode, expected machine code".to_owned(),
            "compile without -flto, or take it out of the archive and give it as a FILE, with --lazy: FILEs alone are \
             compiled"
                .to_owned(),
        ),
        Kind::Bitcode if is_archive || !given.lazy => (
            "it is LLVM bitcode, expected machine code".to_owned(),
            "compile without -flto, or have it compiled as it is called: give it as a FILE, and --lazy".to_owned(),
        ),
        Kind::AssemblyText => (
            "it is LLVM's assembly text, expected machine code".to_owned(),
            "have it compiled as it is called: give it as a FILE, and --lazy".to_owned(),
        ),
        Kind::Other if is_archive => (
            format!("it is not {expected}"),
            "an --archive is what `ar` makes of relocatable objects".to_owned(),
        ),
        Kind::Object(_) | Kind::Archive | Kind::Bitcode | Kind::Other => return None,
    };
    Some(Failure::new(Exit::Runtime, format!("{file}: {problem}")).or_hint(hint))
}

/// What a file, or a member of one, is, and whether it was given as an archive.
fn kind_of(given: &Given, name: &str) -> Option<(Kind, bool)> {
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

/// Returns whether a name is not that of a file, but of a part of one.
fn is_member(given: &Given, name: &str) -> bool {
    given.inputs.iter().chain(&given.archives).all(|input| input.name != name)
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

/// Returns the functions whose names are most like this one, the likest first.
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

/// Returns the graphs of an object or of the members of an archive, as far as they can be read.
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
