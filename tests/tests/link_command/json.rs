//! Access to dumps.

use serde_json::Value;

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a number"))
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key}")).iter()
}

pub(super) fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect()
}

pub(super) fn named<'a>(value: &'a Value, key: &str, name: &str) -> Option<&'a Value> {
    list(value, key).find(|item| item["name"] == name)
}

pub(super) fn file<'a>(dump: &'a Value, name: &str) -> &'a Value {
    named(dump, "files", name).unwrap_or_else(|| panic!("no file {name}"))
}

pub(super) fn section<'a>(file: &'a Value, name: &str) -> Option<&'a Value> {
    named(file, "sections", name)
}

pub(super) fn symbol<'a>(file: &'a Value, name: &str) -> &'a Value {
    named(file, "symbols", name).unwrap_or_else(|| panic!("no symbol {name}"))
}

/// Returns the symbol from the first file that has it.
pub(super) fn any_symbol<'a>(dump: &'a Value, name: &str) -> &'a Value {
    let found = list(dump, "files").find_map(|file| named(file, "symbols", name));
    found.unwrap_or_else(|| panic!("no symbol {name}"))
}

/// Returns the bytes at an address, from the block that contains them.
pub(super) fn bytes(dump: &Value, address: u64, count: u64) -> Vec<u8> {
    let sections = list(dump, "files").flat_map(|file| list(file, "sections"));
    let mut blocks = sections.flat_map(|section| list(section, "blocks"));
    let found = blocks.find_map(|block| {
        let start = block["addr"].as_u64()?;
        let within = address >= start && address + count <= start + number(&block["size"]);
        let offset = usize::try_from(within.then(|| address - start)?).unwrap();
        Some(from_hex(block["bytes"].as_str()?)[offset..][..count as usize].to_vec())
    });
    found.unwrap_or_else(|| panic!("no block at {address:#x}"))
}

pub(super) fn word(dump: &Value, address: u64) -> u64 {
    u64::from_le_bytes(bytes(dump, address, 8).try_into().unwrap())
}

pub(super) fn from_hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let pairs = pairs.map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
