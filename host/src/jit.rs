//! The compilation of LLVM bitcode for devices. LLVM: `JITEngine`.
//!
//! [`Jit::compile`] takes bitcode and the target of a device, and returns an image that the device
//! loads. Each compilation has a [`Key`]. While a program holds a result, other loads with the same
//! key share it ([`sharing`]). Otherwise the result comes from the folder of [`cache`], or from a
//! compiler ([`compiler`]) in a worker process or in this one.

mod cache;
mod compiler;
mod installed;
mod key;
mod recent;
mod settings;
mod sharing;

pub(crate) use longshore_compiler::{Constant, NumberKind, Variant};
pub(crate) use settings::{JitConfig, JitSettings};

use crate::image::Image;
use cache::Cache;
use compiler::Compilers;
use key::Key;
use longshore_compiler::{Compiled, Module, Options, Part, Request, Target};
use longshore_plugin_api::{CodeTarget, Error, ErrorCode, Result};
use recent::Recent;
use std::path::Path;
use std::sync::OnceLock;

/// Version of the code that this library generates from the same bitcode by the same LLVM. A change
/// of the compiler's own passes increments the number, so that cached results become stale.
const PASSES: u32 = 5;

/// The compilation for the devices of one host.
pub(crate) struct Jit {
    settings: JitSettings,
    cache: Option<Cache>,
    compilers: Compilers,
    recent: Recent,
    /// The stamp of the installed libraries, taken at the first compilation.
    installed: OnceLock<Option<Vec<u8>>>,
}

/// The choices of one load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JitLoad {
    /// The optimization level, in place of the one of the settings.
    pub(crate) level: Option<u32>,
    /// Whether accesses of kernels get checks.
    pub(crate) checks: bool,
    /// Variants of kernels that are compiled too.
    pub(crate) variants: Vec<Variant>,
}

impl Jit {
    pub(crate) fn new(settings: JitSettings) -> Jit {
        let cache = settings.cache.clone();
        Jit {
            cache: cache.map(|folder| Cache::new(folder, settings.cache_bytes)),
            compilers: Compilers::new(&settings),
            recent: Recent::default(),
            installed: OnceLock::new(),
            settings,
        }
    }

    /// Returns whether bitcode was compiled for a target before, so that it has passed all checks.
    pub(crate) fn knows(&self, bitcode: &Image, target: &CodeTarget) -> bool {
        self.recent.knows(bitcode, target)
    }

    /// Compiles bitcode for the target of a device of `plugin`. Blocks.
    ///
    /// # Errors
    /// `InvalidBinary` for malformed bitcode and for bitcode of another target, `Unsupported` for
    /// bitcode of a newer LLVM, `CompileFailure`, `LinkFailure`. `NotFound`, `InvalidArgument` and
    /// `InvalidSize` for a variant that the kernel does not allow. `HostToolNotFound` without
    /// `libLLVM` or executor, `BackendFailure` if the worker process fails, `HostIo` for a file of
    /// a setting.
    pub(crate) fn compile(
        &self,
        bitcode: &Image,
        target: &CodeTarget,
        load: JitLoad,
        plugin: &Path,
    ) -> Result<Image> {
        if let Some(object) = &self.settings.replacement_object {
            log::info!("'{}' replaces compiled bitcode", object.display());
            return Image::read(object);
        }
        if let Some(code) = self.recent.get(bitcode, target, &load) {
            return Ok(Image::from(code));
        }
        let (asked, device) = (bitcode, target);
        let bitcode = match &self.settings.replacement_module {
            Some(module) => {
                log::info!("'{}' replaces bitcode", module.display());
                Image::read(module)?
            }
            None => bitcode.clone(),
        };
        let target = Target {
            triple: target.triple.clone(),
            cpu: target.processor.clone(),
            features: target.features.clone(),
        };
        let options = self.settings.options(&load)?;
        let key = self.key(bitcode.bytes(), &target, &options, plugin)?;
        let code = sharing::once(key, || {
            self.compile_uncached(&key, bitcode.bytes(), &target, &options, plugin)
        })?;
        if self.cache.is_some() && !self.settings.has_files() {
            self.recent.insert(asked, device, &load, &code);
        }
        Ok(Image::from(code))
    }

    fn compile_uncached(
        &self,
        key: &Key,
        bitcode: &[u8],
        target: &Target,
        options: &Options,
        plugin: &Path,
    ) -> Result<Vec<u8>> {
        let is_dumped = options.keeps_text_before || options.keeps_text_after;
        let cache = self.cache.as_ref().filter(|_| !is_dumped);
        if let Some(code) = cache.and_then(|cache| cache.read(key)) {
            log::debug!("compiled bitcode {key}: from the cache, {} bytes", code.len());
            return Ok(code);
        }
        let module = Module::new(bitcode);
        let request = Request { module: &module, part: &Part::Whole, target, options };
        let compiler = self.compilers.get(plugin)?;
        let compiled = compiler.compile(&request).map_err(compiler::error)?;
        report(key, target, &compiled);
        self.dump(&compiled)?;
        if let Some(cache) = cache {
            cache.write(key, &compiled.bytes);
        }
        Ok(compiled.bytes)
    }

    /// Returns the key of a compilation. Asks the compiler for the version of `libLLVM` only if the
    /// library is in none of the usual folders.
    fn key(
        &self,
        bitcode: &[u8],
        target: &Target,
        options: &Options,
        plugin: &Path,
    ) -> Result<Key> {
        let stamp = self.installed.get_or_init(|| installed::stamp(&options.library));
        let version = match stamp {
            Some(stamp) => stamp.clone(),
            None => {
                let version = self.compilers.get(plugin)?.version(&options.library);
                format!("{:?}", version.map_err(compiler::error)?).into_bytes()
            }
        };
        let options = format!("{options:?}");
        Ok(Key::from_parts(&[
            env!("CARGO_PKG_VERSION").as_bytes(),
            &PASSES.to_le_bytes(),
            &version,
            target.triple.as_bytes(),
            target.cpu.as_bytes(),
            target.features.as_bytes(),
            options.as_bytes(),
            bitcode,
        ]))
    }

    /// Writes the module's text into the files of the settings.
    fn dump(&self, compiled: &Compiled) -> Result<()> {
        let (settings, facts) = (&self.settings, &compiled.facts);
        let files = [
            (&settings.pre_opt_ir_module, &facts.text_before),
            (&settings.post_opt_ir_module, &facts.text_after),
        ];
        for (path, text) in files {
            let (Some(path), Some(text)) = (path, text) else { continue };
            std::fs::write(path, text).map_err(|error| {
                let message = format!("cannot write the module to '{}': {error}", path.display());
                Error::new(ErrorCode::HostIo, message).with_source(error)
            })?;
        }
        Ok(())
    }
}

/// Logs the facts of a compilation.
fn report(key: &Key, target: &Target, compiled: &Compiled) {
    let facts = &compiled.facts;
    let [major, minor, patch] = facts.library.version;
    log::debug!(
        "compiled bitcode {key} for {} {} by LLVM {major}.{minor}.{patch} ('{}'), {} bytes",
        target.triple,
        target.cpu,
        facts.library.path.display(),
        compiled.bytes.len()
    );
    facts.warnings.iter().for_each(|warning| log::warn!("compiling bitcode: {warning}"));
    facts.pre_pass.iter().for_each(|line| log::info!("compiling bitcode: {line}"));
}
