//! Tests with an installed clang. The generated module is compiled by `cargo xtask crates`.

use super::*;

const SAXPY: &str = "#include <longshore_device.h>\n#include \"scale.h\"\n\
    struct pair { float a, b; };\n\
    LONGSHORE_KERNEL(saxpy, (uint64_t n, float a, const float *x, float *y)) {\n\
      uint64_t i = longshore_global_id(0); if (i < n) y[i] += SCALE * a * x[i]; }\n\
    LONGSHORE_KERNEL(clone, (float *None)) { *None = 1; }\n\
    LONGSHORE_KERNEL(move, (LONGSHORE_BY_VALUE(struct pair, type), struct pair *to, int16_t s)) {\n\
      if (longshore_global_id(0) == 0 && s) *to = type; }\n";

/// Returns kernels with their sources in a folder; `None` without clang.
fn sources(folder: &Path) -> Option<Kernels> {
    std::fs::write(folder.join("saxpy.c"), SAXPY).unwrap();
    std::fs::write(folder.join("scale.h"), "#define SCALE 1\n").unwrap();
    let is_installed = longshore_cc::path::folders().iter().any(|folder| {
        let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
        names.map(|entry| entry.file_name()).any(|name| {
            let name = name.to_string_lossy();
            name == "clang"
                || name.strip_prefix("clang-").is_some_and(|it| it.parse::<u32>().is_ok())
        })
    });
    if !is_installed {
        println!("clang is not installed; nothing was tried");
        return None;
    }
    Some(Kernels::new("saxpy").with_source(folder.join("saxpy.c")))
}

#[test]
fn the_functions_have_the_types_that_the_image_describes() {
    let folder = tempfile::tempdir().unwrap();
    let Some(kernels) = sources(folder.path()) else { return };
    kernels.compile_into(folder.path(), std::env::consts::ARCH).unwrap();
    let text = std::fs::read_to_string(folder.path().join("saxpy.kernels.rs")).unwrap();
    for part in [
        "pub unsafe fn saxpy(",
        "        n: u64,\n        a: f32,\n        x: impl ::longshore::PointerTo<f32>,\n",
        "pub unsafe fn move_(",
        "        type_: impl ::longshore::Argument,\n        to: impl ::longshore::PointerTo<()>,\n        \
         s: i16,\n",
        "program.kernel(\"move\")?",
        "clone_: program.kernel(\"clone\")?",
        "        None_: impl ::longshore::PointerTo<f32>,\n",
        "/saxpy.0.img",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let image = std::fs::read(folder.path().join("saxpy.0.img")).unwrap();
    assert!(image.starts_with(b"\x7fELF"));
}

#[test]
fn sources_and_their_own_headers_cause_another_build() {
    let folder = tempfile::tempdir().unwrap();
    let Some(kernels) = sources(folder.path()) else { return };
    let targets = kernels.parsed_targets(std::env::consts::ARCH).unwrap();
    let files = kernels.compilation(targets).dependencies().unwrap();
    assert_eq!(files, ["saxpy.c", "scale.h"].map(|name| folder.path().join(name)));
}

#[test]
fn headers_of_each_target_cause_another_build() {
    let folder = tempfile::tempdir().unwrap();
    let Some(kernels) = sources(folder.path()) else { return };
    let source = format!("#ifdef __NVPTX__\n#include \"gpu.h\"\n#endif\n{SAXPY}");
    std::fs::write(folder.path().join("saxpy.c"), source).unwrap();
    std::fs::write(folder.path().join("gpu.h"), "").unwrap();
    let kernels = kernels.with_targets("host,nvptx64:sm_80");
    let targets = kernels.parsed_targets(std::env::consts::ARCH).unwrap();
    let files = kernels.compilation(targets).dependencies().unwrap();
    assert_eq!(files, ["gpu.h", "saxpy.c", "scale.h"].map(|name| folder.path().join(name)));
}

#[test]
fn headers_that_are_not_found_cause_another_build() {
    let folder = tempfile::tempdir().unwrap();
    if sources(folder.path()).is_none() {
        return;
    }
    let source = "#include \"none.h\"\n#include <vendors/none.h>\n__global__ void k() {}\n";
    std::fs::write(folder.path().join("k.cu"), source).unwrap();
    let kernels = Kernels::new("k").with_source(folder.path().join("k.cu"));
    let targets = kernels.parsed_targets(std::env::consts::ARCH).unwrap();
    let files = kernels.compilation(targets).dependencies().unwrap();
    assert_eq!(files, ["k.cu", "none.h", "vendors/none.h"].map(|name| folder.path().join(name)));
}

/// A container builds in `/usr/src`.
#[test]
fn sources_and_headers_below_usr_cause_another_build() {
    let Ok(folder) = tempfile::tempdir_in("/usr/src") else {
        println!("/usr/src is not writable; nothing was tried");
        return;
    };
    let Some(kernels) = sources(folder.path()) else { return };
    let targets = kernels.parsed_targets(std::env::consts::ARCH).unwrap();
    let files = kernels.compilation(targets).dependencies().unwrap();
    assert_eq!(files, ["saxpy.c", "scale.h"].map(|name| folder.path().join(name)));
}

#[test]
fn an_error_shows_the_compilers_message_and_the_wrong_target() {
    let folder = tempfile::tempdir().unwrap();
    let Some(kernels) = sources(folder.path()) else { return };
    let compile = |kernels: &Kernels| {
        kernels.compile_into(folder.path(), std::env::consts::ARCH).unwrap_err().to_string()
    };
    std::fs::write(folder.path().join("broken.c"), "int x = ;").unwrap();
    let error = compile(&Kernels::new("broken").with_source(folder.path().join("broken.c")));
    assert!(error.contains("broken.c:1:9: error:"), "{error}");
    let error = compile(&kernels.clone().with_targets("hots"));
    assert!(error.contains("the target 'hots' is not valid") && error.contains("host"), "{error}");
    std::fs::write(folder.path().join("plain.c"), "void f(void **a) {}").unwrap();
    let error = compile(&Kernels::new("plain").with_source(folder.path().join("plain.c")));
    assert!(error.contains("no kernel with a description"), "{error}");
    std::fs::write(folder.path().join("notes.txt"), "").unwrap();
    for (wrong, remedy) in [
        (Kernels::new("notes").with_source(folder.path().join("notes.txt")), "with_language"),
        (kernels.clone().with_instance("k<int>"), "with_instance"),
        (kernels.clone().with_option("-xcuda"), "with_language"),
        (kernels.clone().with_option("-march=native"), "with_targets"),
        (kernels.with_clang("/nosuch"), "with_clang"),
    ] {
        let error = compile(&wrong);
        assert!(error.contains("in a build script") && error.contains(remedy), "{error}");
    }
    let error = compile(&Kernels::new("nothing"));
    assert!(error.contains("at least one source"), "{error}");
}

/// Name of a variable of the process whose output a test reads.
const IS_READ: &str = "TEST_IS_READ";

/// The target has no descriptions of its own, and the program's CPU is unknown.
#[test]
fn warnings_are_printed_once_where_a_cpu_describes_the_arguments() {
    let folder = tempfile::tempdir().unwrap();
    if sources(folder.path()).is_none() {
        return;
    }
    if std::env::var_os(IS_READ).is_some() {
        let source = "__global__ void k(float *x) { int unused; *x = 1; }\nint main() {}\n";
        std::fs::write(folder.path().join("k.cu"), source).unwrap();
        let kernels = Kernels::new("k").with_source(folder.path().join("k.cu"));
        let kernels = kernels.with_targets("nvptx64:sm_80").with_option("-Wunused-variable");
        warnings::log();
        kernels.compile_into(folder.path(), "riscv64").unwrap();
        let text = std::fs::read_to_string(folder.path().join("k.kernels.rs")).unwrap();
        assert!(text.contains("x: impl ::longshore::PointerTo<f32>"), "{text}");
        return;
    }
    let mut read = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "tests::warnings_are_printed_once_where_a_cpu_describes_the_arguments";
    let read = read.args(["--exact", name, "--nocapture"]).env(IS_READ, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&read.stdout);
    assert!(read.status.success(), "{printed}{}", String::from_utf8_lossy(&read.stderr));
    for warning in ["unused variable 'unused'", "the code of the host is ignored"] {
        let lines = printed.lines().filter(|line| line.starts_with("cargo::warning="));
        assert_eq!(lines.filter(|line| line.contains(warning)).count(), 1, "{printed}");
    }
}

#[test]
fn an_error_of_the_compilation_for_descriptions_names_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let Some(kernels) = sources(folder.path()) else { return };
    let source = format!("#ifndef __NVPTX__\n#error \"for GPUs\"\n#endif\n{SAXPY}");
    std::fs::write(folder.path().join("saxpy.c"), source).unwrap();
    let kernels = kernels.with_targets("nvptx64:sm_80");
    let error = kernels.compile_into(folder.path(), "aarch64").unwrap_err().to_string();
    assert!(error.starts_with("describing the arguments for the CPU 'aarch64': "), "{error}");
    assert!(error.contains("for GPUs"), "{error}");
}

/// LLVM would end the process of this test.
#[test]
fn a_function_that_two_sources_define_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    if sources(folder.path()).is_none() {
        return;
    }
    let mut kernels = Kernels::new("twice");
    for name in ["one.cu", "other.cu"] {
        let kernel = name.replace(".cu", "");
        let text = format!(
            "__device__ int f(int x) {{ return x; }}\n\
             __global__ void {kernel}(int *x) {{ *x = f(2); }}\n"
        );
        std::fs::write(folder.path().join(name), text).unwrap();
        kernels = kernels.with_source(folder.path().join(name));
    }
    let error = kernels.compile_into(folder.path(), std::env::consts::ARCH).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("cannot be joined") && error.contains("'_Z1fi'"), "{error}");
}

/// The declaration of one of the kernels is in a header.
#[test]
fn the_source_that_declares_a_template_makes_its_kernels() {
    let folder = tempfile::tempdir().unwrap();
    if sources(folder.path()).is_none() {
        return;
    }
    let template = |name: &str| {
        format!("template <class T> __global__ void {name}(T *x) {{ x[threadIdx.x] *= 2; }}\n")
    };
    for (name, text) in [
        ("o.cu", "__global__ void fill(int *x) { x[threadIdx.x] = 1; }\n".to_owned()),
        ("t.cu", template("scale")),
        ("u.cu", "#include \"shift.h\"\n".to_owned()),
        ("shift.h", template("shift")),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let kernels = Kernels::new("k").with_instance("scale<float>").with_instance("shift<int>");
    let kernels = ["o.cu", "t.cu", "u.cu"]
        .into_iter()
        .fold(kernels, |kernels, name| kernels.with_source(folder.path().join(name)));
    kernels.compile_into(folder.path(), std::env::consts::ARCH).unwrap();
    let text = std::fs::read_to_string(folder.path().join("k.kernels.rs")).unwrap();
    for kernel in ["fill", "scale_float", "shift_int"] {
        assert!(text.contains(&format!("pub unsafe fn {kernel}(")), "{kernel}: {text}");
    }
}
