//! The notes with metadata: MessagePack, in which kernels and their arguments are maps.
//!
//! Unknown keys are dropped, and known ones take no more memory than a multiple of their bytes, so
//! the file's size limits the memory.

use crate::header::wrong;
use crate::{Argument, Kernel, Malformed};
use rmp_serde::decode::ReadRefReader;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// The contents of notes.
#[derive(Default, Deserialize)]
pub(crate) struct Metadata {
    /// The target ID, such as "amdgcn-amd-amdhsa--gfx90a:xnack+".
    #[serde(rename = "amdhsa.target")]
    pub(crate) target: Option<String>,
    #[serde(rename = "amdhsa.kernels", default, deserialize_with = "maps")]
    pub(crate) kernels: Vec<Kernel>,
}

/// Deepest nesting of a note, three times the nesting of kernels' arguments.
const DEEPEST: usize = 16;

/// Reads the contents of notes: a file linked from several objects has several notes.
pub(crate) fn read(notes: &[&[u8]]) -> Result<Metadata, Malformed> {
    let mut metadata = Metadata::default();
    for note in notes {
        let mut bytes = rmp_serde::Deserializer::<ReadRefReader<'_, [u8]>>::from_read_ref(note);
        bytes.set_max_depth(DEEPEST);
        let decoded = serde_path_to_error::deserialize(&mut bytes);
        let Map(mut decoded): Map<Metadata> = decoded.map_err(|error| {
            // Keys begin with a dot themselves.
            let path = error.path().to_string().replace("..", ".");
            let problem = error.inner().to_string();
            wrong(format!("its metadata at {}: {}", shown(&path), shown(&problem)))
        })?;
        decoded.kernels.iter_mut().try_for_each(check)?;
        metadata.target = decoded.target.or(metadata.target);
        metadata.kernels.append(&mut decoded.kernels);
    }
    Ok(metadata)
}

/// Separates the arguments that the runtime passes from the others, and checks the consistency of
/// values.
fn check(kernel: &mut Kernel) -> Result<(), Malformed> {
    let wrong = |what| Err(wrong(format!("'{}': {what}", shown(&kernel.name))));
    if !kernel.argument_alignment.is_power_of_two() {
        return wrong(".kernarg_segment_align is not a power of two");
    }
    let end = |argument: &Argument| argument.offset.checked_add(argument.bytes);
    let is_inside = |known| end(known).is_some_and(|end| end <= kernel.argument_bytes);
    if !kernel.arguments.iter().all(is_inside) {
        return wrong("an argument of .args lies beyond .kernarg_segment_size");
    }
    let is_hidden = |argument: &mut Argument| argument.kind.is_hidden();
    kernel.hidden = kernel.arguments.extract_if(.., is_hidden).collect();
    let mut places: Vec<_> =
        kernel.arguments.iter().map(|known| (known.offset, known.bytes)).collect();
    places.sort_unstable();
    match places.is_sorted_by(|(offset, bytes), (next, _)| offset + bytes <= *next) {
        true => Ok(()),
        false => wrong("two of its .args overlap"),
    }
}

/// Reads a list of maps.
pub(crate) fn maps<'de, D, T>(list: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let maps = Vec::<Map<T>>::deserialize(list)?;
    Ok(maps.into_iter().map(|Map(value)| value).collect())
}

/// A value described by a map; derived code would accept a list as well.
struct Map<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_map(MapVisitor(PhantomData))
    }
}

struct MapVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MapVisitor<T> {
    type Value = Map<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Map<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(entries)).map(Map)
    }
}

/// Returns the beginning of a text.
fn shown(text: &str) -> &str {
    const LONGEST: usize = 200;
    &text[..text.floor_char_boundary(LONGEST)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArgumentKind, KernelKind};
    use serde_json::{Value, json};

    fn argument(offset: u32, bytes: u32, kind: &str) -> Value {
        json!({".offset": offset, ".size": bytes, ".value_kind": kind})
    }

    /// Returns a kernel with all required facts, and with `more` added or replaced.
    fn kernel(more: &[(&str, Value)]) -> Value {
        let mut kernel = json!({
            ".name": "k",
            ".symbol": "k.kd",
            ".kernarg_segment_size": 32,
            ".kernarg_segment_align": 8,
            ".wavefront_size": 64,
            ".group_segment_fixed_size": 256,
            ".private_segment_fixed_size": 16,
        });
        more.iter().for_each(|(key, value)| kernel[key] = value.clone());
        kernel
    }

    fn note_of(kernels: &[Value]) -> Vec<u8> {
        let target = "amdgcn-amd-amdhsa--gfx90a";
        rmp_serde::to_vec(&json!({"amdhsa.kernels": kernels, "amdhsa.target": target})).unwrap()
    }

    fn one(more: &[(&str, Value)]) -> Result<Kernel, String> {
        let metadata = read(&[&note_of(&[kernel(more)])]).map_err(|error| error.0)?;
        Ok(metadata.kernels.into_iter().next().unwrap())
    }

    #[test]
    fn all_that_is_said_of_a_kernel_is_read() {
        let arguments = vec![
            argument(0, 8, "global_buffer"),
            argument(8, 4, "by_value"),
            argument(16, 8, "hidden_heap_v1"),
        ];
        let found = one(&[
            (".args", arguments.into()),
            (".kind", "init".into()),
            (".reqd_workgroup_size", json!([64, 2, 1])),
            (".max_flat_workgroup_size", 128.into()),
            (".uniform_work_group_size", 1.into()),
            (".uses_dynamic_stack", true.into()),
            (".vgpr_count", 24.into()),
            (".sgpr_count", 30.into()),
            (".agpr_count", 4.into()),
            (".vgpr_spill_count", 1.into()),
            (".sgpr_spill_count", 2.into()),
            (".language", "OpenCL C".into()),
            (".language_version", json!([2, {"minor": [0]}])),
        ]);
        let argument = |offset, bytes, kind| Argument { offset, bytes, kind };
        let expected = Kernel {
            name: "k".into(),
            symbol: "k.kd".into(),
            kind: KernelKind::Init,
            arguments: vec![
                argument(0, 8, ArgumentKind::GlobalBuffer),
                argument(8, 4, ArgumentKind::ByValue),
            ],
            hidden: vec![argument(16, 8, ArgumentKind::HiddenHeapV1)],
            argument_bytes: 32,
            argument_alignment: 8,
            required_group: Some([64, 2, 1]),
            max_group_items: Some(128),
            has_uniform_groups: Some(true),
            wavefront_items: 64,
            static_shared_bytes: 256,
            private_bytes: 16,
            has_dynamic_private: true,
            registers: Some(24),
            scalar_registers: Some(30),
            accumulation_registers: Some(4),
            spilled_registers: Some(1),
            spilled_scalar_registers: Some(2),
        };
        assert_eq!(found, Ok(expected));
        let plain = one(&[]).unwrap();
        assert_eq!((plain.kind, plain.registers), (KernelKind::Normal, None));
        assert!(plain.arguments.is_empty() && !plain.has_dynamic_private);
    }

    #[test]
    fn kernels_of_several_notes_are_taken_together() {
        let notes = [note_of(&[kernel(&[]), kernel(&[])]), note_of(&[kernel(&[])])];
        let metadata = read(&[&notes[0], &notes[1]]).unwrap();
        assert_eq!(metadata.kernels.len(), 3);
        assert_eq!(metadata.target.as_deref(), Some("amdgcn-amd-amdhsa--gfx90a"));
        assert!(read(&[]).unwrap().kernels.is_empty());
    }

    #[test]
    fn errors_name_the_kernel_and_the_field() {
        let [low, high] = [argument(0, 8, "by_value"), argument(24, 8, "by_value")];
        let apart = one(&[(".args", json!([high, low]))]);
        assert_eq!(apart.unwrap().arguments.len(), 2);
        for (key, value, why) in [
            (".name", Value::Null, "at amdhsa.kernels[0].name: invalid type"),
            (".symbol", 1.into(), "at amdhsa.kernels[0].symbol: invalid type"),
            (".kind", "x".into(), "unknown variant `x`, expected one of `normal`"),
            (
                ".kernarg_segment_size",
                (-1).into(),
                "kernels[0].kernarg_segment_size: invalid value",
            ),
            (".kernarg_segment_size", (1u64 << 32).into(), "expected u32"),
            (
                ".kernarg_segment_align",
                3.into(),
                "'k': .kernarg_segment_align is not a power of two",
            ),
            (".kernarg_segment_align", 0.into(), "not a power of two"),
            (".reqd_workgroup_size", json!([1]), "invalid length 1, expected an array of length 3"),
            (".reqd_workgroup_size", json!([1, 2, 3, 4]), "[0].reqd_workgroup_size: "),
            (".reqd_workgroup_size", json!([null, null, null]), "reqd_workgroup_size[0]: "),
            (".uses_dynamic_stack", 1.into(), "expected a boolean"),
            (".args", 1.into(), "[0].args: invalid type: integer `1`, expected a sequence"),
            (".args", json!([null]), "args[0]: invalid type: unit value, expected a map"),
            (
                ".args",
                json!([[0, 8, "by_value"]]),
                "args[0]: invalid type: sequence, expected a map",
            ),
            (".args", json!([{}]), "args[0]: missing field `.offset`"),
            (".args", json!([argument(28, 8, "by_value")]), "beyond"),
            (".args", json!([argument(u32::MAX, 8, "by_value")]), "beyond"),
            (".args", json!([argument(u32::MAX, 8, "hidden_none")]), "beyond"),
            (".args", json!([low, high, argument(23, 2, "by_value")]), "overlap"),
        ] {
            let error = one(&[(key, value)]).unwrap_err();
            assert!(error.contains(why), "{key}: {error}");
        }
        let of_root = |root| {
            read(&[&rmp_serde::to_vec(&root).unwrap()]).map_err(|error| error.0).err().unwrap()
        };
        assert!(of_root(Value::Null).contains("expected a map"));
        assert!(of_root(json!([["k"], "gfx90a"])).contains("expected a map"));
        assert!(of_root(json!({"amdhsa.kernels": 1})).contains("expected a sequence"));
        let long = "\u{e9}".repeat(1000);
        assert!(of_root(json!({"amdhsa.kernels": long})).len() < 500);
        let name = (".name", Value::from(long));
        assert!(one(&[name, (".kernarg_segment_align", 3.into())]).unwrap_err().len() < 300);
    }

    #[test]
    fn depth_and_claims_are_bounded() {
        let problem = |note: &[u8]| read(&[note]).map_err(|error| error.0).err().unwrap();
        // Nested in an unknown key, and in a known one.
        for key in [&b"\x81\xa1x"[..], b"\x81\xaeamdhsa.kernels"] {
            let deep = [key, &[0x91; 100_000]].concat();
            assert!(problem(&deep).len() < 500);
            for claim in [
                &b"\xdd\xff\xff\xff\xff"[..],
                b"\xdf\xff\xff\xff\xff",
                b"\xdb\xff\xff\xff\xffx",
                b"\xc6\xff\xff\xff\xff",
                b"\xc9\xff\xff\xff\xff\x01",
                b"\xc1",
                b"",
            ] {
                problem(&[key, claim].concat());
            }
        }
        assert!(problem(&[&b"\x81\xa1x"[..], &[0x91; 100]].concat()).contains("depth"));
        problem(b"\xdf\xff\xff\xff\xff");
        problem(b"");
    }

    #[test]
    fn every_truncation_and_every_flipped_bit_of_a_note_is_read_to_its_end() {
        let arguments = json!([argument(0, 8, "global_buffer"), argument(16, 8, "hidden_none")]);
        let note = note_of(&[kernel(&[(".args", arguments)])]);
        assert!((0..note.len()).all(|end| read(&[&note[..end]]).is_err()));
        for bit in 0..note.len() * 8 {
            let mut damaged = note.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            for kernel in read(&[&damaged]).map(|read| read.kernels).unwrap_or_default() {
                let mut all = kernel.arguments.iter().chain(&kernel.hidden);
                assert!(all.all(|known| known.offset + known.bytes <= kernel.argument_bytes));
            }
        }
    }
}
