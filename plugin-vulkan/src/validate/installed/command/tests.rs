use super::*;
use crate::validate::installed::fake_validator::Folder;
use std::os::unix::fs::PermissionsExt;
use std::process;
use std::time::Instant;

const RULES: Rules = Rules {
    environment: Environment::Vulkan1_3,
    layouts: Layouts { scalar: false, standard_uniform: false },
};
/// A time limit that only a hanging command exceeds, even on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn command(folder: &Folder, limit: Duration) -> Command {
    Command::find_with(Some(folder.path().as_os_str()), limit).unwrap()
}

/// Returns the verdict of a command that is this script.
fn answer(script: &str) -> Result<Verdict, String> {
    command(&Folder::with_command(script), LONG).verdict(&[1, 2, 3], RULES)
}

#[track_caller]
fn fails(script: &str, texts: &[&str]) {
    let why = answer(script).unwrap_err();
    for text in texts {
        assert!(why.contains(text), "no '{text}' in: {why}");
    }
}

/// Returns the error of testing a command that is this script.
fn unusable(script: &str) -> String {
    command(&Folder::with_command(script), LONG).probe(Environment::Vulkan1_3).unwrap_err()
}

#[test]
fn a_command_gets_the_module_the_environment_and_the_layouts() {
    let folder = Folder::with_command("echo \"error: $*:$(od -An -tu4 | tr -s ' ')\" >&2; exit 1");
    let layouts = Layouts { scalar: true, standard_uniform: true };
    for (rules, options) in [
        (RULES, "--target-env vulkan1.3 -: 1 2 3"),
        (
            Rules { environment: Environment::Universal1_5, layouts },
            "--target-env spv1.5 --scalar-block-layout --uniform-buffer-standard-layout -: 1 2 3",
        ),
    ] {
        let verdict = command(&folder, LONG).verdict(&[1, 2, 3], rules);
        assert_eq!(verdict, Ok(Verdict::Invalid(options.to_owned())));
    }
}

#[test]
fn exit_code_and_output_make_the_verdict() {
    let invalid = |text: &str| Ok(Verdict::Invalid(text.to_owned()));
    assert_eq!(answer("exit 0"), Ok(Verdict::Valid));
    assert_eq!(answer("echo 'warning: old'; exit 0"), Ok(Verdict::Valid));
    assert_eq!(
        answer("echo 'error: line 9: Bad.'; echo '  %1 = OpBad'; exit 1"),
        invalid("Bad.\n  %1 = OpBad")
    );
    assert_eq!(answer("echo 'warning: old'; echo 'error: 12: Bad.'; exit 2"), invalid("12: Bad."));
    let Ok(Verdict::Invalid(long)) =
        answer("echo 'error: '; head -c 9000 /dev/zero | tr '\\0' x; exit 1")
    else {
        panic!("a long text is no verdict")
    };
    assert!(long.len() <= 4096 && long.ends_with("xx"), "{} bytes", long.len());
}

#[test]
fn a_crash_and_garbage_are_no_verdicts() {
    fails("kill -SEGV $$", &["signal: 11"]);
    fails("echo 'error: line 1: Bad.'; kill -KILL $$", &["signal: 9", "Bad."]);
    fails("echo 'the moon is full'; exit 1", &["exit status: 1", "'the moon is full'"]);
    fails("exit 127", &["exit status: 127", "''"]);
    fails("echo 'error: line 1: Bad.'; exit 0", &["exit status: 0", "Bad."]);
}

#[test]
fn output_without_end_is_no_verdict() {
    fails("yes", &["more than 65536 bytes"]);
}

#[test]
fn a_command_that_hangs_is_killed_with_all_that_it_has_started() {
    let folder =
        Folder::with_command("sleep 1000 & echo $! > \"$0.child\"; exec >&- 2>&-; sleep 1000");
    let started = Instant::now();
    let why = command(&folder, Duration::from_millis(300)).verdict(&[1], RULES).unwrap_err();
    assert!(why.contains("did not end within 0.3 s"), "{why}");
    assert!(started.elapsed() < LONG);
    let child = std::fs::read_to_string(folder.path().join("spirv-val.child")).unwrap();
    // A dead process that init has not reaped yet is a zombie.
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", child.trim()));
    while state().is_ok_and(|state| !state.contains(") Z ")) {
        assert!(started.elapsed() < LONG, "its child lives");
        std::thread::yield_now();
    }
}

#[test]
fn a_process_that_outlives_the_command_is_not_waited_for() {
    assert_eq!(answer("sleep 1000 & exit 0"), Ok(Verdict::Valid));
}

#[test]
fn a_command_that_cannot_be_started_is_reported_with_the_reason() {
    let folder = Folder::with_command("");
    std::fs::write(folder.path().join(PROGRAM), b"\x7fELF no program").unwrap();
    let why = command(&folder, LONG).probe(Environment::Vulkan1_2).unwrap_err();
    assert!(why.contains("Exec format error"), "{why}");
}

#[test]
fn a_command_that_is_no_validator_or_too_old_a_one_is_not_used() {
    assert!(unusable("exit 0").contains("it accepts an invalid module"));
    assert!(unusable("echo 'error: no'; exit 1").contains("it refuses a valid module: no"));
    let old =
        "case $2 in *1.3) echo 'error: Unrecognized target env: vulkan1.3' >&2; exit 1;; esac";
    let why = unusable(old);
    assert!(why.contains("vulkan1.3: it refuses a valid module: Unrecognized target env"), "{why}");
    assert!(unusable("kill -ABRT $$").contains("signal: 6"));
}

#[test]
fn a_command_is_tried_once_for_each_environment() {
    let folder = Folder::with_validator();
    let command = command(&folder, LONG);
    for _ in 0..3 {
        command.probe(Environment::Vulkan1_2).unwrap();
    }
    assert_eq!(folder.runs(), 2);
    command.probe_all().unwrap();
    assert_eq!(folder.runs(), 8);
}

#[test]
fn only_programs_in_absolute_folders_are_found() {
    let folder = Folder::with_command("");
    let find = |path: &str| Command::find(Some(path.as_ref())).map(|found| found.program);
    let absolute = folder.path().to_str().unwrap();
    assert_eq!(find(&format!("/nowhere:{absolute}")), Ok(folder.path().join(PROGRAM)));
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count());
    let relative = format!("{up}{absolute}");
    assert!(Path::new(&relative).join(PROGRAM).is_file(), "{relative}");
    for path in ["", ".", &relative, "/nowhere"] {
        assert_eq!(find(path), Err("spirv-val: not in PATH".to_owned()), "{path}");
    }
    let file = folder.path().join(PROGRAM);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    assert!(find(absolute).is_err());
    assert!(Command::find(None).is_err_and(|why| why.contains("no PATH")));
}

#[test]
fn the_command_of_spirv_tools_is_usable() {
    let Ok(command) = Command::find(search_path().as_deref()) else {
        assert!(std::env::var_os("CI").is_none(), "there is no spirv-val");
        return println!("nothing is tried: there is no spirv-val");
    };
    command.probe_all().unwrap();
    let Verdict::Invalid(text) = command.verdict(&[1, 2, 3], RULES).unwrap() else {
        panic!("three words are no module")
    };
    assert!(text.contains("magic number") || text.contains("header"), "{text}");
}

#[test]
fn another_version_of_the_command_has_another_identity() {
    let folder = Folder::with_command("exit 0");
    let command = command(&folder, LONG);
    let first = command.identity().unwrap();
    assert_eq!(command.identity().unwrap(), first);
    folder.put_command("exit 1");
    assert_ne!(command.identity().unwrap(), first);
    folder.clear();
    assert!(command.identity().is_err());
}

/// Returns the number of open descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process::id())).unwrap().count()
}

#[test]
fn nothing_is_left_open_whatever_becomes_of_the_command() {
    let rounds = || {
        for script in ["exit 0", "echo 'error: no'; exit 1", "yes", "kill -KILL $$"] {
            let _ = answer(script);
        }
    };
    rounds();
    let before = descriptors();
    rounds();
    assert!(descriptors() <= before + 2, "{before} descriptors became {}", descriptors());
}
