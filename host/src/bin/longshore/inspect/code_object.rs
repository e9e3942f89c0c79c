//! AMD's code objects: the processor in the header's flags, and kernels in a note of MessagePack.

use super::elf::File;
use super::kernels::Kernels;
use super::report::{ImageReport, MetadataReport};
use object::{Object, ObjectSection};
use rmpv::Value;
use rmpv::decode::read_value_with_max_depth;

const NOTE_OWNER: &[u8] = b"AMDGPU\0";
const NOTE_METADATA: u32 = 32;
const DEEPEST: usize = 16;

/// The lowest byte of the flags.
const PROCESSORS: [(u32, &str); 38] = [
    (0x2c, "gfx900"),
    (0x2d, "gfx902"),
    (0x2e, "gfx904"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x31, "gfx909"),
    (0x32, "gfx90c"),
    (0x33, "gfx1010"),
    (0x34, "gfx1011"),
    (0x35, "gfx1012"),
    (0x36, "gfx1030"),
    (0x37, "gfx1031"),
    (0x38, "gfx1032"),
    (0x39, "gfx1033"),
    (0x3d, "gfx1035"),
    (0x3e, "gfx1034"),
    (0x3f, "gfx90a"),
    (0x41, "gfx1100"),
    (0x42, "gfx1013"),
    (0x43, "gfx1150"),
    (0x44, "gfx1103"),
    (0x45, "gfx1036"),
    (0x46, "gfx1101"),
    (0x47, "gfx1102"),
    (0x48, "gfx1200"),
    (0x49, "gfx1250"),
    (0x4a, "gfx1151"),
    (0x4c, "gfx942"),
    (0x4e, "gfx1201"),
    (0x4f, "gfx950"),
    (0x51, "gfx9-generic"),
    (0x52, "gfx10-1-generic"),
    (0x53, "gfx10-3-generic"),
    (0x54, "gfx11-generic"),
    (0x55, "gfx1152"),
    (0x58, "gfx1153"),
    (0x59, "gfx12-generic"),
    (0x5f, "gfx9-4-generic"),
];

/// Processor and features come from the note, else from the flags.
pub(super) fn read(file: &File<'_>, kernels: &mut Kernels, report: &mut ImageReport) {
    if let object::FileFlags::Elf { e_flags, .. } = file.flags() {
        report.architecture = Some(target_of_flags(e_flags.0));
    }
    let Some(bytes) = file.sections().find_map(|section| metadata_note(section.data().ok()?))
    else {
        return;
    };
    let metadata = match read_value_with_max_depth(&mut &bytes[..], DEEPEST) {
        Ok(metadata) => metadata,
        Err(error) => return report.problems.push(format!("the note of kernels: {error}")),
    };
    if let Some(target) = field(&metadata, "amdhsa.target").and_then(Value::as_str) {
        // "amdgcn-amd-amdhsa--gfx90a:xnack+"
        let target = target.rsplit_once("--").map_or(target, |(_, target)| target);
        report.architecture = Some(target.to_owned());
    }
    let listed = field(&metadata, "amdhsa.kernels").and_then(Value::as_array);
    for kernel in listed.into_iter().flatten() {
        let text = |name| field(kernel, name).and_then(Value::as_str);
        let is_step = matches!(text(".kind"), Some("init" | "fini"));
        if let (Some(name), false) = (text(".name"), is_step) {
            kernels.add(name, of_kernel(kernel));
        }
    }
}

/// "gfx90a:sramecc-:xnack+".
fn target_of_flags(flags: u32) -> String {
    let processor = flags & 0xff;
    let known = PROCESSORS.iter().find(|(number, _)| *number == processor);
    let mut target =
        known.map_or(format!("processor {processor:#x}"), |(_, name)| (*name).to_owned());
    for (name, shift) in [("sramecc", 10), ("xnack", 8)] {
        match flags >> shift & 3 {
            2 => target.push_str(&format!(":{name}-")),
            3 => target.push_str(&format!(":{name}+")),
            _ => {}
        }
    }
    target
}

/// The content of the note with metadata in a section of notes.
fn metadata_note(mut section: &[u8]) -> Option<&[u8]> {
    loop {
        let word = |at: usize| {
            let bytes = section.get(at..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let (owner_bytes, bytes, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let owner_end = 12usize.checked_add(owner_bytes)?;
        let start = owner_end.checked_next_multiple_of(4)?;
        let end = start.checked_add(bytes)?;
        let (owner, content) = (section.get(12..owner_end)?, section.get(start..end)?);
        if owner == NOTE_OWNER && kind == NOTE_METADATA {
            return Some(content);
        }
        section = section.get(end.checked_next_multiple_of(4)?..)?;
    }
}

fn of_kernel(kernel: &Value) -> MetadataReport {
    let number = |name| field(kernel, name).and_then(Value::as_u64);
    let arguments = field(kernel, ".args").and_then(Value::as_array);
    // Behind the kernel's own arguments come hidden ones, which the launch fills in.
    let own = |argument: &&Value| {
        let kind = field(argument, ".value_kind").and_then(Value::as_str);
        kind.is_none_or(|kind| !kind.starts_with("hidden_"))
    };
    let size = |argument| field(argument, ".size").and_then(Value::as_u64).unwrap_or(0);
    let required = field(kernel, ".reqd_workgroup_size").and_then(Value::as_array);
    MetadataReport {
        argument_sizes: arguments.map(|all| all.iter().filter(own).map(size).collect()),
        registers: number(".vgpr_count"),
        scalar_registers: number(".sgpr_count"),
        static_shared_bytes: number(".group_segment_fixed_size"),
        private_bytes: number(".private_segment_fixed_size"),
        max_group_items: number(".max_flat_workgroup_size"),
        required_group: required.map(|sizes| sizes.iter().filter_map(Value::as_u64).collect()),
        sub_group_items: number(".wavefront_size"),
        ..MetadataReport::default()
    }
}

fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    map.as_map()?.iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_say_processor_and_features() {
        assert_eq!(target_of_flags(0x53f), "gfx90a");
        assert_eq!(target_of_flags(0xb3f), "gfx90a:sramecc-:xnack+");
        assert_eq!(target_of_flags(0x41), "gfx1100");
        assert_eq!(target_of_flags(0xff), "processor 0xff");
    }

    #[test]
    fn the_note_is_found_behind_others_and_never_beyond_the_section() {
        let note = |owner: &[u8], kind: u32, content: &[u8]| {
            let mut bytes = Vec::new();
            for word in [owner.len() as u32, content.len() as u32, kind] {
                bytes.extend(word.to_le_bytes());
            }
            for part in [owner, content] {
                bytes.extend(part);
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
            bytes
        };
        let both = [note(b"GNU\0", 32, b"abc"), note(NOTE_OWNER, NOTE_METADATA, b"12345")].concat();
        assert_eq!(metadata_note(&both), Some(&b"12345"[..]));
        for end in 0..both.len() - 3 {
            assert_eq!(metadata_note(&both[..end]), None, "{end}");
        }
        let huge = [[0xff; 8], [32, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(metadata_note(&huge), None);
    }
}
