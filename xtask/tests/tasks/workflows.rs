//! The workflows of GitHub Actions run tasks of the repository.

use std::fs;
use xtask::root;

#[test]
fn workflows_run_tasks_that_the_list_of_tasks_has() {
    let tasks = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let mut found = 0;
    for entry in fs::read_dir(root().join(".github/workflows")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        for command in text.split("cargo xtask ").skip(1) {
            let task = command.split_whitespace().next().unwrap();
            let row = format!("| `cargo xtask {task}");
            assert!(tasks.contains(&row), "{}: no task '{task}'", path.display());
            found += 1;
        }
        assert!(text.contains("permissions:"), "{} may write", path.display());
    }
    assert!(found >= 2, "{found}");
}
