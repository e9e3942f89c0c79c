//! Images as files, and the commands that make them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// An image, and the commands that make it one after the other.
pub(crate) struct Image {
    /// The name of the format in plugins' lists of formats.
    pub(crate) format: &'static str,
    pub(crate) file: PathBuf,
    pub(crate) commands: Vec<Command>,
    /// Whether the image is left out after a failed command; otherwise the build fails.
    pub(crate) is_optional: bool,
}

impl Image {
    pub(crate) fn new(format: &'static str, file: PathBuf, commands: Vec<Command>) -> Image {
        Image { format, file, commands, is_optional: false }
    }

    /// Returns the file's name up to the first dot.
    pub(crate) fn name(&self) -> &str {
        let name = self.file.file_name().and_then(|name| name.to_str()).expect("ours is UTF-8");
        name.split('.').next().expect("there is a first part")
    }

    fn make(&mut self) -> Result<(), String> {
        self.commands.iter_mut().try_for_each(run)
    }
}

/// Makes images in parallel. Returns the finished ones in the same order.
pub(crate) fn make(mut images: Vec<Image>) -> Vec<Image> {
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let rest = Mutex::new(images.iter_mut());
    let next = || rest.lock().expect("no holder panics").next();
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(image) = next() {
                    match image.make() {
                        Err(_) if image.is_optional => drop(fs::remove_file(&image.file)),
                        made => made.unwrap_or_else(|why| panic!("{why}")),
                    }
                }
            });
        }
    });
    images.retain(|image| image.file.is_file());
    images
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&said)))
}

/// Returns whether all tools are installed; if not, warns that the format is not tested.
pub(crate) fn are_installed(format: &str, tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| on_path(tool).is_none());
    if let Some(tool) = missing {
        println!("cargo::warning={format} is not tested: {tool} is not installed");
    }
    missing.is_none()
}

/// Returns the path of a tool.
pub(crate) fn on_path(tool: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).map(|folder| folder.join(tool)).find(|path| path.is_file())
}

/// Returns the files of a folder with an extension, sorted.
pub(crate) fn sources(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("a readable folder").path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}

/// Returns the path of a source's image.
pub(crate) fn place(folder: &Path, source: &Path, extension: &str) -> PathBuf {
    folder.join(source.file_stem().expect("a source has a name")).with_extension(extension)
}
