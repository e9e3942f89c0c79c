//! The notes with metadata: MessagePack, in which kernels and their arguments are maps.

use crate::bounded::{self, MOST_READINGS};
use crate::header::wrong;
use crate::{Argument, ArgumentKind, Kernel, KernelKind, Malformed};
use rmpv::ValueRef;

/// What all notes say.
#[derive(Default)]
pub(crate) struct Metadata {
    /// "amdgcn-amd-amdhsa--gfx90a:xnack+".
    pub(crate) target: Option<String>,
    pub(crate) kernels: Vec<Kernel>,
}

/// Reads the contents of notes: a file that was linked without being compiled anew has several.
pub(crate) fn read(notes: &[&[u8]]) -> Result<Metadata, Malformed> {
    let mut left = MOST_READINGS;
    let mut metadata = Metadata::default();
    for note in notes {
        let root = bounded::decode(note, &mut left);
        let root = root.map_err(|error| wrong(format!("its metadata: {error}")))?;
        let root = Map::of(&root, "its metadata")?;
        if let Some(target) = root.text("amdhsa.target")? {
            metadata.target = Some(target.to_owned());
        }
        for value in root.list("amdhsa.kernels")?.unwrap_or_default() {
            metadata.kernels.push(kernel(value)?);
        }
    }
    Ok(metadata)
}

fn kernel(value: &ValueRef<'_>) -> Result<Kernel, Malformed> {
    let name = Map::of(value, "a kernel")?.needed_text(".name")?;
    let map = Map::of(value, name)?;
    let kind = match map.text(".kind")? {
        None | Some("normal") => KernelKind::Normal,
        Some("init") => KernelKind::Init,
        Some("fini") => KernelKind::Fini,
        Some(_) => return Err(map.wrong(".kind", "none that is known")),
    };
    let argument_bytes = map.needed_number(".kernarg_segment_size")?;
    let argument_alignment = map.needed_number(".kernarg_segment_align")?;
    if !argument_alignment.is_power_of_two() {
        return Err(map.wrong(".kernarg_segment_align", "no power of two"));
    }
    let all = map.list(".args")?.unwrap_or_default();
    let all = all.iter().map(|value| argument(value, name, argument_bytes));
    let all = all.collect::<Result<Vec<Argument>, _>>()?;
    let (hidden, arguments): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|argument| argument.kind.is_hidden());
    check_apart(&arguments, name)?;
    Ok(Kernel {
        symbol: map.needed_text(".symbol")?.to_owned(),
        kind,
        arguments,
        hidden,
        argument_bytes,
        argument_alignment,
        required_group: map.three_numbers(".reqd_workgroup_size")?,
        max_group_items: map.number(".max_flat_workgroup_size")?,
        has_uniform_groups: map.number(".uniform_work_group_size")?.map(|number| number != 0),
        wavefront_items: map.needed_number(".wavefront_size")?,
        static_shared_bytes: map.needed_number(".group_segment_fixed_size")?,
        private_bytes: map.needed_number(".private_segment_fixed_size")?,
        has_dynamic_private: map.is_true(".uses_dynamic_stack")?,
        registers: map.number(".vgpr_count")?,
        scalar_registers: map.number(".sgpr_count")?,
        accumulation_registers: map.number(".agpr_count")?,
        spilled_registers: map.number(".vgpr_spill_count")?,
        spilled_scalar_registers: map.number(".sgpr_spill_count")?,
        name: name.to_owned(),
    })
}

/// An argument, which lies in the `all` bytes of its kernel.
fn argument(value: &ValueRef<'_>, kernel: &str, all: u32) -> Result<Argument, Malformed> {
    let map = Map::of(value, kernel)?;
    let (offset, bytes) = (map.needed_number(".offset")?, map.needed_number(".size")?);
    if offset.checked_add(bytes).is_none_or(|end| end > all) {
        return Err(map.wrong(".args", "beyond the size of all"));
    }
    let kind = ArgumentKind::of_name(map.needed_text(".value_kind")?);
    Ok(Argument { offset, bytes, kind })
}

/// That no argument lies upon another.
fn check_apart(arguments: &[Argument], kernel: &str) -> Result<(), Malformed> {
    let mut places: Vec<_> = arguments.iter().map(|known| (known.offset, known.bytes)).collect();
    places.sort_unstable();
    let are_apart = places.is_sorted_by(|(offset, bytes), (next, _)| offset + bytes <= *next);
    let upon = || wrong(format!("'{}': two of its .args lie upon each other", shown(kernel)));
    are_apart.then_some(()).ok_or_else(upon)
}

/// A map whose keys are text.
struct Map<'a> {
    entries: &'a [(ValueRef<'a>, ValueRef<'a>)],
    /// What it describes.
    of: &'a str,
}

impl<'a> Map<'a> {
    fn of(value: &'a ValueRef<'a>, of: &'a str) -> Result<Map<'a>, Malformed> {
        match value {
            ValueRef::Map(entries) => Ok(Map { entries, of }),
            _ => Err(wrong(format!("'{}': not described by a map", shown(of)))),
        }
    }

    fn field(&self, name: &str) -> Option<&'a ValueRef<'a>> {
        let is_it =
            |key: &ValueRef<'_>| matches!(key, ValueRef::String(key) if key.as_str() == Some(name));
        self.entries.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value)
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Malformed> {
        let text = |value: &'a ValueRef<'a>| match value {
            ValueRef::String(text) => text.as_str(),
            _ => None,
        };
        self.typed(name, text, "no text")
    }

    fn number(&self, name: &str) -> Result<Option<u32>, Malformed> {
        self.typed(name, number, "no number of 32 bits")
    }

    fn three_numbers(&self, name: &str) -> Result<Option<[u32; 3]>, Malformed> {
        let three = |value: &'a ValueRef<'a>| match value {
            ValueRef::Array(list) => match &list[..] {
                [x, y, z] => Some([number(x)?, number(y)?, number(z)?]),
                _ => None,
            },
            _ => None,
        };
        self.typed(name, three, "not three numbers")
    }

    /// False if it is not there.
    fn is_true(&self, name: &str) -> Result<bool, Malformed> {
        let truth = |value: &'a ValueRef<'a>| match value {
            ValueRef::Boolean(truth) => Some(*truth),
            _ => None,
        };
        Ok(self.typed(name, truth, "neither true nor false")?.unwrap_or(false))
    }

    fn list(&self, name: &str) -> Result<Option<&'a [ValueRef<'a>]>, Malformed> {
        let list = |value: &'a ValueRef<'a>| match value {
            ValueRef::Array(list) => Some(&list[..]),
            _ => None,
        };
        self.typed(name, list, "no list")
    }

    fn needed_text(&self, name: &str) -> Result<&'a str, Malformed> {
        self.text(name)?.ok_or_else(|| self.wrong(name, "missing"))
    }

    fn needed_number(&self, name: &str) -> Result<u32, Malformed> {
        self.number(name)?.ok_or_else(|| self.wrong(name, "missing"))
    }

    fn typed<T>(
        &self,
        name: &str,
        typed: impl FnOnce(&'a ValueRef<'a>) -> Option<T>,
        otherwise: &str,
    ) -> Result<Option<T>, Malformed> {
        let Some(value) = self.field(name) else { return Ok(None) };
        typed(value).map(Some).ok_or_else(|| self.wrong(name, otherwise))
    }

    fn wrong(&self, name: &str, what: &str) -> Malformed {
        wrong(format!("'{}': {name} is {what}", shown(self.of)))
    }
}

fn number(value: &ValueRef<'_>) -> Option<u32> {
    value.as_u64()?.try_into().ok()
}

/// The beginning of a name.
fn shown(name: &str) -> &str {
    const LONGEST: usize = 200;
    &name[..name.floor_char_boundary(LONGEST)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmpv::Value;

    fn text(value: &str) -> Value {
        Value::from(value)
    }

    fn map(entries: &[(&str, Value)]) -> Value {
        Value::Map(entries.iter().map(|(key, value)| (text(key), value.clone())).collect())
    }

    fn argument(offset: u32, bytes: u32, kind: &str) -> Value {
        map(&[(".offset", offset.into()), (".size", bytes.into()), (".value_kind", text(kind))])
    }

    /// What every kernel has, and more or something else.
    fn kernel(more: &[(&str, Value)]) -> Value {
        let mut entries = vec![
            (".name", text("k")),
            (".symbol", text("k.kd")),
            (".kernarg_segment_size", 32.into()),
            (".kernarg_segment_align", 8.into()),
            (".wavefront_size", 64.into()),
            (".group_segment_fixed_size", 256.into()),
            (".private_segment_fixed_size", 16.into()),
        ];
        entries.retain(|(key, _)| more.iter().all(|(other, _)| key != other));
        entries.extend(more.iter().cloned());
        map(&entries)
    }

    fn note(root: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, root).unwrap();
        bytes
    }

    fn note_of(kernels: Vec<Value>) -> Vec<u8> {
        let target = text("amdgcn-amd-amdhsa--gfx90a");
        note(&map(&[("amdhsa.kernels", Value::Array(kernels)), ("amdhsa.target", target)]))
    }

    fn one(more: &[(&str, Value)]) -> Result<Kernel, String> {
        let metadata = read(&[&note_of(vec![kernel(more)])]).map_err(|error| error.0)?;
        Ok(metadata.kernels.into_iter().next().unwrap())
    }

    #[test]
    fn all_that_is_said_of_a_kernel_is_read() {
        let arguments = vec![
            argument(0, 8, "global_buffer"),
            argument(8, 4, "by_value"),
            argument(16, 8, "hidden_heap_v1"),
        ];
        let required = Value::Array(vec![64.into(), 2.into(), 1.into()]);
        let found = one(&[
            (".args", Value::Array(arguments)),
            (".kind", text("init")),
            (".reqd_workgroup_size", required),
            (".max_flat_workgroup_size", 128.into()),
            (".uniform_work_group_size", 1.into()),
            (".uses_dynamic_stack", true.into()),
            (".vgpr_count", 24.into()),
            (".sgpr_count", 30.into()),
            (".agpr_count", 4.into()),
            (".vgpr_spill_count", 1.into()),
            (".sgpr_spill_count", 2.into()),
            (".language", text("OpenCL C")),
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
        let notes = [note_of(vec![kernel(&[]), kernel(&[])]), note_of(vec![kernel(&[])])];
        let metadata = read(&[&notes[0], &notes[1]]).unwrap();
        assert_eq!(metadata.kernels.len(), 3);
        assert_eq!(metadata.target.as_deref(), Some("amdgcn-amd-amdhsa--gfx90a"));
        assert!(read(&[]).unwrap().kernels.is_empty());
    }

    #[test]
    fn what_is_wrong_is_said_with_the_kernel_and_the_field() {
        let arguments = |list: &[Value]| (".args", Value::Array(list.to_vec()));
        let [low, high] = [argument(0, 8, "by_value"), argument(24, 8, "by_value")];
        assert_eq!(one(&[arguments(&[high.clone(), low.clone()])]).unwrap().arguments.len(), 2);
        for (field, why) in [
            ((".name", Value::Nil), "'a kernel': .name is no text"),
            ((".symbol", 1.into()), "'k': .symbol is no text"),
            ((".kind", text("x")), "'k': .kind is none that is known"),
            ((".kernarg_segment_size", (-1).into()), "no number"),
            ((".kernarg_segment_size", (1u64 << 32).into()), "no number"),
            ((".kernarg_segment_align", 3.into()), "no power of two"),
            ((".kernarg_segment_align", 0.into()), "no power of two"),
            ((".reqd_workgroup_size", Value::Array(vec![1.into()])), "not three numbers"),
            ((".reqd_workgroup_size", Value::Array(vec![Value::Nil; 3])), "not three numbers"),
            ((".uses_dynamic_stack", 1.into()), "neither true nor false"),
            ((".args", 1.into()), "no list"),
            (arguments(&[Value::Nil]), "by a map"),
            (arguments(&[map(&[])]), "'k': .offset is missing"),
            (arguments(&[argument(28, 8, "by_value")]), "beyond"),
            (arguments(&[argument(u32::MAX, 8, "by_value")]), "beyond"),
            (arguments(&[low, high, argument(23, 2, "by_value")]), "upon each other"),
        ] {
            let error = one(std::slice::from_ref(&field)).unwrap_err();
            assert!(error.contains(why), "{}: {error}", field.0);
        }
        let of_root = |root| read(&[&note(&root)]).map_err(|error| error.0).err().unwrap();
        assert!(of_root(Value::Nil).contains("by a map"));
        assert!(of_root(map(&[("amdhsa.kernels", 1.into())])).contains("no list"));
        assert!(read(&[b"\x81"]).is_err());
        let name = text(&"\u{e9}".repeat(1000));
        assert!(one(&[(".name", name), (".kind", 1.into())]).unwrap_err().len() < 300);
    }
}
