use super::*;

fn finds(setting: Option<&str>, name: &str) -> bool {
    let library = DeviceLibrary::new(Arc::new(AllowedNames::parse(setting).unwrap()));
    let found = library.generate(&[Request { name, ..Request::default() }]).unwrap();
    found
        .iter()
        .any(|found| matches!(found, Generated::Address { index: 0, address } if *address != 0))
}

#[test]
fn every_name_of_the_list_exists() {
    // The compiler's library for vectors and wide atomics need not be installed; OpenMP is not loaded.
    let required = ["libc.so.6", "libm.so.6", "libgcc_s.so.1"];
    let mut missing = Vec::new();
    for (source, names) in sections(LIST, std::env::consts::ARCH) {
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
        for (source, names) in list {
            assert!(names.is_sorted(), "{}", source.library);
            for name in names {
                assert!(seen.insert(name), "{name} is there twice");
            }
        }
    }
}

#[test]
fn what_is_not_on_the_list_is_found_only_if_it_was_added() {
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
