//! Modules and their kernels.

use super::tables::Tables;
use super::{Remote, handed_out};
use crate::abi::{self, KernelHandle, ModuleHandle};
use crate::argument_type::ArgumentType;
use crate::backend::Module;
use crate::error::{Error, ErrorCode, Result};
use crate::raw::{collect, from_raw, read_bytes, read_text, text};
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
        let (mut result, mut words) = (Ok(()), Vec::new());
        let declaration = collect(|declaration| {
            words = collect(|types| {
                // SAFETY: a live module, and the sinks of this call.
                let error =
                    unsafe { (table.describe)(self.handle, text(name), types, declaration) };
                // SAFETY: the plugin's error, or null.
                result = unsafe { from_raw(error) };
            });
        });
        result?;
        let found = words.as_chunks().0.iter();
        let types: Option<Vec<_>> =
            found.map(|word| ArgumentType::from_word(u32::from_le_bytes(*word))).collect();
        match types {
            Some(types) if words.is_empty() || words.len() == count.saturating_mul(4) => {
                Ok((types, String::from_utf8_lossy(&declaration).into_owned()))
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
        // SAFETY: valid until the module is unloaded, and copied here.
        let argument_sizes = (!info.argument_sizes.is_null()).then(|| unsafe {
            std::slice::from_raw_parts(info.argument_sizes, info.argument_count as usize).to_vec()
        });
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
        Ok((Arc::new(RemoteKernel(handle)), attributes))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        let mut info = abi::GlobalInfo { address: 0, bytes: 0 };
        // SAFETY: a live module and a place to write to.
        unsafe { from_raw((self.tables.module.global)(self.handle, text(name), &mut info))? };
        Ok(GlobalAddress { address: info.address, bytes: info.bytes })
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        unsafe extern "C" fn visit(context: *mut c_void, name: abi::Text, kind: u32) {
            // SAFETY: `context` is the vector below; the plugin passes a readable name.
            unsafe {
                let into = &mut *context.cast::<Vec<(String, SymbolKind)>>();
                if let Some(kind) = SymbolKind::from_raw(kind) {
                    into.push((read_text(name), kind));
                }
            }
        }
        let mut found: Vec<(String, SymbolKind)> = Vec::new();
        let visitor = abi::SymbolVisitor { context: (&raw mut found).cast(), visit };
        // SAFETY: a live module and the visitor of this call.
        unsafe { from_raw((self.tables.module.symbols)(self.handle, visitor))? };
        Ok(found)
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
            // SAFETY: `context` is the vector below; the plugin passes readable contents.
            unsafe {
                let into = &mut *context.cast::<Vec<ProfileSection>>();
                if let Some(kind) = ProfileSectionKind::from_raw(kind) {
                    let contents = read_bytes(contents).to_vec();
                    into.push(ProfileSection { kind, address, contents });
                }
            }
        }
        let Some(table) = self.tables.instrumentation else {
            return Ok(Vec::new());
        };
        let mut found: Vec<ProfileSection> = Vec::new();
        let visitor = abi::ProfileVisitor { context: (&raw mut found).cast(), visit };
        // SAFETY: a live module and the visitor of this call.
        unsafe { from_raw((table.profile)(self.handle, visitor))? };
        Ok(found)
    }
}

impl Drop for RemoteModule {
    fn drop(&mut self) {
        if let Err(error) = self.unload_handle() {
            log::warn!("unloading a module: {error}");
        }
    }
}
