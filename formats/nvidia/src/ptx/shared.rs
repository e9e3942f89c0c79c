//! Shared memory: declarations in bodies, and uses of variables outside of bodies.

use super::tokens::Tokens;
use super::variable::declared;
use std::collections::{HashMap, HashSet};

/// The shared memory that a text declares.
#[derive(Default)]
pub(super) struct SharedMemory<'a> {
    /// Variables outside of bodies, with their sizes in bytes.
    variables: HashMap<&'a str, u64>,
    functions: Vec<&'a str>,
    /// Whether a function other than a kernel uses shared memory; `None` before the first query.
    is_used_by_function: Option<bool>,
}

/// The shared memory and calls of a body.
struct Use {
    bytes: u64,
    calls: bool,
}

impl<'a> SharedMemory<'a> {
    pub(super) fn add_variable(&mut self, name: &'a str, bytes: u64) {
        self.variables.insert(name, bytes);
    }

    /// Adds the body of a function that is not a kernel.
    pub(super) fn add_function(&mut self, body: &'a str) {
        self.functions.push(body);
    }

    /// Returns the bytes of shared memory that a kernel uses. All variables and functions must have
    /// been added before. `None` if functions use some, and the kernel may call them.
    pub(super) fn for_kernel(&mut self, body: &str) -> Option<u64> {
        let Use { bytes, calls } = self.used_by(body);
        if calls && self.is_used_by_function() {
            return None;
        }
        Some(bytes)
    }

    fn is_used_by_function(&mut self) -> bool {
        let is_known = self.is_used_by_function;
        let is_used = is_known
            .unwrap_or_else(|| self.functions.iter().any(|body| self.used_by(body).bytes > 0));
        self.is_used_by_function = Some(is_used);
        is_used
    }

    fn used_by(&self, body: &str) -> Use {
        let mut used = Use { bytes: 0, calls: false };
        let mut seen = HashSet::new();
        let mut tokens = Tokens::new(body);
        while let Some(token) = tokens.next() {
            used.calls |= token == "call" || token.starts_with("call.");
            let bytes = match self.variables.get(token) {
                Some(bytes) if seen.insert(token) => *bytes,
                None if token == ".shared" => declaration_bytes(&mut tokens),
                _ => 0,
            };
            used.bytes = used.bytes.saturating_add(bytes);
        }
        used
    }
}

/// Returns the size in bytes of the variables declared up to the next ';'.
fn declaration_bytes(tokens: &mut Tokens<'_>) -> u64 {
    let declaration: Vec<_> = tokens.take_while(|token| *token != ";").collect();
    declared(&declaration).iter().fold(0, |all, known| known.bytes.saturating_add(all))
}
