//! Calls of services by their wrapper functions, as a controller makes them.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_bytes::ByteBuf;

use super::exits::{
    ADD_DSO_HANDLES, CREATE_EXIT_SCOPE, END_LIBRARY, END_OBJECTS, LibraryEnd, ObjectEnd,
};
use super::libraries::{DATA_AT, DATA_SIZES, LOOK_UP, LookUp, Name, Symbol};
use super::run::{Arguments, MAKE_ARGUMENTS, RUN_CONSTRUCTORS};
use super::thread_locals::{
    CREATE_THREAD_LOCALS, INITIALISE_THREAD_LOCALS, NewThreadLocals, ThreadLocals,
};
use super::{RELEASE, Released};
use crate::wrapper::{self, Service};
use crate::{StaticTls, bootstrap_symbols, names, static_tls_reserve, thread_pointer};

fn call<A: Serialize, R: DeserializeOwned>(service: Service<A, R>, argument: A) -> R {
    let symbols: HashMap<&str, u64> = bootstrap_symbols().into_iter().collect();
    // SAFETY: the tests pass valid arguments.
    let answer = unsafe { wrapper::call(symbols[service.name()], &service.argument(&argument)) };
    service.decode_reply(&answer.unwrap()).unwrap()
}

#[test]
fn no_service_does_anything_with_bytes_that_are_no_argument() {
    let numbers = super::functions();
    for (name, function) in numbers {
        // No service takes as many bytes, and none takes so long a list.
        for damaged in [&[0xff; 64][..], &[0; 64]] {
            // SAFETY: the bytes are read and refused.
            let answer = unsafe { wrapper::call(function as usize as u64, damaged) };
            assert!(answer.unwrap_err().starts_with("its argument: "), "{name}");
        }
    }
}

/// The numbers logged by a test's exit handlers. Each test has its own log.
type Log = Mutex<Vec<u64>>;

extern "C" fn handler(argument: *mut std::ffi::c_void) {
    // SAFETY: the handler is registered with such a pair.
    let (log, number) = unsafe { *argument.cast::<(&Log, u64)>() };
    log.lock().push(number);
}

/// Registers a handler that logs a number, as linked code does.
fn register(dso_handle: u64, pair: &(&'static Log, u64)) {
    type Register = unsafe extern "C" fn(u64, *const (&'static Log, u64), u64) -> i32;
    let symbols: HashMap<&str, u64> = bootstrap_symbols().into_iter().collect();
    let stand_in = symbols[names::stand_in("__cxa_atexit").unwrap()] as usize;
    let handler = handler as *const () as u64;
    // SAFETY: the function takes three words; the pair lives until the scope is released.
    unsafe { std::mem::transmute::<usize, Register>(stand_in)(handler, pair, dso_handle) };
}

fn log() -> &'static Log {
    Box::leak(Box::default())
}

fn end_of(scope: u64) -> LibraryEnd {
    LibraryEnd { scope: Some(scope), destructors: Vec::new() }
}

#[test]
fn handlers_run_at_the_end_of_their_library_by_any_of_its_handles() {
    let log = log();
    let scope = call(CREATE_EXIT_SCOPE, ());
    let own_handle = &raw const *log as u64;
    call(ADD_DSO_HANDLES, vec![(scope, own_handle)]);
    let pairs = [(log, 1), (log, 2)];
    register(scope, &pairs[0]);
    register(own_handle, &pairs[1]);
    call(END_LIBRARY, end_of(scope));
    assert_eq!(*log.lock(), [2, 1]);
    call(
        RELEASE,
        Released { scopes: vec![scope], dso_handles: vec![own_handle], ..Released::default() },
    );
    call(END_LIBRARY, end_of(scope));
    assert_eq!(*log.lock(), [2, 1], "what is released has nothing left");
}

#[test]
fn only_handlers_of_an_object_run_with_its_end() {
    let log = log();
    let scope = call(CREATE_EXIT_SCOPE, ());
    let pairs = [(log, 1), (log, 2), (log, 3)];
    pairs.iter().for_each(|pair| register(scope, pair));
    let object = ObjectEnd {
        scope: Some(scope),
        destructors: Vec::new(),
        ranges: vec![(&raw const pairs[1] as u64, 1)],
        thread_locals: None,
    };
    call(END_OBJECTS, vec![object]);
    assert_eq!(*log.lock(), [2]);
    call(RELEASE, Released { scopes: vec![scope], ..Released::default() });
    assert_eq!(*log.lock(), [2], "the others were forgotten");
}

fn new(size: u64, reserve: Option<u64>) -> NewThreadLocals {
    static TEMPLATE: [u8; 8] = *b"template";
    NewThreadLocals {
        template: TEMPLATE.as_ptr() as u64,
        content_size: 8,
        size,
        alignment: 8,
        reserve,
    }
}

fn read(address: u64) -> [u8; 8] {
    // SAFETY: the tests create storage of at least 8 bytes.
    unsafe { *(address as *const [u8; 8]) }
}

#[test]
fn dynamic_storage_has_its_template_and_its_destructors_belong_to_its_object() {
    let log = log();
    let [place] = call(CREATE_THREAD_LOCALS, vec![new(64, None)]).unwrap()[..] else { panic!() };
    let ThreadLocals { number, module, module_offset: 0, from_thread_pointer: None } = place else {
        panic!("{place:?}")
    };
    // SAFETY: the module is alive.
    let address = unsafe { crate::tls::tls_get_address(&[module, 0]) } as u64;
    assert_eq!(read(address), *b"template");
    let pair = (address + 16) as *mut (&'static Log, u64);
    // SAFETY: the pair is in this thread's block, which has room for it.
    let pair = unsafe {
        pair.write((log, 5));
        &*pair
    };
    let scope = call(CREATE_EXIT_SCOPE, ());
    register(scope, pair);
    let end = |thread_locals| ObjectEnd {
        scope: Some(scope),
        destructors: Vec::new(),
        ranges: Vec::new(),
        thread_locals,
    };
    call(END_OBJECTS, vec![end(None)]);
    assert_eq!(*log.lock(), []);
    call(END_OBJECTS, vec![end(Some(number))]);
    assert_eq!(*log.lock(), [5]);
    call(
        RELEASE,
        Released { scopes: vec![scope], thread_locals: vec![number], ..Released::default() },
    );
}

#[test]
fn static_storage_has_the_content_that_it_is_given() {
    let reserve = static_tls_reserve!(64).unwrap();
    let made = call(CREATE_THREAD_LOCALS, vec![new(8, Some(StaticTls::address(reserve)))]);
    let [place] = made.unwrap()[..] else { panic!() };
    let address = thread_pointer().wrapping_add_signed(place.from_thread_pointer.unwrap());
    assert_eq!(read(address), [0; 8]);
    let content = ByteBuf::from(b"content!");
    call(INITIALISE_THREAD_LOCALS, vec![(place.number, content)]).unwrap();
    assert_eq!(read(address), *b"content!");
    // SAFETY: the executable's block has the storage.
    let by_pair = unsafe { crate::tls::tls_get_address(&[place.module, place.module_offset]) };
    assert_eq!(by_pair as u64, address);
    let numbers = vec![place.number];
    call(RELEASE, Released { thread_locals: numbers, ..Released::default() });
}

#[test]
fn storage_is_made_for_all_or_for_none_and_the_error_says_for_which_it_was() {
    let reserve = Some(StaticTls::address(static_tls_reserve!(64).unwrap()));
    for _ in 0..3 {
        let wanted = vec![new(64, reserve), new(64, reserve)];
        let (index, problem) = call(CREATE_THREAD_LOCALS, wanted).unwrap_err();
        assert_eq!(index, 1);
        assert!(problem.to_string().contains("no 0x40 bytes are left"), "{problem}");
    }
    let made = call(CREATE_THREAD_LOCALS, vec![new(64, reserve)]).unwrap();
    let numbers = vec![made[0].number];
    call(RELEASE, Released { thread_locals: numbers, ..Released::default() });
}

#[test]
fn constructors_get_arguments_that_end_with_null_even_without_any() {
    static SEEN: Mutex<Vec<(u64, bool)>> = Mutex::new(Vec::new());
    extern "C" fn constructor(argc: u64, argv: *const u64, environment: *const u64) {
        // SAFETY: both are lists.
        let ends = unsafe { *argv.add(argc as usize) == 0 && (argc > 0 || *environment == 0) };
        SEEN.lock().push((argc, ends));
    }
    let function = constructor as *const () as u64;
    call(RUN_CONSTRUCTORS, (vec![function], Arguments::default()));
    let strings = ["program", "cut\0here"].map(|string| ByteBuf::from(string.as_bytes()));
    let arguments = call(MAKE_ARGUMENTS, strings.to_vec());
    call(RUN_CONSTRUCTORS, (vec![function; 2], arguments));
    assert_eq!(*SEEN.lock(), [(0, true), (2, true), (2, true)]);
}

#[test]
fn data_of_the_process_is_distinguished_from_functions() {
    let names = ["stdout", "getpid", "getpid@GLIBC_2.0"];
    let names = names.map(|name| Name { name: name.to_owned(), thread_local: false });
    let found = call(LOOK_UP, vec![LookUp { library: 0, names: names.to_vec() }]).unwrap();
    let [Some(Symbol::Address(stdout)), Some(Symbol::Address(getpid)), None] = found[0][..] else {
        panic!("{found:?}")
    };
    assert_eq!(call(DATA_SIZES, vec![stdout, getpid, 0]), [Some(8), None, None]);
    let data = call(DATA_AT, vec![getpid, stdout]);
    assert_eq!(data, [None, Some(ByteBuf::from(read(stdout)))]);
}
