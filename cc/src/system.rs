//! Folders with the headers of the system and of installed compilers.

use std::path::{Component, Path};

/// Returns whether a file is in one of the folders for headers, or for compilers, below `/usr`.
/// Other folders there may have sources of the user: containers build in `/usr/src`.
pub(crate) fn has(file: &Path) -> bool {
    // Clang names headers relative to its folder: `/usr/bin/../lib/gcc`.
    let mut folders: Vec<&str> = Vec::new();
    for component in file.components() {
        match component {
            Component::ParentDir => {
                folders.pop();
            }
            Component::Normal(name) => folders.push(name.to_str().unwrap_or_default()),
            _ => {}
        }
    }
    let is_folder = |name: &str| name == "include" || name.starts_with("lib");
    file.is_absolute()
        && match folders[..] {
            ["usr", "local", name, ..] => is_folder(name) || name.starts_with("cuda"),
            // Cross compilers have folders with the names of their targets.
            ["usr", name, ..] => is_folder(name) || name.contains("-linux-"),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_for_headers_and_compilers_are_the_systems() {
        for file in [
            "/usr/include/stdio.h",
            "/usr/lib/llvm-19/lib/clang/19/include/stdint.h",
            "/usr/lib64/gcc/x86_64-linux-gnu/12/include/stdint.h",
            "/usr/bin/../lib/gcc/x86_64-linux-gnu/12/../../../../include/c++/12/vector",
            "/usr/aarch64-linux-gnu/include/stdio.h",
            "/usr/local/include/x.h",
            "/usr/local/cuda-12.4/include/curand.h",
        ] {
            assert!(has(Path::new(file)), "{file}");
        }
        for file in [
            "/usr/src/app/kernels/scale.h",
            "/usr/app/include/scale.h",
            "/usr/local/src/scale.h",
            "/usr/include/../src/scale.h",
            "/home/user/usr/include/scale.h",
            "usr/include/scale.h",
            "scale.h",
        ] {
            assert!(!has(Path::new(file)), "{file}");
        }
    }
}
