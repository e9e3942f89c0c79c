//! Acceptance of images by devices.

use super::*;
use libtest_mimic::Trial;
use longshore_tests::trials;

pub(super) fn trials() -> Vec<Trial> {
    trials![
        a_container_with_an_image_for_the_device_is_valid,
        occupancy_is_answered_or_unsupported_for_any_shared_memory_that_a_group_can_have,
    ]
}

use longshore::{ImageKind, OffloadImage, OffloadKind, write_offload_binary};

fn is_valid(device: ol_device_handle_t, image: &[u8]) -> bool {
    let mut valid = false;
    // SAFETY: the image has this size.
    ok(unsafe { olIsValidBinary(device, image.as_ptr().cast(), image.len(), &mut valid) });
    valid
}

fn packed(triple: &str, bytes: &[u8]) -> Vec<u8> {
    write_offload_binary(&[OffloadImage::new(bytes)
        .with_image_kind(ImageKind::Object)
        .with_offload_kind(OffloadKind::OpenMp)
        .with_triple(triple)])
}

fn a_container_with_an_image_for_the_device_is_valid() {
    let library = Library::start();
    let device = library.cpu();
    let image = image("basic");
    let own = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let container = packed(&own, &image);
    assert!(is_valid(device, &image));
    assert!(is_valid(device, &container));
    program(device, &container);
    for other in [
        packed("nvptx64-nvidia-cuda", b"//"),
        packed(&own, b"no image"),
        container[..container.len() / 2].to_vec(),
        Vec::from(*b"\x10\xff\x10\xad"),
    ] {
        assert!(!is_valid(device, &other));
    }
}

fn occupancy_is_answered_or_unsupported_for_any_shared_memory_that_a_group_can_have() {
    let library = Library::start();
    let host = Host::builder().with_environment(Environment::from_process()).build().unwrap();
    for (device, entry) in library.devices().into_iter().zip(host.devices()) {
        let opened = entry.open().unwrap();
        let Ok(Some(image)) = Fixtures::built_in().image(&opened, "basic") else { continue };
        let bump = kernel(program(device, &image), c"bump");
        for bytes in [0, 1, 1024] {
            let mut items = 0;
            // SAFETY: the handles are live.
            let asked = unsafe { olCalculateOptimalOccupancy(device, bump, bytes, &mut items) };
            match code(asked) {
                OL_ERRC_SUCCESS => assert!(items > 0),
                OL_ERRC_UNSUPPORTED => {}
                _ => panic!("{}: {bytes} bytes: {}", entry.name(), said(asked)),
            }
        }
    }
}
