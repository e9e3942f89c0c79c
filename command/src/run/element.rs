//! The types of numbers in arguments, and their values.

use longshore::ArgumentKind;
use serde::{Serialize, Serializer};
use std::fmt;

macro_rules! element_types {
    ($($variant:ident, $name:literal, $rust:ty, $parse:ident;)*) => {
        /// The type of a scalar or of a buffer's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum ElementType { $($variant),* }

        /// A number.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(super) enum Value { $($variant($rust)),* }

        impl ElementType {
            const ALL: &[ElementType] = &[$(ElementType::$variant),*];

            /// Returns the name of the type on the command line.
            pub(super) fn name(self) -> &'static str {
                match self { $(ElementType::$variant => $name),* }
            }

            /// Returns the size of an element in bytes.
            pub(super) fn size(self) -> usize {
                match self { $(ElementType::$variant => size_of::<$rust>()),* }
            }

            /// Returns the argument kind of the type.
            pub(super) fn kind(self) -> ArgumentKind {
                match self.name().as_bytes() {
                    [b'u', ..] => ArgumentKind::Unsigned,
                    [b'i', ..] => ArgumentKind::Signed,
                    _ => ArgumentKind::Float,
                }
            }

            /// Parses a number of this type; the error names the expected form.
            pub(super) fn parse_value(self, text: &str) -> Result<Value, String> {
                match self {
                    $(ElementType::$variant => $parse::<$rust>(text, $name).map(Value::$variant)),*
                }
            }

            /// Returns the `index`th natural number, wrapped into the type.
            pub(super) fn natural(self, index: u64) -> Value {
                match self { $(ElementType::$variant => Value::$variant(index as $rust)),* }
            }

            /// Decodes the bytes of an element, little endian; `None` unless there are
            /// [`ElementType::size`] bytes.
            pub(super) fn decode(self, bytes: &[u8]) -> Option<Value> {
                Some(match self {
                    $(ElementType::$variant => {
                        Value::$variant(<$rust>::from_le_bytes(bytes.try_into().ok()?))
                    }),*
                })
            }
        }

        impl Value {
            /// Returns the type of the value.
            pub(super) fn element(self) -> ElementType {
                match self { $(Value::$variant(_) => ElementType::$variant),* }
            }

            /// Appends the bytes of the value, little endian.
            pub(super) fn append_to(self, bytes: &mut Vec<u8>) {
                match self { $(Value::$variant(value) => bytes.extend(value.to_le_bytes())),* }
            }
        }

        impl fmt::Display for Value {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Value::$variant(value) => value.fmt(f)),* }
            }
        }
    };
}

element_types! {
    U8, "u8", u8, integer;
    I8, "i8", i8, integer;
    U16, "u16", u16, integer;
    I16, "i16", i16, integer;
    U32, "u32", u32, integer;
    I32, "i32", i32, integer;
    U64, "u64", u64, integer;
    I64, "i64", i64, integer;
    F32, "f32", f32, float;
    F64, "f64", f64, float;
}

impl ElementType {
    /// Parses a type's name; the error lists the known types.
    pub(super) fn parse(name: &str) -> Result<ElementType, String> {
        let found = Self::ALL.iter().find(|element| element.name() == name).copied();
        found.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|element| element.name()).collect();
            format!("'{name}' is not a type; expected one of {}", names.join(", "))
        })
    }
}

/// Infinities and NaN, which JSON lacks, are serialized as strings.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Value::U8(value) => serializer.serialize_u8(value),
            Value::I8(value) => serializer.serialize_i8(value),
            Value::U16(value) => serializer.serialize_u16(value),
            Value::I16(value) => serializer.serialize_i16(value),
            Value::U32(value) => serializer.serialize_u32(value),
            Value::I32(value) => serializer.serialize_i32(value),
            Value::U64(value) => serializer.serialize_u64(value),
            Value::I64(value) => serializer.serialize_i64(value),
            Value::F32(value) if value.is_finite() => serializer.serialize_f32(value),
            Value::F64(value) if value.is_finite() => serializer.serialize_f64(value),
            Value::F32(_) | Value::F64(_) => serializer.collect_str(self),
        }
    }
}

fn integer<T: TryFrom<i128>>(text: &str, name: &str) -> Result<T, String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (digits, 10),
    };
    let malformed = || {
        format!("'{text}' is not a value of type {name}; expected an integer such as 42 or 0x2a")
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(malformed());
    }
    let out_of_range = || format!("{text} is out of the range of {name}");
    let size = i128::from_str_radix(digits, radix).map_err(|_| out_of_range())?;
    T::try_from(if negative { -size } else { size }).map_err(|_| out_of_range())
}

trait Float: std::str::FromStr + Copy {
    fn is_infinite(self) -> bool;
}

impl Float for f32 {
    fn is_infinite(self) -> bool {
        f32::is_infinite(self)
    }
}

impl Float for f64 {
    fn is_infinite(self) -> bool {
        f64::is_infinite(self)
    }
}

fn float<T: Float>(text: &str, name: &str) -> Result<T, String> {
    let value: T = text.parse().map_err(|_| {
        format!(
            "'{text}' is not a value of type {name}; expected a number such as 2.5 or 1e-3, inf or \
             nan"
        )
    })?;
    let says_infinite = text.to_ascii_lowercase().contains("inf");
    if value.is_infinite() && !says_infinite {
        return Err(format!("{text} is out of the range of {name}"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_in_decimal_and_hexadecimal() {
        let read = |element: ElementType, text| element.parse_value(text);
        assert_eq!(read(ElementType::U8, "255"), Ok(Value::U8(255)));
        assert_eq!(read(ElementType::I8, "-128"), Ok(Value::I8(-128)));
        assert_eq!(read(ElementType::I32, "-0x80000000"), Ok(Value::I32(i32::MIN)));
        assert_eq!(read(ElementType::U64, "0xFFFFFFFFFFFFFFFF"), Ok(Value::U64(u64::MAX)));
        assert_eq!(read(ElementType::I64, "-9223372036854775808"), Ok(Value::I64(i64::MIN)));
    }

    #[test]
    fn an_invalid_integer_is_refused_with_the_expected_form() {
        for text in ["", "x", "1.5", "0x", "-", "--1", "+1", "1_000", "0b1", " 1", "1 ", "0x-1"] {
            let error = ElementType::I32.parse_value(text).unwrap_err();
            assert!(error.contains("expected an integer such as 42 or 0x2a"), "{text}: {error}");
        }
    }

    #[test]
    fn integers_out_of_range_are_refused_as_such() {
        let huge = "9".repeat(60);
        let cases = [
            (ElementType::U8, "256"),
            (ElementType::U8, "-1"),
            (ElementType::I8, "128"),
            (ElementType::U64, "0x10000000000000000"),
            (ElementType::I64, huge.as_str()),
        ];
        for (element, text) in cases {
            let error = element.parse_value(text).unwrap_err();
            assert!(error.contains("out of the range of"), "{text}: {error}");
            assert!(error.contains(element.name()), "{error}");
        }
    }

    #[test]
    fn floats_are_read_with_infinities_and_nan() {
        assert_eq!(ElementType::F32.parse_value("-2.5e3"), Ok(Value::F32(-2500.0)));
        assert_eq!(ElementType::F64.parse_value("-inf"), Ok(Value::F64(f64::NEG_INFINITY)));
        let nan = ElementType::F32.parse_value("nan").unwrap();
        assert!(matches!(nan, Value::F32(value) if value.is_nan()));
        assert!(ElementType::F32.parse_value("1e39").unwrap_err().contains("range of f32"));
        assert!(ElementType::F64.parse_value("0x10").unwrap_err().contains("inf or nan"));
    }

    #[test]
    fn values_survive_the_trip_through_bytes() {
        for element in ElementType::ALL {
            let mut bytes = Vec::new();
            element.natural(77).append_to(&mut bytes);
            assert_eq!(bytes.len(), element.size());
            assert_eq!(element.decode(&bytes), Some(element.natural(77)));
            assert_eq!(element.natural(77).element(), *element);
            assert_eq!(ElementType::parse(element.name()), Ok(*element));
        }
        assert_eq!(ElementType::U8.natural(256), Value::U8(0));
    }

    #[test]
    fn an_unknown_type_is_refused_with_the_list_of_types() {
        let error = ElementType::parse("f16").unwrap_err();
        assert!(error.starts_with("'f16' is not a type; expected one of u8, i8,"), "{error}");
    }

    #[test]
    fn json_has_the_shortest_digits_and_names_infinities_and_nan() {
        let values = [Value::F32(0.1), Value::F64(f64::INFINITY), Value::U64(u64::MAX)];
        let json = serde_json::to_string(&values).unwrap();
        assert_eq!(json, "[0.1,\"inf\",18446744073709551615]");
    }
}
