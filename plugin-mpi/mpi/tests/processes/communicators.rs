use crate::place;
use longshore_mpi::{Comm, Mpi, Source, Tag};

/// Checks communicators made from that of all processes.
pub(crate) fn check(mpi: &Mpi) {
    duplicate(mpi);
    make_from_group(mpi);
    // SAFETY: the bits are from a valid handle.
    assert_eq!(unsafe { Comm::from_bits(mpi.world().to_bits()) }, mpi.world());
}

/// Checks that messages of a duplicate are apart.
fn duplicate(mpi: &Mpi) {
    let (rank, size) = place(mpi);
    let copy = mpi.dup(mpi.world()).unwrap();
    assert_ne!(copy, mpi.world());
    assert_eq!((mpi.rank(copy).unwrap(), mpi.size(copy).unwrap()), (rank, size));
    if rank == 0 {
        mpi.send(&[1], 1, 20, mpi.world()).unwrap();
        mpi.send(&[2], 1, 20, copy).unwrap();
    } else if rank == 1 {
        for (comm, expected) in [(copy, 2), (mpi.world(), 1)] {
            let mut received = [0];
            mpi.recv(&mut received, Source::Rank(0), Tag::Number(20), comm).unwrap();
            assert_eq!(received[0], expected);
        }
    }
    mpi.free_comm(copy).unwrap();
}

/// Makes a communicator of the last and the first process, without a call of the other.
fn make_from_group(mpi: &Mpi) {
    let (rank, _) = place(mpi);
    if rank == 1 {
        return;
    }
    let all = mpi.group_of(mpi.world()).unwrap();
    let some = mpi.group_include(all, &[2, 0]).unwrap();
    let made = mpi.create_group(mpi.world(), some, 21).unwrap();
    assert_eq!(mpi.size(made).unwrap(), 2);
    assert_eq!(mpi.rank(made).unwrap(), if rank == 2 { 0 } else { 1 });
    mpi.barrier(made).unwrap();
    mpi.free_comm(made).unwrap();
    for group in [some, all] {
        mpi.free_group(group).unwrap();
    }
}
