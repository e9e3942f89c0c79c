//! Bitcode for a device whose plugin runs in a process of its own: it is compiled in a further one.

use super::{Shop, answer, clang};
use longshore::{ErrorCode, IsolateSandbox};
use longshore_conformance::TrustedImages;

#[test]
fn an_isolated_device_takes_bitcode_with_and_without_a_sandbox() {
    let Some(clang) = clang() else { return };
    let shop = Shop::new();
    for (number, sandbox) in (1..).zip([IsolateSandbox::Off, IsolateSandbox::Available]) {
        for process in ["worker", "own"] {
            let host = shop.host(&[("PROCESS", process)]).with_isolated_backends("all");
            let host = host.with_isolate_sandbox(sandbox).build().unwrap();
            let device = host.default_device().unwrap();
            let image = shop.answering(clang, number, &[]);
            assert_eq!(answer(&device, &image), Ok(number), "{process}");
            let error = device.load_trusted(&image[..image.len() - 8]).err().unwrap();
            assert_eq!(error.code(), ErrorCode::InvalidBinary, "{process}: {error}");
            assert_eq!(answer(&device, &image), Ok(number), "{process}");
        }
    }
}
