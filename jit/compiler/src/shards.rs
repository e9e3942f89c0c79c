//! Shards of large modules. Reading the tables of a large module takes longer than a small
//! function's code, so groups of functions become modules of their own when one of them is needed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use longshore_llvm::types::ValueRef;
use parking_lot::Mutex;

use crate::context::{Context, LoadedModule};
use crate::libraries::Backend;
use crate::{CompileError, Module, Part, Request, parts};

/// Number of bytes from which on a module has shards.
const LARGE: usize = 64 << 10;

/// Number of functions of a shard.
const FUNCTIONS: usize = 32;

/// The shards of all modules, by the numbers of the modules and the versions of LLVM.
#[derive(Default)]
pub(crate) struct AllShards(Mutex<HashMap<(u64, u32), Arc<Shards>>>);

/// The shards of a module.
#[derive(Default)]
struct Shards(OnceLock<HashMap<Vec<u8>, Arc<Shard>>>);

/// A group of functions with their aliases.
#[derive(Default)]
struct Shard {
    functions: Vec<Vec<u8>>,
    aliases: Vec<Vec<u8>>,
    module: Mutex<Option<Module>>,
}

impl AllShards {
    /// Returns the shard that has all that a request needs; `None` if the whole module is needed,
    /// or small. Blocks while another thread makes the shard.
    pub(crate) fn get(
        &self,
        backend: &Backend,
        request: &Request<'_>,
    ) -> Result<Option<Module>, CompileError> {
        let Part::Only { functions, .. } = request.part else { return Ok(None) };
        let module = request.module;
        if module.bytes().len() < LARGE {
            return Ok(None);
        }
        let key = (module.number(), backend.library.major());
        let shards = Arc::clone(self.0.lock().entry(key).or_default());
        let all = match shards.0.get() {
            Some(all) => all,
            None => {
                let divided = divide(backend, module)?;
                shards.0.get_or_init(|| divided)
            }
        };
        let mut needed = functions.iter().map(|function| all.get(*function));
        let first = needed.next().flatten();
        let is_same = |other: Option<&Arc<Shard>>| {
            first.zip(other).is_some_and(|(first, other)| Arc::ptr_eq(first, other))
        };
        match first {
            Some(shard) if needed.all(is_same) => Ok(Some(shard.module(backend, module)?)),
            _ => Ok(None),
        }
    }

    pub(crate) fn forget(&self, module: &Module) {
        self.0.lock().retain(|(number, _), _| *number != module.number());
    }
}

impl Shard {
    /// Returns the shard as a module, which is made once.
    fn module(&self, backend: &Backend, whole: &Module) -> Result<Module, CompileError> {
        let mut made = self.module.lock();
        if let Some(module) = &*made {
            return Ok(module.clone());
        }
        let context = Context::new(backend.library.functions());
        let loaded = context.parse(whole.bytes(), true)?;
        let part =
            Part::Only { functions: slices(&self.functions), aliases: slices(&self.aliases) };
        parts::reduce(&loaded, &part)?;
        Ok(made.insert(Module::new(loaded.to_bitcode())).clone())
    }
}

fn slices(names: &[Vec<u8>]) -> Vec<&[u8]> {
    names.iter().map(Vec::as_slice).collect()
}

/// Divides a module's functions into shards; none if they depend on each other in other ways than
/// by name.
fn divide(
    backend: &Backend,
    module: &Module,
) -> Result<HashMap<Vec<u8>, Arc<Shard>>, CompileError> {
    let context = Context::new(backend.library.functions());
    let module = context.parse(module.bytes(), true)?;
    let functions: Vec<ValueRef> = module.defined_functions().collect();
    let Some(mut aliases) = aliases(&module) else { return Ok(HashMap::new()) };
    let mut all = HashMap::new();
    for group in functions.chunks(FUNCTIONS) {
        let names: Vec<Vec<u8>> =
            group.iter().map(|function| module.name_of(*function).to_owned()).collect();
        let own = group.iter().filter_map(|function| aliases.remove(function)).flatten();
        let shard =
            Shard { functions: names.clone(), aliases: own.collect(), module: Mutex::default() };
        let shard = Arc::new(shard);
        all.extend(names.into_iter().map(|name| (name, Arc::clone(&shard))));
    }
    Ok(all)
}

/// Returns the names of functions' aliases. `None` for a module with an alias of something else, or
/// with a function that a resolver chooses.
fn aliases(module: &LoadedModule<'_>) -> Option<HashMap<ValueRef, Vec<Vec<u8>>>> {
    let table = module.functions();
    let mut all: HashMap<ValueRef, Vec<Vec<u8>>> = HashMap::new();
    // SAFETY: the values belong to the live module, which nothing changes meanwhile.
    unsafe {
        if !(table.LLVMGetFirstGlobalIFunc)(module.module).is_null() {
            return None;
        }
        let mut next = (table.LLVMGetFirstGlobalAlias)(module.module);
        while let Some(alias) = next.present() {
            next = (table.LLVMGetNextGlobalAlias)(alias);
            let function = (table.LLVMIsAFunction)((table.LLVMAliasGetAliasee)(alias)).present()?;
            all.entry(function).or_default().push(module.name_of(alias).to_owned());
        }
    }
    Some(all)
}
