//! Forms of images that the backend loads.

use super::{Check, Setting, compile, processor};
use crate::gpu_images::{SOURCE, bitcode};
use longshore::write_offload_binary;
use longshore_conformance::TrustedImages;
use longshore_tests::amdgpu::{self, entry};
use longshore_tests::doubled::AMDGPU;

pub(super) const CHECKS: &[Check] = &[
    ("bitcode is compiled to a linked code object", bitcode_runs),
    ("a container's best entry is loaded", the_best_entry_is_loaded),
    ("entries for the triples of all compilers are loaded", all_triples_are_known),
    ("code for features that the device has set so runs", named_features_run),
    ("all versions of code objects run", all_versions_run),
    ("an image gets the address of the ring for its messages", messages_go_to_a_ring),
];

fn bitcode_runs(setting: &Setting<'_>) {
    let processor = format!("-mcpu={}", processor(&setting.arch));
    let options = ["-nogpulib", &processor];
    let target = bitcode::Target { of: &AMDGPU, triple: "amdgcn-amd-amdhsa", options: &options };
    target.refuses_others(setting);
    let Some(code) = target.runs(setting) else { return };
    let code = longshore_format_amdgpu::Header::read(&code).unwrap();
    assert_eq!(code.target.to_string(), setting.arch);
    assert!(!code.is_relocatable);
}

fn the_best_entry_is_loaded(setting: &Setting<'_>) {
    let ours = processor(&setting.arch);
    let other = if ours == "gfx1100" { "gfx90a" } else { "gfx1100" };
    let Some(plain) = setting.image(&SOURCE.replace("= 5", "= 100")) else { return };
    let Some(named) = amdgpu::compiled(&setting.source(SOURCE), &setting.arch, &[]) else {
        return;
    };
    let Some(foreign) = compile(&setting.source(SOURCE), other, &[]) else { return };
    let (foreign, plain) = (entry(other, &foreign), entry(ours, &plain));
    let named = entry(&setting.arch, &named);
    setting.runs(&write_offload_binary(&[foreign, plain]), 100);
    setting.runs(&write_offload_binary(&[plain, foreign]), 100);
    if setting.arch != ours {
        setting.runs(&write_offload_binary(&[foreign, plain, named]), 5);
    }
}

fn all_triples_are_known(setting: &Setting<'_>) {
    let Some(image) = setting.image(SOURCE) else { return };
    for triple in ["amdgcn-amd-amdhsa", "amdgcn-amd-amdhsa--", "amdgpu9.4-amd-amdhsa-unknown"] {
        let entry = entry(processor(&setting.arch), &image).with_triple(triple);
        setting.runs(&write_offload_binary(&[entry]), 5);
    }
}

fn named_features_run(setting: &Setting<'_>) {
    let Some(image) = amdgpu::compiled(&setting.source(SOURCE), &setting.arch, &[]) else {
        return;
    };
    setting.runs(&image, 5);
}

fn all_versions_run(setting: &Setting<'_>) {
    for version in ["4", "5", "6"] {
        let option = format!("-mcode-object-version={version}");
        let Some(image) = compile(&setting.source(SOURCE), &setting.arch, &[&option]) else {
            return;
        };
        setting.runs(&image, 5);
    }
}

fn messages_go_to_a_ring(setting: &Setting<'_>) {
    const PRINTF_BYTES: u32 = 1 << 20;
    let Some(image) = setting.image(SOURCE) else { return };
    let queue = setting.device.queue().unwrap();
    let programs = [0, 1].map(|_| setting.device.load_trusted(&image[..]).unwrap());
    let rings = programs.each_ref().map(|program| {
        let global = program.global("__longshore_printf_buffer").unwrap();
        global.read::<u64>(&queue).unwrap()
    });
    assert_eq!(rings[0], rings[1], "a device has one ring");
    // SAFETY: a ring is host memory, and begins with its capacity and its used bytes.
    let head = unsafe { *(rings[0] as *const [u32; 2]) };
    assert_eq!(head, [PRINTF_BYTES - 8, 0]);
    for program in programs {
        program.unload().unwrap();
    }
}
