//! Kernels that SPIR-V cannot express: each is an error with its name, its line and a way out.

use super::compiled;
use libtest_mimic::Trial;
use longshore_tests::device_code::clangs;

/// Kernels on the second line of their sources, and parts of their errors.
const ERRORS: [(&str, &str, &[&str]); 8] = [
    (
        "messages",
        "LONGSHORE_KERNEL(k, (int *x)) { longshore_printf(\"%d\", x[0]); }",
        &["kernel 'k'", "kernels.c:2", "longshore_printf does not exist"],
    ),
    (
        "assertions",
        "LONGSHORE_KERNEL(k, (int *x)) { longshore_assert(x[0] == 3); }",
        &["kernel 'k'", "kernels.c:2", "longshore_assert"],
    ),
    (
        "grid barriers",
        "LONGSHORE_KERNEL(k, (int *x)) { longshore_grid_barrier(); x[0] = 1; }",
        &["kernel 'k'", "kernels.c:2", "cooperative launches"],
    ),
    (
        "recursion",
        "static int f(int n, int *x) { x[n] = n; return n < 2 ? n : f(n - 1, x) * f(n - 2, x + 1); } \
         LONGSHORE_KERNEL(k, (int *x)) { x[0] = f(x[1], x); }",
        &["kernel 'k'", "kernels.c:2", "'f' is recursive"],
    ),
    (
        "pointers to functions",
        "static int f(int n) { return n + 1; } static int g(int n) { return n * 3; } \
         LONGSHORE_KERNEL(k, (int *x)) { int (*h)(int) = x[1] ? f : g; x[0] = h(x[1]); }",
        &["kernel 'k'", "kernels.c:2", "pointers to functions"],
    ),
    (
        "undefined functions",
        "int f(int); LONGSHORE_KERNEL(k, (int *x)) { x[0] = f(x[0]); }",
        &["kernel 'k'", "kernels.c:2", "'f' has no definition"],
    ),
    (
        "arrays of variable size",
        "LONGSHORE_KERNEL(k, (int *x)) { int y[x[0]]; y[x[1]] = 1; y[x[2]] = 2; x[0] = y[x[3]]; }",
        &["kernel 'k'", "kernels.c:2", "array of variable size"],
    ),
    ("sources without kernels", "int x;", &["no LONGSHORE_KERNEL"]),
];

/// Lists a trial for each error and version of clang.
pub(super) fn trials() -> Vec<Trial> {
    let pairs =
        ERRORS.into_iter().flat_map(|error| clangs().into_iter().map(move |it| (it, error)));
    let trials = pairs.map(|(clang, (name, code, parts))| {
        Trial::test(format!("{clang}: {name} are an error"), move || {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("kernels.c");
            std::fs::write(&file, format!("#include \"longshore_device.h\"\n{code}\n")).unwrap();
            let said = compiled(clang, &file).unwrap_err();
            for part in parts {
                assert!(said.contains(part), "{part}: {said}");
            }
            Ok(())
        })
    });
    trials.collect()
}
