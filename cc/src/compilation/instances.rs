//! Kernels that the user names, made of templates in CUDA and HIP.

use super::Compilation;
use crate::cuda;
use crate::failure::{Exit, Failure};
use crate::source::Source;
use crate::workspace::Workspace;
use std::path::{Path, PathBuf};

impl Compilation {
    /// Returns the sources. Each makes the kernels of templates that the user names and the source
    /// declares. Blocks.
    pub(super) fn with_instances(
        &self,
        sources: &[Source],
        workspace: &Workspace,
    ) -> Result<Vec<Source>, Failure> {
        let mut sources = sources.to_vec();
        for source in sources.iter().filter(|source| cuda::has_host_code(source)) {
            log::warn!(
                "'{}': the code of the host is ignored: an image has kernels and device functions \
                 alone",
                source.shown.display()
            );
        }
        for kernel in &self.kernels {
            let index = self.declaring(&sources, kernel, workspace)?;
            sources[index].kernels.push(kernel.clone());
        }
        let copy = |(index, source): (usize, Source)| match source.kernels.as_slice() {
            [] => Ok(source),
            kernels => cuda::rewritten(&source, index, None, kernels, workspace.path()),
        };
        sources.into_iter().enumerate().map(copy).collect()
    }

    /// Returns the index of the source that declares a kernel, or that includes the declaration.
    /// Without a declaration, it is the first source that can have kernels: clang names the unknown
    /// kernel. Blocks.
    fn declaring(
        &self,
        sources: &[Source],
        kernel: &str,
        workspace: &Workspace,
    ) -> Result<usize, Failure> {
        let all = sources.iter().enumerate().filter(|(_, source)| source.language.has_kernels());
        let all: Vec<(usize, &Source)> = all.collect();
        let declares = |file: &Path| {
            let text = std::fs::read(file).unwrap_or_default();
            cuda::declares(&String::from_utf8_lossy(&text), kernel)
        };
        let includes = |source: &Source| {
            let files = self.with_builds(source, workspace, |builds| builds[0].files(0));
            let mut files = files.unwrap_or_default().into_iter().map(PathBuf::from);
            files.any(|file| !file.starts_with(workspace.path()) && declares(&file))
        };
        let found = match all[..] {
            [] | [_] => None,
            _ => (all.iter().find(|(_, source)| declares(&source.shown)))
                .or_else(|| all.iter().find(|(_, source)| includes(source))),
        };
        found.or(all.first()).map(|(index, _)| *index).ok_or_else(|| {
            let message = format!(
                "no source can have the kernel '{kernel}', expected one in CUDA (.cu) or HIP (.hip)"
            );
            Failure::new(Exit::Usage, message).or_hint(
                "name such a source, or leave out --kernel (with_instance in a build script)",
            )
        })
    }
}
