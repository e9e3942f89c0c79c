use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;
use tempfile::TempDir;

/// A time that no script of these tests takes.
const LONG: Duration = Duration::from_secs(600);

/// Creates a script with this name in a new folder, and returns the folder and the script's file.
fn script(name: &str, lines: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join(name);
    std::fs::write(&file, format!("#!/bin/sh\n{lines}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    (folder, file)
}

#[test]
fn without_a_linker_the_message_says_what_to_do() {
    let error = link(b"", Some("/nowhere/ld.lld")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::HostToolNotFound);
    assert!(error.message().contains("LONGSHORE_AMDGPU_LINKER"), "{error}");
}

#[test]
fn the_output_of_the_linker_is_in_the_message() {
    let error = link(b"no object", Some("false")).unwrap_err();
    assert_eq!(error.code(), ErrorCode::LinkFailure);
    let (_folder, linker) = script("ld.lld", "echo 'error: no object' >&2; exit 1");
    let error = link(b"no object", linker.to_str()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::LinkFailure);
    assert!(error.message().contains("error: no object"), "{error}");
}

#[test]
fn the_linker_gets_the_object_and_says_where_the_result_is() {
    let (_folder, linker) = script("ld.lld", "cat \"$6\" > \"$5\"; echo \"$1$2$3\" >> \"$5\"");
    let linked = link(b"object ", linker.to_str()).unwrap();
    assert_eq!(String::from_utf8_lossy(&linked), "object -shared-zdefs\n");
}

#[test]
fn the_first_linker_on_the_path_is_taken() {
    let (first, linker) = script("ld.lld", "");
    let (second, _) = script("ld.lld", "");
    let path = std::env::join_paths([first.path(), second.path()]).unwrap();
    assert_eq!(find(None, &path).unwrap(), linker);
    std::fs::set_permissions(&linker, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(find(None, &path).unwrap(), second.path().join("ld.lld"));
}

#[test]
fn a_linker_in_a_relative_folder_of_the_path_is_not_taken() {
    let (folder, linker) = script("a-linker", "");
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let relative = format!("{up}{}", folder.path().strip_prefix("/").unwrap().display());
    assert!(Path::new(&relative).join("a-linker").is_file());
    for path in [relative.as_str(), ".", ""] {
        let error = find(Some("a-linker"), path.as_ref()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::HostToolNotFound, "{path:?}");
    }
    // A name with a folder is the user's explicit choice.
    let named = format!("{relative}/a-linker");
    assert_eq!(find(Some(&named), "".as_ref()).unwrap(), Path::new(&named));
    assert_eq!(find(Some("a-linker"), folder.path().as_ref()).unwrap(), linker);
}

#[test]
fn a_linker_that_does_not_end_is_killed_with_its_children() {
    let (folder, linker) = script("ld.lld", "sleep 3600 & echo $! > \"$0.child\"; wait");
    let begin = Instant::now();
    let error = run(&linker, b"", Duration::from_secs(2)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::LinkFailure);
    assert!(error.message().contains("did not end within 2 s"), "{error}");
    assert!(begin.elapsed() < LONG);
    let child = std::fs::read_to_string(folder.path().join("ld.lld.child")).unwrap();
    let status = format!("/proc/{}/status", child.trim());
    let is_running =
        || std::fs::read_to_string(&status).is_ok_and(|status| !status.contains("State:\tZ"));
    while is_running() && begin.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(!is_running(), "{child}");
}

#[test]
fn a_program_that_the_linker_leaves_behind_does_not_hold_the_caller_up() {
    let (_folder, linker) = script("ld.lld", "sleep 3600 & : > \"$5\"");
    assert_eq!(run(&linker, b"", LONG).unwrap(), b"");
}
