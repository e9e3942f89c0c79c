//! Debian packages, by `dpkg-deb`.

use super::list::Package;
use super::toolchain::GLIBC;
use super::tree;
use super::{Compression, Parts};
use crate::files::files_below;
use crate::{process, root};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The overrides of lintian, one file for a package, below the repository.
const OVERRIDES: &str = "xtask/src/package/lintian";
/// The year of the project's first commit.
const FIRST_YEAR: &str = "2026";
/// The overrides of all packages.
const OVERRIDES_OF_ALL: &str = "all";
/// The beginning of a Debian `copyright` file. `@YEARS@` are the years of the project.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Longshore

Files: *
Copyright: @YEARS@, the Longshore contributors
License: Apache-2.0-with-LLVM-exception or Expat
Comment: The files contain code of other authors; licences-of-crates.gz in this
 folder has their licences.
";

/// Writes the Debian package of the files in `files`, the root of the file system. Changes `files`.
///
/// # Errors
/// Files that cannot be written; a tool that fails.
pub(super) fn write(parts: &Parts<'_>, files: &Path) -> Result<PathBuf> {
    Deb { parts, files }.write()
}

struct Deb<'a> {
    parts: &'a Parts<'a>,
    files: &'a Path,
}

impl Deb<'_> {
    fn write(&self) -> Result<PathBuf> {
        let (Parts { package, options, architecture, .. }, files) = (self.parts, self.files);
        let (name, version) = (package.name, options.version.debian());
        let documentation = files.join("usr/share/doc").join(name);
        let copyright = copyright(&options.version.date_as("+%Y")?)?;
        tree::write(&documentation.join("copyright"), &copyright)?;
        tree::write(&documentation.join("changelog.Debian"), &self.changelog()?)?;
        tree::write(&documentation.join("licences-of-crates"), self.parts.licences)?;
        // The licence is in the file `copyright`.
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let _ = std::fs::remove_file(files.join("usr/share/doc/longshore").join(licence));
        }
        let overrides = files.join("usr/share/lintian/overrides").join(name);
        tree::write(&overrides, &lintian_overrides(name)?)?;
        self.compress()?;
        let size = files_below(files)?.iter().map(|file| tree::size(file)).sum::<Result<u64>>()?;
        let control = files.join("DEBIAN");
        tree::write(&control.join("md5sums"), &sums(files)?)?;
        tree::write(&control.join("control"), &self.control(size.div_ceil(1024)))?;
        if let Some(library) = self.library()? {
            let (library, number) = library.split_once(".so.").context("a library's version")?;
            let version = &options.version.upstream;
            let shlibs = format!("{library} {number} {name} (>= {version})\n");
            tree::write(&control.join("shlibs"), &shlibs)?;
            tree::write(&control.join("triggers"), "activate-noawait ldconfig\n")?;
        }
        let file = format!("{name}_{version}_{}.deb", architecture.debian());
        let file = options.output.join(file);
        let mut build = Command::new("dpkg-deb");
        build.args(["--build", "--root-owner-group", "--threads-max=1"]);
        build.args(match options.compression {
            Compression::Best => ["-Zxz", "-z6"],
            Compression::Fast => ["-Zgzip", "-z1"],
        });
        build.arg(files).arg(&file).env("SOURCE_DATE_EPOCH", options.version.time.to_string());
        process::run_quietly(&mut build)?;
        Ok(file)
    }

    fn control(&self, kibibytes: u64) -> String {
        let Package { name, summary, description, section, debian, .. } = self.parts.package;
        let version = self.parts.options.version.debian();
        // Debian 10 has libgcc1, later releases have libgcc-s1.
        let mut depends = format!("libc6 (>= {GLIBC}), libgcc-s1 | libgcc1");
        let mut others = String::new();
        for (field, value) in *debian {
            let value = value.replace("@VERSION@", &version);
            match *field {
                "Depends" => depends = format!("{depends}, {value}"),
                field => others += &format!("{field}: {value}\n"),
            }
        }
        let description = description.replace('\n', "\n ");
        format!(
            "Package: {name}\nSource: longshore\nVersion: {version}\nArchitecture: {}\n\
             Maintainer: {}\nInstalled-Size: {kibibytes}\nDepends: {depends}\n{others}\
             Section: {section}\nPriority: optional\n\
             Description: {summary}\n {description}\n",
            self.parts.architecture.debian(),
            maintainer(),
        )
    }

    fn changelog(&self) -> Result<String> {
        let version = &self.parts.options.version;
        let (version, date) = (version.debian(), version.date()?);
        Ok(format!(
            "longshore ({version}) unstable; urgency=medium\n\n  \
             * Package of this version; liblongshore-dev has its changes in\n    \
             /usr/share/doc/longshore/CHANGELOG.md.\n\n -- {}  {date}\n",
            maintainer()
        ))
    }

    /// Compresses changelogs, licences and manual pages, as Debian's policy demands.
    fn compress(&self) -> Result<()> {
        let files = self.files;
        let documentation = files.join("usr/share/doc").join(self.parts.package.name);
        let mut gzip = Command::new("gzip");
        gzip.args(["-9", "--no-name"]).args(files_below(&files.join("usr/share/man"))?);
        gzip.arg(documentation.join("changelog.Debian"));
        process::run_quietly(gzip.arg(documentation.join("licences-of-crates")))
    }

    /// Returns the name of the library that the package has for programs.
    fn library(&self) -> Result<Option<String>> {
        let folder = self.files.join("usr").join(self.parts.architecture.debian_libraries());
        let names = files_below(&folder)?.into_iter().filter(|file| !file.is_symlink());
        let mut names = names.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()));
        Ok(names.find(|name| name.contains(".so.")))
    }
}

/// Returns the maintainer, by Debian's variables `DEBFULLNAME` and `DEBEMAIL`.
fn maintainer() -> String {
    let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let name = variable("DEBFULLNAME", "Longshore contributors");
    format!("{name} <{}>", variable("DEBEMAIL", "longshore@example.invalid"))
}

/// Returns the overrides of a package: its own, and the ones of all packages.
fn lintian_overrides(name: &str) -> Result<String> {
    let mut text = String::new();
    for file in [OVERRIDES_OF_ALL, name] {
        let file = root().join(OVERRIDES).join(file);
        if file.is_file() {
            text += &std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        }
    }
    Ok(text)
}

/// Returns the file `copyright`. Debian systems have the Apache License, but not LLVM's exceptions.
fn copyright(year: &str) -> Result<String> {
    let read = |name| std::fs::read_to_string(root().join(name)).context(name);
    let apache = read("LICENSE-APACHE")?;
    let exceptions = apache.find("--- LLVM Exceptions").context("LLVM's exceptions")?;
    let apache = format!(
        "The Apache License, Version 2.0, is in /usr/share/common-licenses/Apache-2.0.\n\n{}",
        &apache[exceptions..]
    );
    let mut text = COPYRIGHT.replace("@YEARS@", &years(year));
    for (name, licence) in
        [("Apache-2.0-with-LLVM-exception", apache), ("Expat", read("LICENSE-MIT")?)]
    {
        text += &format!("\nLicense: {name}\n");
        for line in licence.trim_end().lines() {
            let line = if line.trim().is_empty() { "." } else { line };
            text += &format!(" {line}\n");
        }
    }
    Ok(text)
}

/// Returns the years from the first one of the project to `last`.
fn years(last: &str) -> String {
    if last > FIRST_YEAR { format!("{FIRST_YEAR}-{last}") } else { FIRST_YEAR.to_owned() }
}

/// Returns the file `md5sums`.
fn sums(files: &Path) -> Result<String> {
    let mut text = String::new();
    for file in files_below(files)?.iter().filter(|file| !file.is_symlink()) {
        let mut md5sum = Command::new("md5sum");
        let name = file.strip_prefix(files)?;
        text += &process::printed(md5sum.arg(name).current_dir(files))?;
    }
    Ok(text)
}
