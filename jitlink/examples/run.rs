//! Links relocatable objects in memory and calls their `main`: `run [--lazy] FILE.o... [-- ARGS...]`. With `--lazy` an object is
//! linked when a function of it is called, unless it has constructors.

use std::error::Error;
use std::ffi::CString;

use longshore_jitlink::Session;
use longshore_jitlink::lazy::LazyReexports;
use longshore_jitlink::session::ProcessSymbols;
use longshore_runtime::static_tls_reserve;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match files.iter().position(|argument| argument == "--") {
        Some(at) => files.split_off(at + 1),
        None => Vec::new(),
    };
    let is_lazy = files.first().is_some_and(|first| first == "--lazy");
    files.retain(|file| !file.starts_with("--"));

    // Code that is not position-independent has its thread-local variables at fixed offsets from the thread pointer.
    let builder =
        Session::builder().static_tls(static_tls_reserve!(16 * 1024)?).rebind_process_data();
    // SAFETY: this process is there to run the program that it is given.
    let session = unsafe { builder.build() }?;
    let program = session.create_library("program");
    let lazy = LazyReexports::for_session(&session)?;
    let mut lazy_files = Vec::new();
    for file in &files {
        let bytes = std::fs::read(file)?.into();
        match is_lazy {
            true => lazy_files.push(lazy.add_lazily(&program, file, bytes)?),
            false => _ = program.add(file, bytes)?,
        }
    }
    program.add_generator(ProcessSymbols);
    let main = program.lookup("main")?;

    let strings: Vec<CString> = [files.swap_remove(0)]
        .into_iter()
        .chain(arguments)
        .map(CString::new)
        .collect::<Result<_, _>>()?;
    let arguments = session.main_arguments(&strings)?;
    // SAFETY: as sound as the program that was given.
    let code = unsafe {
        program.initialize(arguments)?;
        lazy_files.iter().try_for_each(|file| file.initialize(arguments))?;
        let code = program.run_main(main, arguments)?;
        program.deinitialize()?;
        lazy_files.iter().rev().try_for_each(|file| file.implementations().deinitialize())?;
        code
    };
    std::process::exit(code)
}
