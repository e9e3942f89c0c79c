//! Memory of an executor that its controller allocates, writes and reads.

#![cfg(feature = "jitlink")]

use std::sync::Arc;

use longshore_executor::controller::{ExecutorProcess, Spawn};
use longshore_jitlink::process::{
    ProcessCalls, ProcessLibrary, ProcessSymbol, SymbolQuery, SymbolRequest, TargetProcess,
    call_service,
};
use longshore_jitlink::session::Lookup;
use longshore_jitlink::{Error, wait};
use longshore_orc_rt::service::run;

fn both_ways(test: impl Fn(Arc<ExecutorProcess>)) {
    for shares in [true, false] {
        let spawn = Spawn::new(env!("CARGO_BIN_EXE_longshore-executor")).with_shared_memory(shares);
        test(ExecutorProcess::spawn(&spawn).unwrap());
    }
}

#[test]
fn written_messages_are_read_again() {
    both_ways(|process| {
        for size in [1, 8, 4096, 5000, (1 << 20) + 1, 3 << 20] {
            let address = wait(process.allocate(size as u64, 64)).unwrap();
            assert!(address.is_multiple_of(64));
            let bytes: Vec<u8> = (0..size).map(|index| (index * 7) as u8).collect();
            // SAFETY: that many bytes were allocated at the address, and nothing else uses them.
            unsafe {
                assert_eq!(wait(process.read(&[(address, size)])).unwrap(), [vec![0; size]]);
                wait(process.write(&[(address, &bytes)])).unwrap();
                let ranges = [(address, size), (address + size as u64 / 2, 1)];
                let read = wait(process.read(&ranges)).unwrap();
                assert_eq!(read, [bytes.clone(), vec![bytes[size / 2]]]);
                wait(process.free(address)).unwrap();
                assert!(matches!(wait(process.free(address)), Err(Error::Memory { .. })));
            }
        }
    });
}

#[test]
fn the_process_sees_what_is_written() {
    both_ways(|process| {
        let address = wait(process.allocate(16, 8)).unwrap();
        let peek = process.facts().symbols["__longshore_read"];
        // SAFETY: the bytes were allocated; the service reads them in the process.
        unsafe {
            wait(process.write(&[(address, &7_u64.to_le_bytes()), (address + 8, b"12345678")]))
                .unwrap();
            let ranges = postcard::to_stdvec(&vec![(address, 16_u64)]).unwrap();
            let answer = wait(process.call(peek, &ranges)).unwrap();
            assert!(answer.ends_with(b"\x07\0\0\0\0\0\0\x0012345678"), "{answer:?}");
        }
    });
}

#[test]
fn in_the_sandbox_no_program_is_run_and_no_network_reached() {
    let denied = |sandboxed: bool| {
        let mut spawn = Spawn::new(env!("CARGO_BIN_EXE_longshore-executor"));
        if sandboxed {
            spawn = spawn.with_argument("--sandbox");
        }
        let process = ExecutorProcess::spawn(&spawn).unwrap();
        let (library, address) = (ProcessLibrary::GLOBAL, |name| SymbolQuery {
            name,
            thread_local: false,
            lookup: Lookup::Required,
        });
        let names = [address("system"), address("socket")];
        // SAFETY: the library is always there.
        let found = wait(unsafe { process.lookup(&[SymbolRequest { library, names: &names }]) });
        let call = |index: usize, arguments: [u64; 3]| {
            let ProcessSymbol::Address(function) = found.as_ref().unwrap()[0][index].unwrap()
            else {
                panic!("it is a function")
            };
            let arguments = run::Arguments {
                argc: arguments[0],
                argv: arguments[1],
                environment: arguments[2],
            };
            // SAFETY: the functions take these arguments.
            wait(unsafe { call_service(&*process, run::RUN_MAIN, &(function, arguments)) }).unwrap()
        };
        let command = wait(process.allocate(8, 8)).unwrap();
        // SAFETY: the 8 bytes were allocated.
        wait(unsafe { process.write(&[(command, b"exit 3\0\0")]) }).unwrap();
        let exit = call(0, [command, 0, 0]);
        let [inet, unix] = [libc::AF_INET, libc::AF_UNIX]
            .map(|family| call(1, [family as u64, libc::SOCK_STREAM as u64, 1 << 63]));
        (exit, inet >= 0, unix >= 0)
    };
    assert_eq!(denied(false).0, 3 << 8);
    let (exit, reaches_network, reaches_unix) = denied(true);
    assert_ne!(exit, 3 << 8);
    assert!(!reaches_network && !reaches_unix);
}

#[test]
fn impossible_sizes_and_alignments_are_errors() {
    both_ways(|process| {
        for (size, alignment) in [(u64::MAX, 8), (1 << 62, 8), (8, 3), (8, 0)] {
            let error = wait(process.allocate(size, alignment)).unwrap_err();
            assert!(matches!(error, Error::Memory { .. }), "{error}");
        }
        assert!(wait(process.allocate(1, 1)).is_ok());
    });
}

#[test]
fn a_process_that_is_killed_is_gone_for_all_that_is_asked_of_it() {
    both_ways(|process| {
        process.kill();
        process.peer().wait_for_end();
        let error = wait(process.allocate(8, 8)).unwrap_err();
        assert!(matches!(&error, Error::ProcessGone { how } if how.contains("SIGKILL")), "{error}");
        process.disconnect().unwrap();
    });
}
