//! Implementation of the plugin interface for loaded images.

use super::Complete;
use crate::backend::Image;
use crate::kernel::StreamKernel;
use crate::module::StreamModule;
use longshore_plugin_api::{
    Error, ErrorCode, GlobalAddress, KernelAttributes, KernelDescription, Module, PoolTracker,
    ProfileSection, Result, SymbolKind,
};
use std::sync::Arc;

impl<B: Complete> Module<B> for StreamModule<B> {
    fn kernel(&self, name: &str) -> Result<(Arc<StreamKernel<B::Driver>>, KernelAttributes)> {
        if let Some(kernel) = self.kernels.lock().get(name) {
            return Ok((Arc::clone(kernel), kernel.attributes()));
        }
        let Some(function) = self.function(name)? else {
            return Err(match self.variable(name)? {
                Some(_) => wrong_kind(name, "a global", "kernel"),
                None => not_found(name, "kernel"),
            });
        };
        let mut attributes = self.image.attributes(&self.core, name, function)?;
        if let Some(bytes) = self.image.description(name) {
            KernelDescription::parse(&bytes)
                .map_err(|error| error.context(format_args!("kernel '{name}'")))?
                .complete(&mut attributes);
        }
        let kernel =
            Arc::new(StreamKernel::new(self.core.device(), name, function, attributes.clone()));
        let mut kernels = self.kernels.lock();
        let kernel = Arc::clone(kernels.entry(name.to_owned()).or_insert(kernel));
        Ok((kernel, attributes))
    }

    fn global(&self, name: &str) -> Result<GlobalAddress> {
        if let Some(found) = self.variable(name)? {
            return Ok(found);
        }
        Err(match self.function(name)?.is_some() {
            true => wrong_kind(name, "a kernel", "global"),
            false => not_found(name, "global"),
        })
    }

    fn symbols(&self) -> Result<Vec<(String, SymbolKind)>> {
        Ok(self.image.symbols())
    }

    fn run_constructors(&self) -> Result<()> {
        self.image.run_constructors(&self.core)
    }

    fn run_destructors(&self) -> Result<()> {
        self.image.run_destructors(&self.core)
    }

    fn unload(self) -> Result<()> {
        self.core.unload()
    }

    fn pool_tracker(&self) -> Result<Option<PoolTracker>> {
        let Some(found) = self.variable(PoolTracker::SYMBOL)? else { return Ok(None) };
        PoolTracker::parse(&self.core.read(found)?).map(Some)
    }

    fn profile(&self) -> Result<Vec<ProfileSection>> {
        self.image.profile(&self.core)
    }
}

#[cold]
fn not_found(name: &str, kind: &str) -> Error {
    Error::new(ErrorCode::NotFound, format!("the image has no {kind} '{name}'"))
}

#[cold]
fn wrong_kind(name: &str, found: &str, expected: &str) -> Error {
    let message = format!("'{name}' is {found} of the image, expected a {expected}");
    Error::new(ErrorCode::SymbolKind, message)
}
