//! Formatting of sizes and times, for the library and the command.

use std::time::Duration;

/// Formats a number of bytes in the largest unit that fits: "512 bytes", "1.5 KiB", "16 GiB".
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let shown = format!("{value:.1}");
    format!("{} {}", shown.strip_suffix(".0").unwrap_or(&shown), UNITS[unit])
}

/// Formats a time with three digits: "950 ns", "12.3 µs", "1.25 s".
pub fn duration(time: Duration) -> String {
    let ns = time.as_nanos() as f64;
    let (value, unit) = match ns {
        ns if ns < 1e3 => return format!("{ns} ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_fits() {
        let cases = [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1 MiB"),
            (16 << 30, "16 GiB"),
            (u64::MAX, "16 EiB"),
        ];
        for (count, shown) in cases {
            assert_eq!(bytes(count), shown);
        }
    }

    #[test]
    fn durations_are_shown_with_three_digits() {
        let cases = [
            (0, "0 ns"),
            (950, "950 ns"),
            (1_234, "1.23 µs"),
            (12_345, "12.3 µs"),
            (123_456, "123 µs"),
            (1_500_000_000, "1.50 s"),
        ];
        for (ns, shown) in cases {
            assert_eq!(duration(Duration::from_nanos(ns)), shown);
        }
    }
}
