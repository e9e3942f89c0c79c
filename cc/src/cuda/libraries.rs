//! Libraries of NVIDIA and AMD that sources use.

use super::diagnostics::{Place, Refusal};

/// Names in device code of libraries and features that Longshore does not have.
const MISSING: [(&str, &str); 14] = [
    ("thrust::", "Thrust"),
    ("rocprim::", "rocPRIM"),
    ("nvcuda::", "operations on tensor cores"),
    ("wmma::", "operations on tensor cores"),
    ("rocwmma::", "rocWMMA"),
    ("cutlass::", "CUTLASS"),
    ("cute::", "CuTe"),
    ("rocrand", "rocRAND"),
    ("this_cluster", "clusters of blocks"),
    ("cluster_group", "clusters of blocks"),
    ("nvstd::", "nvstd::function"),
    ("texture<", "textures"),
    ("tex", "textures"),
    ("surf", "surfaces"),
];
/// Namespaces of libraries of which Longshore has a part.
const NAMESPACES: [(&str, &str); 3] =
    [("cub", "a part of CUB"), ("hipcub", "a part of hipCUB"), ("cuda", "a part of libcu++")];
/// Prefixes of the names of such libraries.
const PREFIXES: [(&str, &str); 2] =
    [("curand", "a part of cuRAND"), ("hiprand", "a part of hipRAND")];
/// The headers with these parts.
const HEADERS: [(&str, &str); 4] = [
    ("longshore_cuda/cub.h", "a part of CUB"),
    ("longshore_cuda/cub_order.h", "a part of CUB"),
    ("longshore_cuda/libcu.h", "a part of libcu++"),
    ("longshore_cuda/curand.h", "a part of cuRAND"),
];

/// Beginnings of clang's notes about the declarations that a use does not fit.
const DECLARATIONS: [&str; 2] = ["candidate ", "template is declared here"];

/// Prefixes of names in code of the host, which have a capital letter behind them.
const OF_HOST: [&str; 41] = [
    "cuda",
    "CUDA",
    "hip",
    "HIP",
    "cu",
    "CU",
    "cublas",
    "CUBLAS",
    "cufft",
    "CUFFT",
    "curand",
    "CURAND",
    "cusparse",
    "CUSPARSE",
    "cusolver",
    "CUSOLVER",
    "cudnn",
    "CUDNN",
    "nccl",
    "nvml",
    "nvrtc",
    "NVRTC",
    "nvtx",
    "hipblas",
    "HIPBLAS",
    "hipfft",
    "hiprand",
    "rocblas",
    "rocblas_",
    "rccl",
    "cublasLt",
    "nvToolsExt",
    // The headers beside NVIDIA's samples declare these.
    "checkCuda",
    "checkCmdLine",
    "findCuda",
    "getCmdLine",
    "getLastCuda",
    "gpuGetMaxGflops",
    "sdk",
    "StopWatch",
    "EXIT_WAIVE",
];
/// The library of a name of the vendors that kernels use.
pub(crate) const OF_VENDORS: &str = "this name of the vendors' libraries";

/// Returns the library that a part of a source, with an error, needs in device code.
pub(crate) fn needed(part: &str) -> Option<&'static str> {
    MISSING.iter().find(|(name, _)| uses(part, name)).map(|(_, library)| *library)
}

/// Returns the library whose part here lacks the name, the overload or the parameter that an error
/// is about. An error of the program's own code in the same line has no such names.
pub(crate) fn incomplete(refusal: &Refusal<'_>) -> Option<&'static str> {
    let unknown = refusal.unknown_name().map(|(name, _)| name).or_else(|| refusal.unfit_name());
    let first = refusal.owner().or(unknown).and_then(|name| name.split("::").next());
    let space = || NAMESPACES.iter().find(|(space, _)| first == Some(space));
    let prefix =
        || PREFIXES.iter().find(|(prefix, _)| unknown.is_some_and(|name| name.starts_with(prefix)));
    let is_in = |place: &Place<'_>| HEADERS.iter().find(|(header, _)| place.file.ends_with(header));
    let is_about = |place: &&Place<'_>| {
        let is_declaration = |begin: &&str| place.message.starts_with(begin);
        *place == &refusal.places[0] || DECLARATIONS.iter().any(is_declaration)
    };
    let headers = || refusal.places.iter().filter(is_about).find_map(is_in);
    space().or_else(prefix).or_else(headers).map(|(_, library)| *library)
}

/// Returns the feature of the language that an error is about, and that Longshore does not have.
pub(crate) fn missing_feature(error: &str) -> Option<&'static str> {
    // The second message is clang's since version 22.
    const LAUNCHES: [&str; 2] = [
        "reference to __global__ function",
        "kernel launch from __device__ or __global__ function",
    ];
    if LAUNCHES.iter().any(|begin| error.starts_with(begin)) {
        return Some("launches of kernels by kernels");
    }
    let is_builtin = |prefix| {
        let name = error.strip_prefix("use of undeclared identifier '");
        name.is_some_and(|name| name.starts_with(prefix))
    };
    if is_builtin("__builtin_amdgcn_") || is_builtin("__hip_") {
        return Some("this function of AMD GPUs on other devices");
    }
    if is_builtin("__nvvm_") {
        return Some("this function of NVIDIA GPUs on other devices");
    }
    let is_of_assembly = error.starts_with("invalid") && error.ends_with("in asm");
    if error == Refusal::ASSEMBLY {
        return Some("a translation of inline assembly");
    }
    is_of_assembly.then_some("the inline assembly of other GPUs")
}

/// Returns the vendors' libraries for an error about their names in code of the device.
pub(crate) fn vendors_library(error: &str, unknown: Option<&str>) -> Option<&'static str> {
    const OF_HOST: [&str; 2] =
        ["no matching function for call to '", "reference to __host__ variable '"];
    let rest = OF_HOST.iter().find_map(|begin| error.strip_prefix(begin));
    let name = unknown.or_else(|| rest?.split('\'').next());
    let is_named = name.is_some_and(is_of_host) || error.contains("longshore_unknown_");
    is_named.then_some(OF_VENDORS)
}

fn uses(part: &str, name: &str) -> bool {
    part.match_indices(name).any(|(at, _)| {
        let before = part[..at].chars().next_back();
        let after = part[at + name.len()..].chars().next();
        let is_begin = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        // The names of textures have a number of dimensions.
        let is_whole = !matches!(name, "tex" | "surf") || after.is_some_and(|c| c.is_ascii_digit());
        is_begin && is_whole
    })
}

/// Returns whether inline assembly, from inside its statement, is for a GPU. An instruction of PTX
/// has a type, and one of AMD GPUs the name of a unit.
pub(crate) fn is_assembly_of_gpu(text: &str) -> bool {
    const UNITS: [&str; 7] = ["v_", "s_", "ds_", "global_", "flat_", "buffer_", "scratch_"];
    const WHOLE: [&str; 5] = ["trap;", "exit;", "brkpt;", "ret;", ".reg "];
    let Some((before, mut code)) = text.split_once('"') else { return false };
    let is_word =
        |c: char| c.is_alphanumeric() || c.is_whitespace() || matches!(c, '_' | '(' | '\\');
    if !before.chars().all(is_word) {
        return false;
    }
    loop {
        let rest = code.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '{' | '"'));
        let rest =
            ["\\n", "\\t", "\\\n"].iter().find_map(|it| rest.strip_prefix(it)).unwrap_or(rest);
        if rest.len() == code.len() {
            break;
        }
        code = rest;
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = code.find(|c| !is_name(c)).unwrap_or(code.len());
    let has_type = name > 0 && code[name..].starts_with('.');
    has_type || UNITS.iter().chain(&WHOLE).any(|begin| code.starts_with(begin))
}

/// Returns whether a name is one of a vendor's library, for code of the host.
pub(crate) fn is_of_host(name: &str) -> bool {
    const OF_DEVICE: [&str; 2] = ["curandState", "hiprandState"];
    let is_prefix = |prefix: &&str| {
        let is_upper = prefix.ends_with(|c: char| c.is_ascii_uppercase() || c == '_');
        let rest = name.strip_prefix(*prefix);
        rest.is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_ascii_uppercase() || (is_upper && c.is_ascii_graphic()))
        })
    };
    OF_HOST.iter().any(is_prefix) && !OF_DEVICE.iter().any(|it| name.starts_with(it))
}

#[cfg(test)]
mod tests {
    use super::super::diagnostics::refusals;
    use super::*;

    #[test]
    fn libraries_are_found_by_their_names() {
        assert_eq!(needed("x = thrust::plus<int>();"), Some("Thrust"));
        assert_eq!(needed("mythrust::plus; vertex2D(a); texture = 3"), None);
        assert_eq!(needed("tex2D<float>(t, x, y)"), Some("textures"));
    }

    #[test]
    fn parts_of_libraries_are_missing_where_clang_names_them() {
        let found = |message: &str, note: &str| {
            let lines = format!("k.cu:3:4: error: {message}\n{note}\n");
            incomplete(&refusals(&lines)[0])
        };
        let of_cub = Some("a part of CUB");
        assert_eq!(found("no member named 'BlockMap' in namespace 'cub'", ""), of_cub);
        assert_eq!(found("no member named 'Map' in 'cub::BlockScan<int, 64>'", ""), of_cub);
        assert_eq!(found("use of undeclared identifier 'curand_x'", ""), Some("a part of cuRAND"));
        assert_eq!(
            found("no template named 'x' in namespace 'cuda::std'", ""),
            Some("a part of libcu++")
        );
        let message = "no matching member function for call to 'ExclusiveSum'";
        let candidate = "note: candidate function not viable: requires 2 arguments";
        assert_eq!(found(message, &format!("a/longshore_cuda/cub.h:9:8: {candidate}")), of_cub);
        assert_eq!(found(message, &format!("k.cu:9:8: {candidate}")), None);
        let note = "a/longshore_cuda/cub.h:9:8: note: in instantiation of function template";
        assert_eq!(found("no member named 'b' in 'Foo'", note), None);
        assert_eq!(found("no member named 'b' in 'cubic::Foo'", ""), None);
        assert_eq!(found("use of undeclared identifier 'cudatime'", ""), None);
    }

    #[test]
    fn features_are_found_in_errors() {
        let error = "reference to __global__ function 'k' in __global__ function";
        assert_eq!(missing_feature(error), Some("launches of kernels by kernels"));
        let error = "kernel launch from __device__ or __global__ function requires relocatable";
        assert_eq!(missing_feature(error), Some("launches of kernels by kernels"));
        let error = "invalid output constraint '=f' in asm";
        assert_eq!(missing_feature(error), Some("the inline assembly of other GPUs"));
        let error = "use of undeclared identifier '__builtin_amdgcn_update_dpp'";
        assert_eq!(missing_feature(error), Some("this function of AMD GPUs on other devices"));
        let error = "use of undeclared identifier '__nvvm_redux_sync_add'; did you mean 'x'?";
        assert_eq!(missing_feature(error), Some("this function of NVIDIA GPUs on other devices"));
        assert_eq!(missing_feature("use of undeclared identifier 'x'"), None);
    }

    #[test]
    fn names_of_the_host_in_kernels_are_of_the_vendors() {
        let call = "no matching function for call to 'cudaDeviceSynchronize'";
        assert_eq!(vendors_library(call, None), Some(OF_VENDORS));
        let value = "reference to __host__ variable 'CUBLAS_OP_T' in __global__ function";
        assert_eq!(vendors_library(value, None), Some(OF_VENDORS));
        assert_eq!(
            vendors_library("unknown type name 'cudaX_t'", Some("cudaX_t")),
            Some(OF_VENDORS)
        );
        assert_eq!(vendors_library("no matching function for call to 'f'", None), None);
        assert_eq!(vendors_library("unknown type name 'T'", Some("T")), None);
    }

    #[test]
    fn assembly_of_gpus_is_known_by_its_instructions() {
        for text in [
            "volatile(\"mov.u32 %0, %%laneid;\" : \"=r\"(x))",
            "(\"{\\n\\t\"\n  \" .reg .pred p;\\n\")",
            " volatile (\"s_nop 0\");",
            "(\"trap;\");",
        ] {
            assert!(is_assembly_of_gpu(text), "{text}");
        }
        for text in ["volatile(\"pause\")", "(\"lock; addl $0, (%%rsp)\")", "COPY(a, \"a.b\")", "x"]
        {
            assert!(!is_assembly_of_gpu(text), "{text}");
        }
    }

    #[test]
    fn names_of_the_host_have_a_prefix() {
        for name in [
            "cublasCreate",
            "CUBLAS_STATUS_SUCCESS",
            "hipDeviceAttributeWarpSize",
            "cuInit",
            "checkCudaErrors",
            "sdkCreateTimer",
        ] {
            assert!(is_of_host(name), "{name}");
        }
        for name in ["curand_uniform", "curandState_t", "custom", "hipster", "currency", "sdks"] {
            assert!(!is_of_host(name), "{name}");
        }
    }
}
