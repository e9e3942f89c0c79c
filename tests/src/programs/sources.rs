//! Sources from package registries: a crate, a source distribution for Python, and source packages
//! of Debian. Each is fetched once, into a folder of its own below `target/programs`.

use super::folder;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The reason why a program is not available on this machine.
#[derive(Clone, Debug)]
pub struct Unavailable(pub(super) String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

impl From<std::io::Error> for Unavailable {
    fn from(error: std::io::Error) -> Unavailable {
        Unavailable(error.to_string())
    }
}

/// Returns the folder of SQLite 3.49.1: the amalgamation and the shell.
pub fn sqlite3() -> Result<PathBuf, Unavailable> {
    const FILES: [(&str, &str); 2] = [
        ("sqlite3.c", "ff80c36ef1bb44eb357c7ff1d15be77540d41c28fb671088215a6cd12785c5d3"),
        ("shell.c", "5220eebd7b176e8acae8a6b5f1b22333df401079741588e08cd1e05d524a286f"),
    ];
    fetched("sqlite3-src-0.7.1", |into| {
        vendor_crate("sqlite3-src", "0.7.1", into)?;
        let source = into.join("vendor/sqlite3-src/source");
        FILES.iter().try_for_each(|(name, hash)| check(&source.join(name), hash))
    })
    .map(|folder| folder.join("vendor/sqlite3-src/source"))
}

/// Returns the folder of Lua 5.4.8, with its test suite in `testes`.
pub fn lua() -> Result<PathBuf, Unavailable> {
    const HASH: &str = "d8022641b9ec8ecf2c5ecbe9f47e5a70e0b87c4b5ae921b92cb02a638e0acd08";
    fetched("lupa-2.8", |into| {
        download_python_source("lupa", "2.8", into)?;
        let archive = into.join("lupa-2.8.tar.gz");
        check(&archive, HASH)?;
        unpack(&archive, into)
    })
    .map(|folder| folder.join("lupa-2.8/third-party/lua54"))
}

/// Returns the folder of zlib 1.2.13, with its test programs in `test`.
pub fn zlib() -> Result<PathBuf, Unavailable> {
    const HASH: &str = "71feb7947e3c00ef125f83b79a4e529bde31171e5babe48b391f06758d1ab0a1";
    let archive = ("zlib", "zlib_1.2.13.dfsg.orig.tar.bz2", HASH);
    Ok(debian_source(archive)?.join("zlib-1.2.13.dfsg"))
}

/// Returns the folder of zstd 1.5.4, with its command in `programs` and its test programs in
/// `tests`.
pub fn zstd() -> Result<PathBuf, Unavailable> {
    const HASH: &str = "8cf4bbb65e77ec348d052c8d6230eba66d435bddf64c8b5be2fcb16880c19953";
    let archive = ("libzstd", "libzstd_1.5.4+dfsg2.orig.tar.xz", HASH);
    Ok(debian_source(archive)?.join("zstd-1.5.4"))
}

/// Runs `work` while no other process or thread holds the same lock.
pub(super) fn locked<T>(
    lock: &Path,
    work: impl FnOnce() -> Result<T, Unavailable>,
) -> Result<T, Unavailable> {
    fs::create_dir_all(lock.parent().expect("a lock lies in a folder"))?;
    let file = File::create(lock)?;
    file.lock()?;
    work()
}

/// Runs a command to its end.
pub(super) fn run(command: &mut Command) -> Result<(), Unavailable> {
    let program = command.get_program().to_owned();
    let output = command
        .output()
        .map_err(|error| Unavailable(format!("cannot run {}: {error}", program.display())))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Unavailable(format!("{}\n({}: {command:?})", said.trim_end(), output.status)))
}

/// Returns the folder `name`. The first call fills it by `fetch`; the folder appears when it is
/// complete.
fn fetched(
    name: &str,
    fetch: impl FnOnce(&Path) -> Result<(), Unavailable>,
) -> Result<PathBuf, Unavailable> {
    let sources = folder().join("sources");
    let (complete, partial) = (sources.join(name), sources.join(format!("{name}.partial")));
    locked(&sources.join(format!("{name}.lock")), || {
        if complete.is_dir() {
            return Ok(complete);
        }
        if partial.is_dir() {
            fs::remove_dir_all(&partial)?;
        }
        fs::create_dir_all(&partial)?;
        fetch(&partial).map_err(|error| Unavailable(format!("the sources of {name}: {error}")))?;
        fs::rename(&partial, &complete)?;
        Ok(complete)
    })
}

/// Puts a crate into `into/vendor/NAME`.
fn vendor_crate(name: &str, version: &str, into: &Path) -> Result<(), Unavailable> {
    let manifest = format!(
        "[package]\nname = \"sources\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{name} = \"={version}\"\n\n[workspace]\n"
    );
    fs::create_dir(into.join("src"))?;
    fs::write(into.join("src/lib.rs"), "")?;
    fs::write(into.join("Cargo.toml"), manifest)?;
    run(Command::new(env!("CARGO")).args(["vendor", "--quiet", "vendor"]).current_dir(into))
}

/// Downloads the source distribution of a package for Python. The client asks the package for its
/// metadata, and for `lupa` that builds every version of Lua unless a variable prevents it.
fn download_python_source(name: &str, version: &str, into: &Path) -> Result<(), Unavailable> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]);
    pip.arg(format!("{name}=={version}")).arg("--dest").arg(into);
    run(pip.env("LUPA_NO_BUNDLE", "true").env("PIP_DISABLE_PIP_VERSION_CHECK", "1"))
}

/// Unpacks the upstream archive of a source package of Debian 12, from the mirror in apt's
/// configuration. Nothing in the system changes.
fn debian_source((package, archive, hash): (&str, &str, &str)) -> Result<PathBuf, Unavailable> {
    fetched(package, |into| {
        download_from_any(&debian_mirrors(), package, into)?;
        check(&into.join(archive), hash)?;
        unpack(&into.join(archive), into)
    })
}

/// Downloads from the first mirror that has the package.
fn download_from_any(mirrors: &[String], package: &str, into: &Path) -> Result<(), Unavailable> {
    let mut failure = Unavailable("apt's configuration has no mirror of Debian".to_owned());
    for mirror in mirrors {
        match download_debian_source(mirror, package, into) {
            Ok(()) => return Ok(()),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Returns the mirrors that apt's lists of sources name.
fn debian_mirrors() -> Vec<String> {
    let lists = fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let lists = lists.map(|entry| entry.path()).chain(["/etc/apt/sources.list".into()]);
    let texts = lists.filter_map(|list| fs::read_to_string(list).ok());
    let mut mirrors = BTreeSet::new();
    for text in texts {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        let words = lines.flat_map(str::split_whitespace);
        let addresses = words.filter(|word| word.trim_end_matches('/').ends_with("/debian"));
        mirrors.extend(addresses.map(str::to_owned));
    }
    mirrors.into_iter().collect()
}

/// Downloads a source package from a mirror. The caller checks the archive's hash afterwards, so
/// the list needs no signature.
fn download_debian_source(mirror: &str, package: &str, into: &Path) -> Result<(), Unavailable> {
    let apt = into.join("apt");
    fs::create_dir_all(apt.join("lists/partial"))?;
    fs::create_dir_all(apt.join("cache/archives/partial"))?;
    fs::write(apt.join("sources.list"), format!("deb-src [trusted=yes] {mirror} bookworm main\n"))?;
    let apt_get = || {
        let mut command = Command::new("apt-get");
        for (option, value) in [
            ("Dir::Etc::sourcelist", apt.join("sources.list")),
            ("Dir::Etc::sourceparts", "-".into()),
            ("Dir::State::lists", apt.join("lists")),
            ("Dir::Cache", apt.join("cache")),
        ] {
            command.arg("-o").arg(format!("{option}={}", value.display()));
        }
        command.args(["-o", "APT::Sandbox::User=root", "--quiet"]).current_dir(into);
        command
    };
    run(apt_get().arg("update"))?;
    run(apt_get().args(["source", "--download-only", package]))?;
    fs::remove_dir_all(apt)?;
    Ok(())
}

fn unpack(archive: &Path, into: &Path) -> Result<(), Unavailable> {
    run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(into))
}

/// Checks that a file has this SHA-256.
fn check(file: &Path, hash: &str) -> Result<(), Unavailable> {
    let output = Command::new("sha256sum").arg("--").arg(file).output()?;
    let found = String::from_utf8_lossy(&output.stdout);
    let found = found.split_whitespace().next().unwrap_or("unknown").to_owned();
    let message = format!("the SHA-256 of {} is {found}, not {hash}", file.display());
    if found == hash { Ok(()) } else { Err(Unavailable(message)) }
}
