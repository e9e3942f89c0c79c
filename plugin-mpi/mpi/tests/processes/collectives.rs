use crate::messages::completed;
use crate::place;
use longshore_mpi::{Element, Mpi, MpiError, Operation, Request};

/// Reductions, each with its result for the elements 1, 2 and 3.
const OPERATIONS: [(Operation, u8); 7] = [
    (Operation::Sum, 6),
    (Operation::Product, 6),
    (Operation::Min, 1),
    (Operation::Max, 3),
    (Operation::And, 0),
    (Operation::Or, 3),
    (Operation::Xor, 0),
];

/// Checks collective operations of all processes.
pub(crate) fn check(mpi: &Mpi) {
    mpi.barrier(mpi.world()).unwrap();
    broadcast(mpi);
    gather(mpi);
    reduce(mpi);
    reduce_all_types(mpi);
}

fn broadcast(mpi: &Mpi) {
    let (rank, _) = place(mpi);
    for is_blocking in [true, false] {
        let mut data = if rank == 1 { *b"bytes" } else { [0; 5] };
        let (start, world) = (data.as_mut_ptr(), mpi.world());
        // SAFETY: the bytes live until the operation is done.
        unsafe {
            match is_blocking {
                true => mpi.bcast(start, 5, 1, world).unwrap(),
                false => finish(mpi, mpi.ibcast(start, 5, 1, world)),
            }
        }
        assert_eq!(&data, b"bytes");
    }
}

fn gather(mpi: &Mpi) {
    let (rank, _) = place(mpi);
    let (sent, all) = ([rank as u8; 2], [0, 0, 1, 1, 2, 2]);
    for to_all in [false, true] {
        let mut received = [9; 6];
        let (send, receive, world) = (sent.as_ptr(), received.as_mut_ptr(), mpi.world());
        // SAFETY: the bytes live until the operation is done.
        let request = unsafe {
            match to_all {
                true => mpi.iallgather(send, 2, receive, world),
                false => mpi.igather(send, 2, receive, 2, world),
            }
        };
        finish(mpi, request);
        assert_eq!(received, if rank == 2 || to_all { all } else { [9; 6] });
    }
}

fn reduce(mpi: &Mpi) {
    let (rank, _) = place(mpi);
    let (datatype, op) = (mpi.datatype(Element::I32), mpi.op(Operation::Sum));
    let (sent, world) = ([rank, 10 * rank], mpi.world());
    for to_all in [false, true] {
        let mut received = [-1; 2];
        let (send, receive) = (sent.as_ptr().cast(), received.as_mut_ptr().cast());
        // SAFETY: the elements live until the operation is done.
        let request = unsafe {
            match to_all {
                true => mpi.iallreduce(send, receive, 2, datatype, op, world),
                false => mpi.ireduce(send, receive, 2, datatype, op, 0, world),
            }
        };
        finish(mpi, request);
        assert_eq!(received, if rank == 0 || to_all { [3, 30] } else { [-1; 2] });
    }
}

/// Reduces one element of each type by each reduction of it.
fn reduce_all_types(mpi: &Mpi) {
    for (operation, expected) in OPERATIONS {
        reduce_to(mpi, Element::I8, operation, expected as i8);
        reduce_to(mpi, Element::U8, operation, expected);
        reduce_to(mpi, Element::I16, operation, i16::from(expected));
        reduce_to(mpi, Element::U16, operation, u16::from(expected));
        reduce_to(mpi, Element::I32, operation, i32::from(expected));
        reduce_to(mpi, Element::U32, operation, u32::from(expected));
        reduce_to(mpi, Element::I64, operation, i64::from(expected));
        reduce_to(mpi, Element::U64, operation, u64::from(expected));
        if !matches!(operation, Operation::And | Operation::Or | Operation::Xor) {
            reduce_to(mpi, Element::F32, operation, f32::from(expected));
            reduce_to(mpi, Element::F64, operation, f64::from(expected));
        }
    }
}

/// Reduces the elements 1, 2 and 3 of the processes, and compares the result.
fn reduce_to<T>(mpi: &Mpi, element: Element, operation: Operation, expected: T)
where
    T: Copy + PartialEq + std::fmt::Debug + TryFrom<u8>,
{
    let Ok(sent) = T::try_from(place(mpi).0 as u8 + 1) else { panic!("{element:?} has a 3") };
    let mut received = sent;
    let (datatype, op) = (mpi.datatype(element), mpi.op(operation));
    let (send, receive) = ((&raw const sent).cast(), (&raw mut received).cast());
    // SAFETY: the elements live until the operation is done.
    finish(mpi, unsafe { mpi.iallreduce(send, receive, 1, datatype, op, mpi.world()) });
    assert_eq!(received, expected, "{element:?} {operation:?}");
}

/// Tests the request of an operation until it has completed.
fn finish(mpi: &Mpi, request: Result<Request, MpiError>) {
    completed(mpi, &mut request.unwrap());
}
