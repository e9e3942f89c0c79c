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
            let hash = FileHash::read(&plugin.path).map_err(|error| {
                let path = plugin.path.display();
                unwritable(file, format!("the plugin '{path}' cannot be read: {error}"))
            })?;
            Ok(Certificate::new(plugin, entry, &hash, options.isolated, &options.filter))
        });
        let certificate = begun.unwrap_or_else(|error| Err(unwritable(file, error)))?;
        Ok(ReportFile { file: file.to_owned(), destination, certificate })
    }

    /// Adds the results of a device, and its answers. Blocks.
    pub(super) fn add(&mut self, device: &DeviceName, results: &DeviceResults, options: &Options) {
        self.certificate.add(device, isolated::ask(options, device), results);
    }

    /// Writes the file.
    pub(super) fn write(self) -> Result<(), Failure> {
        let written = self.destination.write(self.certificate);
        written.map_err(|error| unwritable(&self.file, error))
    }
}

fn unwritable(file: &Path, why: impl Display) -> Failure {
    let message = format!("the report cannot be written to '{}': {why}", file.display());
    Failure::new(Exit::Unwritten, message)
}
