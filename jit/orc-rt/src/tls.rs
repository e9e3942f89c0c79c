//! Dynamic thread-local storage of linked code: a thread gets its block of a module at the first
//! request of an address in it (ORC's emulated `__tls_get_addr`).
//!
//! A thread finds its blocks in its own table, by the module's index. Modules come and go, and an
//! index is reused. So an entry also has the module's generation, which is not reused: entries left
//! behind by an ended module never match. The blocks belong to the registry of live modules. The
//! module or the thread, whichever ends first, removes the blocks from the registry under its lock
//! and frees them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;

use parking_lot::Mutex;

use crate::thread;
use crate::{Error, Result};

/// Greatest module number of the dynamic linker. Handles are addresses, and every address is
/// larger.
const LARGEST_MODULE_NUMBER: u64 = 0xffff;

unsafe extern "C" {
    fn __tls_get_addr(pair: *const [u64; 2]) -> *mut c_void;
}

/// The thread-local storage of one or several linked objects. Dropping it frees the blocks of all
/// threads; nothing may use them any more by then.
#[derive(Debug)]
pub struct TlsModule(Box<Module>);

/// The module whose address is the handle.
#[derive(Debug)]
struct Module {
    index: usize,
    generation: u64,
    template: u64,
    content_size: usize,
    layout: Layout,
}

impl TlsModule {
    /// Creates a module whose blocks have `size` bytes: the `content_size` bytes of the template,
    /// then zeroes. The bytes at `template` are read at a thread's first use of its block, and must
    /// be valid from the first use to the drop.
    ///
    /// A size or alignment that no block can have is an error.
    pub fn new(template: u64, content_size: u64, size: u64, alignment: u64) -> Result<Self> {
        let impossible = || Error::Memory {
            name: "thread-local storage".into(),
            problem: format!(
                "a block of {size:#x} bytes aligned to {alignment:#x}, {content_size:#x} of them with content, is impossible"
            ),
        };
        let to_usize = |number| usize::try_from(number).map_err(|_| impossible());
        let layout = Layout::from_size_align(to_usize(size.max(1))?, to_usize(alignment)?)
            .map_err(|_| impossible())?;
        if content_size > size {
            return Err(impossible());
        }
        let content_size = to_usize(content_size)?;
        let (index, generation) = REGISTRY.lock().add();
        Ok(Self(Box::new(Module { index, generation, template, content_size, layout })))
    }

    /// Returns the handle, the first word of a general-dynamic pair [handle, offset]. It is valid
    /// until the module is dropped.
    pub fn handle(&self) -> u64 {
        (&raw const *self.0) as u64
    }

    /// Returns whether an address is in the block of a thread.
    pub fn contains(&self, address: u64) -> bool {
        let registry = REGISTRY.lock();
        let size = self.0.layout.size() as u64;
        let module = registry.modules[self.0.index].iter();
        module
            .flat_map(|module| module.blocks.values())
            .any(|block| address.wrapping_sub(block.address as u64) < size)
    }
}

impl Drop for TlsModule {
    fn drop(&mut self) {
        let blocks = REGISTRY.lock().remove(self.0.index);
        drop(blocks);
    }
}

/// Returns the address of the `__tls_get_addr` of linked code. The function takes the address of a
/// pair [handle, offset], or of a pair whose first word is a module number of the dynamic linker.
/// It neither locks nor allocates, except at a thread's first use of a module. Without memory for a
/// block it aborts the process, as libc's function does.
pub fn tls_get_address_function() -> u64 {
    tls_get_address as *const () as u64
}

/// # Safety
///
/// The first word of the pair must be the handle of a live module, or the number of a live module
/// of the dynamic linker.
pub(super) unsafe extern "C" fn tls_get_address(pair: *const [u64; 2]) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    let [handle, offset] = unsafe { *pair };
    if handle <= LARGEST_MODULE_NUMBER {
        // SAFETY: guaranteed by the caller.
        return unsafe { __tls_get_addr(pair) };
    }
    // SAFETY: guaranteed by the caller: the handle is the address of a module's box, which nothing
    // changes.
    let module = unsafe { &*(handle as *const Module) };
    let block = find(module).unwrap_or_else(|| create(module));
    block.wrapping_add(offset as usize).cast()
}

thread_local! {
    /// The calling thread's table. It has no destructor, so that destructors of other thread-local
    /// variables can use it.
    static TABLE: Cell<*const [Entry]> = const { Cell::new(&[]) };
    /// Whether [`end_of_thread`] will be called.
    static WILL_END: Cell<bool> = const { Cell::new(false) };
}

/// An entry of a thread's table: its block in the module with this generation. No module has
/// generation 0.
#[derive(Clone, Copy)]
struct Entry {
    generation: u64,
    block: *mut u8,
}

const NO_ENTRY: Entry = Entry { generation: 0, block: std::ptr::null_mut() };

/// Returns the calling thread's block, if it has one.
#[inline]
fn find(module: &Module) -> Option<*mut u8> {
    // SAFETY: only this thread replaces its table, and not during this function.
    let table = unsafe { &*TABLE.get() };
    table
        .get(module.index)
        .filter(|entry| entry.generation == module.generation)
        .map(|entry| entry.block)
}

/// Creates the calling thread's block.
#[cold]
fn create(module: &Module) -> *mut u8 {
    free_blocks_at_end_of_thread();
    let block = Block::new(module);
    let address = block.address;
    REGISTRY.lock().insert(module, block);
    let mut entries = replace_table(&[]).into_vec();
    if entries.len() <= module.index {
        entries.resize((module.index + 1).next_power_of_two(), NO_ENTRY);
    }
    entries[module.index] = Entry { generation: module.generation, block: address };
    replace_table(Box::leak(entries.into_boxed_slice()));
    address
}

/// Has the blocks of the calling thread freed when it ends, after every function registered for its
/// end from now on.
pub(super) fn free_blocks_at_end_of_thread() {
    if !WILL_END.replace(true) {
        // SAFETY: the function may be called on any thread.
        unsafe { thread::at_end(end_of_thread, std::ptr::null_mut()) };
    }
}

/// Frees the blocks of the calling thread at its end. A thread-local variable that is used later
/// still gets a new block, and this function is called again.
///
/// When the process exits, the functions for the end of the exiting thread run before exit handlers
/// and destructors, which may use its variables. That thread is mostly the first one: its blocks
/// stay until their modules are dropped.
unsafe extern "C" fn end_of_thread(_: *mut c_void) {
    WILL_END.set(false);
    if thread::is_first() {
        return;
    }
    let entries = replace_table(&[]);
    let thread = thread::number();
    let mut registry = REGISTRY.lock();
    let blocks: Vec<_> = entries
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| registry.take(index, entry.generation, thread))
        .collect();
    drop(registry);
    drop(blocks);
}

/// Replaces the calling thread's table, which is empty or from a box, and returns the old one.
fn replace_table(table: *const [Entry]) -> Box<[Entry]> {
    let old = TABLE.replace(table).cast_mut();
    // SAFETY: a nonempty table was leaked by `create`, and has no other owner.
    unsafe { Box::from_raw(old) }
}

/// One thread's bytes of one module.
struct Block {
    address: *mut u8,
    layout: Layout,
}

// SAFETY: the block is memory from the allocator, which any thread may free.
unsafe impl Send for Block {}

impl Block {
    fn new(module: &Module) -> Self {
        // SAFETY: the size is not zero.
        let address = unsafe { alloc_zeroed(module.layout) };
        if address.is_null() {
            handle_alloc_error(module.layout);
        }
        // SAFETY: the template has that many bytes, as the creator of the module guarantees; the
        // block has as many or more.
        unsafe {
            std::ptr::copy_nonoverlapping(
                module.template as *const u8,
                address,
                module.content_size,
            )
        };
        Self { address, layout: module.layout }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout.
        unsafe { dealloc(self.address, self.layout) };
    }
}

static REGISTRY: Mutex<Registry> =
    Mutex::new(Registry { modules: Vec::new(), unused: Vec::new(), last_generation: 0 });

/// The live modules, by index, with all their blocks.
struct Registry {
    modules: Vec<Option<LiveModule>>,
    unused: Vec<usize>,
    last_generation: u64,
}

struct LiveModule {
    generation: u64,
    /// Blocks by the number of the thread.
    blocks: BTreeMap<u64, Block>,
}

impl Registry {
    /// Adds a module, and returns its index and generation.
    fn add(&mut self) -> (usize, u64) {
        self.last_generation += 1;
        let index = self.unused.pop().unwrap_or_else(|| {
            self.modules.push(None);
            self.modules.len() - 1
        });
        self.modules[index] =
            Some(LiveModule { generation: self.last_generation, blocks: BTreeMap::new() });
        (index, self.last_generation)
    }

    fn remove(&mut self, index: usize) -> Option<LiveModule> {
        self.unused.push(index);
        self.modules[index].take()
    }

    /// Adds the calling thread's block.
    fn insert(&mut self, module: &Module, block: Block) {
        let live = self.modules[module.index].as_mut().expect("a module that is in use is alive");
        live.blocks.insert(thread::number(), block);
    }

    /// Removes and returns a thread's block, if its module is alive.
    fn take(&mut self, index: usize, generation: u64, thread: u64) -> Option<Block> {
        let live =
            self.modules.get_mut(index)?.as_mut().filter(|live| live.generation == generation)?;
        live.blocks.remove(&thread)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::thread::spawn;

    use super::*;

    fn module(template: &[u8], size: u64, alignment: u64) -> TlsModule {
        TlsModule::new(template.as_ptr() as u64, template.len() as u64, size, alignment).unwrap()
    }

    fn address(module: &TlsModule, offset: u64) -> *mut u8 {
        // SAFETY: the module is alive.
        unsafe { tls_get_address(&[module.handle(), offset]).cast() }
    }

    fn content(module: &TlsModule) -> &[u8] {
        // SAFETY: the block is this thread's, and has the module's size.
        unsafe { std::slice::from_raw_parts(address(module, 0), module.0.layout.size()) }
    }

    #[test]
    fn a_block_starts_as_the_template_and_then_zeroes() {
        let module = module(b"template", 12, 64);
        assert_eq!(content(&module), b"template\0\0\0\0");
        assert_eq!(address(&module, 0) as u64 % 64, 0);
        assert_eq!(address(&module, 5), address(&module, 0).wrapping_add(5));
    }

    #[test]
    fn a_block_keeps_its_threads_values_and_other_threads_have_their_own() {
        let module = Arc::new(module(&[1], 1, 1));
        // SAFETY: the byte is this thread's.
        unsafe { *address(&module, 0) = 2 };
        assert_eq!(content(&module), [2]);
        let other = module.clone();
        spawn(move || assert_eq!(content(&other), [1])).join().unwrap();
        assert_eq!(content(&module), [2]);
    }

    #[test]
    fn a_module_does_not_see_the_block_of_the_one_whose_index_it_has() {
        for value in 0..100 {
            let module = module(&[value], 1, 1);
            assert_eq!(content(&module), [value]);
        }
    }

    #[test]
    fn a_module_contains_the_blocks_of_the_threads_that_live_and_used_it() {
        let module = Arc::new(module(&[1], 8, 8));
        let here = address(&module, 0) as u64;
        let (tell, reported) = std::sync::mpsc::channel();
        let looked = Arc::new(Barrier::new(2));
        let thread = spawn({
            let (module, looked) = (module.clone(), looked.clone());
            move || {
                let there = address(&module, 0) as u64;
                tell.send(there).unwrap();
                looked.wait();
            }
        });
        let there = reported.recv().unwrap();
        for block in [here, there] {
            assert!((block..block + 8).all(|address| module.contains(address)));
            assert!(!module.contains(block.wrapping_sub(1)) && !module.contains(block + 8));
        }
        looked.wait();
        thread.join().unwrap();
        assert!(module.contains(here) && !module.contains(there));
    }

    #[test]
    fn a_destructor_of_another_thread_local_variable_can_still_use_a_block() {
        struct BlockUser(Arc<TlsModule>);
        impl Drop for BlockUser {
            fn drop(&mut self) {
                assert_eq!(content(&self.0), [7]);
            }
        }
        thread_local!(static LATE: Cell<Option<BlockUser>> = const { Cell::new(None) });
        let module = Arc::new(module(&[7], 1, 1));
        let other = module.clone();
        spawn(move || {
            LATE.set(Some(BlockUser(other.clone())));
            assert_eq!(content(&other), [7]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn blocks_that_cannot_be_are_refused() {
        for (content_size, size, alignment) in
            [(2, 1, 1), (0, 1, 0), (0, 1, 3), (0, u64::MAX, 1), (0, 1 << 62, 1 << 63)]
        {
            assert!(
                TlsModule::new(0, content_size, size, alignment).is_err(),
                "{content_size} {size} {alignment}"
            );
        }
    }

    #[test]
    fn a_module_number_of_the_dynamic_linker_is_passed_on_to_it() {
        let errno = super::super::process_tls::tests::errno();
        let function = tls_get_address_function();
        // SAFETY: the function has this type.
        let function: unsafe extern "C" fn(*const [u64; 2]) -> *mut c_void =
            unsafe { std::mem::transmute(function as usize) };
        // SAFETY: libc stays loaded, and with it its module.
        let address = unsafe { function(&[errno.module, errno.offset]) };
        // SAFETY: any thread may take the address of its `errno`.
        assert_eq!(address, unsafe { libc::__errno_location() }.cast());
    }

    #[test]
    fn threads_and_modules_may_end_in_any_order() {
        const ROUNDS: usize = if cfg!(miri) { 4 } else { 400 };
        let round = |number: usize| {
            let template: [u8; 16] = std::array::from_fn(|i| (number + i) as u8);
            let modules: Vec<_> = (0..4).map(|_| module(&template, 40, 16)).collect();
            let done = Arc::new(Barrier::new(4));
            let threads: Vec<_> = (0..3)
                .map(|skipped| {
                    let handles: Vec<_> = modules.iter().map(|module| module.handle()).collect();
                    let done = done.clone();
                    spawn(move || {
                        for (index, handle) in
                            handles.into_iter().enumerate().filter(|(index, _)| *index != skipped)
                        {
                            // SAFETY: the module lives until all threads have reached the barrier;
                            // the block is this thread's.
                            let block =
                                unsafe { &mut *tls_get_address(&[handle, 0]).cast::<[u8; 40]>() };
                            assert_eq!(block[..16], template);
                            assert_eq!(block[16..], [0; 24]);
                            block.fill(index as u8);
                        }
                        done.wait();
                    })
                })
                .collect();
            done.wait();
            // The threads end while the modules are dropped.
            drop(modules);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        };
        let rounds = |first: usize| (first..ROUNDS).step_by(2).for_each(round);
        std::thread::scope(|scope| {
            scope.spawn(|| rounds(0));
            scope.spawn(|| rounds(1));
        });
    }
}
