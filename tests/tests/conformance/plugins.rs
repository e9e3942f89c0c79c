//! Plugins for the suite.

use longshore_tests::world;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable with the only plugin for the suite.
pub(crate) const ONLY: &str = "LONGSHORE_TEST_PLUGIN";

/// Returns the plugin of the user; otherwise the plugins of the target folder, and the sample
/// plugin if there is a C compiler.
pub(crate) fn all() -> impl Iterator<Item = PathBuf> {
    let plugins = match std::env::var_os(ONLY) {
        Some(plugin) => vec![plugin.into()],
        None => built().into_iter().chain(sample()).collect(),
    };
    plugins.into_iter()
}

/// Returns the backend in the file name of a plugin.
pub(crate) fn backend_of(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix("liblongshore_plugin_")?.strip_suffix(".so")
}

/// Returns the plugins in the folder of the CPU's plugin, which is built if it is missing.
fn built() -> Vec<PathBuf> {
    let cpu_plugin = world::host_plugin();
    let folder = cpu_plugin.parent().expect("a file is in a folder");
    let files = std::fs::read_dir(folder).expect("the target folder is readable");
    let paths = files.filter_map(|file| file.ok().map(|file| file.path()));
    let mut plugins: Vec<_> = paths.filter(|path| backend_of(path).is_some()).collect();
    plugins.sort();
    plugins
}

/// Compiles the sample plugin, unless it is newer than its sources. Returns `None` without a C
/// compiler.
fn sample() -> Option<PathBuf> {
    let root = world::root();
    let plugin = Path::new(env!("CARGO_TARGET_TMPDIR")).join("liblongshore_plugin_sample.so");
    let include = root.join("plugin-api/include");
    let sources = [files(&root.join("examples/plugin-c")), files(&include)].concat();
    if is_newer(&plugin, &sources) {
        return Some(plugin);
    }
    // Several of these programs may run at once: each compiles to a file of its own, and renames
    // the complete file.
    let made = plugin.with_extension(std::process::id().to_string());
    let mut compiler = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-std=c99", "-O1", "-g", "-fPIC", "-shared", "-fvisibility=hidden"]);
    compiler.arg("-pthread").arg("-I").arg(include).arg("-o").arg(&made);
    compiler.args(sources.iter().filter(|path| path.extension().is_some_and(|name| name == "c")));
    match compiler.status() {
        Ok(status) => assert!(status.success(), "compiling the sample plugin failed: {status}"),
        Err(error) => {
            eprintln!("the sample plugin is left out: no C compiler: {error}");
            return None;
        }
    }
    std::fs::rename(made, &plugin).expect("both are in one folder");
    Some(plugin)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).expect("a folder of the sources");
    files.filter_map(|file| file.ok().map(|file| file.path())).collect()
}

fn is_newer(made: &Path, sources: &[PathBuf]) -> bool {
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(made) = modified(made) else { return false };
    sources.iter().all(|source| modified(source).is_some_and(|source| source < made))
}
