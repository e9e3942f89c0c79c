//! Kernels in CUDA and HIP, written as for the vendors' compilers, with references in plain C++.
//!
//! - `tests/fixtures/cuda` has the sources; `case.rs` describes launches of their kernels.
//! - The other files have the launches of the sources.
//! - `run.rs` compiles sources, and compares results with the references'.

mod algebra;
mod case;
mod features;
mod hip;
mod models;
mod orders;
mod pictures;
mod run;
mod sums;

use case::Case;

pub use run::{check_on_cpu, check_on_double, compiler, compilers, images, path, succeed};

/// A source with kernels.
pub struct Source {
    /// Name of the file in `tests/fixtures/cuda`.
    pub file: &'static str,
    /// Name of the file with the references of its kernels, in the folder `reference`.
    reference: &'static str,
    cases: fn() -> Vec<Case>,
}

/// All sources whose kernels end without an error.
pub const SOURCES: [Source; 26] = [
    source("assembly.cu", "assembly.cpp", features::assembly),
    source("blocks.cu", "blocks.cpp", features::blocks),
    source("chances.cu", "chances.cpp", models::chances),
    source("counting.cu", "counting.cpp", orders::counting),
    source("formats.cu", "formats.cpp", hip::formats),
    source("fractals.cu", "fractals.cpp", pictures::fractals),
    source("graphs.cu", "graphs.cpp", orders::graphs),
    source("groups.cu", "groups.cpp", features::groups),
    source("halves.hip", "halves.cpp", hip::small_numbers),
    source("hashing.cu", "hashing.cpp", orders::hashing),
    source("heap.cu", "heap.cpp", features::heap),
    source("images.cu", "images.cpp", pictures::images),
    source("intrinsics.cu", "intrinsics.cpp", features::intrinsics),
    source("language.cu", "language.cpp", features::language),
    source("libraries.cu", "libraries.cpp", features::libraries),
    source("matrices.cu", "matrices.cpp", algebra::matrices),
    source("physics.cu", "physics.cpp", models::physics),
    source("reductions.cu", "reductions.cpp", sums::reductions),
    source("samples.hip", "samples.cpp", hip::samples),
    source("scans.cu", "scans.cpp", sums::scans),
    source("solvers.cu", "solvers.cpp", algebra::solvers),
    source("sorting.cu", "sorting.cpp", orders::sorting),
    source("sparse.cu", "sparse.cpp", orders::sparse),
    source("transforms.cu", "transforms.cpp", algebra::transforms),
    source("warps.cu", "warps.cpp", features::warps),
    source("vectors.cu", "vectors.cpp", sums::vectors),
];

const fn source(file: &'static str, reference: &'static str, cases: fn() -> Vec<Case>) -> Source {
    Source { file, reference, cases }
}

impl Source {
    /// Returns the source with this file.
    ///
    /// # Panics
    /// If no source has this name.
    pub fn named(file: &str) -> &'static Source {
        let found = SOURCES.iter().find(|source| source.file == file);
        found.unwrap_or_else(|| panic!("'{file}' is not among the sources"))
    }
}
