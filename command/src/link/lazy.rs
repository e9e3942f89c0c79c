//! Programs whose functions are linked at their first call (`--lazy`).

use super::executor::installed;
use super::failure::{LinkFailure, LinkInputs};
use super::inputs::Input;
use super::kind::Kind;
use super::names::readable;
use longshore_bitcode::{Bitcode, Compiler};
use longshore_cc::path;
use longshore_compiler::LibraryChoice;
use longshore_executor::compiler::CompilerProcess;
use longshore_executor::controller::Spawn;
use longshore_executor::target::end_with_last_thread;
use longshore_jitlink::lazy::{FailedCall, LazyFiles, LazyReexports, not_linked_function};
use longshore_jitlink::{Error, Library, Result, Session};
use std::io::Write;
use std::sync::{Arc, Once, OnceLock};

/// A program whose functions have entries before they are linked.
pub(super) struct LazyProgram {
    library: Library,
    files: LazyFiles,
    /// Handler of first calls, which works until it is dropped.
    _reexports: LazyReexports,
}

impl LazyProgram {
    /// Adds the inputs. A first call that cannot be linked is reported here, and ends the process
    /// that runs the program.
    pub(super) fn add(
        session: &Session,
        library: &Library,
        given: &Arc<LinkInputs>,
    ) -> Result<LazyProgram, LinkFailure> {
        let reexports = LazyReexports::for_session(session)?;
        let (given_too, ends) = (Arc::clone(given), not_linked_function(session)?);
        let reported = Once::new();
        reexports.on_failure(move |call| {
            reported.call_once(|| report(call, &given_too));
            ends
        });
        let mut addition = reexports.lazily(library, "program");
        for input in &given.inputs {
            addition = match Kind::detect(&input.bytes) {
                Kind::Bitcode => {
                    let Input { name, bytes } = input;
                    let module = Bitcode::for_session(session, compiler()?, name, bytes)?;
                    addition.source(Arc::new(module))
                }
                _ => addition.file(&input.name, &input.bytes)?,
            };
        }
        for archive in &given.archives {
            addition = addition.archive(&archive.name, archive.bytes.clone())?;
        }
        let files = addition.add()?;
        Ok(LazyProgram { library: library.clone(), files, _reexports: reexports })
    }

    /// Links together the code that runs first: the entry, the constructors, and, for an entry that
    /// the files define, the definitions of `undefined`. Returns the entry's address.
    /// `is_another_name`: whether the entry is an alias or an absolute symbol, which the files do
    /// not define.
    pub(super) fn link(
        &self,
        entry: &str,
        is_another_name: bool,
        undefined: &[&str],
    ) -> Result<u64> {
        if !is_another_name && self.files.defined(entry)?.is_some() {
            return self.files.link_with_constructors(entry, undefined);
        }
        self.files.link_constructors()?;
        self.library.lookup(entry)
    }

    pub(super) fn files(&self) -> &LazyFiles {
        &self.files
    }
}

/// Assembles inputs of LLVM's assembly text to bitcode.
///
/// # Errors
/// Errors of the compiler, which is needed only if there is such an input.
pub(super) fn assemble_texts(inputs: &mut [Input]) -> Result<()> {
    let mut texts = inputs
        .iter_mut()
        .filter(|input| Kind::detect(&input.bytes) == Kind::AssemblyText)
        .peekable();
    if texts.peek().is_none() {
        return Ok(());
    }
    let compiler = compiler()?;
    texts.try_for_each(|input| {
        input.bytes = compiler.assemble(&input.name, &input.bytes)?.into();
        Ok(())
    })
}

/// Returns the compiler: the newest `libLLVM`, in an executor of this installation. Starts it at
/// the first call, and keeps it until this process ends.
fn compiler() -> Result<&'static Compiler> {
    static COMPILER: OnceLock<Compiler> = OnceLock::new();
    if let Some(compiler) = COMPILER.get() {
        return Ok(compiler);
    }
    let executor = installed()
        .map_err(|problem| Error::Open { path: "the compiler of bitcode".to_owned(), problem })?;
    let process = CompilerProcess::new(Spawn::new(executor)).with_folders(path::folders());
    let compiler = Compiler::new(Arc::new(process), LibraryChoice::Newest)?;
    // This process may run the program, and has threads for the connection now.
    end_with_last_thread();
    Ok(COMPILER.get_or_init(|| compiler))
}

/// Prints the error of a first call, with hints.
fn report(call: &FailedCall, given: &LinkInputs) {
    if let Error::ProcessGone { .. } = call.error {
        // The program ended while one of its threads was about to call a function. The thread that
        // waits for the program reports how it ended.
        return;
    }
    let failure = LinkFailure::from(call.error.clone()).explain(given);
    let entry = readable(&call.entry);
    let failure = failure.about(&format!("the called function '{entry}' cannot be linked"));
    // A failed write to standard error cannot be reported anywhere.
    let _ = write!(std::io::stderr(), "{failure}");
}
