//! The user's settings of the backend: `LONGSHORE_MPI_<NAME>`.

use std::path::PathBuf;
use std::time::Duration;

use longshore_plugin_api::{Error, ErrorCode, Result};

/// The settings. A node reads the same ones from its environment.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `LONGSHORE_MPI_LIBRARY`: the file of the MPI library.
    pub library: Option<PathBuf>,
    /// `LONGSHORE_MPI_PROGRAMS`: number of ranks of the program, before the ranks of nodes.
    pub programs: Option<i32>,
    /// `LONGSHORE_MPI_SPAWN`: number of nodes that this process starts for itself.
    pub spawn: Option<usize>,
    /// `LONGSHORE_MPI_NODE`: the executable of nodes that are started so.
    pub node: Option<PathBuf>,
    /// `LONGSHORE_MPI_TIME_LIMIT`: time after which a silent process is lost.
    pub limit: Duration,
    /// `LONGSHORE_MPI_CONNECT_TIME_LIMIT`: time for all nodes to be ready.
    pub connect_limit: Duration,
    /// `LONGSHORE_MPI_SPIN`: time after a message for which a process polls without sleeping.
    pub spin: Duration,
    /// `LONGSHORE_MPI_BELLS`: whether this process and others of its machine wake each other.
    pub bells: bool,
    /// `LONGSHORE_MPI_JOINED_FILE`: a file to create once MPI is initialized.
    pub joined_file: Option<PathBuf>,
    /// Whether this process only tries the plugin, for the process that will use it.
    pub is_probe: bool,
}

/// The setting by which a node keeps its own MPI backend from joining nodes.
pub const IS_NODE: &str = "is_node";
/// The setting by which a host marks the process that tries a plugin.
const IS_PROBE: &str = "is_probe";

impl Settings {
    /// Reads the settings.
    ///
    /// # Errors
    /// `InvalidValue` for a value that cannot be parsed.
    pub fn read(setting: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let number = |name: &str, most: u64| match setting(name) {
            None => Ok(None),
            Some(text) => match text.trim().parse::<u64>() {
                Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
                _ => Err(wrong(name, &text, &format!("a number from 1 to {most}"))),
            },
        };
        let seconds = |name: &str, otherwise: u64| match setting(name) {
            None => Ok(Duration::from_secs(otherwise)),
            Some(text) => match text.trim().trim_end_matches('s').parse::<f64>() {
                Ok(time) if (0.1..=86_400.0).contains(&time) => Ok(Duration::from_secs_f64(time)),
                _ => Err(wrong(name, &text, "seconds, from 0.1 to 86400")),
            },
        };
        Ok(Self {
            library: setting("library").map(PathBuf::from),
            joined_file: setting("joined_file").map(PathBuf::from),
            is_probe: setting(IS_PROBE).is_some(),
            programs: number("programs", 1 << 20)?.map(|number| number as i32),
            spawn: number("spawn", 1 << 20)?.map(|number| number as usize),
            node: setting("node").map(PathBuf::from),
            limit: seconds("time_limit", 10)?,
            connect_limit: seconds("connect_time_limit", 30)?,
            bells: match setting("bells").as_deref().map(str::trim) {
                None | Some("1") => true,
                Some("0") => false,
                Some(text) => return Err(wrong("bells", text, "0 or 1")),
            },
            spin: match setting("spin") {
                None => Duration::from_micros(200),
                Some(text) => match text.trim().parse::<u64>() {
                    Ok(time) if time <= 1_000_000_000 => Duration::from_micros(time),
                    _ => return Err(wrong("spin", &text, "microseconds, at most 1000000000")),
                },
            },
        })
    }
}

fn wrong(name: &str, text: &str, expected: &str) -> Error {
    let name = name.to_uppercase();
    let message = format!("LONGSHORE_MPI_{name} is '{text}', expected {expected}");
    Error::new(ErrorCode::InvalidValue, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_value_is_refused_with_the_permitted_ones() {
        let read = |name: &'static str, value: &'static str| {
            Settings::read(move |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(read("time_limit", "2.5").unwrap().limit, Duration::from_millis(2500));
        assert_eq!(read("programs", "4").unwrap().programs, Some(4));
        for (name, value) in
            [("programs", "0"), ("time_limit", "x"), ("spin", "-1"), ("bells", "x")]
        {
            let error = read(name, value).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidValue);
            let expected = format!("LONGSHORE_MPI_{} is '{value}'", name.to_uppercase());
            assert!(error.message().contains(&expected), "{error}");
        }
    }
}
