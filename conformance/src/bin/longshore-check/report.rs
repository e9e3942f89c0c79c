//! The file of `--report`.

use crate::Options;
use crate::failure::{Exit, Failure};
use longshore_conformance::certificate::{Certificate, Destination, FileHash};
use longshore_conformance::{Behaviour, DeviceName, Outcome, Setup, endings};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A report that is written at the end of the run.
pub(super) struct ReportFile {
    file: PathBuf,
    destination: Destination,
    /// The plugin's file before the run.
    hash: FileHash,
    results: Vec<(DeviceName, Vec<(&'static Behaviour, Outcome)>)>,
}

impl ReportFile {
    /// Checks that `file` can be written, finds the plugin, and reads its hash. Fails if the
    /// devices have several plugins.
    pub(super) fn begin(
        setup: &Setup,
        devices: &[DeviceName],
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
        let plugin = setup.with_subject(&devices[0], false, |plugin, _, _| plugin.path.clone());
        let plugin = plugin.map_err(|error| unwritable(file, error))?;
        let hash = FileHash::read(&plugin).map_err(|error| {
            unwritable(file, format!("the plugin '{}' cannot be read: {error}", plugin.display()))
        })?;
        Ok(ReportFile { file: file.to_owned(), destination, hash, results: Vec::new() })
    }

    /// Adds the results of a device.
    pub(super) fn add(&mut self, device: &DeviceName, results: Vec<(&'static Behaviour, Outcome)>) {
        self.results.push((device.clone(), results));
    }

    /// Writes the file.
    pub(super) fn write(self, setup: &Setup, options: &Options) -> Result<(), Failure> {
        let mut certificate: Option<Certificate> = None;
        for (device, results) in &self.results {
            let died = |(_, outcome): &(_, Outcome)| matches!(outcome, Outcome::Failed(what) if what.starts_with(endings::DIED));
            // This process asks for images only if the plugin ended no process of a behaviour.
            let is_sound = !results.iter().any(died);
            let added = setup.with_subject(device, is_sound, |plugin, entry, images| {
                let certificate = certificate.get_or_insert_with(|| {
                    let (isolated, filter) = (options.isolated, &options.filter);
                    Certificate::new(plugin, entry, &self.hash, isolated, filter)
                });
                certificate.add(entry, &images, results);
            });
            added.map_err(|error| unwritable(&self.file, format!("{}: {error}", device.name)))?;
        }
        let certificate = certificate.expect("a run has a device");
        let written = self.destination.write(certificate);
        written.map_err(|error| unwritable(&self.file, error))
    }
}

fn unwritable(file: &Path, why: impl Display) -> Failure {
    let message = format!("the report cannot be written to '{}': {why}", file.display());
    Failure::new(Exit::Unwritten, message)
}
