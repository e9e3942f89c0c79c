use crate::place;
use longshore_mpi::{Implementation, Mpi, ThreadLevel};
use std::path::Path;
use std::process::Command;

/// Opens a library and initializes it. In some processes, it was loaded without global symbols.
pub(crate) fn begin(library: &str, is_loaded: bool) -> &'static Mpi {
    assert!(Mpi::already_loaded().is_none());
    if is_loaded {
        // SAFETY: the library is MPI.
        std::mem::forget(unsafe { libloading::Library::new(library) }.unwrap());
        assert!(Mpi::already_loaded().is_some());
    }
    let mpi = Mpi::open(Path::new(library)).unwrap();
    assert!(std::ptr::eq(mpi, Mpi::already_loaded().unwrap()));
    assert!(std::ptr::eq(mpi, Mpi::open_default(None).unwrap()));
    let file = mpi.path().file_name().unwrap().to_str().unwrap();
    let expected = match file {
        "libmpi.so.40" => Implementation::OpenMpi,
        "libmpich.so.12" | "libmpi.so.12" => Implementation::Mpich,
        _ => Implementation::Standard,
    };
    assert_eq!(mpi.implementation(), expected, "{file}");
    assert!(!mpi.version().is_empty());

    assert!(!mpi.is_initialized().unwrap());
    let provided = mpi.init_thread(ThreadLevel::Multiple).unwrap();
    assert_eq!(mpi.query_thread().unwrap(), provided);
    assert!(mpi.is_initialized().unwrap());
    assert!(mpi.is_main_thread().unwrap());
    for comm in [mpi.world(), mpi.self_comm()] {
        mpi.return_errors(comm).unwrap();
    }
    println!("{} provides {provided:?}", mpi.version());
    mpi
}

/// Checks the facts about a process of this program of the job.
pub(crate) fn check(mpi: &Mpi, program: i32) {
    let (rank, size) = place(mpi);
    assert_eq!((size, i32::from(rank != 0)), (3, program));
    assert_eq!(mpi.size(mpi.self_comm()).unwrap(), 1);
    assert!(mpi.tag_upper_bound().unwrap() >= 32767);
    assert!(!mpi.processor_name().unwrap().is_empty());
    assert_eq!(mpi.parent().unwrap(), None);

    let queries = [mpi.query_cuda_support(), mpi.query_rocm_support(), mpi.query_ze_support()];
    println!("GPU memory: {queries:?}, failures: {}", mpi.has_ulfm());
    check_failures(mpi);
}

/// Checks the list of failed processes, where the library has one.
fn check_failures(mpi: &Mpi) {
    match mpi.comm_get_failed(mpi.world()) {
        Ok(failed) => assert_eq!(failed, []),
        Err(error) => {
            println!("{error}");
            assert!(!mpi.has_ulfm());
            assert_eq!(error.function, "MPIX_Comm_get_failed");
        }
    }
}

/// Finalizes a library.
pub(crate) fn end(mpi: &Mpi) {
    assert!(!mpi.is_finalized().unwrap());
    mpi.finalize().unwrap();
    assert!(mpi.is_finalized().unwrap());
}

/// Checks the error for a library that does not exist.
pub(crate) fn name_a_missing_library() {
    let error = Mpi::open(Path::new("/no/such/libmpi.so")).err().unwrap();
    assert_eq!(error.tried[0].0, "/no/such/libmpi.so");
    assert!(error.to_string().starts_with("no MPI library was loaded: '/no/such/libmpi.so': "));
}

/// Checks the error for a library that has only a part of MPI.
pub(crate) fn name_a_missing_function() {
    let error = open_made("libpart.so");
    assert_eq!(error, "it lacks MPI_Abort");
}

/// Checks the error for a library whose constants differ from the standard ABI.
pub(crate) fn refuse_a_draft() {
    let error = open_made("libmpi_abi.so.12");
    assert_eq!(error, "it has a draft of the standard ABI, expected version 1");
}

/// Returns the error for a library of one function with this name.
fn open_made(name: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let (source, library) = (directory.path().join("part.c"), directory.path().join(name));
    std::fs::write(&source, "int MPI_Init(int *argc, char ***argv) { return 1; }").unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    assert!(compile.status().unwrap().success());
    let error = Mpi::open(&library).err().unwrap();
    error.tried.into_iter().map(|(_, reason)| reason).collect()
}

/// Checks the error for a library of another kind.
pub(crate) fn refuse_another() {
    let error = Mpi::open(Path::new("libm.so.6")).err().unwrap();
    assert_eq!(error.tried, [("libm.so.6".to_owned(), "it lacks MPI_Init".to_owned())]);
}
