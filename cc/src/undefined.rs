//! Device functions that sources in CUDA and HIP declare, and no source of an image defines.

use cpp_demangle::{DemangleOptions, Symbol};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

/// Beginning of the declarations of functions in PTX.
const EXTERNAL: &str = ".extern .func";

/// Returns the functions of C++ that an object or PTX calls and does not define, as sources declare
/// them: `f(int)`. Functions of the C++ library, which the CPU backend has, do not count.
pub(crate) fn functions(image: &[u8]) -> Vec<String> {
    let mut names = match ElfFile64::<Endianness>::parse(image) {
        Ok(file) => in_object(&file),
        Err(_) => in_ptx(&String::from_utf8_lossy(image)),
    };
    names.sort_unstable();
    names.dedup();
    names
}

fn in_object(file: &ElfFile64<'_, Endianness>) -> Vec<String> {
    let undefined = file.symbols().filter(|symbol| symbol.is_undefined());
    undefined.filter_map(|symbol| shown(symbol.name().ok()?)).collect()
}

fn in_ptx(text: &str) -> Vec<String> {
    let declared = text.lines().filter(|line| line.starts_with(EXTERNAL));
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let names = declared.flat_map(|line| line.split(|c| !is_of_name(c)));
    names.filter_map(shown).collect()
}

/// Returns the declaration of a function with this symbol; `None` for names of C and of the C++
/// library.
fn shown(symbol: &str) -> Option<String> {
    let name = symbol.strip_prefix("_Z")?;
    let name = name.strip_prefix('N').map_or(name, |it| it.trim_start_matches(['K', 'V']));
    let is_of_program = name.starts_with(|c: char| c.is_ascii_digit());
    let symbol = Symbol::new(symbol).ok().filter(|_| is_of_program)?;
    let signature = symbol.demangle(&DemangleOptions::new().no_return_type()).ok()?;
    (!signature.starts_with("__")).then_some(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_names_the_functions_that_it_declares() {
        let ptx = ".version 7.8\n.extern .func  (.param .b32 func_retval0) _Z1fi\n(\n\t.param .b32 \
                   _Z1fi_param_0\n)\n;\n.extern .func _ZN2ns1gEv()\n;\n.extern .func vprintf\n\
                   .func _Z1hv()\n";
        assert_eq!(functions(ptx.as_bytes()), ["f(int)", "ns::g()"]);
    }

    #[test]
    fn functions_of_the_library_are_not_of_the_program() {
        for symbol in ["_ZSt4sortv", "_ZNKSt6vectorIiE4sizeEv", "_Znwm", "_ZN10__cxxabiv11fEv", "f"]
        {
            assert_eq!(shown(symbol), None, "{symbol}");
        }
        assert_eq!(shown("_ZNK1A1fEi").as_deref(), Some("A::f(int) const"));
    }
}
