//! The setting `CHECK`: the kinds of errors to look for.

use longshore_plugin_api::{Error, ErrorCode, Result};

/// The kinds of errors to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) memory: bool,
    pub(crate) races: bool,
    pub(crate) initialized: bool,
    pub(crate) barriers: bool,
}

impl Kinds {
    const NONE: Kinds = Kinds { memory: false, races: false, initialized: false, barriers: false };
    const ALL: Kinds = Kinds { memory: true, races: true, initialized: true, barriers: true };

    /// Reads the setting `CHECK`; `None` if nothing is to be checked.
    ///
    /// # Errors
    /// `InvalidValue` for an unknown name.
    pub(crate) fn parse(setting: Option<&str>) -> Result<Option<Kinds>> {
        let Some(text) = setting.filter(|text| !matches!(*text, "0" | "off")) else {
            return Ok(None);
        };
        let mut kinds = Kinds::NONE;
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            match name {
                "all" | "1" => kinds = Kinds::ALL,
                "memory" => kinds.memory = true,
                "races" => kinds.races = true,
                "initialized" => kinds.initialized = true,
                "barriers" => kinds.barriers = true,
                other => {
                    let message = format!(
                        "LONGSHORE_HOST_CHECK has '{other}', expected all, or memory, races, \
                         initialized and barriers separated by commas"
                    );
                    return Err(Error::new(ErrorCode::InvalidValue, message));
                }
            }
        }
        Ok((kinds != Kinds::NONE).then_some(kinds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_names_kinds_of_errors() {
        assert_eq!(Kinds::parse(None), Ok(None));
        assert_eq!(Kinds::parse(Some("0")), Ok(None));
        assert_eq!(Kinds::parse(Some("all")), Ok(Some(Kinds::ALL)));
        let some = Kinds { races: true, barriers: true, ..Kinds::NONE };
        assert_eq!(Kinds::parse(Some("races, barriers")), Ok(Some(some)));
        let error = Kinds::parse(Some("race")).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidValue);
        assert!(error.message().contains("'race'"), "{error}");
    }
}
