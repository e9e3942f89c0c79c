//! The load of the machine.

/// Describes the load of the machine.
pub fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let minute = load.split(' ').next().unwrap_or_default().to_owned();
    format!("load of the machine in the last minute: {minute}")
}
