//! Names of vendors' libraries, and kernels of templates, in code of the host.

/// A name that clang does not know, by its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    Type,
    /// A type with the size of a number.
    Enumeration,
    Call,
    Template,
    Value,
}

impl Unknown {
    /// Returns the kind of a name, with the text `behind` its first use.
    pub(crate) fn new(name: &str, is_type: bool, behind: &str) -> Unknown {
        let rest = behind.trim_start();
        let is_pointer = || {
            let after = rest.trim_start_matches(['*', '&', ' ']);
            rest.starts_with('*') && after.starts_with(|c: char| c.is_alphabetic() || c == ')')
        };
        match rest.chars().next() {
            _ if is_type => Unknown::for_type(name),
            Some('(') => Unknown::Call,
            Some('<') if !rest.starts_with("<<") && !rest.starts_with("< ") => Unknown::Template,
            _ if name.ends_with("_t") || is_pointer() => Unknown::for_type(name),
            _ => Unknown::Value,
        }
    }

    /// Returns the kind of a type. Other types are handles.
    fn for_type(name: &str) -> Unknown {
        const ENDS: [&str; 13] = [
            "Algo",
            "Base",
            "Direction",
            "Fill",
            "Flags",
            "Format",
            "Kind",
            "Mode",
            "Operation",
            "Result",
            "Status",
            "Type",
            "Order",
        ];
        let name = name.strip_suffix("_t").unwrap_or(name).trim_end_matches("_enum");
        let is_number = ENDS.iter().any(|end| name.ends_with(end)) || name == "CUresult";
        if is_number { Unknown::Enumeration } else { Unknown::Type }
    }

    pub(crate) fn is_type(self) -> bool {
        matches!(self, Unknown::Type | Unknown::Enumeration)
    }

    /// Returns the declaration, by the macros of `longshore_cuda/host.h`.
    pub(crate) fn declaration(self, name: &str) -> String {
        let kind = match self {
            Unknown::Type => "TYPE",
            Unknown::Enumeration => "ENUM",
            Unknown::Call => "CALL",
            Unknown::Template => "TEMPLATE",
            Unknown::Value => "VALUE",
        };
        format!("LONGSHORE_UNKNOWN_{kind}_({name})")
    }
}

/// Returns the kernels of templates that a part of a source names with their arguments. `texts` are
/// the source, and its headers.
pub(crate) fn launched<'t>(
    part: &'t str,
    texts: impl Iterator<Item = &'t String>,
) -> impl Iterator<Item = String> {
    let mut found: Vec<String> = Vec::new();
    for name in texts.flat_map(|text| kernels(text)).chain(launches(part)) {
        for (at, _) in part.match_indices(name) {
            let is_whole = !part[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let Some(rest) = arguments(&part[at + name.len()..]).filter(|_| is_whole) else {
                continue;
            };
            let begin = part[..at].rfind(|c: char| !is_of_name(c)).map_or(0, |at| at + 1);
            let kernel = format!("{}{rest}", &part[begin..at + name.len()]);
            let kernel = kernel.split_whitespace().collect::<Vec<_>>().join(" ");
            if !found.contains(&kernel) {
                found.push(kernel);
            }
        }
    }
    found.into_iter()
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

/// Returns the kernels that a text declares.
fn kernels(text: &str) -> Vec<&str> {
    let names = text.match_indices("__global__").filter_map(|(at, word)| {
        let mut rest = &text[at + word.len()..];
        loop {
            let open = rest.find(['(', ';', '{', '#'])?;
            let before = rest[..open].trim_end();
            let begin = before.rfind(|c: char| !is_of_name(c)).map_or(0, |at| at + 1);
            match &before[begin..] {
                // The arguments of an attribute.
                name if name.starts_with("__") => rest = &rest[rest.find(')')? + 1..],
                name => return (!name.is_empty()).then_some(name),
            }
        }
    });
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns whether a text declares a kernel that a user names, such as `ns::k<float, 256>` or
/// `(void (*)(float *))k<float>`.
pub(crate) fn declares(text: &str, kernel: &str) -> bool {
    let name = last_name(without_cast(kernel).split('<').next().unwrap_or_default());
    kernels(text).into_iter().any(|declared| last_name(declared) == name)
}

/// Returns the text behind a type in parentheses.
fn without_cast(kernel: &str) -> &str {
    let mut depth = 0usize;
    for (at, c) in kernel.char_indices() {
        depth = match c {
            '(' => depth + 1,
            ')' => depth.saturating_sub(1),
            _ => depth,
        };
        if depth == 0 && c == ')' {
            return &kernel[at + 1..];
        }
        if depth == 0 && !c.is_whitespace() {
            break;
        }
    }
    kernel
}

/// Returns the name of a function without its namespaces.
fn last_name(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or_default().trim_matches(|c: char| !is_of_name(c))
}

/// Returns the names before the arguments of templates that are launched.
fn launches(part: &str) -> Vec<&str> {
    let names = part.match_indices("<<<").filter_map(|(at, _)| {
        let inside = part[..at].trim_end().strip_suffix('>')?;
        let mut depth = 1usize;
        let (begin, _) = inside.char_indices().rev().find(|(_, c)| {
            depth = match c {
                '>' => depth + 1,
                '<' => depth - 1,
                ';' | '{' | '}' => return true,
                _ => depth,
            };
            depth == 0
        })?;
        let name = inside[..begin].trim_end();
        let start = name.rfind(|c: char| !is_of_name(c)).map_or(0, |at| at + 1);
        (depth == 0 && start < name.len()).then_some(&name[start..])
    });
    names.collect()
}

/// Returns the arguments of a template at the begin of a text, in their brackets.
fn arguments(text: &str) -> Option<&str> {
    let open = text.len() - text.trim_start().len();
    if !text[open..].starts_with('<') || text[open..].starts_with("<<<") {
        return None;
    }
    let (mut brackets, mut parentheses) = (0usize, 0usize);
    for (at, c) in text.char_indices() {
        match c {
            '(' => parentheses += 1,
            ')' => parentheses = parentheses.checked_sub(1)?,
            ';' | '{' | '}' => return None,
            '<' if parentheses == 0 => brackets += 1,
            '>' if parentheses == 0 && brackets == 1 => return Some(&text[open..=at]),
            '>' if parentheses == 0 => brackets -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_kind() {
        assert_eq!(Unknown::new("cufftHandle", true, " plan;"), Unknown::Type);
        assert_eq!(Unknown::new("cublasStatus_t", true, " s;"), Unknown::Enumeration);
        assert_eq!(Unknown::new("cufftComplex", false, " *)p;"), Unknown::Type);
        assert_eq!(Unknown::new("cuInit", false, " (0);"), Unknown::Call);
        assert_eq!(Unknown::new("cudaX", false, "<int>();"), Unknown::Template);
        for behind in [" * 3", " << \"x\"", " < 3"] {
            assert_eq!(Unknown::new("CUDNN_OK", false, behind), Unknown::Value, "{behind}");
        }
    }

    #[test]
    fn the_declaration_of_a_named_kernel_is_found() {
        let text = "template <class T> __global__ void __launch_bounds__(256) scale(T *x);\n\
                    namespace ns { __global__ void other(int); }\nvoid host(float);\n";
        for kernel in
            ["scale<float>", "::scale <float>", "(void (*)(float *))scale<float>", "& ns::other"]
        {
            assert!(declares(text, kernel), "{kernel}");
        }
        for kernel in ["scales<float>", "host", "k<other>", "(void (*)(float *))", "("] {
            assert!(!declares(text, kernel), "{kernel}");
        }
    }

    #[test]
    fn kernels_of_templates_are_found_in_launches_and_calls() {
        let text = "template <class T> __global__ void __launch_bounds__(256) plain(T *x);\n\
                    __global__ void other(int);"
            .to_owned();
        let part = "k<float, 256> <<<grid, 3>>>(a); ns::r<A<int>><<<1, 1>>>(); plain<<<1, 2>>>(x);\
                    call(plain<float>, (void *)plain<(2 > 1)>); explain<int>(); other<<<1, 1>>>(2);";
        let found: Vec<String> = launched(part, [&text].into_iter()).collect();
        assert_eq!(found, ["plain<float>", "plain<(2 > 1)>", "k<float, 256>", "ns::r<A<int>>"]);
    }
}
