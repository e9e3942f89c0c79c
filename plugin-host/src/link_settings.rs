//! The settings of links: allowed names, and reports to debuggers and profilers.

use crate::AllowedNames;
use crate::execute::listed;
use longshore_jitlink::debug::{DebugOptions, DebugSupport};
use longshore_plugin_api::{Error, ErrorCode, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// The settings that all images of a platform share. Cloning is cheap.
#[derive(Clone, Default)]
pub struct LinkSettings {
    pub(crate) allowed: Arc<AllowedNames>,
    /// The reporter of linked code to debuggers and profilers, if the user wants one.
    pub(crate) debug: Option<Arc<DebugSupport>>,
}

impl LinkSettings {
    /// Returns settings without reports.
    pub fn new(allowed: AllowedNames) -> LinkSettings {
        LinkSettings { allowed: Arc::new(allowed), debug: None }
    }

    /// Returns the settings for the values of `SYMBOLS` and `DEBUG`. Creates the files that the
    /// reports need.
    ///
    /// # Errors
    /// `InvalidValue` for a malformed value, `HostIo` for a file that cannot be created.
    pub(crate) fn parse(symbols: Option<&str>, debug: Option<&str>) -> Result<LinkSettings> {
        let settings = LinkSettings::new(AllowedNames::parse(symbols)?);
        let options = debug.map(receivers).transpose()?.unwrap_or_default();
        if options == DebugOptions::default() {
            return Ok(settings);
        }
        if options.gdb {
            listed::enable();
        }
        let debug = DebugSupport::new(options).map_err(|error| {
            Error::new(ErrorCode::HostIo, format!("LONGSHORE_HOST_DEBUG: {error}"))
        })?;
        if let Some(file) = debug.jitdump() {
            log::info!("functions of images are in the jitdump '{}'", file.display());
        }
        Ok(LinkSettings { debug: Some(Arc::new(debug)), ..settings })
    }
}

/// Returns the receivers of reports that a value of `DEBUG` lists.
fn receivers(value: &str) -> Result<DebugOptions> {
    let mut options = DebugOptions::default();
    if value.trim() == "0" {
        return Ok(options);
    }
    for word in value.split(',') {
        match word.trim().split_once('=') {
            None if word.trim() == "gdb" => options.gdb = true,
            None if word.trim() == "perf" => options.perf_map = true,
            None if word.trim() == "jitdump" => options.jitdump = Some(PathBuf::from(".")),
            Some(("jitdump", folder)) if !folder.is_empty() => {
                options.jitdump = Some(PathBuf::from(folder));
            }
            _ => {
                let message = format!(
                    "LONGSHORE_HOST_DEBUG is '{value}', expected a list of gdb, perf, jitdump and \
                     jitdump=FOLDER"
                );
                return Err(Error::new(ErrorCode::InvalidValue, message));
            }
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_lists_the_receivers_of_reports() {
        let (gdb, perf_map) = (true, true);
        let folder = |name| Some(PathBuf::from(name));
        let none = DebugOptions::default();
        assert_eq!(receivers("0"), Ok(none.clone()));
        assert_eq!(receivers("gdb"), Ok(DebugOptions { gdb, ..none.clone() }));
        let all = DebugOptions { gdb, perf_map, jitdump: folder("/var/tmp") };
        assert_eq!(receivers("perf, gdb,jitdump=/var/tmp"), Ok(all));
        assert_eq!(receivers("jitdump"), Ok(DebugOptions { jitdump: folder("."), ..none }));
        for wrong in ["", "lldb", "gdb,", "gdb=1", "jitdump=", "1"] {
            let error = receivers(wrong).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidValue);
            assert!(error.message().contains(&format!("'{wrong}'")), "{error}");
        }
    }
}
