//! Compiled bitcode that is kept: in the folder of the cache, and by programs.

use super::{ANSWER, Shop, answer, clang};
use longshore::Device;
use longshore_conformance::TrustedImages;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Barrier;
use std::time::SystemTime;

/// Opens a device with a cache in a folder of the shop, and returns the folder.
pub(super) fn with_cache(shop: &Shop, settings: &[(&str, &str)]) -> (Device, PathBuf) {
    let folder = shop.path().join("cache");
    let cache = [("CACHE", folder.to_str().unwrap())];
    (shop.device(&[&cache[..], settings].concat()), folder)
}

/// Returns the files of a folder with their times of writing.
pub(super) fn files(folder: &PathBuf) -> Vec<(PathBuf, u64, SystemTime)> {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let facts = path.metadata().unwrap();
        (path, facts.ino(), facts.created().unwrap_or(SystemTime::UNIX_EPOCH))
    };
    let mut files: Vec<_> = entries.map(file).collect();
    files.sort();
    files
}

#[test]
fn a_cached_image_needs_no_compiler() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let image = shop.answering(clang, 11, &[]);
    let (device, folder) = with_cache(&shop, &[]);
    assert_eq!(answer(&device, &image), Ok(11));
    let stored = files(&folder);
    assert_eq!(stored.len(), 1);
    // A further host finds it, and starts no worker.
    let environment = longshore::Environment::empty()
        .with("LONGSHORE_JIT_CACHE", &folder)
        .with("LONGSHORE_EXECUTOR", "/nonexistent/executor");
    let host = shop.world.host().with_environment(environment).build().unwrap();
    let device = host.default_device().unwrap();
    assert_eq!(answer(&device, &image), Ok(11));
    assert_eq!(files(&folder), stored);
    assert!(answer(&device, shop.answering(clang, 12, &[])).is_err());
}

#[test]
fn another_level_or_module_is_another_result() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let image = shop.answering(clang, 1, &[]);
    for (settings, count) in [
        (&[][..], 1),
        (&[("OPT_LEVEL", "3")], 1),
        (&[("OPT_LEVEL", "1")], 2),
        (&[("SKIP_OPT", "1")], 3),
    ] {
        let (device, folder) = with_cache(&shop, settings);
        assert_eq!(answer(&device, &image), Ok(1));
        assert_eq!(files(&folder).len(), count, "{settings:?}");
    }
    let (device, folder) = with_cache(&shop, &[]);
    assert_eq!(answer(&device, shop.answering(clang, 2, &[])), Ok(2));
    assert_eq!(files(&folder).len(), 4);
}

#[test]
fn a_damaged_or_unreadable_cache_costs_only_time() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let image = shop.answering(clang, 21, &[]);
    let (device, folder) = with_cache(&shop, &[]);
    assert_eq!(answer(&device, &image), Ok(21));
    // A host keeps results in memory.
    drop(device);
    let file = files(&folder)[0].0.clone();
    let whole = std::fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&whole[..whole.len() / 2], b"", &flipped] {
        std::fs::write(&file, damaged).unwrap();
        assert_eq!(answer(&with_cache(&shop, &[]).0, &image), Ok(21));
        assert_eq!(std::fs::read(&file).unwrap(), whole, "the same code again");
    }
    // Not to be trusted.
    set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    std::fs::write(&file, b"anything").unwrap();
    assert_eq!(answer(&with_cache(&shop, &[]).0, &image), Ok(21));
    set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let before = files(&folder);
    assert_eq!(answer(&with_cache(&shop, &[]).0, &image), Ok(21));
    assert_eq!(files(&folder), before, "a folder that others may write to is not used");
}

#[test]
fn a_full_or_read_only_folder_costs_only_the_cache() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    // Larger than the full file system.
    let text = format!("{ANSWER}\nchar large[1 << 16] = {{1}};").replace("NUMBER", "31");
    let image = shop.bitcode(clang, &text, &[]);
    let folder = shop.path().join("cache");
    std::fs::create_dir(&folder).unwrap();
    set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    for options in ["size=4k,mode=700", "ro,mode=700"] {
        // Only root may mount.
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(&folder);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            println!("nothing can be mounted; nothing was tried");
            return;
        }
        let result = answer(&with_cache(&shop, &[]).0, &image);
        let left = files(&folder).len();
        assert!(Command::new("umount").arg(&folder).status().unwrap().success());
        assert_eq!((result, left), (Ok(31), 0), "{options}");
    }
}

#[test]
fn threads_that_load_the_same_image_store_it_once() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let image = shop.answering(clang, 41, &[]);
    let (device, folder) = with_cache(&shop, &[]);
    let begin = Barrier::new(16);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                begin.wait();
                assert_eq!(answer(&device, &image), Ok(41));
            });
        }
    });
    assert_eq!(files(&folder).len(), 1);
}

#[test]
fn programs_share_compiled_code_as_long_as_one_is_loaded() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    let image = shop.answering(clang, 51, &[]);
    let device = shop.device(&[]);
    let first = device.load_trusted(&image).unwrap();
    // A second program needs no compiler while the first one holds the code.
    let without = shop.world.host().with_executor("/nonexistent/executor").build().unwrap();
    let without = without.default_device().unwrap();
    let second = without.load_trusted(&image);
    assert!(second.is_ok(), "{:?}", second.err());
    drop(first);
    drop(second);
    assert!(without.load_trusted(&image).is_err(), "the code went with its programs");
}
