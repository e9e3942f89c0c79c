//! RPM packages, by `rpmbuild`.

use super::list::Package;
use super::tree;
use super::{Compression, Parts};
use crate::files::files_below;
use crate::{process, root};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Definitions for packages that are equal byte by byte: files are packed as they are, and names
/// and times of the build machine stay out.
const DEFINITIONS: [&str; 8] = [
    "debug_package %{nil}",
    "__os_install_post %{nil}",
    "_build_id_links none",
    "_buildhost reproducible",
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "source_date_epoch_from_changelog 0",
    "_source_filedigest_algorithm 8",
];

/// The variable of `rpmbuild` with the folder of the files, whose name may need quotes in a shell.
const FILES: &str = "LONGSHORE_FILES";

/// Writes the RPM package of the files in `files`, the root of the file system. Changes `files`.
/// Unfinished files are in `scratch`.
///
/// # Errors
/// Files that cannot be written; `rpmbuild` that fails.
pub(super) fn write(parts: &Parts<'_>, files: &Path, scratch: &Path) -> Result<PathBuf> {
    Rpm { parts, files }.write(scratch)
}

struct Rpm<'a> {
    parts: &'a Parts<'a>,
    files: &'a Path,
}

impl Rpm<'_> {
    fn write(&self, scratch: &Path) -> Result<PathBuf> {
        let (Parts { package, options, architecture, .. }, files) = (self.parts, self.files);
        let name = package.name;
        let licences = files.join("usr/share/licenses").join(name);
        tree::write(&licences.join("licences-of-crates"), self.parts.licences)?;
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let text = std::fs::read_to_string(root().join(licence))?;
            tree::write(&licences.join(licence), &text)?;
        }
        let mut gzip = Command::new("gzip");
        let manual = files_below(&files.join("usr/share/man"))?;
        if !manual.is_empty() {
            process::run_quietly(gzip.args(["-9", "--no-name"]).args(manual))?;
        }
        let spec = scratch.join(format!("{name}.spec"));
        tree::write(&spec, &self.spec()?)?;
        // Scripts of rpm find no `pkgconfig(...)` in a folder with a blank in its name.
        let installed = tempfile::tempdir()?;
        let mut build = Command::new("rpmbuild");
        build.args(["-bb", "--quiet", "--target", architecture.rpm(), "--buildroot"]);
        build.arg(installed.path().join("root")).arg("--define");
        build.arg(format!("_topdir {}", scratch.display())).arg("--define");
        build.arg(format!("_rpmdir {}", options.output.display()));
        build.args(["--define", "_rpmfilename %{NAME}-%{VERSION}-%{RELEASE}.%{ARCH}.rpm"]);
        let payload = match options.compression {
            Compression::Best => "_binary_payload w6.xzdio",
            Compression::Fast => "_binary_payload w1.gzdio",
        };
        for definition in DEFINITIONS.into_iter().chain([payload]) {
            build.args(["--define", definition]);
        }
        build.arg(&spec).env("SOURCE_DATE_EPOCH", options.version.time.to_string());
        build.env(FILES, files);
        process::run_quietly(&mut build)?;
        let (version, architecture) = (&options.version.upstream, architecture.rpm());
        Ok(options.output.join(format!("{name}-{version}-1.{architecture}.rpm")))
    }

    fn spec(&self) -> Result<String> {
        let Package { name, summary, description, rpm, .. } = self.parts.package;
        let version = &self.parts.options.version.upstream;
        let with_version = format!("{version}-1");
        let mut relations = String::new();
        for (field, values) in *rpm {
            for value in values.split(", ") {
                relations += &format!("{field}: {}\n", value.replace("@VERSION@", &with_version));
            }
        }
        let (listed, has_library) = self.listed()?;
        let scripts =
            if has_library { "%post -p /sbin/ldconfig\n%postun -p /sbin/ldconfig\n\n" } else { "" };
        Ok(format!(
            "Name: {name}\nVersion: {version}\nRelease: 1\nSummary: {summary}\n\
             License: Apache-2.0 WITH LLVM-exception OR MIT\n{relations}AutoReqProv: yes\n\n\
             %description\n{description}\n\n\
             %install\nmkdir -p \"%{{buildroot}}\"\ncp -a \"${FILES}/.\" \"%{{buildroot}}\"\n\n\
             {scripts}%files\n%defattr(-,root,root,-)\n{listed}"
        ))
    }

    /// Returns the list of files, and whether the system's linker finds a library among them. The
    /// folders that only Longshore has belong to each package with files there.
    fn listed(&self) -> Result<(String, bool)> {
        let (mut list, mut folders, mut has_library) = (String::new(), Vec::new(), false);
        for file in files_below(self.files)? {
            let path = Path::new("/").join(file.strip_prefix(self.files)?);
            for folder in path.ancestors().skip(1) {
                let own = folder.components().any(|part| {
                    part.as_os_str().to_string_lossy().to_lowercase().contains("longshore")
                        || part.as_os_str() == "LLVMOffload"
                }) || folder == Path::new("/usr/include/offload");
                if own && !folders.contains(&folder.to_owned()) {
                    folders.push(folder.to_owned());
                }
            }
            let path = path.to_str().context("names of files are text")?;
            has_library |= path.starts_with("/usr/lib64/") && path.contains(".so.");
            let kind = if path.starts_with("/usr/share/licenses/") {
                "%license "
            } else if path.starts_with("/usr/share/doc/") || path.starts_with("/usr/share/man/") {
                "%doc "
            } else {
                ""
            };
            list += &format!("{kind}\"{path}\"\n");
        }
        folders.sort();
        let folders: String =
            folders.iter().map(|folder| format!("%dir \"{}\"\n", folder.display())).collect();
        Ok((folders + &list, has_library))
    }
}
