use super::*;
use object::elf::{PF_W, PT_GNU_RELRO, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{LittleEndian, Object, ObjectSymbol, SymbolKind, SymbolSection};

/// Reads the C++ library's file, if it is installed.
fn standard_library() -> Option<Vec<u8>> {
    const NAME: &str = "libstdc++.so.6";
    // SAFETY: this is a library of the system.
    let _open = unsafe { DynamicLibrary::open(Path::new(NAME)) }.ok()?;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps.lines().find(|line| line.contains(NAME)).unwrap();
    Some(std::fs::read(&path[path.find('/').unwrap()..]).unwrap())
}

/// Returns the names that a library exports, with their addresses and sizes.
fn exports(library: &[u8]) -> Vec<(String, SymbolKind, std::ops::Range<u64>)> {
    let file = ElfFile64::<LittleEndian>::parse(library).unwrap();
    let defined = |symbol: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>| {
        symbol.is_definition() && !matches!(symbol.section(), SymbolSection::Absolute)
    };
    let symbols = file.dynamic_symbols().filter(defined);
    let range = |address, size| address..address + size;
    let export = |symbol: object::read::elf::ElfSymbol64<'_, '_, LittleEndian>| {
        let place = range(symbol.address(), symbol.size());
        (symbol.name().unwrap().to_owned(), symbol.kind(), place)
    };
    symbols.map(export).collect()
}

fn finds(setting: Option<&str>, name: &str) -> bool {
    let library = DeviceLibrary::new(Arc::new(AllowedNames::parse(setting).unwrap()));
    let found = library.generate(&[Request { name, ..Request::default() }]).unwrap();
    found
        .iter()
        .any(|found| matches!(found, Generated::Address { index: 0, address } if *address != 0))
}

#[test]
fn every_name_of_the_list_exists() {
    // The compiler's libraries for vectors and wide atomics need not be installed, and OpenMP is
    // not loaded.
    let required = ["libc.so.6", "libm.so.6", "libgcc_s.so.1"];
    let mut missing = Vec::new();
    for Section { sources, names } in sections(LIST, std::env::consts::ARCH) {
        let source = sources[0];
        if source.if_loaded || (!required.contains(&source.library) && source.open().is_none()) {
            continue;
        }
        let whole = names.into_iter().filter(|name| !name.ends_with('*'));
        missing.extend(whole.filter(|name| !finds(None, name)));
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_list_is_sorted_and_names_nothing_twice() {
    for architecture in ["x86_64", "aarch64"] {
        let mut seen = std::collections::HashSet::new();
        let list = sections(LIST, architecture);
        assert!(list.len() > 6, "{architecture} has {} sections", list.len());
        for Section { sources, names } in list {
            assert!(names.is_sorted(), "{}", sources[0].library);
            for name in names {
                // The OpenMP runtimes replace one another.
                assert!(seen.insert(name) || sources[0].if_loaded, "{name} is there twice");
            }
        }
    }
}

#[test]
fn unlisted_names_are_found_only_if_added() {
    for name in ["getenv", "open", "system", "pthread_create"] {
        assert!(!finds(None, name), "{name}");
        assert!(!finds(Some("other,gete"), name), "{name}");
        assert!(finds(Some("*"), name), "{name}");
    }
    assert!(finds(Some("open, getenv"), "getenv"));
    assert!(finds(Some("get*"), "getenv"));
    assert!(!finds(Some("get*"), "open"));
    assert!(!finds(Some("*"), "longshore_no_such_function"));
}

#[test]
fn reserved_names_are_never_taken_from_the_process() {
    assert!(!finds(Some("*"), "__longshore_atexit"));
}

#[test]
fn functions_of_a_library_that_the_process_has_not_opened_are_found() {
    assert!(finds(None, "cosf"));
    assert!(finds(None, "__udivti3"));
}

#[cfg(target_arch = "aarch64")]
#[test]
fn atomics_of_the_compiler_are_found() {
    assert!(finds(None, "__aarch64_ldadd8_relax") && finds(None, "__aarch64_cas16_acq_rel"));
}

#[test]
fn openmp_is_not_opened() {
    assert!(!finds(None, "GOMP_parallel"));
    assert!(!is_loaded("libgomp.so.1"));
}

#[test]
fn a_setting_that_cannot_be_read_is_refused() {
    for wrong in ["", "a,,b", "a b", "*a", "a**"] {
        let error = AllowedNames::parse(Some(wrong)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidValue, "{wrong}");
    }
}

#[test]
fn namespace_std_is_on_the_list_as_far_as_the_library_exports_it() {
    let Some(library) = standard_library() else { return };
    // Transactional memory; lists from before C++11; members of type information classes, which
    // only the library calls; C's atomics.
    let left_out =
        ["_ZGTt", "_ZN10__gnu_norm", "_ZN10__cxxabiv1", "_ZNK10__cxxabiv1", "atomic_", "__atomic_"];
    // Functions that the linker provides, and functions that no compiler calls, or only very old
    // ones.
    let left_out_of_runtime = [
        "__cxa_allocate_dependent_exception",
        "__cxa_free_dependent_exception",
        "__cxa_thread_atexit",
        "__cxa_throw_bad_array_length",
        "__cxa_tm_cleanup",
    ];
    let mut names: Vec<String> = exports(&library).into_iter().map(|(name, ..)| name).collect();
    assert!(names.len() > 1000, "{} names", names.len());
    let is_left_out = |name: &str| {
        left_out.iter().any(|start| name.starts_with(start)) || left_out_of_runtime.contains(&name)
    };
    let is_listed =
        |name: &str| SOURCES.named(name).iter().any(|source| source.library == "libstdc++.so.6");
    names.retain(|name| !is_left_out(name) && !is_listed(name));
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn data_that_is_copied_is_data_that_is_never_written() {
    let Some(library) = standard_library() else { return };
    let file = ElfFile64::<LittleEndian>::parse(&*library).unwrap();
    let segments = |kind| {
        let of_kind = move |segment: &&object::elf::ProgramHeader64<LittleEndian>| {
            segment.p_type(LittleEndian) == kind
        };
        let segments = file.elf_program_headers().iter().filter(of_kind);
        segments.map(|segment| {
            let start = segment.p_vaddr(LittleEndian);
            (segment.p_flags(LittleEndian), start..start + segment.p_memsz(LittleEndian))
        })
    };
    let holds = |range: &std::ops::Range<u64>, place: &std::ops::Range<u64>| {
        range.start <= place.start && place.end <= range.end
    };
    let is_constant_there = |place: &std::ops::Range<u64>| {
        segments(PT_GNU_RELRO).any(|(_, range)| holds(&range, place))
            || segments(PT_LOAD).any(|(flags, range)| !flags.contains(PF_W) && holds(&range, place))
    };
    let data = exports(&library).into_iter().filter(|(_, kind, _)| *kind == SymbolKind::Data);
    let (copied, refused): (Vec<_>, Vec<_>) = data.partition(|(name, ..)| is_constant(name));
    let written: Vec<_> = copied.iter().filter(|(.., place)| !is_constant_there(place)).collect();
    assert!(written.is_empty() && copied.len() > 500, "{} copied, {written:?}", copied.len());
    assert!(refused.iter().any(|(name, ..)| name == "_ZSt4cout"));
}

#[test]
fn the_longest_start_of_matching_sections_is_first() {
    let libraries =
        |name| SOURCES.named(name).iter().map(|source| source.library).collect::<Vec<_>>();
    let guard = libraries("_ZGVNSt7collateIcE2idE");
    assert_eq!(guard[0], "libstdc++.so.6");
    assert_eq!(guard.len(), if cfg!(target_arch = "x86_64") { 2 } else { 1 });
    assert_eq!(libraries("omp_get_num_threads"), libraries("GOMP_parallel"));
    assert_eq!(libraries("omp_get_num_threads").last(), Some(&"libgomp.so.1"));
    if standard_library().is_some() {
        assert!(finds(None, "_ZGVNSt7collateIcE2idE"));
    }
}

#[test]
fn added_names_are_found_in_the_listed_libraries_too() {
    let name = "_ZN10__cxxabiv117__class_type_infoD1Ev";
    assert!(!finds(None, name));
    if standard_library().is_some() {
        assert!(finds(Some("*"), name) && finds(Some(name), name));
    }
}

#[test]
fn why_a_name_is_not_found_is_known() {
    let absence = |setting, name| {
        DeviceLibrary::new(Arc::new(AllowedNames::parse(setting).unwrap())).absence(name)
    };
    let unknown = "longshore_no_such_function";
    assert_eq!(absence(None, unknown), Absence::NotAllowed);
    assert_eq!(absence(Some("longshore_*"), unknown), Absence::NotExported);
    assert_eq!(absence(None, "_ZSt4nowhere"), Absence::NotInLibrary);
    assert_eq!(absence(None, "GOMP_parallel"), Absence::NotLoaded);
    assert_eq!(absence(None, "strlen"), Absence::Hidden);
    assert_eq!(absence(Some("*"), "__longshore_atexit"), Absence::Reserved);
}
