//! The trace: its events, and its file in the form of LLVM's time profiler.

use crate::settings;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Once;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shortest event of the trace, in microseconds, if the environment sets none.
const GRANULARITY: i64 = 500;

static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

struct Trace {
    file: String,
    /// Shortest event, in microseconds.
    granularity: u128,
    began: Instant,
    /// The time of the beginning, in microseconds of Unix time.
    began_at: u128,
    events: Vec<Event>,
    totals: BTreeMap<&'static str, Total>,
    threads: BTreeMap<u32, String>,
}

struct Event {
    name: &'static str,
    detail: Option<String>,
    thread: u32,
    /// Microseconds since the beginning, and of the event.
    begin: u128,
    duration: u128,
}

/// The sum of all events of a name that are in no event of the same name.
#[derive(Default)]
struct Total {
    count: u32,
    duration: Duration,
}

/// Begins the trace at the first call. It is written when the process exits, to the file that the
/// environment names; `-` is the standard output.
pub(super) fn start() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if let Some(file) = settings::text("LIBOMPTARGET_PROFILE") {
            start_file(file);
        }
    });
}

fn start_file(file: String) {
    let granularity = settings::number("LIBOMPTARGET_PROFILE_GRANULARITY").unwrap_or(GRANULARITY);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    *TRACE.lock() = Some(Trace {
        file,
        granularity: granularity.max(0) as u128,
        began: Instant::now(),
        began_at: since.as_micros(),
        events: Vec::new(),
        totals: BTreeMap::new(),
        threads: BTreeMap::new(),
    });
    // SAFETY: the function stays in the process, which never unloads this library.
    unsafe { libc::atexit(write_at_exit) };
}

/// Adds an event from its beginning to its end.
pub(super) fn add(
    name: &'static str,
    detail: Option<String>,
    (begin, end): (Instant, Instant),
    is_outermost: bool,
) {
    let mut trace = TRACE.lock();
    let Some(trace) = trace.as_mut() else { return };
    let (since, duration) = (begin.saturating_duration_since(trace.began), end - begin);
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    trace.threads.entry(thread).or_insert_with(thread_name);
    let (begin, micros) = (since.as_micros(), duration.as_micros());
    if micros >= trace.granularity {
        trace.events.push(Event { name, detail, thread, begin, duration: micros });
    }
    if is_outermost {
        let total = trace.totals.entry(name).or_default();
        total.count += 1;
        total.duration += duration;
    }
}

fn thread_name() -> String {
    let mut name = [0; 64];
    // SAFETY: the buffer has the given size; the call ends the name with a zero byte.
    unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr(), name.len()) };
    let bytes: Vec<u8> = name.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

extern "C" fn write_at_exit() {
    let Some(trace) = TRACE.lock().take() else { return };
    let text = trace.text(std::process::id());
    let written = match &*trace.file {
        "-" => {
            print!("{text}");
            Ok(())
        }
        file => std::fs::write(file, text),
    };
    if let Err(error) = written {
        crate::message::error(format_args!(
            "Error writing out the time trace: {}: {error}",
            trace.file
        ));
    }
}

impl Trace {
    /// Returns the trace as JSON.
    fn text(&self, process: u32) -> String {
        let mut parts: Vec<String> = self.events.iter().map(|event| event.text(process)).collect();
        let mut totals: Vec<_> = self.totals.iter().collect();
        totals.sort_by_key(|(_, total)| std::cmp::Reverse(total.duration));
        // Totals have threads of their own, after all others.
        let first = self.threads.keys().next_back().map_or(process, |last| *last) + 1;
        for (thread, (name, total)) in (first..).zip(totals) {
            let (all, each) = (total.duration.as_micros(), total.duration / total.count.max(1));
            parts.push(format!(
                r#"{{"pid":{process},"tid":{thread},"ts":0,"ph":"X","dur":{all},"name":"Total {}","args":{{"count":{},"avg ms":{}}}}}"#,
                escaped(name),
                total.count,
                each.as_millis()
            ));
        }
        parts.push(named(process, process, "process_name", "libomptarget"));
        for (thread, name) in &self.threads {
            parts.push(named(process, *thread, "thread_name", name));
        }
        let (events, began) = (parts.join(","), self.began_at);
        format!(r#"{{"traceEvents":[{events}],"beginningOfTime":{began}}}"#)
    }
}

impl Event {
    fn text(&self, process: u32) -> String {
        let mut text = format!(
            r#"{{"pid":{process},"tid":{},"ts":{},"ph":"X","dur":{},"name":"{}""#,
            self.thread,
            self.begin,
            self.duration,
            escaped(self.name)
        );
        if let Some(detail) = &self.detail {
            let _ = write!(text, r#","args":{{"detail":"{}"}}"#, escaped(detail));
        }
        text + "}"
    }
}

fn named(process: u32, thread: u32, kind: &str, name: &str) -> String {
    let name = escaped(name);
    format!(
        r#"{{"cat":"","pid":{process},"tid":{thread},"ts":0,"ph":"M","name":"{kind}","args":{{"name":"{name}"}}}}"#
    )
}

/// Returns a text as the contents of a string of JSON.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => escaped.extend(['\\', letter]),
            control if control < ' ' => {
                let _ = write!(escaped, "\\u{:04x}", control as u32);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_events_then_totals_from_the_longest_on_then_names() {
        let event = |name, begin, duration| Event {
            name,
            detail: Some(";a\"b.c;;".to_owned()),
            thread: 7,
            begin,
            duration,
        };
        let total = |count, micros| Total { count, duration: Duration::from_micros(micros) };
        let trace = Trace {
            file: String::new(),
            granularity: 0,
            began: Instant::now(),
            began_at: 42,
            events: vec![event("HostToDev", 3, 4)],
            totals: [("HostToDev", total(2, 10)), ("Kernel Target", total(1, 2_500))].into(),
            threads: [(7, "main".to_owned())].into(),
        };
        let expected = concat!(
            r#"{"traceEvents":[{"pid":5,"tid":7,"ts":3,"ph":"X","dur":4,"name":"HostToDev","#,
            r#""args":{"detail":";a\"b.c;;"}},"#,
            r#"{"pid":5,"tid":8,"ts":0,"ph":"X","dur":2500,"name":"Total Kernel Target","#,
            r#""args":{"count":1,"avg ms":2}},"#,
            r#"{"pid":5,"tid":9,"ts":0,"ph":"X","dur":10,"name":"Total HostToDev","#,
            r#""args":{"count":2,"avg ms":0}},"#,
            r#"{"cat":"","pid":5,"tid":5,"ts":0,"ph":"M","name":"process_name","#,
            r#""args":{"name":"libomptarget"}},"#,
            r#"{"cat":"","pid":5,"tid":7,"ts":0,"ph":"M","name":"thread_name","#,
            r#""args":{"name":"main"}}],"beginningOfTime":42}"#,
        );
        assert_eq!(trace.text(5), expected);
    }
}
