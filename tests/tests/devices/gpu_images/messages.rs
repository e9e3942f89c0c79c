//! Messages of kernels, in a process of its own with captured output.

use super::{Check, Setting};
use longshore::{Grid, Host};
use longshore_conformance::TrustedImages;
use longshore_tests::doubled::Doubled;
use std::path::PathBuf;
use std::process::Command;

pub(super) const CHECKS: &[Check] =
    &[("what kernels print is there when the queue was waited for", messages_are_printed)];

/// The variable with the image file of a process that must print.
const IMAGE: &str = "LONGSHORE_TEST_MESSAGES";
/// The variable with the device that prints.
const DEVICE: &str = "LONGSHORE_TEST_MESSAGES_DEVICE";
const SOURCE: &str = "
LONGSHORE_KERNEL(say, (int n, double x)) {
  longshore_printf(\"item %u: n is %d, x is %.2f, %s|\\n\", longshore_item_id(0), n, x, \"a text\");
}
";
const GROUPS: u32 = 40;

/// Returns whether this process is one that prints. If so, it has printed.
pub(crate) fn is_done(of: &Doubled) -> bool {
    let Some(image) = std::env::var_os(IMAGE) else { return false };
    let image = std::fs::read(PathBuf::from(image)).unwrap();
    let device = std::env::var(DEVICE).unwrap();
    let plugin = of.plugin().expect("it is built");
    let host = Host::builder().with_only_given_plugins().with_plugin(plugin).build().unwrap();
    let device = host.device(&device).unwrap();
    let queue = device.queue().unwrap();
    let program = device.load_trusted(&image[..]).unwrap();
    let say = program.kernel("say").unwrap();
    for n in 0..GROUPS {
        // SAFETY: the kernel takes two numbers.
        unsafe { queue.launch(&say, Grid::linear(1, 2), (n, 0.5f64)).unwrap() };
        if n % 10 == 0 {
            queue.synchronize().unwrap();
        }
    }
    queue.synchronize().unwrap();
    drop((say, queue));
    program.unload().unwrap();
    device.close().unwrap();
    true
}

fn messages_are_printed(setting: &Setting<'_>) {
    for image in setting.forms(SOURCE) {
        let path = setting.folder.join("image");
        std::fs::write(&path, image).unwrap();
        let device = format!("{}:{}", setting.device.backend(), setting.device.index());
        let mut child = Command::new(std::env::current_exe().unwrap());
        let output = child.env(IMAGE, path).env(DEVICE, device).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {said}", output.status);
        let printed = String::from_utf8(output.stdout).unwrap();
        for n in 0..GROUPS {
            for item in 0..2 {
                let line = format!("item {item}: n is {n}, x is 0.50, a text|");
                assert_eq!(printed.matches(&line).count(), 1, "{line} in {printed}");
            }
        }
    }
}
