//! The characters of a terminal, by the user's locale.

/// Returns whether the locale's characters are UTF-8. The default locale is "C", which has only
/// ASCII.
pub(crate) fn is_utf8() -> bool {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter();
    let locale =
        variables.filter_map(|name| std::env::var(name).ok()).find(|text| !text.is_empty());
    locale.is_some_and(|name| has_utf8(&name))
}

/// Returns whether the charset in a locale's name, such as "de_DE.UTF-8@euro", is UTF-8.
fn has_utf8(name: &str) -> bool {
    let Some((_, charset)) = name.split_once('.') else { return false };
    let charset = charset.split('@').next().unwrap_or_default().replace('-', "");
    charset.eq_ignore_ascii_case("utf8")
}

#[cfg(test)]
mod tests {
    use super::has_utf8;

    #[test]
    fn the_charset_of_a_locale_is_behind_its_point() {
        for name in ["C.UTF-8", "en_US.utf8", "de_DE.UTF-8@euro"] {
            assert!(has_utf8(name), "{name}");
        }
        for name in ["C", "POSIX", "en_US", "de_DE.ISO-8859-15@euro", "utf8"] {
            assert!(!has_utf8(name), "{name}");
        }
    }
}
