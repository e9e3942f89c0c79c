use crate::place;
use longshore_mpi::{Mpi, MpiError, Request, Source, Status, Tag};

/// Checks messages between the processes of the job.
pub(crate) fn check(mpi: &Mpi) {
    for bytes in [0, 1, 100, 100_000] {
        pass_around(mpi, bytes);
    }
    probe(mpi);
    block(mpi);
    cancel(mpi);
    fail(mpi);
}

/// Sends to the next process and receives from the previous one.
fn pass_around(mpi: &Mpi, bytes: usize) {
    let (rank, size) = place(mpi);
    let (next, previous) = ((rank + 1) % size, (rank + size - 1) % size);
    let sent = vec![rank as u8; bytes];
    let mut received = vec![255; bytes + 1];
    // SAFETY: both vectors live until the requests have completed.
    let (mut receive, mut send) = unsafe {
        let from = Source::Rank(previous);
        let (data, world) = (received.as_mut_ptr(), mpi.world());
        let receive = mpi.irecv(data, bytes + 1, from, Tag::Number(7), world).unwrap();
        (receive, mpi.isend(sent.as_ptr(), bytes, next, 7, world).unwrap())
    };
    let status = completed(mpi, &mut receive);
    assert_eq!(status, Status { source: previous, tag: 7, bytes });
    completed(mpi, &mut send);
    assert_eq!(received[..bytes], vec![previous as u8; bytes]);
    assert_eq!(received[bytes], 255);
    for request in [&mut receive, &mut send] {
        assert_eq!(*request, mpi.null_request());
        assert!(mpi.test(request).unwrap().is_some());
    }
}

/// Receives messages of any source and tag after a look at their size.
fn probe(mpi: &Mpi) {
    let (rank, size) = place(mpi);
    if rank != 0 {
        let data = vec![rank as u8; rank as usize * 10];
        return mpi.send(&data, 0, 100 + rank, mpi.world()).unwrap();
    }
    let mut sources = Vec::new();
    while sources.len() + 1 < size as usize {
        let Some(found) = mpi.iprobe(Source::Any, Tag::Any, mpi.world()).unwrap() else { continue };
        assert_eq!((found.tag, found.bytes), (100 + found.source, found.source as usize * 10));
        let mut data = vec![0; found.bytes];
        let (from, tag) = (Source::Rank(found.source), Tag::Number(found.tag));
        assert_eq!(mpi.recv(&mut data, from, tag, mpi.world()).unwrap(), found);
        assert_eq!(data, vec![found.source as u8; found.bytes]);
        sources.push(found.source);
    }
    sources.sort_unstable();
    assert_eq!(sources, [1, 2]);
}

/// Waits for a message.
fn block(mpi: &Mpi) {
    match place(mpi).0 {
        2 => mpi.send(b"text", 1, 10, mpi.world()).unwrap(),
        1 => {
            let mut data = [0; 8];
            let (from, tag) = (Source::Any, Tag::Number(10));
            // SAFETY: the bytes live until the request has completed.
            let request = unsafe { mpi.irecv(data.as_mut_ptr(), 8, from, tag, mpi.world()) };
            let status = mpi.wait(&mut request.unwrap()).unwrap();
            assert_eq!(status, Status { source: 2, tag: 10, bytes: 4 });
            assert_eq!(&data, b"text\0\0\0\0");
        }
        _ => {}
    }
}

/// Cancels a receive that no message matches.
fn cancel(mpi: &Mpi) {
    let mut data = [0; 8];
    let (from, tag) = (Source::Any, Tag::Number(11));
    // SAFETY: the bytes live until the request has completed.
    let request = unsafe { mpi.irecv(data.as_mut_ptr(), 8, from, tag, mpi.self_comm()) };
    let mut request = request.unwrap();
    mpi.cancel(&mut request).unwrap();
    mpi.wait(&mut request).unwrap();
    assert_eq!(request, mpi.null_request());
}

/// Makes calls that fail.
fn fail(mpi: &Mpi) {
    let data = [0; 4];
    // SAFETY: there is no such process.
    let error = unsafe { mpi.isend(data.as_ptr(), 4, 99, 1, mpi.world()) }.unwrap_err();
    expect(&error, "MPI_Isend");
    // SAFETY: the call accesses no bytes.
    let error = unsafe { mpi.isend(data.as_ptr(), 1 << 31, 0, 1, mpi.world()) }.unwrap_err();
    expect(&error, "MPI_Isend");
    assert!(error.text.contains("2147483648"), "{error}");
    assert!(error.text.contains("2147483647"), "{error}");

    let own = mpi.self_comm();
    // SAFETY: the bytes live until the request has completed.
    let mut send = unsafe { mpi.isend(data.as_ptr(), 4, 0, 13, own) }.unwrap();
    let error = mpi.recv(&mut [0; 2], Source::Rank(0), Tag::Number(13), own).unwrap_err();
    expect(&error, "MPI_Recv");
    completed(mpi, &mut send);
}

fn expect(error: &MpiError, function: &str) {
    println!("{error} (class {})", error.class);
    assert_eq!(error.function, function);
    assert!(error.code != 0 && error.class != 0, "{error:?}");
    assert_eq!(error.to_string(), format!("{function}: {}", error.text));
    assert!(error.text.len() > 5);
}

/// Tests a request until it has completed.
pub(crate) fn completed(mpi: &Mpi, request: &mut Request) -> Status {
    loop {
        if let Some(status) = mpi.test(request).unwrap() {
            return status;
        }
    }
}
