//! PTX: declarations outside of function bodies, and the shared memory of kernels.
//!
//! `tokens.rs` splits the text into tokens, and `statement.rs` groups tokens into statements.
//! `variable.rs` reads variables and parameters from statements, and `value.rs` their initial
//! values. `kernel.rs` reads entries and `shared.rs` their bodies. Unknown statements are skipped.

mod kernel;
mod shared;
mod statement;
mod tokens;
mod value;
mod variable;

use crate::contents::is_of_driver;
use crate::{Arch, Contents, Linkage, Space, Variable};
use shared::SharedMemory;
use statement::{Statement, next_statement};
use std::collections::{HashMap, HashSet};
use tokens::Tokens;
use variable::{Declared, declared};

/// Number of bytes in which the first directive must begin, after comments.
const LONGEST_HEAD: usize = 1 << 16;

/// Returns whether bytes are PTX: text in which `.version` is the first directive.
pub(crate) fn starts_here(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_HEAD)]);
    Tokens::new(&head).next() == Some(".version")
}

impl Contents {
    /// Reads PTX text, and skips unknown parts. Constant expressions may be numbers, addresses and
    /// sums; others count as zero.
    #[must_use]
    pub fn from_ptx(text: &[u8]) -> Contents {
        let text = String::from_utf8_lossy(text);
        let mut reader = Reader::default();
        let mut tokens = Tokens::new(&text);
        while let Some(statement) = next_statement(&mut tokens) {
            reader.take(&statement);
        }
        reader.finish()
    }
}

#[derive(Default)]
struct Reader<'a> {
    contents: Contents,
    /// Index of each kernel in the list, and the bodies by this index.
    kernels: HashMap<&'a str, usize>,
    bodies: Vec<Option<&'a str>>,
    shared: SharedMemory<'a>,
    /// Names that are declared `.extern`; another place of the text may define them.
    elsewhere: Vec<&'a str>,
    defined: HashSet<&'a str>,
}

impl<'a> Reader<'a> {
    fn take(&mut self, statement: &Statement<'a>) {
        let tokens = &statement.tokens[..];
        match tokens {
            [".version", version] => self.contents.ptx_version = self::version(version),
            [".target", name] => self.contents.arch = Arch::parse(name),
            _ => {
                let Some(at) = tokens.iter().position(|token| is_subject(token)) else { return };
                let (before, behind) = (&tokens[..at], &tokens[at + 1..]);
                match tokens[at] {
                    ".entry" => self.take_kernel(behind, statement.body),
                    ".func" => self.take_function(before, behind, statement.body),
                    space => self.take_variables(space, before, behind),
                }
            }
        }
    }

    /// Adds a kernel, or replaces its declaration by its definition.
    fn take_kernel(&mut self, tokens: &[&'a str], body: Option<&'a str>) {
        let Some((name, kernel)) = kernel::read(tokens) else { return };
        self.defined.insert(name);
        match self.kernels.get(name) {
            None => {
                self.kernels.insert(name, self.bodies.len());
                self.contents.kernels.push(kernel);
                self.bodies.push(body);
            }
            Some(index) if body.is_some() => {
                self.contents.kernels[*index] = kernel;
                self.bodies[*index] = body;
            }
            Some(_) => {}
        }
    }

    fn take_function(&mut self, before: &[&str], behind: &[&'a str], body: Option<&'a str>) {
        let Some(name) = function_name(behind) else { return };
        if let Some(body) = body {
            self.defined.insert(name);
            self.shared.add_function(body);
        } else if before.contains(&".extern") && !is_of_driver(name) {
            self.elsewhere.push(name);
        }
    }

    fn take_variables(&mut self, space: &str, before: &[&str], behind: &[&'a str]) {
        for variable in declared(behind) {
            match (space, before.contains(&".extern")) {
                (".shared", true) => {}
                (".shared", false) => self.shared.add_variable(variable.name, variable.bytes),
                (_, true) => self.elsewhere.push(variable.name),
                (space, false) => {
                    self.defined.insert(variable.name);
                    self.contents.variables.push(finished(variable, space, before));
                }
            }
        }
    }

    fn finish(self) -> Contents {
        let (mut contents, mut shared) = (self.contents, self.shared);
        for (kernel, body) in contents.kernels.iter_mut().zip(self.bodies) {
            kernel.static_shared_bytes = body.and_then(|body| shared.for_kernel(body));
        }
        let mut seen = self.defined;
        let missing = self.elsewhere.into_iter().filter(|name| seen.insert(name));
        contents.undefined = missing.map(str::to_owned).collect();
        contents
    }
}

/// Returns whether a token introduces the subject of a statement.
fn is_subject(token: &str) -> bool {
    matches!(token, ".entry" | ".func" | ".global" | ".const" | ".shared")
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the name in `[.attribute(...)] [(results)] name (parameters) ...`.
fn function_name<'a>(tokens: &[&'a str]) -> Option<&'a str> {
    let mut depth = 0usize;
    let mut names = tokens.iter().filter(|token| {
        match **token {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            name => return depth == 0 && !name.starts_with('.'),
        }
        false
    });
    names.next().copied()
}

fn finished(variable: Declared<'_>, space: &str, before: &[&str]) -> Variable {
    let linkage = if before.contains(&".visible") {
        Linkage::Visible
    } else if before.contains(&".weak") || before.contains(&".common") {
        Linkage::Weak
    } else {
        Linkage::Internal
    };
    Variable {
        name: variable.name.to_owned(),
        bytes: variable.bytes,
        space: if space == ".const" { Space::Constant } else { Space::Global },
        linkage,
        alignment: variable.alignment,
        initial: variable.initial,
        references: variable.references,
        place: None,
    }
}

#[cfg(test)]
mod tests;
