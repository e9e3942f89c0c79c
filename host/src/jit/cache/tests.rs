//! Tests of the cache on disk.

use super::*;
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

fn key(number: u8) -> Key {
    Key::from_parts(&[&[number]])
}

/// Returns a folder that is not there yet, and a cache in it.
fn cache(most_bytes: u64) -> (tempfile::TempDir, Cache) {
    let parent = tempfile::tempdir().unwrap();
    let cache = Cache::new(parent.path().join("longshore/jit"), most_bytes);
    (parent, cache)
}

#[test]
fn a_result_is_found_under_its_key_alone() {
    let (_parent, cache) = cache(1 << 20);
    assert_eq!(cache.read(&key(1)), None);
    cache.write(&key(1), b"code");
    assert_eq!(cache.read(&key(1)).as_deref(), Some(&b"code"[..]));
    assert_eq!(cache.read(&key(2)), None);
    // A file under the name of another key is not its result.
    std::fs::copy(cache.path(&key(1)), cache.path(&key(2))).unwrap();
    assert_eq!(cache.read(&key(2)), None);
    assert!(!cache.path(&key(2)).exists() && cache.path(&key(1)).exists());
    let mode = std::fs::metadata(&cache.folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_damaged_file_is_deleted() {
    let (_parent, cache) = cache(1 << 20);
    let path = cache.path(&key(1));
    cache.write(&key(1), b"some code");
    let whole = std::fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        for damaged in [&flipped[..], &whole[..at]] {
            std::fs::write(&path, damaged).unwrap();
            assert_eq!(cache.read(&key(1)), None, "at {at}");
            assert!(!path.exists(), "at {at}");
        }
    }
    cache.write(&key(1), b"some code");
    assert!(cache.read(&key(1)).is_some());
}

#[test]
fn results_that_were_not_used_for_the_longest_time_go_first() {
    let header = entry::header(&key(0), b"").len() as u64;
    let (_parent, cache) = cache(3 * (header + 1000));
    let age = |number: u8, seconds: u64| {
        let file = std::fs::File::open(cache.path(&key(number))).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    };
    for number in 1..=3 {
        cache.write(&key(number), &[number; 1000]);
        age(number, 100 - u64::from(number));
    }
    // Foreign files stay, and abandoned ones do not.
    let (foreign, abandoned) = (cache.folder.join("notes"), cache.folder.join("new-abc"));
    std::fs::write(&foreign, "x").unwrap();
    let file = std::fs::File::create(&abandoned).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(7200)).unwrap();
    assert!(cache.read(&key(1)).is_some());
    cache.write(&key(4), &[4; 1000]);
    let there = [1, 2, 3, 4].map(|number| cache.path(&key(number)).exists());
    assert_eq!(there, [true, false, true, true]);
    assert!(foreign.exists() && !abandoned.exists());
    // A result that is too large alone is not stored, and displaces nothing.
    cache.write(&key(5), &[5; 4000]);
    assert!(!cache.path(&key(5)).exists() && cache.path(&key(4)).exists());
}

#[test]
fn a_folder_with_write_access_for_all_is_not_used() {
    let (_parent, cache) = cache(1 << 20);
    cache.write(&key(1), b"code");
    set_permissions(&cache.folder, Permissions::from_mode(0o777)).unwrap();
    assert_eq!(cache.read(&key(1)), None);
    cache.write(&key(2), b"code");
    assert!(!cache.path(&key(2)).exists());
    assert_eq!(cache.logged.lock().len(), 1, "{:?}", cache.logged);
    set_permissions(&cache.folder, Permissions::from_mode(0o700)).unwrap();
    assert!(cache.read(&key(1)).is_some());
    set_permissions(cache.path(&key(1)), Permissions::from_mode(0o666)).unwrap();
    assert_eq!(cache.read(&key(1)), None);
    assert!(cache.path(&key(1)).exists());
}

#[test]
fn a_folder_that_cannot_be_made_or_written_costs_only_the_cache() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let dangling = parent.path().join("dangling");
    symlink("/nonexistent/folder", &dangling).unwrap();
    for folder in
        [file.join("jit"), "/proc/longshore".into(), "/sys/longshore/jit".into(), dangling]
    {
        let cache = Cache::new(folder, 1 << 20);
        assert_eq!(cache.read(&key(1)), None);
        cache.write(&key(1), b"code");
        assert_eq!(cache.read(&key(1)), None);
        assert!(!cache.logged.lock().is_empty(), "{}", cache.folder.display());
    }
}

#[test]
fn many_writers_and_readers_see_whole_files_alone() {
    let (_parent, cache) = cache(64 << 10);
    let code = |number: u8, size: usize| vec![number; size];
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..50 {
                    let number = ((thread + round) % 4) as u8;
                    cache.write(&key(number), &code(number, 20_000));
                    if let Some(found) = cache.read(&key(number)) {
                        assert_eq!(found, code(number, 20_000));
                    }
                }
            });
        }
    });
    let names = std::fs::read_dir(&cache.folder).unwrap();
    assert!(names.map(|entry| entry.unwrap().path()).all(|path| is_result(&path)));
}
