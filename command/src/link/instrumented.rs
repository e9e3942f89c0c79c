//! Objects that a compiler has instrumented: runtimes that they need though nothing refers to these.

use super::failure::Given;
use super::inputs::Input;
use longshore_jitlink::Result;
use longshore_jitlink::session::{Generated, Request};
use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::archive::ArchiveFile;
use object::read::elf::FileHeader;
use std::sync::Once;

/// The symbol by which LLVM's profile runtime is linked, as clang tells a system linker.
const PROFILE_RUNTIME: &str = "__llvm_profile_runtime";
/// The section of counters that clang's `-fprofile-instr-generate` makes.
const COUNTERS: &[u8] = b"__llvm_prf_cnts";

/// Functions that code compiled with `-pg` calls. The C library has them; without its start files they do nothing.
const CALLS_OF_PG: [&str; 3] = ["mcount", "_mcount", "__fentry__"];

/// Returns the symbols that a compiler's driver asks for beside those that objects refer to.
pub(super) fn runtime_symbols(given: &Given) -> &'static [&'static str] {
    if !given.inputs.iter().any(has_counters) {
        return &[];
    }
    let has_runtime = given.archives.iter().any(|archive| {
        let file = archive.name.rsplit('/').next().unwrap_or_default();
        file.starts_with("libclang_rt.profile")
    });
    if !has_runtime {
        log::warn!(
            "objects are compiled with -fprofile-instr-generate, and nothing writes their profile: \
             --archive \"$(clang -print-file-name=libclang_rt.profile.a)\" does, or libclang_rt.profile-x86_64.a in its place"
        );
    }
    &[PROFILE_RUNTIME]
}

/// Warns of calls for gprof, which are linked and count nothing. It defines nothing.
pub(super) fn warn_of_calls_without_effect(requests: &[Request<'_>]) -> Result<Vec<Generated>> {
    static WARNED: Once = Once::new();
    if let Some(call) = requests.iter().find(|request| CALLS_OF_PG.contains(&request.name)) {
        let name = call.name;
        WARNED.call_once(|| {
            log::warn!(
                "-pg has no effect: {name} is called, and no gmon.out is written; perf record profiles the program with --perf-map"
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
