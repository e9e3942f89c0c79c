//! `cargo xtask package`, with the files of a build for tests.

use crate::support::{is_missing, printed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use xtask::install::{self, Profile};
use xtask::package::list::PACKAGES;
use xtask::package::target::Architecture;
use xtask::package::{self, Compression, Format, Options, Version};
use xtask::process;
use xtask::test::BUILT;

const ARCHITECTURE: Architecture =
    if cfg!(target_arch = "aarch64") { Architecture::Arm64 } else { Architecture::Amd64 };

/// Makes the packages of one format in a new folder.
fn packages(format: Format) -> TempDir {
    let folder = TempDir::new().unwrap();
    let is_built = std::env::var_os(BUILT).is_some();
    let built = match is_built {
        true => process::target_folder().join("debug"),
        false => install::build(Profile::Dev).unwrap(),
    };
    let options = Options {
        architectures: vec![ARCHITECTURE],
        formats: vec![format],
        output: folder.path().to_owned(),
        version: Version { upstream: "0.1.0~test".to_owned(), time: 1_700_000_000 },
        compression: Compression::Fast,
    };
    package::run_built(&built, &options).unwrap();
    folder
}

/// Returns the files of a folder that begin with a name and end otherwise.
fn found(folder: &Path, start: &str, end: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.filter(|path| name(path).starts_with(start) && name(path).ends_with(end)).collect()
}

#[test]
fn debian_packages_are_named_and_pull_in_no_driver() {
    if is_missing("dpkg-deb") {
        return;
    }
    let folder = packages(Format::Deb);
    for package in &PACKAGES {
        let file = found(folder.path(), &format!("{}_0.1.0~test-1_", package.name), ".deb");
        assert_eq!(file.len(), 1, "{file:?}");
        let field = |name| printed(Command::new("dpkg-deb").arg("-f").arg(&file[0]).arg(name));
        assert_eq!(field("Version").trim(), "0.1.0~test-1");
        for driver in ["cuda1", "amdhip", "vulkan1", "mesa", "mpi"] {
            assert!(!field("Depends").contains(driver), "{}: {}", package.name, field("Depends"));
        }
        let contents = printed(Command::new("dpkg-deb").arg("-c").arg(&file[0]));
        let copyright = format!("./usr/share/doc/{}/copyright", package.name);
        assert!(contents.contains(&copyright), "{contents}");
        assert!(contents.lines().all(|line| line.contains(" root/root ")), "{contents}");
    }
    let sums = fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), PACKAGES.len(), "{sums}");
}

#[test]
fn rpm_packages_have_the_libraries_of_their_files_as_requirements() {
    if is_missing("rpmbuild") {
        return;
    }
    let folder = packages(Format::Rpm);
    for package in &PACKAGES {
        let file = found(folder.path(), &format!("{}-0.1.0~test-1.", package.name), ".rpm");
        assert_eq!(file.len(), 1, "{file:?}");
        let rpm = |arguments: &[&str]| printed(Command::new("rpm").args(arguments).arg(&file[0]));
        let requires = rpm(&["-qp", "--requires"]);
        let has_library = package.name != "liblongshore-dev";
        assert_eq!(requires.contains("libc.so.6("), has_library, "{requires}");
        assert!(
            !["libcuda", "vulkan", "libmpi"].iter().any(|name| requires.contains(name)),
            "{requires}"
        );
        assert!(rpm(&["-K"]).contains("digests OK"));
        let license = format!("/usr/share/licenses/{}/LICENSE-MIT", package.name);
        assert!(rpm(&["-qpl"]).lines().any(|line| line == license));
    }
}

#[test]
fn archives_of_a_build_are_equal_and_unpack_into_one_installation() {
    if is_missing("zstd") {
        return;
    }
    let (folder, again) = (packages(Format::Archive), packages(Format::Archive));
    let sums = |folder: &TempDir| fs::read_to_string(folder.path().join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&folder), sums(&again));
    let archives = found(folder.path(), "", ".tar.zst");
    assert_eq!(archives.len(), PACKAGES.len());
    let to = TempDir::new().unwrap();
    for archive in archives {
        printed(Command::new("tar").arg("-C").arg(to.path()).arg("-xf").arg(archive));
    }
    let prefix = to.path().join("longshore-0.1.0~test");
    let mut command = Command::new(prefix.join("bin/longshore"));
    command.env_remove("LONGSHORE_PLUGIN_PATH").env_remove("LONGSHORE_DEVICES");
    let listed = printed(command.env("LONGSHORE_BACKEND", "host").arg("plugins"));
    let plugin = prefix.join("lib/longshore/liblongshore_plugin_host.so");
    assert!(listed.contains(&*plugin.to_string_lossy()), "{listed}");
    let licences = prefix.join("share/doc/longshore/licences-of-crates");
    assert!(fs::read_to_string(licences).unwrap().contains("clap "));
}
