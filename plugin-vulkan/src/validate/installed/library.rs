//! SPIRV-Tools' shared library, by its C interface (`spirv-tools/libspirv.h`).

use super::exit::unless_ending;
use super::probe::probe;
use crate::validate::rules::{Environment, Layouts, Rules, Verdict};
use libloading::Symbol;
use std::error::Error;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;

/// The library, which stays open for the life of the process. Any thread may use it.
pub(super) struct Library {
    functions: Functions,
    /// Values of `spv_target_env`, in the order of [`Environment::ALL`].
    environments: [c_int; Environment::ALL.len()],
    description: String,
}

/// `spv_result_t`: the module follows the rules.
const SUCCESS: c_int = 0;
/// `SPV_ERROR_INVALID_POINTER`, `SPV_ERROR_OUT_OF_MEMORY` and `SPV_ERROR_INTERNAL`: the validator
/// failed.
const FAILURES: std::ops::RangeInclusive<c_int> = -3..=-1;

/// `spv_diagnostic_t`.
#[repr(C)]
struct Diagnostic {
    /// `spv_position_t`: line, column, index.
    position: [usize; 3],
    error: *const c_char,
    is_text_source: bool,
}

/// `spv_const_binary_t`.
#[repr(C)]
struct Binary {
    code: *const u32,
    word_count: usize,
}

type Context = *mut c_void;
type Options = *mut c_void;

/// Defines the table of functions, and its lookup by their names.
macro_rules! functions {
    ($($name:ident: $symbol:literal, fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(library: &libloading::Library) -> Result<Functions, libloading::Error> {
                Ok(Functions {
                    // SAFETY: the type is the one that SPIRV-Tools' header gives the function.
                    $($name: unsafe { find(library, concat!($symbol, "\0")) }?,)*
                })
            }
        }
    };
}

functions! {
    version: "spvSoftwareVersionString", fn() -> *const c_char;
    parse_environment: "spvParseTargetEnv", fn(*const c_char, *mut c_int) -> bool;
    create_context: "spvContextCreate", fn(c_int) -> Context;
    destroy_context: "spvContextDestroy", fn(Context);
    create_options: "spvValidatorOptionsCreate", fn() -> Options;
    destroy_options: "spvValidatorOptionsDestroy", fn(Options);
    set_scalar: "spvValidatorOptionsSetScalarBlockLayout", fn(Options, bool);
    set_standard_uniform: "spvValidatorOptionsSetUniformBufferStandardLayout", fn(Options, bool);
    validate: "spvValidateWithOptions", fn(Context, Options, *const Binary, *mut *mut Diagnostic) -> c_int;
    destroy_diagnostic: "spvDiagnosticDestroy", fn(*mut Diagnostic);
}

impl Library {
    /// Opens the library and tests it. Blocks.
    ///
    /// # Errors
    /// A missing library, a library without a needed function or environment, or one with wrong
    /// verdicts.
    pub(super) fn open(soname: &OsStr) -> Result<Library, String> {
        let named = |why: String| format!("{}: {why}", soname.display());
        let ending = || "the process is about to end".to_owned();
        let opened = unless_ending(|| Library::open_now(soname));
        let library = opened.ok_or_else(|| named(ending()))??;
        for environment in Environment::ALL {
            let layouts = Layouts { scalar: true, standard_uniform: true };
            let judge = |words: &[u32]| {
                let verdict = library.verdict(words, Rules { environment, layouts });
                verdict.unwrap_or_else(|| Err(ending()))
            };
            probe(judge).map_err(named)?;
        }
        Ok(library)
    }

    fn open_now(soname: &OsStr) -> Result<Library, String> {
        // SAFETY: the installer of the library vouches for its constructors, as for the driver's.
        let opened = unsafe { libloading::Library::new(soname) };
        // Closing the library would run destructors, and its threads may still exist.
        let opened = ManuallyDrop::new(opened.map_err(|error| shown(&error))?);
        let functions = Functions::find(&opened).map_err(|error| shown(&error))?;
        // SAFETY: the function has no precondition; its text stays for the life of the process.
        let version = unsafe { CStr::from_ptr((functions.version)()) }.to_string_lossy();
        let description = format!("{}, SPIRV-Tools {version}", soname.display());
        let mut environments = [0; Environment::ALL.len()];
        for (value, environment) in environments.iter_mut().zip(Environment::ALL) {
            let name = environment.name();
            // SAFETY: both pointers are valid during the call.
            if !unsafe { (functions.parse_environment)(name.as_ptr(), value) } {
                let name = name.to_string_lossy();
                return Err(format!("{description} does not know {name}"));
            }
        }
        Ok(Library { functions, environments, description })
    }

    /// Judges a module; an error is the reason for a missing verdict. `None` once the process is
    /// about to end. Blocks.
    pub(super) fn verdict(&self, words: &[u32], rules: Rules) -> Option<Result<Verdict, String>> {
        unless_ending(|| self.judge(words, rules))
    }

    /// Returns the library's name and version.
    pub(super) fn description(&self) -> String {
        self.description.clone()
    }

    fn judge(&self, words: &[u32], rules: Rules) -> Result<Verdict, String> {
        let functions = &self.functions;
        let position = Environment::ALL.iter().position(|known| *known == rules.environment);
        let environment = self.environments[position.expect("all environments are listed")];
        let binary = Binary { code: words.as_ptr(), word_count: words.len() };
        let mut diagnostic = std::ptr::null_mut();
        // SAFETY: the functions are called by the rules of their header. Context, options and words
        // live during the call of `validate` and are destroyed once; no other thread has them.
        let result = unsafe {
            let context = (functions.create_context)(environment);
            let options = (functions.create_options)();
            if context.is_null() || options.is_null() {
                // SPIRV-Tools ignores the destruction of null.
                (functions.destroy_options)(options);
                (functions.destroy_context)(context);
                return Err("SPIRV-Tools did not create a context".to_owned());
            }
            (functions.set_scalar)(options, rules.layouts.scalar);
            (functions.set_standard_uniform)(options, rules.layouts.standard_uniform);
            let result = (functions.validate)(context, options, &binary, &mut diagnostic);
            (functions.destroy_options)(options);
            (functions.destroy_context)(context);
            result
        };
        let text = self.take_text(diagnostic);
        match result {
            SUCCESS => Ok(Verdict::Valid),
            result if FAILURES.contains(&result) => {
                Err(format!("SPIRV-Tools failed with {result}: {text}"))
            }
            result if text.trim().is_empty() => {
                Ok(Verdict::invalid(&format!("the validator says {result}")))
            }
            _ => Ok(Verdict::invalid(&text)),
        }
    }

    /// Reads a diagnostic, which may be null, and destroys it.
    fn take_text(&self, diagnostic: *mut Diagnostic) -> String {
        // SAFETY: SPIRV-Tools made the diagnostic, or left null.
        let Some(said) = (unsafe { diagnostic.as_ref() }) else { return String::new() };
        let text = match said.error.is_null() {
            true => String::new(),
            // SAFETY: SPIRV-Tools' text ends with a zero and lives as long as the diagnostic.
            false => unsafe { CStr::from_ptr(said.error) }.to_string_lossy().into_owned(),
        };
        // SAFETY: the diagnostic is destroyed once, and nothing refers to it any more.
        unsafe { (self.functions.destroy_diagnostic)(diagnostic) };
        text
    }
}

/// Finds a function by its name, which ends with a zero.
///
/// # Safety
/// `F` is the function's type.
unsafe fn find<F: Copy>(library: &libloading::Library, name: &str) -> Result<F, libloading::Error> {
    // SAFETY: promised by the caller.
    let found: Symbol<'_, F> = unsafe { library.get(name.as_bytes()) }?;
    Ok(*found)
}

/// Returns the dynamic linker's own message, if one exists.
fn shown(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}
