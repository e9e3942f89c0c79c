//! The file of `--report`.

use crate::failure::{Exit, Failure};
use crate::{Options, isolated};
use longshore_conformance::certificate::{Certificate, Destination, DeviceResults, FileHash};
use longshore_conformance::{DeviceName, Setup};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A report that is written at the end of the run.
pub(super) struct ReportFile {
    file: PathBuf,
    destination: Destination,
    plugin: PathBuf,
    /// The plugin's file before the run.
    hash: FileHash,
    certificate: Certificate,
}

impl ReportFile {
    /// Checks that `file` can be written, finds the plugin, and reads its hash. Fails if the
    /// devices have several plugins.
    pub(super) fn begin(
        setup: &Setup,
        devices: &[DeviceName],
        options: &Options,
        file: &Path,
    ) -> Result<ReportFile, Failure> {
        let epoch = std::env::var_os("SOURCE_DATE_EPOCH");
        let destination = Destination::new(file, epoch.as_deref());
        let destination = destination.map_err(|error| unwritable(file, error))?;
        let backend = &devices[0].backend;
        if devices.iter().any(|device| device.backend != *backend) {
            let message = "a report is on one plugin: name it by --plugin";
            return Err(Failure::new(Exit::Usage, message));
        }
        let begun = setup.with_subject(&devices[0], |plugin, entry| {
            let hash = hash_of(&plugin.path).map_err(|why| unwritable(file, why))?;
            let (isolated, filter) = (options.isolated, &options.filter);
            let certificate = Certificate::new(plugin, entry, &hash, isolated, filter);
            let (file, plugin) = (file.to_owned(), plugin.path.clone());
            Ok(ReportFile { file, destination, plugin, hash, certificate })
        });
        begun.unwrap_or_else(|error| Err(unwritable(file, error)))
    }

    /// Adds the results of a device, and its answers. Blocks.
    pub(super) fn add(&mut self, device: &DeviceName, results: &DeviceResults, options: &Options) {
        self.certificate.add(device, isolated::ask(options, device), results);
    }

    /// Writes the file, unless the plugin's file has changed: then behaviours may have run with
    /// either contents.
    pub(super) fn write(self) -> Result<(), Failure> {
        let ReportFile { file, destination, plugin, hash, certificate } = self;
        let (before, now) = (hash, hash_of(&plugin).map_err(|why| unwritable(&file, why))?);
        if now != before {
            let (plugin, before, now) = (plugin.display(), before.sha256, now.sha256);
            let why = format!(
                "the plugin '{plugin}' changed during the run: its SHA-256 was {before}, and is \
                 {now}; run the suite again"
            );
            return Err(unwritable(&file, why));
        }
        destination.write(certificate).map_err(|error| unwritable(&file, error))
    }
}

fn hash_of(plugin: &Path) -> Result<FileHash, String> {
    FileHash::read(plugin)
        .map_err(|error| format!("the plugin '{}' cannot be read: {error}", plugin.display()))
}

fn unwritable(file: &Path, why: impl Display) -> Failure {
    let message = format!("the report cannot be written to '{}': {why}", file.display());
    Failure::new(Exit::Unwritten, message)
}
