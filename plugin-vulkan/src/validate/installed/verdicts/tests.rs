use super::*;
use crate::validate::rules::{Environment, Layouts};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use tempfile::TempDir;

const RULES: Rules = Rules {
    environment: Environment::Vulkan1_2,
    layouts: Layouts { scalar: false, standard_uniform: false },
};

fn invalid(text: &str) -> Verdict {
    Verdict::Invalid(text.to_owned())
}

/// Returns a key whose verdict is in file number `file`.
fn key(file: u8, number: u32) -> Key {
    let mut key = Key::new(b"", &[number], RULES);
    key.0[0] = file;
    key
}

fn cache() -> (TempDir, VerdictCache) {
    let outer = TempDir::new().unwrap();
    let cache = VerdictCache::new(Some(&outer.path().join("a/b")));
    (outer, cache)
}

#[test]
fn good_and_bad_verdicts_are_found_again_with_their_text() {
    let (_outer, cache) = cache();
    let verdicts = [Verdict::Valid, invalid("Grüße"), invalid("")];
    for (number, verdict) in verdicts.iter().enumerate() {
        let key = key(7, number as u32);
        assert_eq!(cache.find(&key), None);
        cache.keep(&key, verdict);
    }
    for (number, verdict) in verdicts.iter().enumerate() {
        assert_eq!(cache.find(&key(7, number as u32)).as_ref(), Some(verdict));
    }
    cache.keep(&key(7, 0), &invalid("changed"));
    assert_eq!(cache.find(&key(7, 0)), Some(invalid("changed")));
    let file = cache.file(&key(7, 0)).unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn without_a_folder_nothing_is_kept() {
    let cache = VerdictCache::new(None);
    cache.keep(&key(0, 0), &Verdict::Valid);
    assert_eq!(cache.find(&key(0, 0)), None);
}

#[test]
fn a_verdict_belongs_to_validator_rules_and_words() {
    let scalar = Layouts { scalar: true, ..RULES.layouts };
    let uniform = Layouts { standard_uniform: true, ..RULES.layouts };
    let keys = [
        Key::new(b"v", &[1, 2], RULES),
        Key::new(b"w", &[1, 2], RULES),
        Key::new(b"", &[1, 2], RULES),
        Key::new(b"v", &[1, 3], RULES),
        Key::new(b"v", &[1], RULES),
        Key::new(b"v", &[1, 2], Rules { environment: Environment::Vulkan1_3, ..RULES }),
        Key::new(b"v", &[1, 2], Rules { layouts: scalar, ..RULES }),
        Key::new(b"v", &[1, 2], Rules { layouts: uniform, ..RULES }),
    ];
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[..index].contains(key), "key {index}");
    }
    assert_eq!(keys[0], Key::new(b"v", &[1, 2], RULES));
}

#[test]
fn a_file_that_is_torn_longer_or_changed_by_a_bit_is_not_used_and_replaced() {
    let (_outer, cache) = cache();
    for number in 0..2 {
        cache.keep(&key(1, number), &invalid("no"));
    }
    let file = cache.file(&key(1, 0)).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let changed = (0..whole.len() * 8).map(|bit| {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    });
    let torn = (0..whole.len()).map(|end| whole[..end].to_vec());
    for bytes in changed.chain(torn).chain([[&whole[..], b"\0"].concat()]) {
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(cache.find(&key(1, 0)), None);
    }
    cache.keep(&key(1, 0), &Verdict::Valid);
    assert_eq!(cache.find(&key(1, 0)), Some(Verdict::Valid));
}

#[test]
fn a_whole_file_of_senseless_verdicts_is_not_used() {
    let (_outer, cache) = cache();
    cache.keep(&key(1, 0), &Verdict::Valid);
    let file = cache.file(&key(1, 0)).unwrap();
    let of = |length: u32, text: &[u8]| [&key(1, 0).0, &length.to_le_bytes()[..], text].concat();
    for data in [of(5, b"four"), of(1, b"\xff"), of(VALID - 1, b""), of(VALID, b"x")] {
        std::fs::write(&file, [&header(&data)[..], &data].concat()).unwrap();
        assert_eq!(cache.find(&key(1, 0)), None, "{data:?}");
    }
}

#[test]
fn a_file_that_other_users_could_write_is_not_used() {
    let (_outer, cache) = cache();
    cache.keep(&key(1, 0), &Verdict::Valid);
    let file = cache.file(&key(1, 0)).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o622)).unwrap();
    assert_eq!(cache.find(&key(1, 0)), None);
}

#[test]
fn the_oldest_verdicts_of_a_full_file_are_forgotten_and_no_file_exceeds_its_bound() {
    let (_outer, cache) = cache();
    let text = "x".repeat(4096);
    let count = MOST_VERDICTS as u32 + 5;
    for number in 0..count {
        cache.keep(&key(1, number), &invalid(&text));
    }
    for number in 0..count {
        assert_eq!(cache.find(&key(1, number)).is_some(), number >= 5, "verdict {number}");
    }
    let bytes = cache.file(&key(1, 0)).unwrap().metadata().unwrap().len();
    assert!(bytes <= MOST_BYTES as u64, "{bytes} bytes");
}

#[test]
fn writers_at_the_same_time_leave_only_true_verdicts() {
    const THREADS: u32 = 4;
    const ROUNDS: u32 = 50;
    let (_outer, cache) = cache();
    let verdict = |number: u32| invalid(&number.to_string());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || {
                for number in 0..ROUNDS {
                    cache.keep(
                        &key(1, THREADS * number + thread),
                        &verdict(THREADS * number + thread),
                    );
                    for other in 0..THREADS * ROUNDS {
                        let found = cache.find(&key(1, other));
                        assert!(found.is_none_or(|found| found == verdict(other)));
                    }
                }
            });
        }
    });
    let last = (0..THREADS).map(|thread| key(1, THREADS * (ROUNDS - 1) + thread));
    assert!(last.into_iter().any(|key| cache.find(&key).is_some()));
}
