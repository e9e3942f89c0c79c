//! NVIDIA's assembly text: a scanner for what stands outside of function bodies.

use super::elf::is_global;
use super::kernels::{Kernels, RAW_VERSION, raw_version};
use super::report::{GlobalReport, ImageReport, MetadataReport, STEPS};

/// Longer initial values are not looked at.
const LONGEST_VALUE: u64 = 1 << 16;
/// Functions that the driver defines.
const OF_DRIVER: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// Reads the directives, variables and kernels of a text. Total: what is not understood is skipped.
pub(super) fn read(bytes: &[u8], report: &mut ImageReport) {
    let text = String::from_utf8_lossy(bytes);
    let mut kernels = Kernels::default();
    let mut tokens = Tokens(&text);
    while let Some(statement) = statement(&mut tokens) {
        match statement.first() {
            Some(&".version") => _ = fact(report, "ptx_version", &statement),
            Some(&".target") => {
                report.architecture = statement.get(1).map(|name| (*name).to_owned())
            }
            _ => of_statement(&statement, &mut kernels, report),
        }
    }
    kernels.finish(report);
    report.globals.sort_by(|a, b| a.name.cmp(&b.name));
}

fn fact(report: &mut ImageReport, name: &'static str, statement: &[&str]) -> Option<()> {
    report.facts.insert(name, (*statement.get(1)?).to_owned());
    Some(())
}

fn of_statement(statement: &[&str], kernels: &mut Kernels, report: &mut ImageReport) {
    let place = |word| statement.iter().position(|token| *token == word);
    if let Some(at) = place(".entry") {
        let Some(name) = statement.get(at + 1) else { return };
        if !STEPS.contains(name) {
            kernels.add(name, of_entry(&statement[at..]));
        }
        return;
    }
    let is_extern = place(".extern").is_some();
    if let Some(at) = place(".func") {
        let name = function_name(&statement[at + 1..]).filter(|name| !OF_DRIVER.contains(name));
        report.undefined.extend(name.filter(|_| is_extern).map(str::to_owned));
        return;
    }
    let Some(at) = place(".global").or(place(".const")) else { return };
    let Some(variable) = Variable::read(&statement[at + 1..]) else { return };
    if is_extern {
        report.undefined.push(variable.name.to_owned());
        return;
    }
    let is_visible = place(".visible").is_some() || place(".weak").is_some();
    take_variable(&variable, is_visible, kernels, report);
}

/// The name in `[.attribute(...)] [(results)] name (parameters) ...`.
fn function_name<'a>(tokens: &[&'a str]) -> Option<&'a str> {
    let mut depth = 0usize;
    let mut names = tokens.iter().filter(|token| {
        match **token {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            name => return depth == 0 && !name.starts_with('.'),
        }
        false
    });
    names.next().copied()
}

fn take_variable(
    variable: &Variable<'_>,
    is_visible: bool,
    kernels: &mut Kernels,
    report: &mut ImageReport,
) {
    let Variable { name, bytes, .. } = *variable;
    if kernels.take(name, &variable.value) {
        return;
    }
    if name == RAW_VERSION {
        report.profile.raw_version = raw_version(&variable.value);
    }
    report.profile.add_variable(name, bytes);
    if !report.add_step(name) && is_visible && is_global(name) {
        report.globals.push(GlobalReport { name: name.to_owned(), bytes });
    }
}

/// The parameters and the limits of `.entry name ( ... ) ...`.
fn of_entry(entry: &[&str]) -> MetadataReport {
    let end = entry.iter().position(|token| *token == ")").unwrap_or(entry.len());
    let (parameters, rest) = entry.split_at(end);
    let parameters = parameters.split(|token| *token == ".param").skip(1);
    let sizes =
        parameters.map(|parameter| Variable::read(parameter).map_or(0, |known| known.bytes));
    let numbers_after = |word| {
        let at = rest.iter().position(|token| *token == word)?;
        let numbers = rest[at + 1..].iter().filter(|token| **token != ",");
        Some(numbers.map_while(|token| number(token)).collect::<Vec<_>>())
    };
    MetadataReport {
        argument_sizes: Some(sizes.collect()),
        required_group: numbers_after(".reqntid"),
        max_group_items: numbers_after(".maxntid")
            .map(|sizes| sizes.iter().fold(1u64, |all, one| all.saturating_mul(*one))),
        ..MetadataReport::default()
    }
}

/// A variable or parameter: `[.align N] .type name[dimensions] [= value]`.
struct Variable<'a> {
    name: &'a str,
    bytes: u64,
    /// The initial value, as far as it is numbers.
    value: Vec<u8>,
}

impl<'a> Variable<'a> {
    fn read(tokens: &[&'a str]) -> Option<Variable<'a>> {
        let mut element_bytes = None;
        let mut tokens = tokens.iter();
        let name = loop {
            match *tokens.next()? {
                ".align" => _ = tokens.next()?,
                ".attribute" => while *tokens.next()? != ")" {},
                ".ptr" => {}
                token if token.starts_with('.') => {
                    element_bytes = type_bytes(token).or(element_bytes);
                }
                token => break token,
            }
        };
        let rest: Vec<&str> = tokens.copied().collect();
        let (shape, value) = match rest.iter().position(|token| *token == "=") {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (&rest[..], &[][..]),
        };
        let dimensions = shape.iter().filter_map(|token| number(token));
        let elements = dimensions.fold(1u64, u64::saturating_mul);
        let element_bytes = element_bytes?;
        let bytes = elements.saturating_mul(element_bytes);
        Some(Variable { name, bytes, value: value_of(value, element_bytes, bytes) })
    }
}

/// Numbers as bytes, with the zeros that text leaves out at the end.
fn value_of(tokens: &[&str], element_bytes: u64, bytes: u64) -> Vec<u8> {
    let mut value = Vec::new();
    if tokens.is_empty() || bytes > LONGEST_VALUE {
        return value;
    }
    for token in tokens.iter().filter(|token| !matches!(**token, "{" | "}" | ",")) {
        let number = number(token).unwrap_or(0).to_le_bytes();
        value.extend(&number[..(element_bytes as usize).min(8)]);
    }
    value.resize(bytes as usize, 0);
    value
}

fn type_bytes(name: &str) -> Option<u64> {
    let bits = name.trim_start_matches(['.', 'b', 'u', 's', 'f']);
    let bits: u64 = bits.parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64 | 128).then_some(bits / 8)
}

/// Decimal or hexadecimal, with a sign and the suffix of unsigned numbers.
fn number(token: &str) -> Option<u64> {
    let (negative, digits) = match token.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, token),
    };
    let digits = digits.trim_end_matches('U');
    let number = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { number.wrapping_neg() } else { number })
}

/// The next statement outside of bodies: up to ';', or to a body, which is skipped. The directives at
/// the head of the text are statements without an end.
fn statement<'a>(tokens: &mut Tokens<'a>) -> Option<Vec<&'a str>> {
    let mut statement = Vec::new();
    while let Some(token) = tokens.next() {
        match token {
            ".version" | ".target" => return Some(vec![token, tokens.next()?]),
            ".address_size" | ".file" => statement.clear(),
            ";" | "}" => return Some(statement),
            "{" if statement.last() == Some(&"=") => list(tokens, &mut statement),
            "{" => {
                list(tokens, &mut Vec::new());
                return Some(statement);
            }
            _ => statement.push(token),
        }
    }
    (!statement.is_empty()).then_some(statement)
}

/// Takes what stands up to the brace that closes the one before.
fn list<'a>(tokens: &mut Tokens<'a>, into: &mut Vec<&'a str>) {
    let mut depth = 1u64;
    let keeps = !into.is_empty();
    for token in tokens {
        match token {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ if keeps => into.push(token),
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// Words, and other characters one by one, without blanks, comments and strings.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.skip_blanks();
        let is_word =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.' | '-');
        let first = self.0.chars().next()?;
        let end = match first {
            '"' => self.0[1..].find('"').map_or(self.0.len(), |at| at + 2),
            c if is_word(c) => self.0.find(|c| !is_word(c)).unwrap_or(self.0.len()),
            c => c.len_utf8(),
        };
        let (token, rest) = self.0.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

impl Tokens<'_> {
    fn skip_blanks(&mut self) {
        loop {
            self.0 = self.0.trim_start();
            let end = if self.0.starts_with("//") {
                self.0.find('\n')
            } else if self.0.starts_with("/*") {
                self.0.find("*/").map(|at| at + 2)
            } else {
                return;
            };
            self.0 = &self.0[end.unwrap_or(self.0.len())..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::report::PriorityReport;

    const TEXT: &str = r#"
//
// Generated by hand: .version 1.0
/* .target sm_1 */
.version 8.3
.target sm_90, debug
.address_size 64
.file 1 "a;b{.c"
.extern .global .align 8 .u64 elsewhere;
.extern .func (.param .b32 r) helper
(
    .param .b64 x
)
;
.extern .func  (.param .b32 r) vprintf(.param .b64 x, .param .b64 y);
.extern .func .attribute(.unified(1, 2)) plain() .noreturn;
.visible .func defined(.param .b64 x) { ret; }
.visible .entry saxpy(
    .param .u64 n, .param .u64 .ptr .align 4 x,
    .param .align 8 .b8 by_value[24]
) .maxntid 32, 2, 1 .reqntid 32, 2
{
    .shared .align 4 .b8 tile[256];
    { ret; }
}
.visible .global .align 4 .b8 __longshore_kernel_saxpy[34] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0x40};
.global .align 4 .u32 __longshore_body_saxpy_$_longshore_note[2] = {4, 256};
.global .align 4 .b8 __longshore_body_saxpy_$_longshore_note1[8] = {1};
.global .align 4 .b8 helper_$_longshore_note[8] = {5};
.visible .global .align 4 .u32 counter = -3;
.visible .const .align 4 .b8 table[2][10];
.weak .global .align 8 .u64 __init_array_object_first_abc_101 = first;
.weak .global .align 8 .u64 __init_array_object_second_abc_65535[1] = {second};
.visible .entry nvptx$device$init() { ret; }
.global .u64 __llvm_profile_raw_version = 10;
.visible .global .align 8 .b8 __profc_f[16];
"#;

    fn report(text: &str) -> ImageReport {
        let mut report = ImageReport::new("ptx".into(), text.len());
        read(text.as_bytes(), &mut report);
        report
    }

    #[test]
    fn kernels_variables_and_directives_are_found_between_comments_and_bodies() {
        let report = report(TEXT);
        assert_eq!(report.architecture.as_deref(), Some("sm_90"));
        assert_eq!(report.facts["ptx_version"], "8.3");
        let [kernel] = &report.kernels[..] else { panic!("{} kernels", report.kernels.len()) };
        assert_eq!(kernel.name, "saxpy");
        assert_eq!(kernel.metadata.argument_sizes, Some(vec![8, 8, 24]));
        assert_eq!(kernel.metadata.required_group, Some(vec![32, 2]));
        assert_eq!(kernel.metadata.max_group_items, Some(64));
        let described = kernel.description.as_ref().unwrap();
        assert_eq!((described.on_cpu, described.declaration.as_str()), ("fibers", "@"));
        assert!(described.uses.barrier && described.uses.static_shared_bytes == 256);
        assert!(report.uses.dynamic_shared && report.problems.is_empty());
        let globals: Vec<_> =
            report.globals.iter().map(|global| (&global.name[..], global.bytes)).collect();
        assert_eq!(globals, [("counter", 4), ("table", 20)]);
        assert_eq!(report.undefined, ["elsewhere", "helper", "plain"]);
        let of = |priority| PriorityReport { priority: Some(priority), count: 1 };
        assert_eq!(report.constructors.list(), [of(101), of(65535)]);
        assert_eq!(report.profile.raw_version, Some(10));
        assert_eq!(report.profile.sections["counters"], 16);
    }

    #[test]
    fn every_truncation_and_every_changed_byte_is_read_to_its_end() {
        for end in 0..TEXT.len() {
            report(&TEXT[..end]);
        }
        for at in 0..TEXT.len() {
            for byte in [b'{', b'}', b'"', b';', 0xff] {
                let mut bytes = TEXT.as_bytes().to_vec();
                bytes[at] = byte;
                read(&bytes, &mut ImageReport::new("ptx".into(), 0));
            }
        }
        report(".visible .global .b8 huge[99999999999][99999999999] = {1};");
    }
}
