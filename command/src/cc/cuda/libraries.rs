//! Libraries of NVIDIA and AMD that sources use.

use super::diagnostics::Refusal;

/// Names in device code of libraries and features that Longshore does not have.
const MISSING: [(&str, &str); 11] = [
    ("thrust::", "Thrust"),
    ("rocprim::", "rocPRIM"),
    ("nvcuda::", "operations on tensor cores"),
    ("wmma::", "operations on tensor cores"),
    ("rocwmma::", "rocWMMA"),
    ("cutlass::", "CUTLASS"),
    ("cute::", "CuTe"),
    ("rocrand", "rocRAND"),
    ("texture<", "textures"),
    ("tex", "textures"),
    ("surf", "surfaces"),
];
/// Names of libraries of which Longshore has a part.
const PARTS: [(&str, &str); 5] = [
    ("cub::", "a part of CUB"),
    ("hipcub::", "a part of hipCUB"),
    ("cuda::", "a part of libcu++"),
    ("curand", "a part of cuRAND"),
    ("hiprand", "a part of hipRAND"),
];

/// Prefixes of names in code of the host, which have a capital letter behind them.
const OF_HOST: [&str; 40] = [
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
];

/// Returns the library that a part of a source, with an error in `line`, needs in device code.
pub(super) fn needed(part: &str, line: &str) -> Option<&'static str> {
    let missing = MISSING.iter().filter(|(name, _)| uses(part, name));
    let mut found = missing.chain(PARTS.iter().filter(|(name, _)| uses(line, name)));
    found.next().map(|(_, library)| *library)
}

/// Returns the feature of the language that an error is about, and that Longshore does not have.
pub(super) fn missing_feature(error: &str) -> Option<&'static str> {
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
    (is_of_assembly || error == Refusal::ASSEMBLY).then_some("the inline assembly of other GPUs")
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
pub(super) fn is_assembly_of_gpu(text: &str) -> bool {
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
pub(super) fn is_of_host(name: &str) -> bool {
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
    use super::*;

    #[test]
    fn libraries_are_found_by_their_names() {
        assert_eq!(needed("x = thrust::plus<int>();", ""), Some("Thrust"));
        assert_eq!(needed("mythrust::plus; vertex2D(a); texture = 3", ""), None);
        assert_eq!(needed("tex2D<float>(t, x, y)", ""), Some("textures"));
    }

    #[test]
    fn a_part_of_a_library_is_missing_only_in_its_own_lines() {
        let kernel = "cub::BlockReduce<int, 32> r;\nwrong();";
        assert_eq!(needed(kernel, "wrong();"), None);
        assert_eq!(needed(kernel, "cub::BlockReduce<int, 32> r;"), Some("a part of CUB"));
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
