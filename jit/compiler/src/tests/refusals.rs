//! Modules that are refused.

use super::support::{bitcode, compile, compiler, versions};
use crate::{
    Compile, CompileError, LibraryChoice, Module, Options, Part, Producer, Request, Target,
};

const SOURCE: &str = "int fine(int n) { return n + 1; }";

#[test]
fn bitcode_of_a_newer_llvm_is_refused_with_both_versions_and_the_package() {
    let (compiler, versions) = (compiler(), versions());
    for pair in versions.windows(2) {
        let [older, newer] = [pair[0], pair[1]];
        let module = bitcode(newer, "-O1", SOURCE);
        let options = Options { library: LibraryChoice::Major(older), ..Options::default() };
        let error = compile(&compiler, &module, &Part::Whole, &options).unwrap_err();
        assert!(matches!(error, CompileError::Newer { .. }), "{error:?}");
        let text = error.to_string();
        for part in [
            &format!("LLVM{newer}"),
            &format!("LLVM {older} and earlier"),
            &format!("libllvm{newer}"),
        ] {
            assert!(text.contains(part.as_str()), "{text}");
        }
    }
}

#[test]
fn another_target_is_refused_with_both() {
    let compiler = compiler();
    for version in versions() {
        let module = bitcode(version, "-O1 --target=x86_64-linux-gnu", SOURCE);
        let target = Target { triple: "aarch64-unknown-linux-gnu".to_owned(), ..Target::default() };
        let options = Options { library: LibraryChoice::Major(version), ..Options::default() };
        let request =
            Request { module: &module, part: &Part::Whole, target: &target, options: &options };
        let error = compiler.compile(&request).unwrap_err().to_string();
        assert!(
            error.contains("x86_64") && error.contains("--target=aarch64-unknown-linux-gnu"),
            "{error}"
        );
        let text = "target datalayout = \"E-p:32:32\"\ntarget triple = \"x86_64-linux-gnu\"\n";
        let error =
            compile(&compiler, &Module::new(text), &Part::Whole, &options).unwrap_err().to_string();
        assert!(error.contains("E-p:32:32") && error.contains("e-m:e"), "{error}");
    }
}

#[test]
fn code_that_the_target_lacks_is_an_error_with_llvms_message() {
    let compiler = compiler();
    for version in versions() {
        let module = bitcode(
            version,
            "-O1 --target=x86_64-linux-gnu",
            "void wrong(void) { __asm__(\"no_such_instruction\"); }",
        );
        let options = Options { library: LibraryChoice::Major(version), ..Options::default() };
        let error = compile(&compiler, &module, &Part::Whole, &options).unwrap_err().to_string();
        assert!(error.contains("invalid instruction"), "{error}");
    }
}

#[test]
fn other_bytes_than_bitcode_are_an_error() {
    let compiler = compiler();
    for version in versions() {
        let whole = bitcode(version, "-O1", SOURCE);
        let options = Options { library: LibraryChoice::Major(version), ..Options::default() };
        for bytes in [
            &b""[..],
            b"BC\xc0\xde",
            b"\x7fELF",
            b"define",
            &whole.bytes()[..whole.bytes().len() / 2],
        ] {
            let compiled = compile(&compiler, &Module::new(bytes), &Part::Whole, &options);
            assert!(
                matches!(compiled, Err(CompileError::Malformed(_) | CompileError::Target(_))),
                "{compiled:?}"
            );
        }
        assert_eq!(Producer::read(whole.bytes()).unwrap().version(), Some(version));
    }
}
