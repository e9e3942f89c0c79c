//! The constants of each implementation, beside its header `mpi.h`.

use longshore_mpi::abi::{Constants, MAX_STRING, mpich, open_mpi, standard};
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::process::{Command, Output};

/// Names in C of the handles, in the order of `handles`.
const HANDLES: [&str; 24] = [
    "MPI_COMM_WORLD",
    "MPI_COMM_SELF",
    "MPI_COMM_NULL",
    "MPI_REQUEST_NULL",
    "MPI_INFO_NULL",
    "MPI_ERRORS_RETURN",
    "MPI_BYTE",
    "MPI_INT8_T",
    "MPI_UINT8_T",
    "MPI_INT16_T",
    "MPI_UINT16_T",
    "MPI_INT32_T",
    "MPI_UINT32_T",
    "MPI_INT64_T",
    "MPI_UINT64_T",
    "MPI_FLOAT",
    "MPI_DOUBLE",
    "MPI_SUM",
    "MPI_PROD",
    "MPI_MIN",
    "MPI_MAX",
    "MPI_BAND",
    "MPI_BOR",
    "MPI_BXOR",
];

/// Limits of strings, which only have to be large enough.
const LIMITS: [&str; 3] =
    ["MPI_MAX_ERROR_STRING", "MPI_MAX_LIBRARY_VERSION_STRING", "MPI_MAX_PROCESSOR_NAME"];

/// Start of the program. A handle of Open MPI is printed as the name of its symbol.
const START: &str = r#"
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <mpi.h>
    #include <stddef.h>
    #include <stdint.h>
    #include <stdio.h>
    static void number(const char *name, long long value) { printf("%s %lld\n", name, value); }
    #ifdef OPEN_MPI
    static void handle(const char *name, const void *address) {
        Dl_info found;
        int known = dladdr(address, &found);
        printf("%s %s\n", name, known && found.dli_saddr == address ? found.dli_sname : "?");
    }
    #define HANDLE(name) handle(#name, name)
    #else
    static void handle(const char *name, uintptr_t bits, size_t size) {
        printf("%s %zu\n", name, size == sizeof(uint32_t) ? (uint32_t)bits : bits);
    }
    #define HANDLE(name) handle(#name, (uintptr_t)(name), sizeof(name))
    #endif
    int main(void) {
"#;

#[test]
fn the_constants_of_open_mpi_match_its_header() {
    compare("mpicc.openmpi", &open_mpi::CONSTANTS, &[]);
}

#[test]
fn the_constants_of_mpich_match_its_header() {
    compare("mpicc.mpich", &mpich::CONSTANTS, &[]);
}

#[test]
fn the_constants_of_the_standard_abi_match_its_header() {
    let more = [
        ("MPI_LASTUSEDCODE", i64::from(standard::LASTUSEDCODE)),
        ("MPI_ERR_LASTCODE", i64::from(standard::ERR_LASTCODE)),
    ];
    compare("mpicc_abi", &standard::CONSTANTS, &more);
}

/// Compares the constants, and more numbers, with a compiler's header.
fn compare<H: Copy + Display>(
    compiler: &str,
    constants: &Constants<H>,
    more: &[(&'static str, i64)],
) {
    if Command::new(compiler).arg("--version").output().is_err() {
        return eprintln!("skipped: {compiler} is not installed");
    }
    let numbers = [&numbers(constants)[..], more].concat();
    let printed = printed(compiler, &program(&numbers));
    let handles = HANDLES.iter().zip(handles(constants));
    let handles = handles.map(|(name, handle)| ((*name).to_owned(), handle));
    let numbers = numbers.iter().map(|(name, value)| (compact(name), value.to_string()));
    for (name, value) in handles.chain(numbers) {
        assert_eq!(printed[&name], value, "{name}");
    }
    for name in LIMITS {
        let limit: usize = printed[name].parse().unwrap();
        assert!(limit <= MAX_STRING, "{name} is {limit}");
    }
}

/// Returns the handles in the order of `HANDLES`.
fn handles<H: Copy + Display>(constants: &Constants<H>) -> Vec<String> {
    let mut handles = Vec::new();
    let mut collect = |handle: H| {
        handles.push(handle.to_string());
        Ok::<_, std::convert::Infallible>(())
    };
    constants.resolve(&mut collect).unwrap();
    assert_eq!(handles.len(), HANDLES.len());
    handles
}

/// Returns the numbers, each after its expression in C.
fn numbers<H>(constants: &Constants<H>) -> Vec<(&'static str, i64)> {
    let (numbers, status) = (&constants.numbers, &constants.status);
    let levels = numbers.thread_levels;
    let integers = [
        ("MPI_SUCCESS", 0),
        ("MPI_ANY_SOURCE", numbers.any_source),
        ("MPI_ANY_TAG", numbers.any_tag),
        ("MPI_THREAD_SINGLE", levels[0]),
        ("MPI_THREAD_FUNNELED", levels[1]),
        ("MPI_THREAD_SERIALIZED", levels[2]),
        ("MPI_THREAD_MULTIPLE", levels[3]),
        ("MPI_TAG_UB", numbers.tag_ub),
        ("MPI_ERR_COUNT", numbers.err_count),
        ("MPI_ERR_ARG", numbers.err_arg),
        ("MPI_ERR_UNSUPPORTED_OPERATION", numbers.err_unsupported_operation),
    ];
    let sizes = [
        ("(intptr_t)MPI_STATUS_IGNORE", numbers.status_ignore),
        ("sizeof(MPI_Status) / sizeof(int)", status.size),
        ("offsetof(MPI_Status, MPI_SOURCE) / sizeof(int)", status.source),
        ("offsetof(MPI_Status, MPI_TAG) / sizeof(int)", status.tag),
        ("offsetof(MPI_Status, MPI_ERROR) / sizeof(int)", status.error),
    ];
    let integers = integers.map(|(name, value)| (name, i64::from(value)));
    // The address of all ones is -1 in C.
    let sizes = sizes.map(|(name, value)| (name, value as i64));
    [&integers[..], &sizes].concat()
}

/// Returns the program that prints all constants, each in a line after its name.
fn program(numbers: &[(&'static str, i64)]) -> String {
    let mut program = START.to_owned();
    for name in HANDLES {
        writeln!(program, "HANDLE({name});").unwrap();
    }
    for name in numbers.iter().map(|(name, _)| *name).chain(LIMITS) {
        writeln!(program, "number(\"{}\", (long long)({name}));", compact(name)).unwrap();
    }
    program + "}\n"
}

/// Returns an expression as one word.
fn compact(expression: &str) -> String {
    expression.replace(' ', "")
}

/// Compiles and runs a program, and returns the values that it prints.
fn printed(compiler: &str, program: &str) -> BTreeMap<String, String> {
    let directory = tempfile::tempdir().unwrap();
    let (source, binary) = (directory.path().join("print.c"), directory.path().join("print"));
    std::fs::write(&source, program).unwrap();
    let mut compile = Command::new(compiler);
    successful(compile.arg("-o").arg(&binary).arg(&source).arg("-ldl").output().unwrap());
    let output = successful(Command::new(&binary).output().unwrap());
    let pairs = output.lines().map(|line| line.split_once(' ').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn successful(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
