//! The values of options of `longshore link`.

use std::path::PathBuf;

/// A symbol at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Absolute {
    pub(super) name: String,
    pub(super) address: u64,
}

/// Another name of a symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alias {
    pub(super) name: String,
    pub(super) symbol: String,
}

/// A section with a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SectionFile {
    pub(super) name: String,
    pub(super) file: PathBuf,
    /// Names of symbols, with their offsets in bytes.
    pub(super) symbols: Vec<(String, u64)>,
}

/// Parses a number, such as "4096" or "0x1000".
pub(super) fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| format!("'{text}' is not a number: {error}; expected decimal digits, or hexadecimal ones after 0x"))
}

/// Parses a size in bytes, such as "4096", "100Kb" or "1Gb".
pub(super) fn size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let units = [("kb", 1 << 10), ("mb", 1 << 20), ("gb", 1 << 30)];
    let unit = units.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?, *bytes)));
    let (count, bytes) = unit.unwrap_or((&lower, 1));
    number(count)?
        .checked_mul(bytes)
        .ok_or_else(|| format!("'{text}' is too large; expected less than 2^64 bytes"))
}

/// Parses "NAME=ADDRESS".
pub(super) fn absolute(text: &str) -> Result<Absolute, String> {
    let (name, address) = definition(text)?;
    Ok(Absolute { name, address: number(address)? })
}

/// Parses "NAME=SYMBOL".
pub(super) fn alias(text: &str) -> Result<Alias, String> {
    let (name, symbol) = definition(text)?;
    if symbol.is_empty() {
        return Err(format!("'{text}' has no symbol after '='; expected NAME=SYMBOL"));
    }
    Ok(Alias { name, symbol: symbol.to_owned() })
}

/// Splits aliases into wrapped symbols and other aliases. `f=__wrap_f` and `__real_f=f` together
/// wrap `f`: as plain aliases, `__real_f` would be the wrapper, and not the function behind it.
pub(super) fn wrapped(aliases: &[Alias]) -> (Vec<&str>, Vec<&Alias>) {
    let has = |name: &str, symbol: &str| {
        aliases.iter().any(|alias| alias.name == name && alias.symbol == symbol)
    };
    let is_wrapped = |symbol: &str| {
        has(symbol, &format!("__wrap_{symbol}")) && has(&format!("__real_{symbol}"), symbol)
    };
    let wrapped = |alias: &Alias| match alias.name.strip_prefix("__real_") {
        Some(symbol) => symbol == alias.symbol && is_wrapped(symbol),
        None => is_wrapped(&alias.name),
    };
    let (of_wrappers, others): (Vec<_>, Vec<_>) = aliases.iter().partition(|alias| wrapped(alias));
    let names = of_wrappers.iter().map(|alias| alias.name.as_str());
    (names.filter(|name| !name.starts_with("__real_")).collect(), others)
}

/// Parses "NAME,FILE" or "NAME,FILE@SYMBOL=OFFSET,...".
pub(super) fn section(text: &str) -> Result<SectionFile, String> {
    let Some((name, rest)) = text.split_once(',').filter(|(name, _)| !name.is_empty()) else {
        return Err(format!("'{text}' has no name before a comma; expected NAME,FILE"));
    };
    // A file's name may also contain an at sign.
    let (file, symbols) = match rest.rsplit_once('@').filter(|(_, symbols)| symbols.contains('=')) {
        Some((file, symbols)) => {
            (file, symbols.split(',').map(symbol_at).collect::<Result<_, _>>()?)
        }
        None => (rest, Vec::new()),
    };
    if file.is_empty() {
        return Err(format!("'{text}' has no file; expected NAME,FILE"));
    }
    Ok(SectionFile { name: name.to_owned(), file: file.into(), symbols })
}

fn symbol_at(text: &str) -> Result<(String, u64), String> {
    let (name, offset) = definition(text)?;
    Ok((name, number(offset)?))
}

fn definition(text: &str) -> Result<(String, &str), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value)),
        _ => Err(format!("'{text}' has no name before '='; expected NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(number("4096"), Ok(4096));
        assert_eq!(number("0xfff00000"), Ok(0xfff0_0000));
        for wrong in ["", "0x", "-1", "ten", "0x1ffffffffffffffff"] {
            assert!(number(wrong).unwrap_err().contains(&format!("'{wrong}'")));
        }
    }

    #[test]
    fn aliases_of_a_wrapper_and_of_what_it_wraps_belong_together() {
        let aliases = ["f=__wrap_f", "g=h", "__real_f=f", "__real_g=g"];
        let aliases: Vec<Alias> = aliases.iter().map(|text| alias(text).unwrap()).collect();
        assert_eq!(wrapped(&aliases), (vec!["f"], vec![&aliases[1], &aliases[3]]));
    }

    #[test]
    fn sizes_have_units_of_1024() {
        assert_eq!(size("100Kb"), Ok(100 << 10));
        assert_eq!(size("2mb"), Ok(2 << 20));
        assert_eq!(size("1Gb"), Ok(1 << 30));
        assert_eq!(size("0x10"), Ok(16));
        assert!(size("0xffffffffffGb").is_err());
        assert!(size("Kb").is_err());
    }

    #[test]
    fn definitions_have_a_name_and_a_value() {
        assert_eq!(absolute("x=0x10"), Ok(Absolute { name: "x".into(), address: 16 }));
        assert_eq!(alias("a=b"), Ok(Alias { name: "a".into(), symbol: "b".into() }));
        for wrong in ["x", "=1", "x=", ""] {
            assert!(absolute(wrong).is_err() && alias(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_section_names_a_file_and_may_name_symbols_in_it() {
        let plain = section("data,a@b.bin").unwrap();
        assert_eq!((plain.name.as_str(), plain.file.to_str()), ("data", Some("a@b.bin")));
        let with_symbols = section("data,a@b.bin@start=0,middle=0x8").unwrap();
        assert_eq!(with_symbols.file, PathBuf::from("a@b.bin"));
        assert_eq!(with_symbols.symbols, [("start".to_owned(), 0), ("middle".to_owned(), 8)]);
        for wrong in ["data", ",a.bin", "data,", "data,@x=1", "data,a.bin@x=y"] {
            assert!(section(wrong).is_err(), "{wrong}");
        }
    }
}
