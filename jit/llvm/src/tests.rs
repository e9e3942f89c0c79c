use crate::bitcode::written;
use crate::types::{ContextRef, ModuleRef};
use crate::{Library, change_bitcode};

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

/// Returns bitcode with a function `f`.
fn definition(library: &Library) -> Vec<u8> {
    let text = c"define void @f() {\n  ret void\n}\n".to_bytes();
    let llvm = library.functions();
    // SAFETY: the buffer has a copy of the text, and the parser takes it over. The context and the
    // module are disposed of.
    unsafe {
        let context = (llvm.LLVMContextCreate)();
        let (start, name) = (text.as_ptr().cast(), c"f".as_ptr());
        let copy = llvm.LLVMCreateMemoryBufferWithMemoryRangeCopy;
        let buffer = copy(start, text.len(), name);
        let (mut module, mut problem) = (ModuleRef::NULL, std::ptr::null_mut());
        let parse = llvm.LLVMParseIRInContext;
        assert_eq!(parse(context, buffer, &raw mut module, &raw mut problem), 0);
        let bytes = written(llvm, module);
        (llvm.LLVMDisposeModule)(module);
        (llvm.LLVMContextDispose)(context);
        bytes
    }
}

#[test]
fn an_error_of_llvm_is_reported_and_does_not_end_the_process() {
    let nothing = |_: ContextRef, _: ModuleRef| Ok(());
    for version in VERSIONS {
        // SAFETY: the system's libraries of these names are LLVM's.
        let Ok(library) = (unsafe { Library::find(Some(version)) }) else { continue };
        let bitcode = definition(&library);
        let change = |bitcode: &[&[u8]]| {
            // SAFETY: LLVM has just written the bitcode.
            unsafe { change_bitcode(&library, bitcode, false, nothing) }
        };
        change(&[&bitcode]).expect("the bitcode is valid");
        let error = change(&[&bitcode, &bitcode]).expect_err("both define the function");
        let is_explained = error.contains("cannot be joined") && error.contains("'f'");
        assert!(is_explained, "{version}: {error}");
    }
}
