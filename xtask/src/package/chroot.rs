//! `cargo xtask package-test`: the packages in new systems of Debian, each in a folder of its own.
//!
//! The task needs root, `debootstrap` and a network. A prepared system is kept below the target
//! folder, so that the next test of its release begins at once.

use super::target::Architecture;
use super::tree;
use crate::files::files_below;
use crate::{process, root};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const PREPARE: &str = include_str!("chroot/prepare.sh");
const COMMON: &str = include_str!("chroot/common.sh");
const USE: &str = include_str!("chroot/use.sh");
const PROJECT: &str = include_str!("chroot/CMakeLists.txt");
/// The crates of the plugin interface; the first is the crate that plugins name.
const INTERFACE: [&str; 3] =
    ["longshore-plugin-api", "longshore-interface-macros", "longshore-interface"];
/// The version of the packages before an upgrade.
const OLD: &str = "0.0.1-1";

/// Tests the Debian packages in `packages` on releases of Debian.
///
/// # Errors
/// A system that cannot be made; a step that fails, with its output.
pub fn test(packages: &Path, releases: &[String]) -> Result<()> {
    let debs = debs(packages)?;
    let folder = root().join("target/chroots");
    for release in releases {
        println!("== Debian {release}");
        let prepared = prepared(&folder, release)?;
        let system = folder.join(format!("{release}-test"));
        let mounted = unpack(&prepared, &system)?;
        let given = system.join("packages");
        put_crates(&given, &folder.join("vendor"))?;
        for (name, text) in [("common.sh", COMMON), ("use.sh", USE), ("CMakeLists.txt", PROJECT)] {
            tree::write(&given.join(name), text)?;
        }
        for deb in &debs {
            let name = deb.file_name().context("a package has a name")?;
            tree::copy(deb, &given.join("new").join(name))?;
            make_old(deb, &given.join("old"), &folder.join("old"))?;
        }
        inside(&system, &["sh", "/packages/use.sh"])?;
        drop(mounted);
        remove_system(&system)?;
    }
    Ok(())
}

/// Returns the Debian packages for this machine in a folder.
fn debs(packages: &Path) -> Result<Vec<PathBuf>> {
    let end = format!("_{}.deb", Architecture::native().debian());
    let is_deb = |file: &PathBuf| file.to_string_lossy().ends_with(&end);
    let debs: Vec<_> = files_below(packages)?.into_iter().filter(is_deb).collect();
    if debs.is_empty() {
        bail!("{} has no *{end}: `cargo xtask package` makes them", packages.display());
    }
    Ok(debs)
}

/// Returns the archive of a system with compilers and tools; makes a missing one, and one that
/// another version of the script has prepared.
fn prepared(folder: &Path, release: &str) -> Result<PathBuf> {
    let archive = folder.join(format!("{release}.tar"));
    let script = folder.join(format!("{release}.sh"));
    if archive.is_file() && std::fs::read_to_string(&script).is_ok_and(|text| text == PREPARE) {
        return Ok(archive);
    }
    let system = folder.join(format!("{release}-new"));
    remove_system(&system)?;
    std::fs::create_dir_all(folder)?;
    let mut debootstrap = Command::new("debootstrap");
    process::run_quietly(debootstrap.args(["--variant=minbase", release]).arg(&system))?;
    tree::write(&system.join("tmp/prepare.sh"), PREPARE)?;
    let mounted = Mounted::new(&system)?;
    inside(&system, &["sh", "/tmp/prepare.sh"])?;
    drop(mounted);
    let unfinished = archive.with_extension("unfinished");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--numeric-owner", "--xattrs", "--file"]).arg(&unfinished);
    process::run_quietly(tar.arg("--directory").arg(&system).arg("."))?;
    std::fs::rename(&unfinished, &archive)?;
    remove_system(&system)?;
    tree::write(&script, PREPARE)?;
    Ok(archive)
}

/// Unpacks a prepared system into a new folder.
fn unpack(archive: &Path, system: &Path) -> Result<Mounted> {
    remove_system(system)?;
    std::fs::create_dir_all(system)?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--numeric-owner", "--xattrs", "--preserve-permissions", "--file"]);
    process::run_quietly(tar.arg(archive).arg("--directory").arg(system))?;
    Mounted::new(system)
}

/// Writes the packed crates of the plugin interface and their dependencies, all that a plugin in
/// Rust needs.
fn put_crates(given: &Path, scratch: &Path) -> Result<()> {
    let crates = INTERFACE.iter().flat_map(|name| ["-p", name]);
    let mut package = process::cargo(["package", "--no-verify", "--allow-dirty", "--quiet"]);
    process::run_quietly(package.args(crates))?;
    let mut patch = String::new();
    for name in INTERFACE {
        let to = given.join("crates").join(name);
        std::fs::create_dir_all(&to)?;
        let packed = newest_crate(name)?;
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--no-same-owner", "--strip-components=1", "--file"]).arg(packed);
        process::run_quietly(tar.arg("--directory").arg(&to))?;
        if name != INTERFACE[0] {
            patch += &format!("{name} = {{ path = \"/packages/crates/{name}\" }}\n");
        }
    }
    tree::write(&given.join("patch.toml"), &patch)?;
    // A project whose dependencies are copied.
    tree::remove(scratch)?;
    let local = |name: &&str| {
        let path = given.join("crates").join(name);
        format!("{name} = {{ path = '{}' }}\n", path.display())
    };
    let manifest = format!(
        "[package]\nname = \"plugin\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n\
         [dependencies]\n{} = \"*\"\n[patch.crates-io]\n{}",
        INTERFACE[0],
        INTERFACE.iter().map(local).collect::<String>()
    );
    tree::write(&scratch.join("Cargo.toml"), &manifest)?;
    tree::write(&scratch.join("src/lib.rs"), "")?;
    let mut vendor = process::cargo(["vendor", "--quiet"]);
    vendor.current_dir(scratch).arg(given.join("vendor"));
    process::run_quietly(&mut vendor)?;
    tree::remove(scratch)?;
    tree::write(
        &given.join("vendored.toml"),
        "[source.crates-io]\nreplace-with = \"vendored\"\n\
         [source.vendored]\ndirectory = \"/packages/vendor\"\n[net]\noffline = true\n",
    )
}

/// Returns the packed crate, of which cargo has one for each version.
fn newest_crate(name: &str) -> Result<PathBuf> {
    let mut found = None;
    for file in files_below(&process::target_folder().join("package"))? {
        let is_crate = file.extension() == Some("crate".as_ref());
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let version = stem.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        if is_crate
            && version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
        {
            found = found.max(Some((file.metadata()?.modified()?, file)));
        }
    }
    Ok(found.with_context(|| format!("cargo has packed no {name}"))?.1)
}

/// Writes the package with an older version, and with a file that the new one lacks.
fn make_old(deb: &Path, to: &Path, scratch: &Path) -> Result<()> {
    tree::remove(scratch)?;
    std::fs::create_dir_all(to)?;
    process::run_quietly(Command::new("dpkg-deb").arg("-R").arg(deb).arg(scratch))?;
    let control = scratch.join("DEBIAN/control");
    let text = std::fs::read_to_string(&control)?;
    let version = text.lines().find_map(|line| line.strip_prefix("Version: "));
    let version = version.context("a package without version")?.to_owned();
    tree::write(&control, &text.replace(&version, OLD))?;
    let plugin = scratch.join("usr/lib/longshore/liblongshore_plugin_host.so");
    if plugin.is_file() {
        tree::write(&plugin.with_file_name("only-in-old"), "")?;
    }
    let name = deb.file_name().context("a package has a name")?;
    let mut build = Command::new("dpkg-deb");
    build.args(["--build", "--root-owner-group", "-Zgzip", "-z1"]).arg(scratch);
    process::run_quietly(build.arg(to.join(name)))?;
    tree::remove(scratch)
}

/// Runs a command in a system.
fn inside(system: &Path, command: &[&str]) -> Result<()> {
    let mut chroot = Command::new("chroot");
    chroot.arg(system).args(command).env_clear();
    process::run(chroot.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root"))
}

fn remove_system(system: &Path) -> Result<()> {
    Mounted(system.to_owned()).unmount();
    tree::remove(system)
}

/// A system with its file system of processes, which is unmounted at the end. The files in `/dev`
/// are the system's own.
struct Mounted(PathBuf);

impl Mounted {
    fn new(system: &Path) -> Result<Mounted> {
        let mounted = Mounted(system.to_owned());
        let mut mount = Command::new("mount");
        process::run_quietly(mount.args(["-t", "proc", "proc"]).arg(system.join("proc")))?;
        let resolver = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        tree::write(&system.join("etc/resolv.conf"), &resolver)?;
        Ok(mounted)
    }

    fn unmount(&self) {
        let mut umount = Command::new("umount");
        let _ = umount.args(["--lazy", "--quiet"]).arg(self.0.join("proc")).output();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.unmount();
    }
}
