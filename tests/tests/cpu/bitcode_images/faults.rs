//! Faults of kernels whose work-items have become loops when their bitcode was compiled.

use super::{Shop, clang};
use longshore::{DevicePointer, ErrorCode, Grid, Image};
use longshore_conformance::TrustedImages;
use longshore_llvm::Library;
use longshore_tests::world::root;

const SOURCE: &str = "#include \"longshore_device.h\"\n\
    #define IS_IT() (longshore_group_id(0) == 3 && longshore_item_id(0) == 5)\n\
    LONGSHORE_KERNEL(store, (uint32_t *volatile where, uint32_t *out)) {\n\
        LONGSHORE_SHARED(uint32_t, tile, [16]);\n\
        tile[longshore_item_id(0)] = longshore_item_id(0);\n\
        longshore_barrier();\n\
        if (IS_IT()) *(volatile uint32_t *)where = 1;\n\
        longshore_barrier();\n\
        out[longshore_global_id(0)] = tile[15 - longshore_item_id(0)];\n\
    }\n\
    LONGSHORE_KERNEL(asserted, (uint32_t *volatile where, uint32_t *out)) {\n\
        (void)where;\n\
        longshore_barrier();\n\
        longshore_assert(!IS_IT());\n\
        longshore_barrier();\n\
        out[longshore_global_id(0)] = 1;\n\
    }\n\
    LONGSHORE_KERNEL(fine, (uint32_t *volatile where, uint32_t *out)) {\n\
        (void)where;\n\
        longshore_barrier();\n\
        out[longshore_global_id(0)] = 2;\n\
    }\n";

/// An unmapped address.
const HOLE: u64 = 0x10_0000_0000;

#[test]
fn a_fault_in_a_loop_names_kernel_group_and_item() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let include = format!("-I{}", root().join("include").display());
    let as_written = ["-O3", "-Xclang", "-disable-llvm-passes"];
    for flags in [&["-O1"][..], &["-O3"], &as_written] {
        let flags: Vec<&str> = flags.iter().copied().chain([include.as_str()]).collect();
        let image = Image::from(shop.bitcode(clang, SOURCE, &flags));
        assert_eq!(loops(clang, image.bytes()), ["store", "asserted", "fine"], "{flags:?}");
        check(&shop, image);
    }
}

fn check(shop: &Shop, image: Image) {
    for level in ["0", "3"] {
        let device = shop.device(&[("OPT_LEVEL", level)]);
        let program = device.load_trusted(image.clone()).unwrap();
        let queue = device.queue().unwrap();
        let out = device.buffer_of(&queue, &[0u32; 8 * 16]).unwrap();
        let run = |kernel| {
            let kernel = program.kernel(kernel).unwrap();
            // SAFETY: the kernels take two pointers, and the faults are the test's.
            unsafe {
                queue.launch_and_wait(&kernel, Grid::linear(8, 16), (DevicePointer(HOLE), &out))
            }
        };
        for (kernel, what) in [("store", "0x1000000000"), ("asserted", "IS_IT")] {
            let error = run(kernel).unwrap_err();
            assert_eq!(error.code(), ErrorCode::BackendFailure, "{level}: {error}");
            let place = format!("kernel '{kernel}', group (3, 0, 0), item (5, 0, 0): ");
            for part in [&place, what] {
                assert!(error.message().contains(part), "-O{level}, expected '{part}': {error}");
            }
            assert_eq!(run("fine"), Ok(()));
            assert_eq!(out.to_vec(&queue).unwrap(), [2; 8 * 16]);
        }
    }
}

/// Returns the kernels of bitcode that become loops, in the order of the source.
fn loops(clang: &str, bitcode: &[u8]) -> Vec<String> {
    let version = clang.rsplit_once('-').and_then(|(_, version)| version.parse().ok());
    // SAFETY: the system's libLLVM is LLVM's, and clang made the module.
    let (_, report) = unsafe {
        let library = Library::find(version).unwrap();
        longshore_work_items::run_on_bitcode(&library, &[bitcode], Default::default()).unwrap()
    };
    let made = report.kernels.into_iter().filter(|outcome| outcome.result == Ok(()));
    made.map(|outcome| outcome.kernel).collect()
}
