//! Kernels in CUDA and HIP, written as for vendors' compilers, on the CPU: their results are equal
//! to the results of references in plain C++.

mod dialect;
mod host_code;
mod many_kernels;
mod messages;

use longshore_tests::cuda_kernels::{SOURCES, Source, check_on_cpu, path};
use std::collections::BTreeSet;

/// Makes a test for each source.
macro_rules! sources {
    ($($test:ident: $file:literal,)*) => {
        $(
            #[test]
            fn $test() {
                check_on_cpu(Source::named($file));
            }
        )*

        const TESTED: &[&str] = &[$($file),*];
    };
}

sources! {
    atomics_and_operations_of_warps_are_right: "warps.cu",
    statements_of_inline_assembly_are_right: "assembly.cu",
    filters_of_images_are_right: "images.cu",
    fractals_and_automata_are_right: "fractals.cu",
    cooperative_groups_are_right: "groups.cu",
    elements_of_blocks_are_moved_and_sorted: "blocks.cu",
    numbers_of_16_bits_are_right: "halves.hip",
    generators_and_collective_operations_are_right: "libraries.cu",
    numbers_of_8_and_16_bits_and_their_words_are_right: "formats.cu",
    hashes_are_right: "hashing.cu",
    heaps_of_images_are_right: "heap.cu",
    histograms_and_searches_are_right: "counting.cu",
    intrinsic_functions_are_right: "intrinsics.cu",
    kernels_of_graphs_are_right: "graphs.cu",
    models_of_physics_are_right: "physics.cu",
    operations_on_vectors_are_right: "vectors.cu",
    prices_and_random_numbers_are_right: "chances.cu",
    products_of_matrices_are_right: "matrices.cu",
    products_of_sparse_matrices_are_right: "sparse.cu",
    reductions_are_right: "reductions.cu",
    samples_of_hip_are_right: "samples.hip",
    scans_are_right: "scans.cu",
    solvers_are_right: "solvers.cu",
    sorts_are_right: "sorting.cu",
    the_features_of_the_language_are_right: "language.cu",
    transforms_are_right: "transforms.cu",
}

#[test]
fn each_source_has_a_test() {
    let tested: BTreeSet<&str> = TESTED.iter().copied().collect();
    let sources: BTreeSet<&str> = SOURCES.iter().map(|source| source.file).collect();
    assert_eq!(tested, sources);
    let files = std::fs::read_dir(path("")).unwrap().map(|entry| entry.unwrap().path());
    let is_source = |name: &str| name.ends_with(".cu") || name.ends_with(".hip");
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let is_known = sources.contains(name) || messages::FILES.contains(&name);
        assert!(is_known || !is_source(name), "'{name}' has no test");
    }
}
