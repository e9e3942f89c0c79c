//! Descriptions and notes of kernels, from the variables of an image of any format.

use super::report::{
    ArgumentReport, DescriptionReport, ImageReport, KernelReport, MetadataReport, ProfileReport,
    Uses, form_name, kind_name,
};
use longshore_plugin_api::{
    KERNEL_DESCRIPTION_PREFIX, KernelDescription, KernelForm, KernelNote, NoteOwner, note_owner,
};
use std::collections::BTreeMap;

/// Size of a note, behind which its text begins.
const NOTE_BYTES: usize = 8;

/// The facts about kernels in the image's variables.
#[derive(Default)]
pub(super) struct Kernels {
    descriptions: BTreeMap<String, KernelDescription>,
    notes: BTreeMap<String, Uses>,
    of_image: Uses,
    /// Reasons why the items of kernels keep their stacks.
    no_loops: BTreeMap<String, String>,
    metadata: BTreeMap<String, MetadataReport>,
    problems: Vec<String>,
}

impl Kernels {
    /// Returns whether a variable is a description or a note.
    pub(super) fn takes(symbol: &str) -> bool {
        symbol.starts_with(KERNEL_DESCRIPTION_PREFIX) || note_owner(symbol).is_some()
    }

    /// Reads a variable if it is a description or a note, and returns whether it is.
    pub(super) fn take(&mut self, symbol: &str, content: &[u8]) -> bool {
        if let Some(kernel) = symbol.strip_prefix(KERNEL_DESCRIPTION_PREFIX) {
            match KernelDescription::parse(content) {
                Ok(description) => _ = self.descriptions.insert(kernel.to_owned(), description),
                Err(error) => self.problems.push(format!("{symbol}: {error}")),
            }
            return true;
        }
        let Some(owner) = note_owner(symbol) else { return false };
        let uses = match owner {
            NoteOwner::Kernel(kernel) => self.notes.entry(kernel.to_owned()).or_default(),
            // Notes of other functions belong to the image.
            _ => &mut self.of_image,
        };
        match KernelNote::parse(content) {
            Some(KernelNote::NoItemLoops(bytes)) => {
                let text = content.get(NOTE_BYTES..).unwrap_or_default();
                let text = &text[..text.len().min(bytes as usize)];
                if let NoteOwner::Kernel(kernel) = owner {
                    let reason = String::from_utf8_lossy(text).into_owned();
                    self.no_loops.insert(kernel.to_owned(), reason);
                }
            }
            Some(note) => uses.add(note),
            None => self.problems.push(format!("{symbol}: unknown kind of note")),
        }
        true
    }

    /// Adds a kernel with its target's metadata.
    pub(super) fn add(&mut self, name: &str, metadata: MetadataReport) {
        self.metadata.insert(name.to_owned(), metadata);
    }

    /// Returns the target's metadata of a known kernel.
    pub(super) fn metadata_of(&mut self, name: &str) -> Option<&mut MetadataReport> {
        self.metadata.get_mut(name)
    }

    /// Moves the kernels into the report, sorted by name.
    pub(super) fn finish(mut self, report: &mut ImageReport) {
        for name in self.descriptions.keys() {
            self.metadata.entry(name.clone()).or_default();
        }
        if !self.descriptions.is_empty() {
            // If a CPU image has descriptions, functions without one are helpers of the kernels.
            let is_kernel = |name: &String, metadata: &mut MetadataReport| {
                let is_described = self.descriptions.contains_key(name);
                is_described || metadata.form.is_none() || metadata.argument_sizes.is_some()
            };
            self.metadata.retain(is_kernel);
        }
        let kernels = self.metadata.into_iter().map(|(name, mut metadata)| {
            let uses = self.notes.get(&name).copied().unwrap_or_default();
            let description = self.descriptions.remove(&name);
            let description = description.map(|known| DescriptionReport {
                no_loops_because: self.no_loops.remove(&name),
                ..describe(known, uses, self.of_image)
            });
            if description.is_some() {
                metadata.form = None;
            }
            KernelReport { name, description, metadata }
        });
        report.kernels = kernels.collect();
        report.uses = self.of_image;
        report.problems.append(&mut self.problems);
    }
}

impl Uses {
    fn add(&mut self, note: KernelNote) {
        match note {
            KernelNote::Barrier => (self.barrier, self.item_barrier) = (true, true),
            KernelNote::GroupBarrier => self.barrier = true,
            KernelNote::SubGroup => self.sub_group = true,
            KernelNote::GridBarrier => self.grid_barrier = true,
            KernelNote::StaticShared(bytes) => {
                self.static_shared_bytes = self.static_shared_bytes.saturating_add(bytes.into());
            }
            KernelNote::DynamicShared => self.dynamic_shared = true,
            KernelNote::ItemLoops(_) => self.item_loops = true,
            _ => {}
        }
    }

    /// Returns whether work-items wait for each other.
    fn waits(self) -> bool {
        self.item_barrier || self.sub_group || self.grid_barrier
    }
}

/// Describes a kernel. A function that waits counts for every kernel of the image, since each may
/// call it.
fn describe(known: KernelDescription, uses: Uses, of_image: Uses) -> DescriptionReport {
    let on_cpu = match known.form {
        KernelForm::Regions => "regions",
        KernelForm::Items if uses.item_loops => "regions",
        KernelForm::Items if uses.waits() || of_image.waits() => "fibers",
        KernelForm::Items => "loop",
        _ => "unknown",
    };
    let argument = |argument: &longshore_plugin_api::ArgumentDescription| ArgumentReport {
        bytes: argument.bytes,
        kind: kind_name(argument.kind),
    };
    DescriptionReport {
        form: form_name(known.form),
        on_cpu,
        no_loops_because: None,
        arguments: known.arguments.iter().map(argument).collect(),
        declaration: known.declaration,
        required_group: known.required_group,
        uses,
    }
}

/// Kinds of profile data, by the end of their section's name after `__llvm_prf_`.
const PROFILE_SECTIONS: [(&str, &str); 7] = [
    ("cnts", "counters"),
    ("data", "data"),
    ("names", "names"),
    ("bits", "bitmap"),
    ("vnds", "values"),
    ("vtab", "vtables"),
    ("vns", "vtable_names"),
];

/// Kinds of profile data, by the prefix of their variable's name.
const PROFILE_VARIABLES: [(&str, &str); 4] = [
    ("__profc_", "counters"),
    ("__profd_", "data"),
    ("__llvm_prf_nm", "names"),
    ("__profbm_", "bitmap"),
];

impl ProfileReport {
    pub(super) fn add_section(&mut self, name: &str, bytes: u64) {
        let kind = name.strip_prefix("__llvm_prf_");
        let known = kind.and_then(|kind| PROFILE_SECTIONS.iter().find(|(name, _)| *name == kind));
        self.add(known, bytes);
    }

    /// Adds a variable of a file that has no profile sections.
    pub(super) fn add_variable(&mut self, name: &str, bytes: u64) {
        let known = PROFILE_VARIABLES.iter().find(|(prefix, _)| name.starts_with(prefix));
        self.add(known, bytes);
    }

    fn add(&mut self, known: Option<&(&str, &'static str)>, bytes: u64) {
        if let Some((_, kind)) = known
            && bytes > 0
        {
            let sum = self.sections.entry(kind).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
}

/// The variable with the profile's format version.
pub(super) const RAW_VERSION: &str = "__llvm_profile_raw_version";

pub(super) fn raw_version(content: &[u8]) -> Option<u64> {
    content.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a description of this form, without arguments.
    fn description(form: u32) -> Vec<u8> {
        [1, form, 0, 0, 0, 0, 0, 0].iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
    }

    fn note(kind: u32, value: u32) -> Vec<u8> {
        [kind, value].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Returns how the CPU runs a kernel of this form with one note.
    fn on_cpu(form: u32, symbol: &str, kind: u32) -> &'static str {
        let mut kernels = Kernels::default();
        assert!(kernels.take("__longshore_kernel_f", &description(form)));
        assert!(kernels.take(symbol, &note(kind, 8)));
        let mut report = ImageReport::new("elf-o".into(), 0);
        kernels.finish(&mut report);
        assert!(report.problems.is_empty(), "{:?}", report.problems);
        report.kernels[0].description.as_ref().unwrap().on_cpu
    }

    #[test]
    fn items_that_wait_run_as_fibers_and_others_in_a_loop() {
        let own = "__longshore_body_f.longshore_note";
        for (kind, expected) in
            [(1, "fibers"), (2, "fibers"), (3, "fibers"), (4, "loop"), (5, "loop")]
        {
            assert_eq!(on_cpu(0, own, kind), expected, "note {kind}");
            assert_eq!(on_cpu(1, own, kind), "regions", "note {kind}");
        }
        assert_eq!(on_cpu(0, "helper.longshore_note", 1), "fibers");
        assert_eq!(on_cpu(0, "__longshore_body_g.longshore_note", 1), "loop");
    }

    #[test]
    fn loops_are_regions_and_the_reason_against_loops_is_kept() {
        let own = "__longshore_body_f.longshore_note";
        assert_eq!([on_cpu(0, own, 7), on_cpu(0, own, 8)], ["regions"; 2]);
        let mut kernels = Kernels::default();
        assert!(kernels.take("__longshore_kernel_f", &description(0)));
        assert!(kernels.take(own, &[note(9, 4), b"k.c:1 and more".to_vec()].concat()));
        let mut report = ImageReport::new("elf-o".into(), 0);
        kernels.finish(&mut report);
        let described = report.kernels[0].description.as_ref().unwrap();
        assert_eq!(described.no_loops_because.as_deref(), Some("k.c:"));
    }

    #[test]
    fn an_unreadable_image_is_a_problem() {
        let mut kernels = Kernels::default();
        assert!(kernels.take("__longshore_kernel_f", &[2, 0, 0, 0]));
        assert!(kernels.take("f.longshore_note", &note(99, 0)));
        assert!(!kernels.take("counter", &[]));
        let mut report = ImageReport::new("elf-o".into(), 0);
        kernels.finish(&mut report);
        assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
        assert!(report.kernels.is_empty());
    }
}
