use crate::JOB;
use longshore_mpi::{Comm, Mpi, Source, Tag};
use std::path::Path;

/// Starts two processes and communicates with them.
pub(crate) fn start(mpi: &Mpi, library: &Path) {
    assert_eq!(mpi.parent().unwrap(), None);
    let program = std::env::current_exe().unwrap();
    let (program, library) = (program.to_str().unwrap(), library.to_str().unwrap());
    let arguments = [JOB, "child", library];
    let started = mpi.spawn(program, &arguments, 2, 0, mpi.self_comm());
    let (children, codes) = match started {
        // MPICH 4.0 starts no processes where it is built for UCX, as in Debian.
        Err(error) if mpi.version().contains("4.0.") => {
            println!("{error}");
            return assert_eq!(error.function, "MPI_Comm_spawn");
        }
        started => started.unwrap(),
    };
    assert_eq!(codes, [0, 0]);
    let all = mpi.merge(children, false).unwrap();
    assert_eq!((mpi.rank(all).unwrap(), mpi.size(all).unwrap()), (0, 3));
    mpi.send(b"hello", 2, 1, all).unwrap();
    leave(mpi, all, children);

    let error = mpi.spawn("with\0nul", &[], 1, 0, mpi.self_comm()).unwrap_err();
    assert_eq!(error.function, "MPI_Comm_spawn");
}

/// Communicates as a started process.
pub(crate) fn be_started(mpi: &Mpi) {
    let parent = mpi.parent().unwrap().unwrap();
    let all = mpi.merge(parent, true).unwrap();
    assert_eq!(mpi.size(all).unwrap(), 3);
    if mpi.rank(all).unwrap() == 2 {
        let mut received = [0; 5];
        mpi.recv(&mut received, Source::Rank(0), Tag::Any, all).unwrap();
        assert_eq!(&received, b"hello");
    }
    leave(mpi, all, parent);
}

fn leave(mpi: &Mpi, all: Comm, others: Comm) {
    mpi.barrier(all).unwrap();
    mpi.free_comm(all).unwrap();
    mpi.free_comm(others).unwrap();
}
