//! The table of programs.

use super::compile::Compiler;

/// A test program.
#[derive(Debug)]
pub(crate) struct Program {
    /// The file with `main`, or with the only region of a failing program.
    pub(crate) file: &'static str,
    /// The further part.
    pub(crate) part: Part,
    /// Flags of the compiler.
    pub(crate) flags: &'static [&'static str],
    /// The first version of clang that compiles the program, and the reason.
    pub(crate) since: Option<(u32, &'static str)>,
    /// The first version of clang that optimizes the program correctly, and the defect before.
    pub(crate) optimized_since: Option<(u32, &'static str)>,
    /// The versions of LLVM whose own library fails the program, and the defect.
    pub(crate) failing_peers: Option<(&'static [u32], &'static str)>,
    /// The reason why the texts of `LIBOMPTARGET_INFO` differ from LLVM's.
    pub(crate) other_info: Option<&'static str>,
}

/// The second source of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    None,
    /// A translation unit of the program.
    Unit(&'static str),
    /// A shared object, whose path is the program's argument.
    Object(&'static str),
}

const OPENMP_51: &[&str] = &["-fopenmp-version=51"];
const OPENMP_52: &[&str] = &["-fopenmp-version=52"];
const EVERY: &[u32] = &[14, 16, 19, 22];
const THREADS: &str = "threads print in any order";
const COUNTED: &str = "structures with mappers are counted, as in LLVM 23";
const DIRECT: &str = "copies between devices are direct";

/// The programs of the matrix.
pub(crate) const PROGRAMS: &[Program] = &[
    Program::new("allocators.c"),
    Program::new("arguments.c"),
    Program::new("asynchronous.c")
        .other_info(DIRECT)
        .since(19, "omp_target_memset is not in older headers"),
    Program::new("classes.cpp"),
    Program::new("collapse.c"),
    Program::new("constructors.cpp").failing_on(&[14], "destructors crash at the end"),
    Program::new("data.c"),
    Program::new("depobj.c"),
    Program::new("device_memory.c"),
    Program::new("device_pointers.c"),
    Program::new("devices.c").other_info(DIRECT),
    Program::new("early_and_late.cpp"),
    Program::new("ending.c")
        .failing_on(&[19, 22], "a team crashes if one of its threads calls exit"),
    Program::new("enter.c").flags(OPENMP_52).since(16, "the clause enter is not known"),
    Program::new("exceptions.cpp"),
    Program::new("global_pointers.c"),
    Program::new("globals.c")
        .optimized_since(16, "each region has a static variable of its own")
        .failing_on(&[14], "hidden variables are not found"),
    Program::new("group_memory.c").since(16, "the clause ompx_dyn_cgroup_mem is not known"),
    Program::new("growth.c").other_info("a line for each of many constructs is too long"),
    Program::new("hold.c").flags(&["-fopenmp-extensions"]),
    Program::new("host_pointers.c")
        .failing_on(EVERY, "pointers that the program has changed get their old values"),
    Program::new("identifiers.c").failing_on(EVERY, "functions of later versions are missing"),
    Program::new("indirect.c").flags(OPENMP_51),
    Program::new("interop.c")
        .since(14, "the directive interop is not known")
        .failing_on(EVERY, "the host has no interoperability objects"),
    Program::new("interop_properties.c")
        .since(14, "the directive interop is not known")
        .failing_on(EVERY, "the host has no interoperability objects"),
    Program::new("late_regions.c")
        .failing_on(EVERY, "regions crash after their images are unloaded"),
    Program::new("limits.c"),
    Program::new("loop_directive.c").since(19, "combined loop directives are not known, or wrong"),
    Program::new("loops.c"),
    Program::new("many_ranges.c").other_info("a table after each construct is too long"),
    Program::new("mapped_data.c").other_info(COUNTED),
    Program::new("mapped_pointers.c")
        .flags(OPENMP_51)
        .since(16, "the clause has_device_addr is not known"),
    Program::new("mapper_counts.c").failing_on(EVERY, "structures with mappers stay mapped"),
    Program::new("mappers.c").other_info(COUNTED),
    Program::new("memory.c").other_info(DIRECT),
    Program::new("modifiers.c").flags(OPENMP_51),
    Program::new("nested_mappers.c").other_info(COUNTED),
    Program::new("no_region.c"),
    Program::new("nohost.c"),
    Program::new("nowait.c").other_info(THREADS),
    Program::new("nowait_loops.c").failing_on(EVERY, "threads of deferred loops wait for ever"),
    Program::new("places.c")
        .other_info(DIRECT)
        .since(19, "omp_target_memset is not in older libraries")
        .failing_on(EVERY, "wrong calls are accepted"),
    Program::new("repeated_maps.c")
        .flags(OPENMP_51)
        .other_info("repeated data is copied as in LLVM 23")
        .failing_on(EVERY, "data is not copied if a later clause removes it"),
    Program::new("scalars.c"),
    Program::new("shared_copies.c").other_info(THREADS),
    Program::new("shared_modifiers.c")
        .flags(OPENMP_51)
        .failing_on(EVERY, "shared variables lead to removed memory, and are never present"),
    Program::new("shared_object.cpp")
        .other_info(THREADS)
        .with(Part::Object("shared_object_part.c"))
        .failing_on(&[19], "a closed object leaves its variables mapped"),
    Program::new("standard_library.cpp"),
    Program::new("stride.c").since(22, "a stride in one dimension is ignored"),
    Program::new("strides.c").failing_on(EVERY, "only the first element of each row is copied"),
    Program::new("structs.c"),
    Program::new("target_limit.c")
        .flags(OPENMP_51)
        .since(16, "the clause thread_limit is not known for target"),
    Program::new("teams.c"),
    Program::new("threads.cpp").other_info(THREADS),
    Program::new("unified_address.c").failing_on(&[14], "the requirement is not supported"),
    Program::new("unified_shared_memory.c")
        .flags(OPENMP_51)
        .failing_on(&[14], "the requirement is not supported"),
    Program::new("units.c").with(Part::Unit("units_part.c")),
    Program::new("update.c"),
];

impl Program {
    pub(crate) const fn new(file: &'static str) -> Program {
        Program {
            file,
            part: Part::None,
            flags: &[],
            since: None,
            optimized_since: None,
            failing_peers: None,
            other_info: None,
        }
    }

    const fn with(self, part: Part) -> Program {
        Program { part, ..self }
    }

    pub(crate) const fn flags(self, flags: &'static [&'static str]) -> Program {
        Program { flags, ..self }
    }

    const fn since(self, version: u32, reason: &'static str) -> Program {
        Program { since: Some((version, reason)), ..self }
    }

    const fn optimized_since(self, version: u32, defect: &'static str) -> Program {
        Program { optimized_since: Some((version, defect)), ..self }
    }

    const fn failing_on(self, versions: &'static [u32], defect: &'static str) -> Program {
        Program { failing_peers: Some((versions, defect)), ..self }
    }

    const fn other_info(self, reason: &'static str) -> Program {
        Program { other_info: Some(reason), ..self }
    }

    /// Returns the reason why a compiler does not compile the program correctly, if there is one.
    pub(crate) fn obstacle(&self, compiler: Compiler) -> Option<&'static str> {
        let is_optimized = !compiler.options.contains(&"-O0");
        let optimized = self.optimized_since.filter(|_| is_optimized);
        let mut limits = self.since.into_iter().chain(optimized);
        limits.find(|(first, _)| compiler.version < *first).map(|(_, reason)| reason)
    }

    /// Returns the defect of a version's own library that the program meets, if there is one.
    pub(crate) fn defect_of_peer(&self, version: u32) -> Option<&'static str> {
        let fails = |(versions, _): &(&[u32], &str)| versions.contains(&version);
        self.failing_peers.filter(fails).map(|(_, defect)| defect)
    }
}
