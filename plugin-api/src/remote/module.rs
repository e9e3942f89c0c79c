//! Modules and their kernels.

use super::tables::Tables;
use super::{Remote, handed_out};
use crate::abi::{self, KernelHandle, ModuleHandle};
use crate::argument_type::ArgumentType;
use crate::backend::Module;
use crate::bounds;
use crate::error::{Error, ErrorCode, Result};
use crate::raw::{collect, from_raw, text};
use crate::request::{
    GlobalAddress, KernelAttributes, PoolTracker, ProfileSection, ProfileSectionKind, SymbolKind,
};
use std::ffi::c_void;
use std::sync::Arc;

/// A loaded module of a plugin. Dropping it unloads it.
pub struct RemoteModule {
    handle: *mut ModuleHandle,
    tables: Tables,
}

/// A kernel. Valid until its module is unloaded.
pub struct RemoteKernel(*mut KernelHandle);

// SAFETY: the interface promises that a module may be used from any thread.
unsafe impl Send for RemoteModule {}
// SAFETY: as above.
unsafe impl Sync for RemoteModule {}
// SAFETY: a kernel handle is only a name for the plugin's calls, which any thread may make.
unsafe impl Send for RemoteKernel {}
// SAFETY: as above.
unsafe impl Sync for RemoteKernel {}

impl RemoteKernel {
    pub(super) fn handle(&self) -> *mut KernelHandle {
        self.0
    }
}

impl RemoteModule {
    pub(super) fn new(handle: *mut ModuleHandle, tables: Tables) -> RemoteModule {
        RemoteModule { handle, tables }
    }

    /// The types of a kernel's arguments, and its parameters as the source has them.
    ///
    /// # Errors
    /// `BackendFailure` for types that do not suit the arguments; those of the plugin.
    fn described(&self, name: &str, count: usize) -> Result<(Vec<ArgumentType>, String)> {
        let Some(table) = self.tables.arguments else { return Ok(Default::default()) };
        let (mut result, mut words) = (Ok(()), None);
        let declaration = collect(bounds::DECLARATION_BYTES, |declaration| {
            words = Some(collect(4 * bounds::ARGUMENTS, |types| {
                // SAFETY: a live module, and the sinks of this call.
                let error =
                    unsafe { (table.describe)(self.handle, text(name), types, declaration) };
                // SAFETY: the plugin's error, or null.
                result = unsafe { from_raw(error) };
            }));
        });
        result?;
        let (plugin, place) =
            (&*self.tables.plugin, format!("longshore.arguments, describe '{name}'"));
        let words = words.map_or(Ok(Vec::new()), |words| {
            words.of_plugin(plugin, format_args!("{place}, types"))
        })?;
        let declaration =
            declaration.text_of_plugin(plugin, format_args!("{place}, declaration"))?;
        let found = words.as_chunks().0.iter();
        let types: Option<Vec<_>> =
            found.map(|word| ArgumentType::from_word(u32::from_le_bytes(*word))).collect();
        match types {
            Some(types) if words.is_empty() || words.len() == count.saturating_mul(4) => {
                Ok((types, declaration))
            }
            _ => {
                let bytes = words.len();
                let message = format!(
                    "the plugin answered {bytes} bytes of argument types for kernel '{name}', \
                     expected a known type of 4 bytes for each of {count} arguments"
                );
                Err(Error::new(ErrorCode::BackendFailure, message))
            }
        }
    }

    /// Copies the sizes of a kernel's arguments, if the plugin tells them.
    ///
    /// # Errors
    /// A breach for more than [`bounds::ARGUMENTS`] and for sizes that are not at a multiple of 4.
    ///
    /// # Safety
    /// The sizes are readable, unless there are more.
    unsafe fn argument_sizes(
        &self,
        name: &str,
        info: &abi::KernelInfo,
    ) -> Result<Option<Vec<u32>>> {
        let (sizes, count) = (info.argument_sizes, info.argument_count as usize);
        if sizes.is_null() {
            return Ok(None);
        }
        bounds::argument_count(&self.tables.plugin, name, count)?;
        if !sizes.is_aligned() {
            let place = format_args!("longshore.module, kernel '{name}', argument_sizes");
            let expected = "a multiple of 4";
            let found = format_args!("{sizes:p}");
            return Err(bounds::breach(&self.tables.plugin, place, found, expected));
        }
        // SAFETY: promised by the caller; aligned, not null, and of few elements.
        Ok(Some(unsafe { std::slice::from_raw_parts(sizes, count) }.to_vec()))
    }

    /// Unloads it, the first time.
    fn unload_handle(&mut self) -> Result<()> {
        let handle = std::mem::replace(&mut self.handle, std::ptr::null_mut());
        if handle.is_null() {
            return Ok(());
        }
        // SAFETY: a live module, used no more.
        unsafe { from_raw((self.tables.module.unload)(handle)) }
    }
}

impl Module<Remote> for RemoteModule {
    fn kernel(&self, name: &str) -> Result<(Arc<RemoteKernel>, KernelAttributes)> {
        let mut info = abi::KernelInfo {
            handle: std::ptr::null_mut(),
            address: 0,
            code_bytes: 0,
            argument_sizes: std::ptr::null(),
            argument_count: 0,
            max_group_items: 0,
            static_shared_bytes: 0,
            private_bytes: 0,
            registers: 0,
            required_group: [0; 3],
        };
        // SAFETY: a live module and a place to write to.
        unsafe { from_raw((self.tables.module.kernel)(self.handle, text(name), &mut info))? };
        let handle = handed_out("kernel", info.handle)?;
        // SAFETY: valid until the module is unloaded.
        let argument_sizes = unsafe { self.argument_sizes(name, &info) }?;
        let (argument_types, declaration) = self.described(name, info.argument_count as usize)?;
        let attributes = KernelAttributes {
            argument_types,
            declaration,
            address: info.address,
            code_bytes: info.code_bytes,
            argument_sizes,
            max_group_items: info.max_group_items,
            static_shared_bytes: info.static_shared_bytes,
            private_bytes: info.private_bytes,
            registers: info.registers,
            required_group: info.required_group,
        };
        bounds::kernel(&self.tables.plugin, name, &attributes)?;
        Ok((Arc::new(RemoteKernel(handle)), attributes))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        let mut info = abi::GlobalInfo { address: 0, bytes: 0 };
        // SAFETY: a live module and a place to write to.
        unsafe { from_raw((self.tables.module.global)(self.handle, text(name), &mut info))? };
        let global = GlobalAddress { address: info.address, bytes: info.bytes };
        bounds::global(&self.tables.plugin, name, &global).map(|()| global)
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        unsafe extern "C" fn visit(context: *mut c_void, name: abi::Text, kind: u32) {
            // SAFETY: `context` is the value below; the plugin passes a readable name.
            unsafe { (*context.cast::<Visit<'_, (String, SymbolKind)>>()).symbol(name, kind) }
        }
        let mut visit_of_symbols = Visit::new(&self.tables.plugin);
        let visitor = abi::SymbolVisitor { context: (&raw mut visit_of_symbols).cast(), visit };
        // SAFETY: a live module and the visitor of this call.
        unsafe { from_raw((self.tables.module.symbols)(self.handle, visitor))? };
        visit_of_symbols.finish()
    }

    fn run_constructors(&self) -> Result<()> {
        // SAFETY: a live module.
        unsafe { from_raw((self.tables.module.run_constructors)(self.handle)) }
    }

    fn run_destructors(&self) -> Result<()> {
        // SAFETY: a live module.
        unsafe { from_raw((self.tables.module.run_destructors)(self.handle)) }
    }

    fn unload(mut self) -> Result<()> {
        self.unload_handle()
    }

    fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
        let Some(table) = self.tables.instrumentation else {
            return Ok(None);
        };
        let mut tracker =
            PoolTracker { allocations: 0, total_bytes: 0, min_bytes: 0, max_bytes: 0 };
        let mut present = 0;
        // SAFETY: a live module and places to write to.
        unsafe { from_raw((table.pool_tracker)(self.handle, &mut tracker, &mut present))? };
        Ok((present != 0).then_some(tracker))
    }

    fn profile(&self) -> Result<Vec<ProfileSection>> {
        unsafe extern "C" fn visit(
            context: *mut c_void,
            kind: u32,
            address: u64,
            contents: abi::Bytes,
        ) {
            // SAFETY: `context` is the value below; the plugin passes readable contents.
            unsafe {
                (*context.cast::<Visit<'_, ProfileSection>>()).section(kind, address, contents);
            }
        }
        let Some(table) = self.tables.instrumentation else {
            return Ok(Vec::new());
        };
        let mut visit_of_sections = Visit::new(&self.tables.plugin);
        let visitor = abi::ProfileVisitor { context: (&raw mut visit_of_sections).cast(), visit };
        // SAFETY: a live module and the visitor of this call.
        unsafe { from_raw((table.profile)(self.handle, visitor))? };
        visit_of_sections.finish()
    }
}

/// Items passed to a visitor. From the first breach on nothing is kept.
struct Visit<'a, T> {
    plugin: &'a str,
    found: Vec<T>,
    /// Calls of the visitor.
    calls: u64,
    /// Bytes of all that was found.
    bytes: u64,
    breach: Option<Error>,
}

impl<T> Visit<'_, T> {
    fn new(plugin: &str) -> Visit<'_, T> {
        Visit { plugin, found: Vec::new(), calls: 0, bytes: 0, breach: None }
    }

    /// Items found so far.
    ///
    /// # Errors
    /// The first breach.
    fn finish(self) -> Result<Vec<T>> {
        self.breach.map_or(Ok(self.found), Err)
    }

    /// Keeps what a call makes of its arguments, unless there was a breach.
    fn call(&mut self, take: impl FnOnce(&mut Self) -> Result<Option<T>>) {
        if self.breach.is_some() {
            return;
        }
        self.calls += 1;
        match take(self) {
            Ok(found) => self.found.extend(found),
            Err(error) => {
                self.found = Vec::new();
                self.breach = Some(error);
            }
        }
    }
}

impl Visit<'_, (String, SymbolKind)> {
    /// # Safety
    /// The name is readable, unless it is null or longer than its bound.
    unsafe fn symbol(&mut self, name: abi::Text, kind: u32) {
        self.call(|visit| {
            let (plugin, place) = (visit.plugin, "longshore.module, symbols");
            bounds::at_most(plugin, place, visit.calls, "symbols", bounds::SYMBOLS as u64)?;
            // SAFETY: promised by the caller.
            let name = unsafe {
                let place = format_args!("{place}, name");
                bounds::copy_text(plugin, place, name, bounds::SYMBOL_BYTES)?
            };
            visit.bytes += name.len() as u64;
            let place = format_args!("{place}, all names");
            bounds::at_most(plugin, place, visit.bytes, "bytes", bounds::SYMBOLS_BYTES as u64)?;
            Ok(SymbolKind::from_raw(kind).map(|kind| (name, kind)))
        });
    }
}

impl Visit<'_, ProfileSection> {
    /// # Safety
    /// The contents are readable, unless they are null or longer than their bound.
    unsafe fn section(&mut self, kind: u32, address: u64, contents: abi::Bytes) {
        self.call(|visit| {
            let (plugin, place) = (visit.plugin, "longshore.instrumentation, profile");
            let most = bounds::PROFILE_SECTIONS as u64;
            bounds::at_most(plugin, place, visit.calls, "sections", most)?;
            visit.bytes = visit.bytes.saturating_add(contents.bytes as u64);
            let all = format_args!("{place}, all contents");
            bounds::at_most(plugin, all, visit.bytes, "bytes", bounds::PROFILE_BYTES as u64)?;
            // SAFETY: promised by the caller.
            let contents = unsafe {
                let place = format_args!("{place}, contents");
                bounds::borrow(plugin, place, contents, bounds::PROFILE_BYTES)?
            };
            bounds::section(plugin, address, contents.len() as u64)?;
            let kind = ProfileSectionKind::from_raw(kind);
            Ok(kind.map(|kind| ProfileSection { kind, address, contents: contents.to_vec() }))
        });
    }
}

impl Drop for RemoteModule {
    fn drop(&mut self) {
        if let Err(error) = self.unload_handle() {
            log::warn!("unloading a module: {error}");
        }
    }
}
