//! Functions of the program in a queue.

use super::{Double, Round};
use std::ffi::c_int;
use std::sync::mpsc;

/// Asserts that a host function finds the device of its queue current, on any thread. `ask` is the
/// driver's function that stores the current device.
///
/// # Panics
/// If the assertion fails.
pub fn a_function_finds_its_device_current(double: &Double, round: &Round, ask: &str) {
    type Ask = unsafe extern "C" fn(*mut c_int) -> u32;
    // SAFETY: the function has this type.
    let ask = *unsafe { double.library().get::<Ask>(ask) }.expect("the double has the function");
    for _ in 0..2 {
        let host = round.host().unwrap();
        let devices =
            [0, 1].map(|index| host.device(&format!("{}:{index}", round.of.backend)).unwrap());
        let queues = [0, 1].map(|index: usize| devices[index].queue().unwrap());
        for index in (0..20).map(|turn| turn % 2) {
            let (sender, receiver) = mpsc::channel();
            let function = move || {
                let mut current = -1;
                // SAFETY: the output is ours.
                let asked = unsafe { ask(&mut current) };
                let _ = sender.send((asked, current));
            };
            queues[index].host_function(function).unwrap();
            assert_eq!(receiver.recv(), Ok((0, index as c_int)));
            queues[index].synchronize().unwrap();
        }
        drop(queues);
        for device in devices {
            device.close().unwrap();
        }
    }
    assert_eq!(double.live(), [""; 0]);
    assert_eq!(double.violations(), [""; 0]);
}
