//! Facts of an opened plugin. The plugin's code runs in a process of its own, so that a crash or a
//! hang is a fact too.

use clap::Args;
use longshore_plugin_api::{abi, describe_layouts, printable, remote::RemotePlugin};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The time limit of the process, as of a probe.
const LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);
/// Most versions of a table that the process requests.
const MAX_VERSION: u32 = 8;

/// Facts of an opened plugin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OpenedFacts {
    /// The reason why a host of this version does not take the plugin.
    pub(super) refusal: Option<String>,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) vendor: String,
    pub(super) unloadable: bool,
    /// Tables that this version of Longshore knows, by name.
    pub(super) tables: BTreeMap<String, TableFacts>,
}

/// A table of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TableFacts {
    /// Versions that the plugin knows; empty for a table that it lacks.
    pub(super) versions: Vec<u32>,
    /// Functions of version 1 that are null.
    pub(super) null_functions: Vec<String>,
}

/// The process that opens a plugin, and writes its facts into a file.
#[derive(Args)]
pub(crate) struct Opener {
    /// The plugin
    file: PathBuf,
    /// The file for the facts
    facts: PathBuf,
}

impl Opener {
    pub(crate) fn execute(&self) -> ExitCode {
        let facts = open_here(&self.file);
        let written = serde_json::to_vec(&facts).map_err(std::io::Error::other);
        let written = written.and_then(|json| std::fs::write(&self.facts, json));
        ExitCode::from(u8::from(written.is_err()))
    }
}

/// Returns the facts that a process of its own reports. Blocks.
pub(super) fn open(file: &Path) -> Result<OpenedFacts, String> {
    let attempt = || -> std::io::Result<Result<OpenedFacts, String>> {
        let facts = tempfile::NamedTempFile::new()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("__abi").arg(std::path::absolute(file)?).arg(facts.path());
        // The plugin's output is no fact.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        match wait(&mut child)? {
            None => return Ok(Err(format!("it did not answer within {LIMIT:?}"))),
            Some(status) if !status.success() => return Ok(Err(ended(status))),
            Some(_) => {}
        }
        let said: Result<OpenedFacts, String> =
            serde_json::from_slice(&std::fs::read(facts.path())?)
                .unwrap_or_else(|_| Err("its process wrote no answer".to_owned()));
        Ok(said)
    };
    attempt().unwrap_or_else(|error| Err(format!("no process for it: {error}")))
}

/// Returns the exit status of the process, or `None` if it had to be killed.
fn wait(child: &mut Child) -> std::io::Result<Option<ExitStatus>> {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(PAUSE);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

fn ended(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("its process died of signal {signal}"),
        None => format!("its process ended with {status}"),
    }
}

/// Opens the plugin, and asks it for its description and tables. Connects to no driver.
fn open_here(file: &Path) -> Result<OpenedFacts, String> {
    let entry = entry_of(file)?;
    // SAFETY: the symbol of an opened library, which stays open.
    let plugin = unsafe { RemotePlugin::new(entry) };
    let refusal = plugin.as_ref().err().map(|why| why.to_string());
    let description = plugin.ok().map(|plugin| plugin.description().clone());
    let text = |text: &String| printable(text).into_owned();
    let described = description.as_ref();
    Ok(OpenedFacts {
        refusal,
        name: described.map(|it| text(&it.name)).unwrap_or_default(),
        version: described.map(|it| text(&it.version)).unwrap_or_default(),
        vendor: described.map(|it| text(&it.vendor)).unwrap_or_default(),
        unloadable: described.is_some_and(|it| it.unloadable),
        // SAFETY: as above.
        tables: unsafe { tables(&*entry) },
    })
}

fn entry_of(file: &Path) -> Result<*const abi::Entry, String> {
    let path = CString::new(file.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: opening runs the library's constructors, in a process that has no other purpose.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(format!("it cannot be opened: {}", last_error()));
    }
    // SAFETY: the library is open, and the name ends with NUL.
    let entry = unsafe { libc::dlsym(library, abi::ENTRY_SYMBOL.as_ptr().cast()) };
    let entry: *const abi::Entry = entry.cast_const().cast();
    if entry.is_null() {
        return Err("it does not export 'longshore_plugin'".to_owned());
    }
    if !entry.is_aligned() {
        return Err("its symbol 'longshore_plugin' is misaligned".to_owned());
    }
    Ok(entry)
}

fn last_error() -> String {
    // SAFETY: the text is valid until the thread's next call of these functions.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: as above; the text ends with NUL.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Asks for all tables that this version knows. An entry without the magic or with a null function
/// has none.
///
/// # Safety
/// The entry is that of an open library.
unsafe fn tables(entry: &abi::Entry) -> BTreeMap<String, TableFacts> {
    // A C entry may have a null function, which the type forbids.
    // SAFETY: the field is inside of the entry.
    let function = unsafe { (&raw const entry.table).cast::<usize>().read() };
    if entry.magic != abi::ENTRY_MAGIC || function == 0 {
        return BTreeMap::new();
    }
    let ask = |(name, functions): (String, Vec<String>)| {
        let request = |version| {
            let name = abi::Text { data: name.as_ptr(), bytes: name.len() };
            // SAFETY: the entry's function, with a name that lives during the call.
            unsafe { (entry.table)(name, version) }.table
        };
        let versions = (1..=MAX_VERSION).filter(|version| !request(*version).is_null()).collect();
        let (first, count) = (request(1).cast::<usize>(), functions.len());
        let usable = !first.is_null() && first.is_aligned();
        // SAFETY: a table of this name has these functions, one pointer each.
        let found = if usable { unsafe { std::slice::from_raw_parts(first, count) } } else { &[] };
        let null = functions.iter().zip(found).filter(|(_, function)| **function == 0);
        let null_functions = null.map(|(name, _)| name.clone()).collect();
        (name, TableFacts { versions, null_functions })
    };
    known_tables().into_iter().map(ask).collect()
}

/// Returns the tables of this version's interface, with the names of their functions.
pub(super) fn known_tables() -> Vec<(String, Vec<String>)> {
    let mut tables = Vec::<(String, Vec<String>)>::new();
    let mut is_table = false;
    for line in describe_layouts().lines() {
        if let Some(field) = line.strip_prefix(' ') {
            let name = field.trim_start().split([' ', ':']).nth(1).unwrap_or_default();
            if is_table && let Some((_, functions)) = tables.last_mut() {
                functions.push(name.to_owned());
            }
            continue;
        }
        let name = line.split(' ').next().and_then(|name| name.strip_suffix("Table"));
        is_table = name.is_some();
        tables.extend(name.map(|name| (format!("longshore.{}", name.to_lowercase()), Vec::new())));
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tables_of_the_interface_are_known() {
        let tables: BTreeMap<_, _> = known_tables().into_iter().collect();
        assert_eq!(tables.len(), 15);
        assert_eq!(
            tables["longshore.event"],
            ["is_complete", "synchronize", "elapsed_ns", "destroy"]
        );
        assert_eq!(tables["longshore.rect"], ["copy_rect"]);
        assert_eq!(tables["longshore.driver_device"], ["driver_device", "driver_context"]);
    }
}
