//! Objects that a system linker may accept, and that this linker refuses with the reason.

use bytes::Bytes;

use crate::in_process::support::{assembly, c, failure, library};

#[test]
fn an_object_for_link_time_optimization_is_refused() {
    let slim = c("-flto -fno-fat-lto-objects", "int f(void) { return 1; }");
    let bitcode = Bytes::from_static(b"BC\xc0\xde and so on");
    let wrapped = Bytes::from_static(b"\xde\xc0\x17\x0b");
    for object in [slim, bitcode, wrapped] {
        let error = failure(library(&[]).add_object("it.o", object));
        assert!(error.contains("it.o") && error.contains("-ffat-lto-objects"), "{error}");
    }
}

#[test]
fn an_object_that_has_machine_code_too_is_linked() {
    let fat = c("-flto -ffat-lto-objects", "long f(void) { return 1; }");
    assert_eq!(crate::in_process::support::value(&library(&[fat]), "f"), 1);
}

#[test]
fn an_executable_stack_is_refused() {
    let nested = "
        long with(long (*function)(long));
        long f(long n) { long add(long m) { return n + m; } return with(add); }
        long with(long (*function)(long)) { return function(1); }";
    for object in
        [c("-O0", nested), assembly(".globl f; f: ret; .section .note.GNU-stack,\"x\",@progbits")]
    {
        let error = failure(library(&[object]).lookup("f"));
        assert!(error.contains("executable stack"), "{error}");
    }
}
