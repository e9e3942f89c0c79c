//! Instrumented objects, and the runtimes that they need without referring to them.

use super::failure::LinkInputs;
use super::inputs::Input;
use longshore_jitlink::Result;
use longshore_jitlink::session::{Generated, Request};
use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::archive::ArchiveFile;
use object::read::elf::FileHeader;
use std::sync::Once;

/// The symbol that pulls LLVM's profile runtime into a link, as clang passes it to a system linker.
const PROFILE_RUNTIME: &str = "__llvm_profile_runtime";
/// The section of counters that `-fprofile-instr-generate` of clang makes.
const COUNTERS: &[u8] = b"__llvm_prf_cnts";

/// Functions that code compiled with `-pg` calls. The C library defines them, but they do nothing
/// without its start files for gprof.
const CALLS_OF_PG: [&str; 3] = ["mcount", "_mcount", "__fentry__"];

/// Returns the symbols that a compiler's driver requires beyond the objects' references.
pub(super) fn runtime_symbols(given: &LinkInputs) -> &'static [&'static str] {
    if !given.inputs.iter().any(has_counters) {
        return &[];
    }
    let has_runtime = given.archives.iter().any(|archive| {
        let file = archive.name.rsplit('/').next().unwrap_or_default();
        file.starts_with("libclang_rt.profile")
    });
    if !has_runtime {
        log::warn!(
            "objects are compiled with -fprofile-instr-generate, but no runtime writes their profile: \
             add --archive \"$(clang -print-file-name=libclang_rt.profile.a)\", or libclang_rt.profile-x86_64.a if that does not exist"
        );
    }
    &[PROFILE_RUNTIME]
}

/// Warns of calls for gprof, which are linked and count nothing. Generates no definitions.
pub(super) fn warn_of_calls_without_effect(requests: &[Request<'_>]) -> Result<Vec<Generated>> {
    static WARNED: Once = Once::new();
    if let Some(call) = requests.iter().find(|request| CALLS_OF_PG.contains(&request.name)) {
        let name = call.name;
        WARNED.call_once(|| {
            log::warn!(
                "-pg has no effect: {name} is called, but no gmon.out is written; profile the program with perf record and --perf-map"
            );
        });
    }
    Ok(Vec::new())
}

/// Returns whether an object, or a member of an archive that is linked whole, has counters.
fn has_counters(input: &Input) -> bool {
    let Ok(archive) = ArchiveFile::parse(&*input.bytes) else {
        return object_has_counters(&input.bytes);
    };
    let members = archive.members().filter_map(|member| member.ok()?.data(&*input.bytes).ok());
    members.into_iter().any(object_has_counters)
}

fn object_has_counters(bytes: &[u8]) -> bool {
    let sections = || {
        let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
        header.sections(LittleEndian, bytes).ok()
    };
    sections().is_some_and(|sections| {
        sections.iter().any(|section| sections.section_name(LittleEndian, section) == Ok(COUNTERS))
    })
}
