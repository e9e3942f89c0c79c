//! The hosts of nodes.

use crate::failure::{Exit, Failure};
use std::ffi::CStr;
use std::net::ToSocketAddrs;
use std::path::Path;

/// A host, and its number of nodes if one is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) count: Option<u32>,
}

impl Host {
    /// Parses "name" or "name:2".
    pub(super) fn parse(text: &str) -> Result<Host, String> {
        let text = text.trim();
        // An address of IPv6 has several colons.
        let (name, count) = match text.split_once(':') {
            Some((name, count)) if !count.contains(':') => (name, Some(count)),
            _ => (text, None),
        };
        Host::new(name, count)
    }

    fn new(name: &str, count: Option<&str>) -> Result<Host, String> {
        let is_name = !name.is_empty()
            && !name.starts_with('-')
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.:".contains(letter));
        if !is_name {
            return Err(format!("'{name}' is not the name of a host"));
        }
        let count = match count.map(str::parse::<u32>) {
            None => None,
            Some(Ok(count @ 1..)) => Some(count),
            Some(_) => return Err(format!("host '{name}': expected a positive number of nodes")),
        };
        Ok(Host { name: name.to_owned(), count })
    }

    /// Parses a line of a file: "name", "name:2" or "name slots=2", with further words that are
    /// ignored.
    fn parse_line(line: &str) -> Result<Option<Host>, String> {
        let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
        let Some(first) = words.next() else { return Ok(None) };
        match words.find_map(|word| word.strip_prefix("slots=")) {
            Some(count) => Host::new(first, Some(count)).map(Some),
            None => Host::parse(first).map(Some),
        }
    }

    /// Returns whether the name has an address. A name of ssh's configuration alone has none.
    pub(super) fn has_address(&self) -> bool {
        (self.name.as_str(), 22).to_socket_addrs().is_ok()
    }

    /// Returns whether this is the machine of this process, by its name.
    pub(super) fn is_here(&self) -> bool {
        let own = own_name();
        let is_short = own.split('.').next() == Some(&self.name);
        self.name == own || is_short || ["localhost", "127.0.0.1", "::1"].contains(&&*self.name)
    }
}

/// Returns the name of this machine, as launchers on other machines know it.
pub(super) fn own_name() -> String {
    let mut name = [0; 256];
    // SAFETY: the buffer has room for the length less one, and so ends with zero.
    let result = unsafe { libc::gethostname(name.as_mut_ptr(), name.len() - 1) };
    if result != 0 {
        return "localhost".to_owned();
    }
    // SAFETY: the call has written a string.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
}

/// Reads a file of hosts.
///
/// # Errors
/// A file that cannot be read or has no host, or the first wrong line.
pub(super) fn read(file: &Path) -> Result<Vec<Host>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let message = format!("cannot read the hosts in '{}': {error}", file.display());
        Failure::new(Exit::Usage, message)
    })?;
    let mut hosts = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let host = Host::parse_line(line).map_err(|why| {
            let message = format!("'{}', line {}: {why}", file.display(), number + 1);
            Failure::new(Exit::Usage, message)
        })?;
        hosts.extend(host);
    }
    match hosts.is_empty() {
        true => {
            let message = format!("'{}' names no host", file.display());
            Err(Failure::new(Exit::Usage, message))
        }
        false => Ok(hosts),
    }
}

/// Distributes `nodes` over hosts: in equal shares, or up to each host's number.
///
/// # Errors
/// More nodes than the hosts take.
pub(super) fn distribute(hosts: &[Host], nodes: Option<u32>) -> Result<Vec<Host>, Failure> {
    let Some(nodes) = nodes.filter(|_| !hosts.is_empty()) else { return Ok(hosts.to_vec()) };
    let have_counts = hosts.iter().any(|host| host.count.is_some());
    let room: u32 = hosts.iter().map(|host| host.count.unwrap_or(1)).sum();
    if have_counts && nodes > room {
        let message = format!("the hosts take {room} nodes, not {nodes}");
        return Err(Failure::new(Exit::Usage, message)
            .or_hint("raise the numbers behind the hosts, or omit --nodes to start that many"));
    }
    let (total, mut left) = (hosts.len() as u32, nodes);
    let shares = hosts.iter().enumerate().map(|(index, host)| {
        let share = match have_counts {
            true => host.count.unwrap_or(1).min(left),
            false => nodes / total + u32::from((index as u32) < nodes % total),
        };
        left -= share;
        Host { name: host.name.clone(), count: Some(share) }
    });
    Ok(shares.filter(|host| host.count != Some(0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(text: &str) -> Vec<Host> {
        text.split(',').map(|host| Host::parse(host).unwrap()).collect()
    }

    #[test]
    fn hosts_have_names_and_numbers() {
        assert_eq!(hosts("a")[0], Host { name: "a".into(), count: None });
        assert_eq!(hosts("n-1.x:12")[0], Host { name: "n-1.x".into(), count: Some(12) });
        assert_eq!(hosts("fe80::1")[0].count, None);
        for wrong in ["", ":2", "a:0", "a:x", "-x", "a b"] {
            assert!(Host::parse(wrong).is_err(), "{wrong}");
        }
        let line = |line| Host::parse_line(line).unwrap();
        assert_eq!(line("b slots=3 max-slots=4 # old").unwrap().count, Some(3));
        assert_eq!(line("b:2").unwrap().count, Some(2));
        assert_eq!((line("# all"), line("")), (None, None));
        assert!(Host { name: own_name(), count: None }.is_here() && !hosts("nowhere")[0].is_here());
    }

    #[test]
    fn nodes_are_shared_equally_or_up_to_the_hosts_numbers() {
        let counts = |text: &str, nodes| -> Vec<u32> {
            let hosts = distribute(&hosts(text), nodes).unwrap();
            hosts.iter().map(|host| host.count.unwrap_or(1)).collect()
        };
        assert_eq!(counts("a,b,c", None), [1, 1, 1]);
        assert_eq!(counts("a,b,c", Some(7)), [3, 2, 2]);
        assert_eq!(counts("a,b,c", Some(2)), [1, 1]);
        assert_eq!(counts("a:2,b:4", Some(3)), [2, 1]);
        assert!(distribute(&hosts("a:2,b"), Some(4)).is_err());
        assert_eq!(distribute(&[], Some(4)).unwrap(), []);
    }
}
