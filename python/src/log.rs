//! The log, on standard error.

use std::io::Write as _;

/// Starts the log with the filter in `LONGSHORE_LOG`; errors alone without one.
pub(crate) fn start() {
    let filter = std::env::var("LONGSHORE_LOG").ok().filter(|filter| !filter.is_empty());
    let mut builder = env_logger::Builder::new();
    builder.parse_filters(filter.as_deref().unwrap_or("error")).format(|to, record| {
        let level = record.level().as_str().to_ascii_lowercase();
        writeln!(to, "{level}: [{}] {}", record.target(), record.args())
    });
    // Another logger can only be one of this library, started before.
    let _ = builder.try_init();
}
