//! The least work of any linker in memory: copying the allocated sections and protecting them.

use crate::survey::{Kind, Survey};
use crate::workloads::Workload;
use anyhow::Result;
use memmap2::MmapMut;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Copies the sections of each protection next to each other into new memory, on this thread.
///
/// # Errors
/// Memory that is not available.
pub(crate) fn run(workload: &Workload, survey: &Survey) -> Result<Duration> {
    let objects = workload.map()?;
    let start = Instant::now();
    let copied = |kinds: &[Kind]| -> Result<MmapMut> {
        let sections = || survey.sections.iter().filter(|section| kinds.contains(&section.kind));
        let size = sections().map(|section| section.size + section.alignment);
        let mut memory = MmapMut::map_anon(1 + size.sum::<u64>() as usize)?;
        let mut at = 0;
        for section in sections() {
            at = usize::next_multiple_of(at, section.alignment as usize);
            if let Some(content) = &section.content {
                let content = &objects[section.object][content.clone()];
                memory[at..][..content.len()].copy_from_slice(content);
            }
            at += section.size as usize;
        }
        Ok(memory)
    };
    let text = copied(&[Kind::Text])?.make_exec()?;
    let read_only = copied(&[Kind::EhFrame, Kind::ReadOnly])?.make_read_only()?;
    let writable = copied(&[Kind::Data, Kind::ZeroFill])?;
    let took = start.elapsed();
    black_box((text, read_only, writable));
    Ok(took)
}
