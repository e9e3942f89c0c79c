//! Images whose members are linked at their first call.

use crate::is_all;
use crate::relocatable::{archive, in_every_way, object};
use crate::support::{ADD, ORDER, build, load, load_lazily};
use longshore_plugin_api::{ErrorCode, Module};

#[test]
fn the_address_of_a_kernel_can_be_called_however_the_object_was_compiled() {
    for (how, image) in in_every_way(ADD) {
        for image in [&image, &archive(&[&image])] {
            let module = load_lazily(image).unwrap_or_else(|error| panic!("{how}: {error}"));
            let (mut sum, mut a, mut b) = (0i32, 2i32, 5i32);
            let mut arguments = [&mut sum, &mut a, &mut b].map(|value| (value as *mut i32).cast());
            for calls in 41..44 {
                module.call_with("add", &mut arguments);
                assert_eq!((sum, module.int("calls")), (7, calls), "{how}");
            }
            module.call("tls");
            assert_eq!(module.int("calls"), 7, "{how}");
        }
    }
}

#[test]
fn constructors_and_destructors_run_once_in_order_as_in_whole_images() {
    for (how, image) in in_every_way(ORDER) {
        for image in [&image, &archive(&[&image])] {
            let module = load_lazily(image).unwrap_or_else(|error| panic!("{how}: {error}"));
            module.run_constructors().unwrap();
            let mut written = [0u8; 32];
            let mut sink = module.global_at::<u8>("order") as *const u8;
            module.call_with("redirect", &mut [(&raw mut sink).cast()]);
            assert!(["abc", "xbc"].contains(&module.text("order").as_str()), "{how}");
            sink = written.as_mut_ptr();
            module.call_with("redirect", &mut [(&raw mut sink).cast()]);
            module.run_destructors().unwrap();
            module.unload().unwrap();
            assert!(written.starts_with(b"hxyz\0"), "{how}: {written:?}");
        }
    }
}

#[test]
fn a_shared_object_is_loaded_whole() {
    let module = load_lazily(&build(ADD, &[])).unwrap();
    module.call("tls");
    assert_eq!(module.int("calls"), 7);
    assert_eq!(load_lazily(b"no image").err().unwrap().code(), ErrorCode::InvalidBinary);
}

#[test]
fn random_damage_is_an_error_or_a_symbol_and_never_a_crash() {
    let trials = if is_all() { 3000 } else { 1000 };
    let image = archive(&[&object(ADD, &[]), &object(ORDER, &[])]);
    let mut state = 7u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % below
    };
    let (mut refused, mut found) = (0, 0);
    for _ in 0..trials {
        let mut damaged = image.clone();
        for _ in 0..1 + random(4) {
            damaged[random(image.len())] = random(256) as u8;
        }
        let Ok(module) = load_lazily(&damaged) else {
            refused += 1;
            continue;
        };
        _ = module.symbols();
        // Looking up a global links its member, but runs none of its code.
        for name in ["add", "calls", "redirect", "order", "tls"] {
            found += u32::from(module.kernel(name).is_ok() || module.global(name).is_ok());
        }
    }
    assert!(refused < trials / 2 && found > 30, "{refused} refused, {found} found");
    assert!(load(&image).is_ok());
}
