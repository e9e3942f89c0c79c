//! Parsing of the user's settings.

use longshore_plugin_api::{Error, ErrorCode, Result};
use std::ops::RangeInclusive;

/// The user's settings, each a variable of the environment whose name begins with `prefix`.
pub struct SettingReader<F> {
    /// The prefix of the names, such as "LONGSHORE_CUDA_".
    pub prefix: &'static str,
    /// A function that returns the value of a setting, if the user has set it.
    pub setting: F,
}

impl<F: Fn(&str) -> Option<String>> SettingReader<F> {
    /// Returns the number in a setting; `None` if the setting is not set.
    ///
    /// # Errors
    /// `InvalidValue` for a value that is not a number in `range`.
    pub fn number(&self, name: &str, range: RangeInclusive<usize>) -> Result<Option<usize>> {
        let Some(text) = (self.setting)(name) else { return Ok(None) };
        let number = text.trim().parse().ok().filter(|number| range.contains(number));
        number.map(Some).ok_or_else(|| {
            let (prefix, least, most) = (self.prefix, range.start(), range.end());
            let expected = match *most {
                usize::MAX => format!("a number of at least {least}"),
                most => format!("a number from {least} to {most}"),
            };
            let message = format!("{prefix}{name} is '{text}', expected {expected}");
            Error::new(ErrorCode::InvalidValue, message)
        })
    }
}
