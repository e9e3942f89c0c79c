//! Statements outside of bodies.

use super::tokens::Tokens;

/// The tokens up to a ';' or a body.
pub(super) struct Statement<'a> {
    /// Tokens without the ';', and with the braces of initial values.
    pub(super) tokens: Vec<&'a str>,
    /// The text between the braces of a body.
    pub(super) body: Option<&'a str>,
}

/// Returns the next statement. Directives at the head of a text have no end: the tokens after
/// their first argument go in front of the next statement, where no reader looks at them.
pub(super) fn next_statement<'a>(tokens: &mut Tokens<'a>) -> Option<Statement<'a>> {
    let mut found = Vec::new();
    while let Some(token) = tokens.next() {
        match token {
            ".version" | ".target" => {
                return Some(Statement { tokens: vec![token, tokens.next()?], body: None });
            }
            ".address_size" | ".file" => found.clear(),
            ";" | "}" => return Some(Statement { tokens: found, body: None }),
            "{" if found.last() == Some(&"=") => list(tokens, &mut found),
            "{" => return Some(Statement { tokens: found, body: Some(body(tokens)) }),
            _ => found.push(token),
        }
    }
    (!found.is_empty()).then_some(Statement { tokens: found, body: None })
}

/// Takes the tokens up to the closing brace, with both braces.
fn list<'a>(tokens: &mut Tokens<'a>, into: &mut Vec<&'a str>) {
    into.push("{");
    let mut depth = 1u64;
    for token in tokens {
        into.push(token);
        depth = deeper(depth, token);
        if depth == 0 {
            return;
        }
    }
}

/// Skips the text up to the closing brace, and returns it.
fn body<'a>(tokens: &mut Tokens<'a>) -> &'a str {
    let text = tokens.rest();
    let mut depth = 1u64;
    for token in tokens.by_ref() {
        depth = deeper(depth, token);
        if depth == 0 {
            return &text[..text.len() - tokens.rest().len() - 1];
        }
    }
    text
}

fn deeper(depth: u64, token: &str) -> u64 {
    match token {
        "{" => depth + 1,
        "}" => depth - 1,
        _ => depth,
    }
}
