//! The grammar of `--arg` and `--save`. A parsed value is valid except for the contents of its
//! file.

use super::element::{ElementType, Value};
use std::path::PathBuf;

const FORMS: &str = "expected TYPE=VALUE, ptr=null, TYPE[N]=CONTENTS, out:TYPE[N] or \
                     out:TYPE[N]=CONTENTS, such as u64=1024 or f32[1024]=iota";

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ArgumentSpec {
    Scalar(Value),
    Null,
    Buffer(BufferSpec),
}

/// A buffer, passed as a pointer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BufferSpec {
    pub(super) element: ElementType,
    pub(super) contents: Contents,
    /// Whether the buffer is printed after the run.
    pub(super) output: bool,
}

/// The contents of a buffer before a run, and the number of its elements.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Contents {
    /// 0, 1, 2 and so on.
    Iota { len: usize },
    /// One value in all elements.
    Fill { len: usize, value: Value },
    /// Individual values of all elements.
    List(Vec<Value>),
    /// The bytes of a file, whose size must fit `len` if that is given.
    File { len: Option<usize>, path: PathBuf },
}

/// An argument to be written to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Save {
    /// Index of the argument, from 0.
    pub(super) argument: usize,
    pub(super) file: PathBuf,
}

/// Parses an argument; the error names the expected form.
pub(super) fn parse(text: &str) -> Result<ArgumentSpec, String> {
    let (kind, contents) = match text.split_once('=') {
        Some((kind, contents)) => (kind, Some(contents)),
        None => (text, None),
    };
    let (kind, output) = match kind.strip_prefix("out:") {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    if let Some((element, rest)) = kind.split_once('[') {
        let element = ElementType::parse(element)?;
        let len = parse_len(rest, element)?;
        let contents = match contents {
            Some(contents) => parse_contents(contents, element, len)?,
            None => default_contents(element, len, output)?,
        };
        return Ok(ArgumentSpec::Buffer(BufferSpec { element, contents, output }));
    }
    if output {
        return Err(format!("only a buffer can be an output; {FORMS}"));
    }
    match (kind, contents) {
        (_, None) => Err(format!("'{text}' has no '='; {FORMS}")),
        ("ptr", Some("null")) => Ok(ArgumentSpec::Null),
        ("ptr", Some(_)) => Err("the only pointer value is ptr=null".to_owned()),
        (name, Some(value)) => {
            ElementType::parse(name)?.parse_value(value).map(ArgumentSpec::Scalar)
        }
    }
}

/// Parses "INDEX=FILE".
pub(super) fn parse_save(text: &str) -> Result<Save, String> {
    let parts = text.split_once('=').filter(|(_, file)| !file.is_empty());
    let parsed = parts.and_then(|(index, file)| {
        Some(Save { argument: index.parse().ok()?, file: PathBuf::from(file) })
    });
    parsed.ok_or_else(|| "expected INDEX=FILE, such as 0=out.bin".to_owned())
}

/// Parses "N]" or "]".
fn parse_len(text: &str, element: ElementType) -> Result<Option<usize>, String> {
    let name = element.name();
    let expected = || format!("expected {name}[N] with a number of elements N, such as {name}[16]");
    let digits = text.strip_suffix(']').ok_or_else(expected)?;
    if digits.is_empty() {
        return Ok(None);
    }
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(expected());
    }
    let fits =
        |len: &usize| len.checked_mul(element.size()).is_some_and(|b| b <= isize::MAX as usize);
    match digits.parse().ok().filter(fits) {
        Some(0) => Err(format!("{name}[0] has no element; a buffer has at least 1")),
        Some(len) => Ok(Some(len)),
        None => Err(format!("{name}[{digits}] has more elements than memory can hold")),
    }
}

fn parse_contents(
    text: &str,
    element: ElementType,
    len: Option<usize>,
) -> Result<Contents, String> {
    let fill = |value| Ok(Contents::Fill { len: known(len, element)?, value });
    match text {
        "zero" => return fill(element.natural(0)),
        "one" => return fill(element.natural(1)),
        "iota" => return Ok(Contents::Iota { len: known(len, element)? }),
        _ => {}
    }
    if let Some(path) = text.strip_prefix('@') {
        return match path {
            "" => Err("'@' has no file name; expected @FILE".to_owned()),
            path => Ok(Contents::File { len, path: PathBuf::from(path) }),
        };
    }
    let values = text.split(',').map(|value| element.parse_value(value.trim()));
    let values: Vec<Value> = values.collect::<Result<_, _>>().map_err(|why| {
        format!("{why}, or zero, one, iota, several values separated by ',', or @FILE")
    })?;
    match (values.as_slice(), len) {
        ([value], Some(len)) => Ok(Contents::Fill { len, value: *value }),
        (values, Some(len)) if values.len() != len => Err(format!(
            "{} values for {}[{len}]; expected 1 or {len}",
            values.len(),
            element.name()
        )),
        _ => Ok(Contents::List(values)),
    }
}

fn default_contents(
    element: ElementType,
    len: Option<usize>,
    output: bool,
) -> Result<Contents, String> {
    let len = known(len, element)?;
    if output {
        return Ok(Contents::Fill { len, value: element.natural(0) });
    }
    let name = element.name();
    Err(format!(
        "an input buffer needs contents: {name}[{len}]=CONTENTS, with zero, one, iota, \
         values or @FILE; or out:{name}[{len}]"
    ))
}

/// Returns the length, which is required for contents without a length of their own.
fn known(len: Option<usize>, element: ElementType) -> Result<usize, String> {
    len.ok_or_else(|| {
        let name = element.name();
        format!("{name}[] has no number of elements; expected {name}[N]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(element: ElementType, contents: Contents, output: bool) -> ArgumentSpec {
        ArgumentSpec::Buffer(BufferSpec { element, contents, output })
    }

    #[test]
    fn scalars_and_null_pointers_are_passed_by_value() {
        assert_eq!(parse("u64=1024"), Ok(ArgumentSpec::Scalar(Value::U64(1024))));
        assert_eq!(parse("i16=-0x10"), Ok(ArgumentSpec::Scalar(Value::I16(-16))));
        assert_eq!(parse("f32=inf"), Ok(ArgumentSpec::Scalar(Value::F32(f32::INFINITY))));
        assert_eq!(parse("ptr=null"), Ok(ArgumentSpec::Null));
    }

    #[test]
    fn buffers_have_contents() {
        let f32_ = ElementType::F32;
        let value = Value::F32;
        let cases = [
            ("f32[8]=iota", Contents::Iota { len: 8 }),
            ("f32[8]=zero", Contents::Fill { len: 8, value: value(0.0) }),
            ("f32[8]=one", Contents::Fill { len: 8, value: value(1.0) }),
            ("f32[8]=-2.5", Contents::Fill { len: 8, value: value(-2.5) }),
            ("f32[2]=1, 2.5", Contents::List(vec![value(1.0), value(2.5)])),
            ("f32[]=1,2.5", Contents::List(vec![value(1.0), value(2.5)])),
            ("f32[]=7", Contents::List(vec![value(7.0)])),
            ("f32[8]=@a=b", Contents::File { len: Some(8), path: "a=b".into() }),
            ("f32[]=@x.bin", Contents::File { len: None, path: "x.bin".into() }),
        ];
        for (text, contents) in cases {
            assert_eq!(parse(text), Ok(buffer(f32_, contents.clone(), false)), "{text}");
            assert_eq!(parse(&format!("out:{text}")), Ok(buffer(f32_, contents, true)), "{text}");
        }
    }

    #[test]
    fn an_output_without_contents_is_zero() {
        let zero = Contents::Fill { len: 3, value: Value::U8(0) };
        assert_eq!(parse("out:u8[3]"), Ok(buffer(ElementType::U8, zero, true)));
    }

    #[test]
    fn bad_forms_are_refused_with_the_form_expected() {
        let cases = [
            ("", "expected TYPE=VALUE, ptr=null"),
            ("7", "expected TYPE=VALUE"),
            ("u64", "expected TYPE=VALUE"),
            ("out:u64=1", "only a buffer can be an output; expected TYPE=VALUE"),
            ("out:ptr=null", "only a buffer can be an output"),
            ("=1", "'' is not a type; expected one of u8"),
            ("int=1", "'int' is not a type; expected one of u8"),
            ("U64=1", "'U64' is not a type"),
            ("ptr=0x10", "the only pointer value is ptr=null"),
            ("u64=", "expected an integer such as 42 or 0x2a"),
            ("u8=300", "300 is out of the range of u8"),
            ("f32=x", "expected a number such as 2.5"),
            ("[4]=zero", "'' is not a type"),
            ("f32[4]", "an input buffer needs contents: f32[4]=CONTENTS"),
            ("f32[", "expected f32[N]"),
            ("f32[4=1", "expected f32[N]"),
            ("f32[x]=1", "expected f32[N]"),
            ("f32[-1]=1", "expected f32[N]"),
            ("f32[4]x=1", "expected f32[N]"),
            ("f32[0]=1", "a buffer has at least 1"),
            ("f64[2305843009213693952]=1", "more elements than memory can hold"),
            ("u8[99999999999999999999]=1", "more elements than memory can hold"),
            ("f32[]", "f32[] has no number of elements"),
            ("out:f32[]", "f32[] has no number of elements"),
            ("f32[]=iota", "f32[] has no number of elements"),
            ("f32[]=zero", "f32[] has no number of elements"),
            ("f32[4]=", "zero, one, iota, several values"),
            ("f32[4]=ones", "zero, one, iota, several values"),
            ("u8[3]=1,2,300", "300 is out of the range of u8"),
            ("u8[3]=1,2", "2 values for u8[3]; expected 1 or 3"),
            ("u8[2]=1,,2", "'' is not a value of type u8"),
            ("u8[2]=@", "'@' has no file name"),
        ];
        for (text, expected) in cases {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_save_names_an_argument_and_a_file() {
        let save = Save { argument: 2, file: "a=b.bin".into() };
        assert_eq!(parse_save("2=a=b.bin"), Ok(save));
        for text in ["", "2", "2=", "=x", "-1=x", "x=y", "out.bin"] {
            assert!(parse_save(text).unwrap_err().contains("expected INDEX=FILE"), "{text}");
        }
    }
}
