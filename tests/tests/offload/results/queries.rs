//! Queries about devices: each has a reply on every device, whatever the plugin supports.

use super::*;
use libtest_mimic::Trial;
use longshore_tests::trials;

pub(super) fn trials() -> Vec<Trial> {
    trials![
        every_device_answers_every_query,
        a_device_in_a_process_of_its_own_answers_every_query,
        unknown_numbers_of_a_device_are_0_or_1,
    ]
}

pub(crate) fn platform_name(device: ol_device_handle_t) -> String {
    let mut platform: ol_platform_handle_t = null_mut();
    let mut name = [0u8; 256];
    // SAFETY: the buffers have the sizes of the replies.
    unsafe {
        let size = size_of_val(&platform);
        let written = (&raw mut platform).cast();
        ok(olGetDeviceInfo(device, OL_DEVICE_INFO_PLATFORM, size, written));
        let room = name.as_mut_ptr().cast();
        ok(olGetPlatformInfo(platform, OL_PLATFORM_INFO_NAME, name.len(), room));
    }
    CStr::from_bytes_until_nul(&name).unwrap().to_string_lossy().into_owned()
}

/// Returns the bytes of the reply to a query.
fn answer(device: ol_device_handle_t, query: ol_device_info_t) -> Result<Vec<u8>, String> {
    let mut size = 0;
    // SAFETY: the call writes the size to the variable.
    let asked = unsafe { olGetDeviceInfoSize(device, query, &mut size) };
    let mut bytes = vec![0xa5u8; size];
    let asked = match asked.is_null() {
        // SAFETY: the buffer has the size of the reply.
        true => unsafe { olGetDeviceInfo(device, query, size, bytes.as_mut_ptr().cast()) },
        false => asked,
    };
    if asked.is_null() { Ok(bytes) } else { Err(said(asked)) }
}

fn walk(library: &Library) -> Vec<String> {
    let mut platforms = Vec::new();
    for device in library.devices() {
        let platform = platform_name(device);
        let mut texts = Vec::new();
        for (name, query) in ol_device_info_t::ALL {
            if *name == "OL_DEVICE_INFO_LAST" {
                continue;
            }
            let bytes = answer(device, *query);
            let bytes = bytes.unwrap_or_else(|error| panic!("{platform}: {name}: {error}"));
            if bytes.len() > 12 || bytes.last() == Some(&0) && name.ends_with("NAME") {
                texts.push((name, bytes));
            }
        }
        for (name, text) in texts {
            let text = CStr::from_bytes_with_nul(&text);
            assert!(text.is_ok_and(|text| !text.is_empty()), "{platform}: {name}");
        }
        platforms.push(platform);
    }
    platforms
}

fn every_device_answers_every_query() {
    let library = Library::start();
    let platforms = walk(&library);
    assert!(platforms.len() >= 2, "the CPU and the sample plugin: {platforms:?}");
    if vulkan::plugin().is_some() && vulkan::lavapipe().is_some() {
        let has_vulkan = platforms.iter().any(|name| name.contains("Vulkan"));
        assert!(has_vulkan, "{platforms:?}");
    }
}

fn a_device_in_a_process_of_its_own_answers_every_query() {
    // This test replaces a process that was started with the variable.
    let library = {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        plugins();
        // SAFETY: no other thread uses the environment while this thread holds the library.
        unsafe {
            std::env::set_var("LONGSHORE_ISOLATE", "host,sample");
            let started = olInit(null());
            std::env::remove_var("LONGSHORE_ISOLATE");
            ok(started);
        }
        Library { _alone: alone }
    };
    assert!(walk(&library).len() >= 2);
}

fn unknown_numbers_of_a_device_are_0_or_1() {
    let library = Library::start();
    let devices = library.devices();
    let sample = devices.iter().find(|device| platform_name(**device).contains("ample"));
    let sample = *sample.expect("the sample plugin has a device");
    for (query, expected) in [
        (OL_DEVICE_INFO_MAX_CLOCK_FREQUENCY, 0u32),
        (OL_DEVICE_INFO_MEMORY_CLOCK_RATE, 0),
        (OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_CHAR, 1),
        (OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_DOUBLE, 1),
        (OL_DEVICE_INFO_NATIVE_VECTOR_WIDTH_HALF, 0),
    ] {
        assert_eq!(answer(sample, query), Ok(expected.to_ne_bytes().to_vec()), "{query:?}");
    }
}
