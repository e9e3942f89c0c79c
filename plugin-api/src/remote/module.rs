//! Modules and their kernels.

use super::RemoteModule;
use super::receive::{handed_out, nothing};
use crate::abi::{self, KernelHandle};
use crate::argument_type::ArgumentType;
use crate::bounds;
use crate::error::{Error, ErrorCode, Result};
use crate::raw::text;
use crate::request::KernelAttributes;
use std::sync::Arc;

/// A kernel of a plugin's module. Valid until the module is unloaded.
pub struct RemoteKernel(*mut KernelHandle);

// SAFETY: a kernel handle is only an identifier for the plugin's calls, which any thread may make.
unsafe impl Send for RemoteKernel {}
// SAFETY: as above.
unsafe impl Sync for RemoteKernel {}

impl RemoteKernel {
    #[inline]
    pub(crate) fn handle(&self) -> *mut KernelHandle {
        self.0
    }
}

impl RemoteModule {
    /// Implements `kernel` of the trait: the answer has arrays that the module keeps.
    pub(crate) fn find_kernel(&self, name: &str) -> Result<(Arc<RemoteKernel>, KernelAttributes)> {
        const NO_TEXT: abi::Text = abi::Text { data: std::ptr::null(), bytes: 0 };
        let mut info = abi::KernelInfo {
            handle: std::ptr::null_mut(),
            address: 0,
            code_bytes: 0,
            argument_sizes: std::ptr::null(),
            argument_types: std::ptr::null(),
            declaration: NO_TEXT,
            argument_count: 0,
            max_group_items: 0,
            static_shared_bytes: 0,
            private_bytes: 0,
            registers: 0,
            required_group: [0; 3],
        };
        // SAFETY: a live module and a place to write to.
        nothing(|| unsafe { (self.table().kernel)(self.handle(), text(name), &raw mut info) })?;
        let handle = handed_out("kernel", info.handle)?;
        // SAFETY: texts and arrays are valid until the module is unloaded.
        let (argument_sizes, argument_types, declaration) = unsafe {
            let sizes = self.array(name, "argument_sizes", info.argument_sizes, &info)?;
            let types = self.array(name, "argument_types", info.argument_types, &info)?;
            let place = format!("longshore.module, kernel '{name}', declaration");
            let most = bounds::DECLARATION_BYTES;
            (sizes, types, bounds::copy_text(self.plugin(), place, info.declaration, most)?)
        };
        let attributes = KernelAttributes {
            argument_types: known_types(name, argument_types.unwrap_or_default())?,
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
        bounds::kernel(self.plugin(), name, &attributes)?;
        Ok((Arc::new(RemoteKernel(handle)), attributes))
    }

    /// Copies an array with an element for each argument, if the plugin has one.
    ///
    /// # Errors
    /// A breach for more than [`bounds::ARGUMENTS`] and for an array at an address that is not a
    /// multiple of 4 bytes.
    ///
    /// # Safety
    /// The array is readable, unless the kernel has more arguments than the bound.
    unsafe fn array(
        &self,
        name: &str,
        field: &str,
        array: *const u32,
        info: &abi::KernelInfo,
    ) -> Result<Option<Vec<u32>>> {
        if array.is_null() {
            return Ok(None);
        }
        let count = info.argument_count as usize;
        bounds::argument_count(self.plugin(), name, count)?;
        if !array.is_aligned() {
            let place = format!("longshore.module, kernel '{name}', {field}");
            let found = format!("{array:p}");
            return Err(bounds::breach(self.plugin(), place, found, "a multiple of 4"));
        }
        // SAFETY: promised by the caller; aligned, not null, and of at most `bounds::ARGUMENTS`
        // elements.
        Ok(Some(unsafe { std::slice::from_raw_parts(array, count) }.to_vec()))
    }
}

/// Returns the types of a kernel's arguments.
///
/// # Errors
/// `BackendFailure` for a word that is not a type.
fn known_types(kernel: &str, words: Vec<u32>) -> Result<Vec<ArgumentType>> {
    let known = |(index, word): (usize, u32)| {
        ArgumentType::from_word(word).ok_or_else(|| {
            let message = format!(
                "the plugin answered {word:#x} as the type of argument {index} of kernel \
                 '{kernel}', which is not an argument type"
            );
            Error::new(ErrorCode::BackendFailure, message)
        })
    };
    words.into_iter().enumerate().map(known).collect()
}
