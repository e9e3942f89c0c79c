//! A program that links relocatable objects in memory and calls their `main`: `run [--lazy]
//! FILE.o... [-- ARGS...]`. With `--lazy` an object is linked when a function of it is called,
//! unless it has constructors.

use std::error::Error;
use std::ffi::CString;

use longshore_jitlink::Session;
use longshore_jitlink::lazy::LazyReexports;
use longshore_jitlink::session::ProcessSymbols;
use longshore_orc_rt::static_tls_reserve;

fn main() -> Result<(), Box<dyn Error>> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match files.iter().position(|argument| argument == "--") {
        Some(at) => files.split_off(at + 1),
        None => Vec::new(),
    };
    let is_lazy = files.first().is_some_and(|first| first == "--lazy");
    files.retain(|file| !file.starts_with("--"));
    let strings = files.first().into_iter().chain(&arguments);
    let strings: Vec<CString> =
        strings.map(|text| CString::new(text.as_str())).collect::<Result<_, _>>()?;

    // Code that is not position-independent has its thread-local variables at fixed offsets from
    // the thread pointer.
    let builder = Session::builder()
        .with_static_tls(static_tls_reserve!(16 * 1024)?)
        .with_rebound_process_data();
    // SAFETY: this process exists to run the given program.
    let session = unsafe { builder.build() }?;
    let program = session.create_library("program");
    if is_lazy {
        let lazy = LazyReexports::for_session(&session)?;
        let mut addition = lazy.lazily(&program, "program");
        for file in &files {
            addition = addition.file(file, &std::fs::read(file)?.into())?;
        }
        let files = addition.add()?;
        program.add_generator(ProcessSymbols);
        let main = files.link("main")?;
        // SAFETY: as sound as the given program.
        match unsafe { files.run_program(main, &strings) }? {}
    }
    for file in &files {
        program.add(file, std::fs::read(file)?.into())?;
    }
    program.add_generator(ProcessSymbols);
    let main = program.lookup("main")?;
    // SAFETY: as sound as the given program.
    match unsafe { program.run_program(main, &strings) }? {}
}
