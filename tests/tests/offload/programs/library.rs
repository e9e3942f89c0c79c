//! The library itself: its exports, its name, and the dependencies of the library and of plugins.

use super::compile::{self, Linked};
use super::{TrialResult, not_tried, trial};
use libtest_mimic::{Completion, Failed, Trial};
use longshore_tests::vulkan;
use longshore_tests::world::root;
use object::LittleEndian;
use object::elf::{DT_NEEDED, DT_SONAME, DynamicTag, FileHeader64};
use object::read::elf::{Dyn, FileHeader, Sym};
use std::collections::BTreeSet;
use std::path::Path;

/// The library name in programs that were linked with LLVM's library.
const SONAME: &str = "libLLVMOffload.so.23.1";
const VERSION: &str = "VERS1.0";
/// Number of exported functions: from LLVM 23.1, six from LLVM 20 and 21, and their twins.
const FUNCTIONS: usize = 94;
/// Libraries on every Linux system with GCC's runtime.
const OF_THE_SYSTEM: [&str; 6] =
    ["libc.so", "libgcc_s.so", "libm.so", "libdl.so", "libpthread.so", "ld-linux-"];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("the library exports LLVM's functions and nothing else".to_owned(), exports),
        trial("the library has LLVM's name and needs what systems have".to_owned(), needs),
        trial("nothing of the Vulkan plugin ends before static destructors".to_owned(), endures),
    ]
}

/// The dynamic section of a library.
struct Dynamic {
    soname: String,
    needed: Vec<String>,
    /// Names and versions of defined symbols; symbols for versions themselves have no version.
    exports: Vec<(String, Option<String>)>,
    /// Names of undefined symbols.
    imports: Vec<String>,
}

fn dynamic(file: &Path) -> Result<Dynamic, Failed> {
    let bytes = std::fs::read(file)?;
    let (data, endian) = (&*bytes, LittleEndian);
    let sections = FileHeader64::<LittleEndian>::parse(data)?.sections(endian, data)?;
    let (entries, strings) = sections.dynamic(endian, data)?.ok_or("it is not dynamic")?;
    let strings = sections.strings(endian, data, strings)?;
    let text = |at: u32| strings.get(at).map(|text| String::from_utf8_lossy(text).into_owned());
    let values = |tag: DynamicTag| {
        let found = entries.iter().filter(move |entry| entry.tag(endian) == tag);
        found.filter_map(|entry| entry.val32(endian)).filter_map(|at| text(at).ok())
    };
    let symbols = sections.symbols(endian, data, object::elf::SHT_DYNSYM)?;
    let versions = sections.versions(endian, data)?;
    let (mut exports, mut imports) = (Vec::new(), Vec::new());
    for (index, symbol) in symbols.enumerate().filter(|(_, symbol)| symbol.st_name(endian) != 0) {
        let name = String::from_utf8_lossy(symbols.symbol_name(endian, symbol)?).into_owned();
        if symbol.is_undefined(endian) {
            imports.push(name);
            continue;
        }
        let version = match &versions {
            Some(versions) => versions.version(versions.version_index(endian, index).into())?,
            None => None,
        };
        let version = version.map(|version| String::from_utf8_lossy(version.name()).into_owned());
        exports.push((name, version));
    }
    Ok(Dynamic {
        soname: values(DT_SONAME).next().unwrap_or_default(),
        needed: values(DT_NEEDED).collect(),
        exports,
        imports,
    })
}

fn exports() -> TrialResult {
    let exports = dynamic(&compile::library(Linked::Shared)?)?.exports;
    let is_version = |name: &str| name == VERSION;
    let wrong: Vec<_> = exports
        .iter()
        .filter(|(name, version)| !is_version(name) && version.as_deref() != Some(VERSION))
        .collect();
    if !wrong.is_empty() {
        return Err(format!("not of {VERSION}: {wrong:?}").into());
    }
    let found: BTreeSet<_> =
        exports.iter().map(|(name, _)| name.clone()).filter(|name| !is_version(name)).collect();
    let expected = declared()?;
    match found == expected && found.len() == FUNCTIONS {
        true => Ok(Completion::Completed),
        false => {
            let different: Vec<_> = found.symmetric_difference(&expected).collect();
            Err(format!("{} functions; different from the header: {different:?}", found.len())
                .into())
        }
    }
}

/// Returns the functions that the header declares.
fn declared() -> Result<BTreeSet<String>, Failed> {
    let header = std::fs::read_to_string(root().join("capi/include/OffloadAPI.h"))?;
    let declared = header.lines().filter_map(|line| {
        let rest = line.strip_prefix("OL_APIEXPORT ol_result_t OL_APICALL ")?;
        Some(rest.split('(').next()?.to_owned())
    });
    Ok(declared.collect())
}

fn needs() -> TrialResult {
    let Dynamic { soname, needed, .. } = dynamic(&compile::library(Linked::Shared)?)?;
    if soname != SONAME {
        return Err(format!("it is called {soname}").into());
    }
    let is_known = |name: &String| OF_THE_SYSTEM.iter().any(|known| name.starts_with(known));
    match needed.iter().find(|name| !is_known(name)) {
        None => Ok(Completion::Completed),
        Some(other) => Err(format!("it needs {other}").into()),
    }
}

/// Checks that the Vulkan plugin registers no destructors with `__cxa_atexit`. The destructors of
/// its SPIRV-Tools would free tables that a later load of a program still reads.
fn endures() -> TrialResult {
    let Some(plugin) = vulkan::plugin() else { return not_tried("the plugin is not built") };
    match dynamic(&plugin)?.imports.iter().any(|name| name == "__cxa_atexit") {
        false => Ok(Completion::Completed),
        true => Err("it registers destructors by __cxa_atexit".into()),
    }
}
