//! Settings that a test makes before it loads the double.

use std::collections::HashMap;

/// Settings of the form `name=value;name=value`.
#[derive(Clone, Debug, Default)]
pub struct Settings(HashMap<String, String>);

impl Settings {
    /// Reads an environment variable; without it, nothing is set.
    pub fn from_environment(variable: &str) -> Settings {
        Settings::parse(&std::env::var(variable).unwrap_or_default())
    }

    /// Parses settings. The last of several settings with one name counts.
    pub fn parse(text: &str) -> Settings {
        let parts = text.split(';').filter(|part| !part.trim().is_empty());
        let pairs = parts.map(|part| part.split_once('=').unwrap_or((part, "1")));
        Settings(pairs.map(|(name, value)| (name.trim().into(), value.trim().into())).collect())
    }

    /// Returns a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a setting as a number, or `default` without the setting.
    ///
    /// # Panics
    /// If the setting is not a number, as a test relies on its settings.
    pub fn number(&self, name: &str, default: u64) -> u64 {
        let Some(text) = self.get(name) else { return default };
        parse_bytes(text).unwrap_or_else(|| panic!("'{name}={text}': expected a number"))
    }

    /// Returns whether a feature is present. It is, unless the setting is 0.
    pub fn has(&self, name: &str) -> bool {
        self.number(name, 1) != 0
    }

    /// Returns a setting such as "9.0" as two numbers.
    ///
    /// # Panics
    /// If the setting is not a version.
    pub fn version(&self, name: &str, default: (u32, u32)) -> (u32, u32) {
        let Some(text) = self.get(name) else { return default };
        let parts = text.split_once('.').unwrap_or((text, "0"));
        let numbers = parts.0.parse().ok().zip(parts.1.parse().ok());
        numbers.unwrap_or_else(|| panic!("'{name}={text}': expected a version"))
    }

    /// Returns the values of a setting, which commas separate.
    pub fn list(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = self.get(name).unwrap_or_default().split(',');
        values.map(str::trim).filter(|value| !value.is_empty())
    }
}

/// Parses a size such as "4G", "16M", "64K" or "1000".
fn parse_bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'T' => (&text[..text.len() - 1], 1 << 40),
        b'G' => (&text[..text.len() - 1], 1 << 30),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        b'K' => (&text[..text.len() - 1], 1 << 10),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_by_their_names() {
        let settings = Settings::parse("memory=4G; capability=8.6;pools=0;missing=a, b;;quiet");
        assert_eq!(settings.number("memory", 1), 4 << 30);
        assert_eq!(settings.version("capability", (9, 0)), (8, 6));
        assert!(!settings.has("pools") && settings.has("managed"));
        assert_eq!(settings.list("missing").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(settings.get("quiet"), Some("1"));
        assert_eq!(settings.number("devices", 1), 1);
    }
}
