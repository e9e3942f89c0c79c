//! Executors that wait for a controller over TCP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use longshore_executor::remote::{Key, Listener, RemoteError, connect};
use longshore_executor::rpc::{CallError, Connection, EndReason, Options, Peer, Service};
use rustix::process::{Pid, Signal, kill_process};

const TIMEOUT: Duration = Duration::from_secs(60);

struct Echo;

impl Service for Echo {
    fn call(&self, _: &Arc<Peer>, _: u32, argument: &[u8]) -> Result<Vec<u8>, String> {
        Ok(argument.to_vec())
    }

    fn post(&self, _: &Arc<Peer>, _: u32, _: &[u8]) {}
}

/// A listening executor. Dropping it ends the process.
struct Waiting {
    process: Child,
    address: String,
}

impl Waiting {
    fn start(key: &Path) -> Self {
        Self::start_with(key, &[])
    }

    fn start_with(key: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longshore-executor"));
        command.args(["--listen", "127.0.0.1:0", "--key"]).arg(key).args(arguments);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at ").unwrap().to_owned();
        Self { process, address }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.process.kill();
        self.process.wait().unwrap();
    }
}

fn key_file(folder: &Path, digit: char) -> std::path::PathBuf {
    let path = folder.join(format!("key-{digit}"));
    std::fs::write(&path, digit.to_string().repeat(64)).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn open(address: &str, key: &Key) -> Result<Connection, RemoteError> {
    connect(address, key, Options::default(), Arc::new(Echo))
}

#[test]
fn a_controller_with_the_key_calls_and_other_peers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = key_file(folder.path(), 'a');
    let mut executor = Waiting::start(&path);
    let wrong = Key::new([7; Key::BYTES]);
    assert!(matches!(open(&executor.address, &wrong), Err(RemoteError::Closed { .. })));
    // A peer of another protocol, and a silent peer.
    let mut stranger = TcpStream::connect(&executor.address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(stranger.read(&mut [0; 8]).unwrap_or(0), 0);
    drop(TcpStream::connect(&executor.address).unwrap());
    let connection = open(&executor.address, &Key::read(&path).unwrap()).unwrap();
    for size in [0, 1, 65518, 65519, 65520, 1 << 20] {
        let argument: Vec<u8> = (0..size).map(|index| (index * 13) as u8).collect();
        assert_eq!(connection.call(0, &argument), Ok(argument), "{size}");
    }
    connection.close();
    assert!(executor.process.wait().unwrap().success());
}

#[test]
fn silent_peers_do_not_lock_out_the_controller_that_has_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = key_file(folder.path(), 'd');
    let mut executor = Waiting::start(&path);
    let silent: Vec<_> = (0..100).map(|_| TcpStream::connect(&executor.address).unwrap()).collect();
    let connection = open(&executor.address, &Key::read(&path).unwrap()).unwrap();
    assert_eq!(connection.call(0, b"here").unwrap(), b"here");
    // The executor has its controller, and greets no other peer any more.
    for mut peer in silent {
        assert_eq!(peer.read(&mut [0; 8]).unwrap_or(0), 0);
    }
    assert!(matches!(
        open(&executor.address, &Key::read(&path).unwrap()),
        Err(RemoteError::Network { .. } | RemoteError::Closed { .. })
    ));
    connection.close();
    assert!(executor.process.wait().unwrap().success());
}

#[test]
fn silent_peers_of_one_address_push_out_each_other_alone() {
    let key = Key::new([3; Key::BYTES]);
    let listener = Listener::bind("127.0.0.1:0", key.clone()).unwrap();
    let listener = listener.with_greeting_limit(Duration::from_secs(1000));
    let address = listener.address().unwrap();
    let accepting = thread::spawn(move || listener.accept().map(drop));
    let mut other = connect_from([127, 0, 0, 2], address);
    let mut crowd: Vec<_> = (0..100).map(|_| connect_from([127, 0, 0, 3], address)).collect();
    let mut last = crowd.split_off(92);
    assert!(crowd.iter_mut().all(is_sent_away), "of one address 8 are greeted at a time");
    assert!(is_waiting(&mut other) && last.iter_mut().all(is_waiting));
    // 9 peers are greeted. With 24 more the limit is exceeded by one.
    let mut others: Vec<_> =
        (10..34).map(|number| connect_from([127, 0, 0, number], address)).collect();
    assert!(is_sent_away(&mut other), "the one that has been greeted the longest goes");
    assert!(last.iter_mut().all(is_waiting) && others.iter_mut().all(is_waiting));
    drop(open(&address.to_string(), &key));
    accepting.join().unwrap().unwrap();
    assert!(last.iter_mut().chain(&mut others).all(is_sent_away));
}

fn connect_from(source: [u8; 4], to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from((source, 0))).unwrap();
    connect(&socket, &to).unwrap();
    TcpStream::from(socket)
}

/// Returns whether the other side closes the connection; waits for that.
fn is_sent_away(peer: &mut TcpStream) -> bool {
    peer.set_nonblocking(false).unwrap();
    peer.set_read_timeout(Some(TIMEOUT)).unwrap();
    match peer.read(&mut [0; 8]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

fn is_waiting(peer: &mut TcpStream) -> bool {
    peer.set_nonblocking(true).unwrap();
    peer.read(&mut [0; 8]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn a_slow_peer_is_refused_while_other_peers_are_greeted() {
    let key = Key::new([3; Key::BYTES]);
    let listener = Listener::bind("127.0.0.1:0", key.clone()).unwrap();
    let listener = listener.with_greeting_limit(Duration::from_millis(50));
    let address = listener.address().unwrap().to_string();
    let accepting = thread::spawn(move || listener.accept().unwrap());
    let mut slow = TcpStream::connect(&address).unwrap();
    slow.write_all(&[0]).unwrap();
    assert_eq!(slow.read(&mut [0; 8]).unwrap_or(0), 0);
    // On a busy machine this peer may take too long as well, so it tries again.
    let asking = thread::spawn(move || {
        loop {
            if let Ok(connection) = open(&address, &key) {
                return connection;
            }
        }
    });
    let transport = accepting.join().unwrap();
    let executor = Connection::open(transport, Options::default(), Arc::new(Echo)).unwrap();
    let connection = asking.join().unwrap();
    assert_eq!(connection.call(0, b"x").unwrap(), b"x");
    connection.close();
    drop(executor);
}

#[test]
fn a_peer_that_replays_a_controllers_messages_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = key_file(folder.path(), 'c');
    let key = Key::read(&path).unwrap();
    // A controller without a replying peer sends only its first message.
    let overhearing = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = overhearing.local_addr().unwrap().to_string();
    let overheard = thread::spawn(move || {
        let (mut socket, _) = overhearing.accept().unwrap();
        let mut bytes = [0; 256];
        let size = socket.read(&mut bytes).unwrap();
        bytes[..size].to_vec()
    });
    assert!(open(&address, &key).is_err());
    let mut executor = Waiting::start(&path);
    let mut stranger = TcpStream::connect(&executor.address).unwrap();
    stranger.write_all(&overheard.join().unwrap()).unwrap();
    // The executor replies to a replayed first message, but not to the next one.
    assert!(stranger.read(&mut [0; 256]).unwrap() > 0);
    stranger.write_all(&[5; 64]).unwrap();
    assert_eq!(stranger.read(&mut [0; 8]).unwrap_or(0), 0);
    let connection = open(&executor.address, &key).unwrap();
    assert_eq!(connection.call(0, b"still here").unwrap(), b"still here");
    connection.close();
    assert!(executor.process.wait().unwrap().success());
}

#[test]
fn an_executor_that_is_killed_ends_the_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = key_file(folder.path(), 'b');
    let mut executor = Waiting::start(&path);
    let connection = open(&executor.address, &Key::read(&path).unwrap()).unwrap();
    executor.process.kill().unwrap();
    assert_eq!(connection.wait_for_end(), EndReason::Cut);
    assert_eq!(connection.call(0, &[]), Err(CallError::Ended(EndReason::Cut)));
}

/// Returns a field of `/proc/PROCESS/status`, if there is such a process.
fn status(process: u32, field: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    Some(line?.trim().to_owned())
}

/// Waits until a process has one of these states.
fn await_state(process: u32, states: &[char]) {
    let start = Instant::now();
    while status(process, "State").is_some_and(|state| !state.starts_with(states)) {
        assert!(start.elapsed() < TIMEOUT, "{process} does not become {states:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn send(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

/// Returns an executor and its controller, and the executor's processes: first the started one,
/// last the serving one.
fn serving(folder: &Path, arguments: &[&str]) -> (Waiting, Connection, Vec<u32>) {
    let path = key_file(folder, 'e');
    let executor = Waiting::start_with(&path, arguments);
    let connection = open(&executor.address, &Key::read(&path).unwrap()).unwrap();
    assert_eq!(connection.call(0, b"here").unwrap(), b"here");
    let mut processes = vec![executor.process.id()];
    while let Some(last) = processes.last() {
        let children = std::fs::read_to_string(format!("/proc/{last}/task/{last}/children"));
        match children.unwrap().split_whitespace().next() {
            Some(child) => processes.push(child.parse().unwrap()),
            None => break,
        }
    }
    assert!(processes.len() > 1, "{processes:?}");
    (executor, connection, processes)
}

#[test]
fn a_stopped_process_that_serves_ends_with_its_controller() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&[][..], &["--sandbox"]] {
        let (mut executor, connection, processes) = serving(folder.path(), arguments);
        let last = *processes.last().unwrap();
        send(last, Signal::STOP);
        await_state(last, &['T']);
        drop(connection);
        await_state(last, &['Z', 'X']);
        assert_eq!(executor.process.wait().unwrap().code(), Some(128 + libc::SIGKILL));
        processes.into_iter().for_each(|process| await_state(process, &['Z', 'X']));
    }
}

#[test]
fn an_executor_is_stopped_and_goes_on_with_the_process_that_serves() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&[][..], &["--sandbox"]] {
        let (mut executor, connection, processes) = serving(folder.path(), arguments);
        let ends = [processes[0], *processes.last().unwrap()];
        for _ in 0..3 {
            send(processes[0], Signal::TSTP);
            ends.iter().for_each(|process| await_state(*process, &['T']));
            send(processes[0], Signal::CONT);
            assert_eq!(connection.call(0, b"still here").unwrap(), b"still here");
        }
        connection.close();
        assert!(executor.process.wait().unwrap().success());
    }
}

#[test]
fn messages_cannot_be_read_or_changed_in_transit() {
    let key = Key::new([3; Key::BYTES]);
    let listener = Listener::bind("127.0.0.1:0", key.clone()).unwrap();
    let behind = listener.address().unwrap();
    let between = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = between.local_addr().unwrap().to_string();
    let executor = thread::spawn(move || {
        let transport = listener.accept().unwrap();
        Connection::open(transport, Options::default(), Arc::new(Echo)).unwrap().wait_for_end()
    });
    const SECRET: &[u8] = b"a secret that would be found";
    let meddler = thread::spawn(move || {
        let (mut front, _) = between.accept().unwrap();
        let mut back = TcpStream::connect(behind).unwrap();
        let (mut from, mut to) = (back.try_clone().unwrap(), front.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
        let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(size @ 1..) = front.read(&mut piece) {
            seen.extend_from_slice(&piece[..size]);
            // The third message after the greeting is changed.
            if seen.len() > 1000 {
                piece[size - 1] ^= 1;
            }
            if back.write_all(&piece[..size]).is_err() {
                break;
            }
        }
        seen
    });
    let connection = open(&address, &key).unwrap();
    assert_eq!(connection.call(0, SECRET).unwrap(), SECRET);
    let error = connection.call(0, &SECRET.repeat(100)).unwrap_err();
    assert!(matches!(error, CallError::Ended(_)), "{error}");
    let ended = executor.join().unwrap();
    assert!(ended.to_string().contains("changed on its way"), "{ended}");
    drop(connection);
    let seen = meddler.join().unwrap();
    assert!(!seen.windows(SECRET.len()).any(|window| window == SECRET));
}
