//! Symbols by the names that C++ sources give them: `scale<float, 4>` for `_Z5scaleIfLi4EEvPT_`.

mod spelling;

use super::{Program, SymbolKind};
use cpp_demangle::{DemangleOptions, Symbol};
use longshore_plugin_api::{Error, ErrorCode, Result};
use spelling::plain;

/// Beginning of the symbols that C++ compilers make of names.
const MANGLED: &str = "_Z";

/// Returns the symbol with a source name, with or without the types of a kernel's parameters.
///
/// # Errors
/// `InvalidArgument` if several symbols have the name, and errors of the driver.
pub(super) fn find(program: &Program, name: &str, kind: SymbolKind) -> Result<Option<String>> {
    if name.starts_with(MANGLED) {
        return Ok(None);
    }
    let wanted = plain(name);
    let symbols = program.symbols()?.into_iter().filter(|(_, found)| *found == kind);
    let mut found: Vec<String> =
        symbols.map(|(symbol, _)| symbol).filter(|symbol| has_name(symbol, &wanted)).collect();
    if found.len() > 1 {
        let names: Vec<String> =
            found.iter().filter_map(|symbol| source_signature(symbol)).collect();
        let message = format!(
            "'{name}' names {} {}s: {}; expected one of these names, or of the symbols {}",
            found.len(),
            if kind == SymbolKind::Kernel { "kernel" } else { "global" },
            names.join(", "),
            found.join(", ")
        );
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    }
    Ok(found.pop())
}

/// Returns the name that a source in C++, CUDA or HIP gives a symbol, such as `scale<float, 4>` for
/// `_Z5scaleIfLi4EEvPT_`; `None` for symbols of C. [`Program::kernel`] finds a kernel by either.
/// LLVM has no such function. Does not block.
pub fn source_name(symbol: &str) -> Option<String> {
    demangled(symbol, &DemangleOptions::new().no_return_type().no_params())
}

/// Returns the name as [`source_name`] does, with the types of the parameters: `over(int*)`. It
/// tells overloaded kernels apart. LLVM has no such function. Does not block.
pub fn source_signature(symbol: &str) -> Option<String> {
    demangled(symbol, &DemangleOptions::new().no_return_type())
}

fn has_name(symbol: &str, wanted: &str) -> bool {
    let names = [source_name(symbol), source_signature(symbol)];
    names.into_iter().flatten().any(|name| plain(&name) == wanted)
}

fn demangled(symbol: &str, options: &DemangleOptions) -> Option<String> {
    if !symbol.starts_with(MANGLED) {
        return None;
    }
    Symbol::new(symbol).ok()?.demangle(options).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_cpp_have_their_source_names() {
        let cases = [
            ("_Z5saxpyfPKfPfi", "saxpy", true),
            ("_Z5saxpyfPKfPfi", "saxpy(float, float const*, float*, int)", true),
            ("_Z5saxpyfPKfPfi", "sax", false),
            ("_Z3sumILi256EEvPKfPf", "sum<256>", true),
            ("_Z3sumILj256EEvPKfPf", "sum< 256 >", true),
            ("_Z3sumILi256EEvPKfPf", "sum", false),
            ("_Z3sumILh3ELb1EEvPKfPf", "sum<3, true>", true),
            ("_ZN2ns1kIfLi16EEEvPT_", "ns::k<float, 16>", true),
            ("_ZN12_GLOBAL__N_11kEv", "k", true),
            ("_Z1kIjEvPT_", "k<unsigned>", true),
            ("_Z1kImEvPT_", "k<uint64_t>", true),
            ("_Z1kIPKfEvT_", "k<const float *>", true),
            ("_Z1kIPKfEvT_", "k<float *>", false),
            ("_Z5scalePKfPf", "scale(const float*, float*)", true),
            ("_Z5scalePKfPf", "scale(const float *__restrict__, float *const)", true),
            ("_Z4hmaxI6__halfEvPT_", "hmax<half>", true),
            ("_Z4hmaxI7__half2EvPT_", "hmax<half2>", true),
            ("saxpy", "saxpy", false),
        ];
        for (symbol, name, expected) in cases {
            assert_eq!(has_name(symbol, &plain(name)), expected, "{symbol} {name}");
        }
    }
}
