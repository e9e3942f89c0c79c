use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;

use crate::wait;
use longshore_orc_rt::names::CALL_CONTROLLER;
use longshore_orc_rt::wrapper::Reply;

use super::*;
use crate::Undefined;
use crate::lookup::Lookup;
use crate::process::{ProcessLibrary, ProcessSymbol, SymbolQuery, SymbolRequest, call_service};

fn process() -> InProcess {
    InProcess::new().unwrap()
}

fn wanted(name: &str, lookup: Lookup) -> SymbolQuery<'_> {
    SymbolQuery { name, thread_local: false, lookup }
}

fn lookup(
    library: ProcessLibrary,
    names: &[SymbolQuery<'_>],
) -> Result<Vec<Option<ProcessSymbol>>> {
    // SAFETY: the libraries of these tests are open.
    wait(unsafe { process().lookup(&[SymbolRequest { library, names }]) })
        .map(|mut found| found.remove(0))
}

#[test]
fn memory_is_written_and_read() {
    let process = process();
    let address = wait(process.allocate(64, 32)).unwrap();
    assert_eq!(address % 32, 0);
    // SAFETY: the memory was allocated just now.
    let read = unsafe {
        wait(process.write(&[(address, b"abc"), (address + 60, b"xyz!")])).unwrap();
        let read = wait(process.read(&[(address, 5), (address + 60, 4), (address, 0)])).unwrap();
        wait(process.free(address)).unwrap();
        read
    };
    assert_eq!(read, [&b"abc\0\0"[..], b"xyz!", b""]);
}

#[test]
fn memory_that_there_is_not_is_an_error() {
    for (size, alignment) in [(u64::MAX, 8), (1 << 62, 8), (64, 24)] {
        let error = wait(process().allocate(size, alignment)).unwrap_err();
        assert!(matches!(error, Error::Memory { .. }), "{error}");
    }
    // SAFETY: there is no room for a result of that size, so nothing is read.
    let error = unsafe { wait(process().read(&[(0x1000, usize::MAX)])) }.unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
}

#[test]
fn symbols_of_several_libraries_are_found_at_once() {
    let process = process();
    // SAFETY: the library is in use already.
    let library = wait(unsafe { process.open_library(Path::new("libc.so.6")) }).unwrap();
    let names = [wanted("getpid", Lookup::Required), wanted("no such name", Lookup::Optional)];
    let errno = [SymbolQuery { thread_local: true, ..wanted("errno", Lookup::Required) }];
    let requests = [
        SymbolRequest { library: ProcessLibrary::GLOBAL, names: &names },
        SymbolRequest { library, names: &errno },
        SymbolRequest { library, names: &names[..1] },
    ];
    // SAFETY: the library is closed afterwards.
    let found = wait(unsafe { process.lookup(&requests) }).unwrap();
    let getpid = Some(ProcessSymbol::Address(libc::getpid as *const () as u64));
    assert_eq!(found[0], [getpid, None]);
    assert!(matches!(found[1][..], [Some(ProcessSymbol::ThreadLocal(_))]));
    assert_eq!(found[2], [getpid]);
    // SAFETY: nothing uses this handle any more.
    wait(unsafe { process.close_library(library) }).unwrap();
}

#[test]
fn all_required_names_that_are_missing_are_in_the_error() {
    let names = [
        wanted("missing_one", Lookup::Required),
        wanted("getpid", Lookup::Required),
        wanted("missing_two", Lookup::Required),
        wanted("missing_three", Lookup::Optional),
        wanted("with\0zero", Lookup::Required),
    ];
    let Err(Error::Undefined(missing)) = lookup(ProcessLibrary::GLOBAL, &names) else {
        panic!("names are missing")
    };
    let names: Vec<&str> = missing.iter().map(|Undefined { symbol, .. }| &**symbol).collect();
    assert_eq!(names, ["missing_one", "missing_two", "with\0zero"]);
}

#[test]
fn a_library_that_there_is_not_is_an_error_with_its_path() {
    // SAFETY: the library does not exist.
    let opened = wait(unsafe { process().open_library(Path::new("/nowhere/lib.so")) });
    let Err(Error::Open { path, problem }) = opened else { panic!("{opened:?}") };
    assert_eq!(path, "/nowhere/lib.so");
    assert!(problem.contains("No such file"), "{problem}");
}

#[test]
fn a_function_is_run_as_main() {
    unsafe extern "C" fn main(
        argc: c_int,
        argv: *const *const c_char,
        environment: *const *const c_char,
    ) -> c_int {
        // SAFETY: the caller passes the arguments of a `main`.
        unsafe {
            assert!((*argv.add(argc as usize)).is_null() && !(*environment).is_null());
            argc * 100 + CStr::from_ptr(*argv.add(1)).to_bytes().len() as c_int
        }
    }
    let arguments = ["program", "four"].map(|argument| CString::new(argument).unwrap());
    let main = main as *const () as u64;
    // SAFETY: the function is a `main`.
    assert_eq!(wait(unsafe { process().run_as_main(main, &arguments) }).unwrap(), 204);
}

/// Calls the controller as linked code does.
fn call_back(process: &InProcess, tag: u64, argument: &[u8]) -> Result<Vec<u8>, String> {
    type Function = unsafe extern "C" fn(u64, *const u8, usize, *mut Reply);
    let address = process.facts().symbols[CALL_CONTROLLER];
    let mut reply = Reply::new();
    // SAFETY: the symbol of that name is a function of this type; argument and reply live during
    // the call.
    unsafe {
        let function = std::mem::transmute::<usize, Function>(address as usize);
        function(tag, argument.as_ptr(), argument.len(), &mut reply);
    }
    reply.result().map(<[u8]>::to_vec)
}

#[test]
fn code_of_the_process_calls_back_until_it_is_disconnected() {
    let process = process();
    let tag = &raw const process as u64;
    process.serve(tag, Arc::new(|argument| Ok([argument, b"!"].concat()))).unwrap();
    assert_eq!(call_back(&process, tag, b"call"), Ok(b"call!".to_vec()));
    let taken = process.serve(tag, Arc::new(|_| Ok(Vec::new())));
    assert!(matches!(taken, Err(Error::Call { .. })), "{taken:?}");
    process.disconnect().unwrap();
    assert!(call_back(&process, tag, b"call").is_err());
}

#[test]
fn the_reply_of_a_handler_reaches_the_calling_code() {
    let process = process();
    let tag = &raw const process as u64;
    let fails = |_: &[u8]| Err(Error::ProcessGone { how: "by a test".to_owned() });
    process.serve(tag, Arc::new(fails)).unwrap();
    assert!(call_back(&process, tag, &[]).unwrap_err().contains("gone: by a test"));
}

#[test]
fn a_process_that_is_dropped_answers_no_calls_back() {
    let process = process();
    let tag = &raw const process as u64;
    process.serve(tag, Arc::new(|_| Ok(Vec::new()))).unwrap();
    drop(process);
    assert!(longshore_orc_rt::callback::call_controller(tag, &[]).is_err());
}

#[test]
fn everything_fails_after_the_end_of_the_connection() {
    let process = process();
    process.disconnect().unwrap();
    process.disconnect().unwrap();
    let results = [
        wait(process.allocate(8, 8)).map(drop),
        // SAFETY: nothing is called and nothing written.
        wait(unsafe { process.call(0, &[]) }).map(drop),
        // SAFETY: as above.
        wait(unsafe { process.write(&[(0, &[1])]) }),
        process.serve(1, Arc::new(|_| Ok(Vec::new()))),
    ];
    for result in results {
        assert!(matches!(result, Err(Error::ProcessGone { .. })), "{result:?}");
    }
}

#[test]
fn a_call_that_fails_names_the_function_and_the_problem() {
    // SAFETY: nothing is called.
    let error = wait(unsafe { process().call(0, &[]) }).unwrap_err().to_string();
    assert!(error.contains("0x0") && error.contains("is null"), "{error}");
    // SAFETY: the bytes are no argument, so the function does nothing.
    let damaged = wait(unsafe {
        let free = process().facts().symbols[longshore_orc_rt::service::memory::FREE.name()];
        process().call(free, &[])
    });
    assert!(damaged.unwrap_err().to_string().contains("its argument"));
}

#[test]
fn a_process_without_a_service_is_an_error_that_names_it() {
    let mut process = process();
    Arc::make_mut(&mut process.facts).symbols.clear();
    let service = longshore_orc_rt::service::memory::ALLOCATE;
    // SAFETY: the service is sound with any numbers.
    let error = wait(unsafe { call_service(&process, service, &(8, 8)) }).unwrap_err();
    assert!(error.to_string().contains("has no __longshore_allocate"), "{error}");
}
