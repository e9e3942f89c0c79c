//! The packages: their files, their descriptions and their relations to others.

use std::path::Path;

/// A package of Longshore.
#[derive(Debug)]
pub struct Package {
    /// The name, in every format.
    pub name: &'static str,
    /// One line without a final period.
    pub summary: &'static str,
    /// The long description, lines of at most 79 characters.
    pub description: &'static str,
    /// The section of Debian's archive.
    pub section: &'static str,
    /// The crates whose code is in the package's files.
    pub crates: &'static [&'static str],
    /// Beginnings of the paths of its files, below the prefix. The longest beginning of all
    /// packages decides.
    files: &'static [&'static str],
    /// Relations of the Debian package: the field, and its value. `@VERSION@` is the version.
    pub debian: &'static [(&'static str, &'static str)],
    /// Relations of the RPM package, in the same form.
    pub rpm: &'static [(&'static str, &'static str)],
}

/// All packages. A plugin recommends its vendor's driver, and no other package does.
pub const PACKAGES: [Package; 9] = [
    Package {
        name: "longshore",
        summary: "GPU offload runtime: command, executor and conformance suite",
        description: "\
Longshore opens a device, loads compiled kernels, launches them and reads the
results. Backends for CUDA, AMD GPUs, Vulkan and the CPU are plugins, in
packages of their own.
This package has the command, which compiles, inspects, runs and checks
kernels, the process of isolated plugins, and the suite that tests a plugin.",
        section: "utils",
        crates: &["longshore-command", "longshore-executor", "longshore-conformance"],
        files: &["bin/", "libexec/", "share/"],
        debian: &[
            ("Recommends", "liblongshore-plugin-host"),
            (
                "Suggests",
                "clang, lld, llvm, gdb, liblongshore-dev, liblongshore-plugin-amdgpu, \
                 liblongshore-plugin-cuda, liblongshore-plugin-mpi, liblongshore-plugin-vulkan",
            ),
        ],
        rpm: &[("Recommends", "liblongshore-plugin-host"), ("Suggests", "clang, lld, llvm, gdb")],
    },
    Package {
        name: "liblongshore-plugin-host",
        summary: "GPU offload runtime: the CPU backend",
        description: "\
The CPU as a device of Longshore, complete, with checks of kernels and with
debuggers. Programs with Longshore find this plugin at run time.",
        section: "libs",
        crates: &["longshore-plugin-host-library"],
        files: &["lib/longshore/liblongshore_plugin_host.so"],
        debian: PLUGIN,
        rpm: &[],
    },
    Package {
        name: "liblongshore-plugin-cuda",
        summary: "GPU offload runtime: the backend for CUDA",
        description: "\
NVIDIA's GPUs as devices of Longshore. The plugin opens the driver's library
libcuda.so.1 at run time; without the driver it reports no device.",
        section: "libs",
        crates: &["longshore-plugin-cuda"],
        files: &["lib/longshore/liblongshore_plugin_cuda.so"],
        debian: &[ENHANCES, ("Recommends", "libcuda1")],
        rpm: &[("Recommends", "libcuda.so.1()(64bit)")],
    },
    Package {
        name: "liblongshore-plugin-amdgpu",
        summary: "GPU offload runtime: the backend for AMD GPUs",
        description: "\
AMD's GPUs as devices of Longshore. The plugin opens HIP's runtime library
libamdhip64.so at run time; without the library it reports no device.",
        section: "libs",
        crates: &["longshore-plugin-amdgpu"],
        files: &["lib/longshore/liblongshore_plugin_amdgpu.so"],
        debian: &[ENHANCES, ("Recommends", "libamdhip64-7 | libamdhip64-6 | libamdhip64-5")],
        rpm: &[("Recommends", "libamdhip64.so.6()(64bit)")],
    },
    Package {
        name: "liblongshore-plugin-vulkan",
        summary: "GPU offload runtime: the backend for Vulkan",
        description: "\
Devices of Vulkan drivers as devices of Longshore. The plugin opens the loader
libvulkan.so.1 at run time; without the loader it reports no device.",
        section: "libs",
        crates: &["longshore-plugin-vulkan"],
        files: &["lib/longshore/liblongshore_plugin_vulkan.so"],
        debian: &[
            ENHANCES,
            ("Recommends", "libvulkan1, mesa-vulkan-drivers | vulkan-icd"),
            ("Suggests", "spirv-tools"),
        ],
        rpm: &[("Recommends", "vulkan-loader"), ("Suggests", "spirv-tools")],
    },
    Package {
        name: "liblongshore-plugin-mpi",
        summary: "GPU offload runtime: the backend for devices of other machines",
        description: "\
Devices of other machines as devices of Longshore, by MPI. The package has the
plugin, for the machine of the program, and longshore-node, the process on each
machine with devices. Both open the MPI library at run time, Open MPI or MPICH;
without one the plugin reports no device.",
        section: "libs",
        crates: &["longshore-plugin-mpi-library", "longshore-node"],
        files: &["lib/longshore/liblongshore_plugin_mpi.so", "bin/longshore-node"],
        debian: &[
            ENHANCES,
            ("Recommends", "openmpi-bin | mpich"),
            ("Suggests", "longshore, liblongshore-plugin-host"),
        ],
        rpm: &[("Recommends", "(openmpi or mpich)")],
    },
    Package {
        name: "libllvmoffload-longshore",
        summary: "GPU offload runtime: C API of LLVM Offload",
        description: "\
The library libLLVMOffload.so.23.1 with the C API of LLVM Offload, on the
plugins of Longshore.",
        section: "libs",
        crates: &["longshore-capi"],
        files: &["@LIBDIR@/libLLVMOffload.so.23.1"],
        debian: LIBRARY,
        rpm: &[("Recommends", "liblongshore-plugin-host")],
    },
    Package {
        name: "libomptarget-longshore",
        summary: "GPU offload runtime: OpenMP offloading of clang and flang",
        description: "\
The library libomptarget.so for programs that clang or flang compiled with
OpenMP offloading, on the plugins of Longshore. A program uses the library if
LD_LIBRARY_PATH contains /usr/lib/longshore/openmp.",
        section: "libs",
        crates: &["longshore-openmp"],
        files: &["lib/longshore/openmp/"],
        debian: LIBRARY,
        rpm: &[("Recommends", "liblongshore-plugin-host")],
    },
    Package {
        name: "liblongshore-dev",
        summary: "GPU offload runtime: headers and documentation",
        description: "\
Headers for programs with the C API of LLVM Offload, for plugins of vendors and
for kernels, with files for pkg-config and CMake; the static library of the C
API; sample programs and plugins; the documentation of Longshore.",
        section: "libdevel",
        crates: &["longshore-capi"],
        files: &[
            "include/",
            "@LIBDIR@/",
            "share/pkgconfig/",
            "share/cmake/",
            "share/doc/longshore/",
        ],
        debian: &[
            ("Depends", "libllvmoffload-longshore (= @VERSION@)"),
            ("Recommends", "longshore"),
            ("Suggests", "clang, cmake, pkgconf"),
        ],
        rpm: &[
            ("Requires", "libllvmoffload-longshore = @VERSION@"),
            ("Recommends", "longshore"),
            ("Suggests", "clang, cmake, pkgconf"),
        ],
    },
];

const ENHANCES: (&str, &str) = ("Enhances", "longshore");
const PLUGIN: &[(&str, &str)] = &[ENHANCES];
/// Relations of a library for programs. Bitcode is compiled by the executor with LLVM.
const LIBRARY: &[(&str, &str)] = &[
    ("Recommends", "liblongshore-plugin-host"),
    (
        "Suggests",
        "longshore, liblongshore-plugin-amdgpu, liblongshore-plugin-cuda, \
         liblongshore-plugin-mpi, liblongshore-plugin-vulkan",
    ),
];

/// Returns the package of an installed file, whose path is relative to the prefix. `libraries` is
/// the folder of libraries. Returns `None` for a file of no package.
pub fn owner(file: &Path, libraries: &str) -> Option<&'static Package> {
    let file = file.to_str()?;
    let matching = |package: &Package| {
        let beginnings = package.files.iter().map(|start| start.replace("@LIBDIR@", libraries));
        beginnings.filter(|start| file.starts_with(start.as_str())).map(|start| start.len()).max()
    };
    let owners = PACKAGES.iter().filter_map(|package| Some((matching(package)?, package)));
    Some(owners.max_by_key(|(length, _)| *length)?.1)
}

#[cfg(test)]
mod tests {
    use super::owner;
    use std::path::Path;

    #[test]
    fn the_longest_beginning_of_a_path_decides_on_its_package() {
        let of = |file| owner(Path::new(file), "lib/x86_64-linux-gnu").map(|package| package.name);
        for (file, name) in [
            ("bin/longshore", "longshore"),
            ("share/man/man1/longshore.1", "longshore"),
            ("share/doc/longshore/README.md", "liblongshore-dev"),
            ("lib/longshore/liblongshore_plugin_cuda.so", "liblongshore-plugin-cuda"),
            ("bin/longshore-node", "liblongshore-plugin-mpi"),
            ("lib/longshore/openmp/libomptarget.so.19.1", "libomptarget-longshore"),
            ("lib/x86_64-linux-gnu/libLLVMOffload.so.23.1", "libllvmoffload-longshore"),
            ("lib/x86_64-linux-gnu/libLLVMOffload.so", "liblongshore-dev"),
        ] {
            assert_eq!(of(file), Some(name), "{file}");
        }
        assert_eq!(of("lib/longshore/liblongshore_plugin_other.so"), None);
    }
}
