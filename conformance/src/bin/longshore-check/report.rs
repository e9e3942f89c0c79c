//! The file of `--report`.

use crate::Options;
use crate::failure::{Exit, Failure};
use longshore_conformance::certificate::{Certificate, FileHash};
use longshore_conformance::{Behaviour, DeviceName, Outcome, Setup, endings};
use std::path::{Path, PathBuf};

/// A report that is written at the end of the run.
pub(super) struct ReportFile {
    file: PathBuf,
    /// The plugin's file before the run.
    hash: FileHash,
    results: Vec<(DeviceName, Vec<(&'static Behaviour, Outcome)>)>,
}

impl ReportFile {
    /// Finds the plugin and reads its hash. Fails if the file could not be written, or if the
    /// devices have several plugins.
    pub(super) fn begin(
        setup: &Setup,
        devices: &[DeviceName],
        file: &Path,
    ) -> Result<ReportFile, Failure> {
        let unusable = |message| Failure::new(Exit::Usage, message);
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) || file.is_dir() {
            let message = format!("the report cannot be written to '{}'", file.display());
            return Err(unusable(message));
        }
        let backend = &devices[0].backend;
        if devices.iter().any(|device| device.backend != *backend) {
            return Err(unusable("a report is on one plugin: name it by --plugin".to_owned()));
        }
        let plugin = setup.with_subject(&devices[0], false, |plugin, _, _| plugin.path.clone());
        let plugin = plugin.map_err(|error| unusable(error.to_string()))?;
        let hash = FileHash::read(&plugin).map_err(|error| {
            unusable(format!("the plugin '{}' cannot be read: {error}", plugin.display()))
        })?;
        Ok(ReportFile { file: file.to_owned(), hash, results: Vec::new() })
    }

    /// Adds the results of a device.
    pub(super) fn add(&mut self, device: &DeviceName, results: Vec<(&'static Behaviour, Outcome)>) {
        self.results.push((device.clone(), results));
    }

    /// Writes the file.
    pub(super) fn write(self, setup: &Setup, options: &Options) -> Result<(), Failure> {
        let unwritten = |message| Failure::new(Exit::Unwritten, message);
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
            added.map_err(|error| unwritten(format!("{}: {error}", device.name)))?;
        }
        let certificate = certificate.ok_or_else(|| unwritten("there is no device".to_owned()))?;
        let epoch = std::env::var("SOURCE_DATE_EPOCH").ok();
        certificate.write(&self.file, epoch.as_deref()).map_err(|error| {
            unwritten(format!("the report cannot be written to '{}': {error}", self.file.display()))
        })
    }
}
