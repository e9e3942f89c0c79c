use crate::Library;

const VERSIONS: [u32; 4] = [14, 16, 19, 22];

#[test]
fn each_installed_version_is_opened_and_reports_its_version() {
    let open = |version| {
        // SAFETY: the system's libraries of these names are LLVM's.
        unsafe { Library::find(Some(version)) }
    };
    let opened: Vec<_> = VERSIONS.into_iter().filter_map(|it| Some((it, open(it).ok()?))).collect();
    assert!(!opened.is_empty(), "{}", open(19).unwrap_err());
    for (version, library) in opened {
        assert_eq!(library.major(), version, "{library:?}");
    }
}

#[test]
fn a_missing_version_is_reported_with_its_package() {
    // SAFETY: the system's libraries of these names are LLVM's.
    let error = unsafe { Library::find(Some(99)) }.unwrap_err().to_string();
    assert!(error.contains("libLLVM.so.99.1") && error.contains("libllvm99"), "{error}");
}
