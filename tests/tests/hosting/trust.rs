//! Programs with more rights than their caller, and plugins from the caller or another user in
//! their folders.
//!
//! The program is the executable of this test, which behaves as [`the_program`]. These tests need
//! root: they give rights to a copy of it, and call the copy as another user.

use longshore::Host;
use longshore_capi::*;
use longshore_tests::world::{World, executor, host_plugin};
use std::ffi::CString;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::null_mut;
use tempfile::TempDir;

/// The calling user, the owner of a set-uid program, and a group.
const CALLER: u32 = 65534;
const OWNER: u32 = 4711;
const GROUP: u32 = 4712;

/// The variable that makes this executable behave as the program.
const PROGRAM: &str = "TRUST_PROGRAM";

/// The origin of a program's rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    None,
    SetGroup,
    Capability,
    SetUserToRoot,
    SetUserToAnother,
}

impl Rights {
    const MORE: [Rights; 4] =
        [Rights::SetGroup, Rights::Capability, Rights::SetUserToRoot, Rights::SetUserToAnother];

    fn give_to(self, program: &Path) {
        let (user, group, mode) = match self {
            Rights::None | Rights::Capability => (0, 0, 0o755),
            Rights::SetGroup => (0, GROUP, 0o2755),
            Rights::SetUserToRoot => (0, 0, 0o4755),
            Rights::SetUserToAnother => (OWNER, 0, 0o4755),
        };
        chown(program, Some(user), Some(group)).unwrap();
        set_mode(program, mode);
        if self == Rights::Capability {
            // The capability format has version 2 and the effective flag; the capability is
            // CAP_NET_BIND_SERVICE.
            let words = [0x0200_0001_u32, 1 << 10, 0, 0, 0];
            let value: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            let path = CString::new(program.as_os_str().as_bytes()).unwrap();
            // SAFETY: the path, the name and the bytes are valid during the call.
            let set = unsafe {
                libc::setxattr(
                    path.as_ptr(),
                    c"security.capability".as_ptr(),
                    value.as_ptr().cast(),
                    value.len(),
                    0,
                )
            };
            assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
        }
    }
}

/// A program in a folder of root, and a folder of the caller with a hard link to it.
struct Place {
    root: TempDir,
    plugins: World,
}

impl Place {
    /// Creates the folders. Without root, prints that and returns `None`.
    fn new() -> Option<Place> {
        // SAFETY: the function has no precondition.
        if unsafe { libc::geteuid() } != 0 {
            println!("left out: only root can give programs rights");
            return None;
        }
        let place = Place { root: TempDir::new().unwrap(), plugins: World::new() };
        place.plugins.add_sample("sample", &[]);
        set_mode(place.root.path(), 0o755);
        fs::copy(std::env::current_exe().unwrap(), place.program()).unwrap();
        Some(place)
    }

    fn program(&self) -> PathBuf {
        self.root.path().join("program")
    }

    /// Returns a folder with a hard link to the program and a plugin beside it.
    fn folder_of(&self, user: u32) -> PathBuf {
        let folder = self.root.path().join(format!("of-{user}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        set_mode(&folder, 0o755);
        fs::hard_link(self.program(), folder.join("program")).unwrap();
        let plugin = folder.join("liblongshore_plugin_sample.so");
        fs::copy(self.plugins.plugin("sample"), &plugin).unwrap();
        for path in [&plugin, &folder] {
            chown(path, Some(user), Some(user)).unwrap();
        }
        folder
    }
}

/// Returns the output of a program that another user calls.
fn called(program: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(program);
    command.args(["--exact", "trust::the_program", "--nocapture"]).env(PROGRAM, "1");
    command
        .envs(variables.iter().copied())
        .current_dir(program.parent().unwrap())
        .uid(CALLER)
        .gid(CALLER);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Prints the outcomes of the plugins found, whether the C API checks its arguments, and the file
/// of a profile.
#[test]
fn the_program() {
    if std::env::var_os(PROGRAM).is_none() {
        return;
    }
    if let Some(plugin) = std::env::var_os("TRUST_FIRST") {
        drop(Host::builder().with_only_given_plugins().with_plugin(plugin).build().unwrap());
    }
    let mut builder = Host::builder();
    if let Some(plugin) = std::env::var_os("TRUST_PLUGIN") {
        builder = builder.with_plugin(plugin);
    }
    if let Some(executor) = std::env::var_os("TRUST_EXECUTOR") {
        builder = builder.with_isolated_backends("all").with_executor(executor);
    }
    let host = builder.build().unwrap();
    for candidate in host.candidates() {
        println!("plugin {} {}", candidate.path.display(), candidate.outcome);
    }
    let mut bytes = 0;
    // SAFETY: a null handle is an error, and the size goes to a variable of this test.
    let result = unsafe {
        assert!(olInit(std::ptr::null()).is_null());
        let info = OL_PLATFORM_INFO_NAME;
        &*olGetPlatformInfoSize(null_mut(), info, &mut bytes)
    };
    println!("checks: {}", result.Code == OL_ERRC_INVALID_NULL_HANDLE);
    if let Some(image) = std::env::var_os("TRUST_IMAGE") {
        let device = host.device("host:0").unwrap();
        // SAFETY: the image belongs to the test.
        let program = unsafe { device.load(fs::read(image).unwrap()) }.unwrap();
        println!("profile: {:?}", program.unload().unwrap().profile_file);
    }
}

#[test]
fn a_program_with_more_rights_than_its_caller_loads_no_plugin_of_the_callers() {
    let Some(place) = Place::new() else { return };
    for rights in Rights::MORE {
        rights.give_to(&place.program());
        let folder = place.folder_of(CALLER);
        let plugin = folder.join("liblongshore_plugin_sample.so");
        let plugin_name = plugin.to_str().unwrap();
        // The program finds the plugin in three ways: beside a hard link to the program, by a
        // variable, and by the path that the program itself gives to the host.
        let beside = called(&folder.join("program"), &[]);
        assert!(beside.contains("sample.so refused"), "{rights:?}: {beside}");
        let named = called(&place.program(), &[("LONGSHORE_PLUGIN_PATH", plugin_name)]);
        assert!(!named.contains("sample.so"), "{rights:?}: {named}");
        let given = called(&place.program(), &[("TRUST_PLUGIN", plugin_name)]);
        assert!(given.contains("sample.so refused"), "{rights:?}: {given}");
    }
    Rights::None.give_to(&place.program());
    let beside = called(&place.folder_of(CALLER).join("program"), &[]);
    assert!(beside.contains("sample.so loaded"), "{beside}");
}

#[test]
fn a_program_with_more_rights_than_its_caller_loads_plugins_of_root_and_of_its_owner() {
    let Some(place) = Place::new() else { return };
    for rights in Rights::MORE {
        rights.give_to(&place.program());
        let beside = called(&place.folder_of(0).join("program"), &[]);
        assert!(beside.contains("sample.so loaded"), "{rights:?}: {beside}");
        let beside = called(&place.folder_of(OWNER).join("program"), &[]);
        let expected = match rights {
            Rights::SetUserToAnother => "sample.so loaded",
            _ => "sample.so refused",
        };
        assert!(beside.contains(expected), "{rights:?}: {beside}");
    }
}

#[test]
fn a_program_with_more_rights_than_its_caller_starts_no_executor_of_the_callers() {
    let Some(place) = Place::new() else { return };
    let copy = |name: &str, owner| {
        let path = place.root.path().join(name);
        fs::copy(executor(), &path).unwrap();
        chown(&path, Some(owner), Some(owner)).unwrap();
        path
    };
    let (callers, roots) = (copy("callers", CALLER), copy("roots", 0));
    let plugin = place.folder_of(0).join("liblongshore_plugin_sample.so");
    let with = |executor: &Path| {
        let variables = [
            ("TRUST_PLUGIN", plugin.to_str().unwrap()),
            ("TRUST_EXECUTOR", executor.to_str().unwrap()),
        ];
        called(&place.program(), &variables)
    };
    for rights in Rights::MORE {
        rights.give_to(&place.program());
        let refused = with(&callers);
        assert!(refused.contains("callers' is refused"), "{rights:?}: {refused}");
        let started = with(&roots);
        assert!(started.contains("sample.so isolated"), "{rights:?}: {started}");
    }
    Rights::None.give_to(&place.program());
    assert!(with(&callers).contains("sample.so isolated"));
}

#[test]
fn a_program_with_more_rights_takes_no_library_for_one_that_it_opened_before() {
    let Some(place) = Place::new() else { return };
    let folder = place.folder_of(0);
    let first = folder.join("liblongshore_plugin_host.so");
    fs::copy(host_plugin(), &first).unwrap();
    for rights in Rights::MORE {
        rights.give_to(&place.program());
        let variables = [
            ("TRUST_FIRST", first.to_str().unwrap()),
            ("TRUST_PLUGIN", folder.join("liblongshore_plugin_sample.so").to_str().unwrap()),
        ]
        .map(|(name, value)| (name, value.to_owned()));
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        let said = called(&place.program(), &variables);
        assert!(said.contains("sample.so loaded"), "{rights:?}: {said}");
    }
}

#[test]
fn the_caller_of_a_program_with_more_rights_cannot_turn_checks_off() {
    let Some(place) = Place::new() else { return };
    let disabled = [("OFFLOAD_DISABLE_VALIDATION", "1")];
    assert!(called(&place.program(), &disabled).contains("checks: false"));
    for rights in Rights::MORE {
        rights.give_to(&place.program());
        assert!(called(&place.program(), &disabled).contains("checks: true"), "{rights:?}");
    }
}

#[test]
fn a_program_with_more_rights_than_its_caller_writes_no_profile() {
    let Some(place) = Place::new() else { return };
    let (source, image) = (place.root.path().join("image.c"), place.root.path().join("image.o"));
    fs::write(&source, "void kernel(void **arguments) { (void)arguments; }").unwrap();
    let compiles = |clang: &&str| {
        let mut clang = Command::new(clang);
        clang.args(["-fprofile-instr-generate", "-c", "-o"]).args([&image, &source]);
        clang.status().is_ok_and(|status| status.success())
    };
    if !["clang", "clang-19", "clang-16", "clang-14"].iter().any(compiles) {
        println!("left out: there is no clang");
        return;
    }
    let plugin = place.root.path().join("liblongshore_plugin_host.so");
    fs::copy(host_plugin(), &plugin).unwrap();
    let folder = place.root.path().join("profiles");
    fs::create_dir(&folder).unwrap();
    set_mode(&folder, 0o1777);
    let profile = folder.join("x.profraw");
    let variables = [
        ("TRUST_IMAGE", image.to_str().unwrap()),
        ("LONGSHORE_PROFILE_FILE", profile.to_str().unwrap()),
    ];
    assert!(called(&place.program(), &variables).contains("x.profraw"));
    fs::remove_file(&profile).unwrap();
    for rights in Rights::MORE {
        rights.give_to(&place.program());
        assert!(called(&place.program(), &variables).contains("profile: None"), "{rights:?}");
    }
    assert!(fs::read_dir(&folder).unwrap().next().is_none());
}

#[test]
fn a_plugin_below_a_folder_that_other_users_can_write_is_refused() {
    let world = World::new();
    let loose = world.path().join("loose");
    let folder = loose.join("folder");
    fs::create_dir_all(&folder).unwrap();
    world.add_sample("sample", &[]);
    fs::rename(world.plugin("sample"), folder.join("liblongshore_plugin_sample.so")).unwrap();
    let outcome = |folder: &Path| {
        let host = Host::builder().with_environment(longshore::Environment::empty());
        let host = host.with_only_given_plugins().with_plugin(folder).build().unwrap();
        host.candidates()[0].outcome.to_string()
    };
    set_mode(&loose, 0o777);
    let refused = outcome(&folder);
    assert!(refused.contains("refused") && refused.contains("chmod o-w"), "{refused}");
    let link = world.path().join("link");
    symlink(&folder, &link).unwrap();
    assert!(outcome(&link).contains("refused"));
    set_mode(&loose, 0o755);
    assert!(outcome(&link).contains("loaded"));
}

#[test]
fn a_link_of_another_user_is_not_followed() {
    let Some(place) = Place::new() else { return };
    let target = place.folder_of(0).join("liblongshore_plugin_sample.so");
    let open = place.root.path().join("open");
    fs::create_dir(&open).unwrap();
    set_mode(&open, 0o1777);
    let link = open.join("liblongshore_plugin_sample.so");
    symlink(target, &link).unwrap();
    let outcome = || {
        let host = Host::builder().with_environment(longshore::Environment::empty());
        host.with_only_given_plugins().with_plugin(&link).build().unwrap().candidates()[0]
            .to_string()
    };
    assert!(outcome().contains("loaded"), "{}", outcome());
    std::os::unix::fs::lchown(&link, Some(CALLER), Some(CALLER)).unwrap();
    assert!(outcome().contains("refused"), "{}", outcome());
}
