//! The answers to calls of device code. LLVM: `handle_libc_opcodes`, `handleOffloadOpcodes`.

use super::memory::DeviceMemory;
use super::opcodes::{Opcode, Output};
use super::port::{Broken, Lanes, MOST_BYTES, Port, RawPort};
use super::print;
use super::streams::{self, Stream, Streams};
use crate::abi::RpcCallback;
use crate::message;
use parking_lot::RwLock;
use std::ffi::{c_int, c_void};

/// A callback's answer to a call that it does not know.
const UNHANDLED: u32 = 0x1001;

static CALLBACKS: RwLock<Vec<RpcCallback>> = RwLock::new(Vec::new());

/// Adds a function that answers calls before the library does, unless it is there already.
pub(crate) fn register(callback: RpcCallback) {
    let mut callbacks = CALLBACKS.write();
    let is_known = callbacks.iter().any(|known| *known as usize == callback as usize);
    if !is_known {
        callbacks.push(callback);
    }
}

unsafe extern "C" {
    fn quick_exit(status: c_int) -> !;
}

/// The state behind the answers for one image.
pub(super) struct Answers {
    pub(super) memory: Box<dyn DeviceMemory>,
    pub(super) streams: Streams,
}

impl Answers {
    /// Answers the call of an open port, and closes the port.
    ///
    /// # Errors
    /// A client that sends too much, or the end of the server. The port stays open then.
    pub(super) fn answer(&self, mut port: Port<'_>) -> Result<(), Broken> {
        if !self.ask_program(&mut port) {
            match Opcode::from_raw(port.opcode()) {
                Some(opcode) => self.answer_call(&mut port, opcode)?,
                None => message::error(format_args!("Unhandled or invalid RPC opcode!")),
            }
        }
        port.close();
        Ok(())
    }

    /// Returns whether a function of the program has answered the call.
    fn ask_program(&self, port: &mut Port<'_>) -> bool {
        let callbacks = CALLBACKS.read().clone();
        callbacks.iter().any(|callback| {
            let lanes = port.lane_count();
            // SAFETY: the program has registered the function for ports of this layout.
            unsafe {
                callback(std::ptr::from_mut::<RawPort>(port.raw()).cast(), lanes) != UNHANDLED
            }
        })
    }

    fn answer_call(&self, port: &mut Port<'_>, opcode: Opcode) -> Result<(), Broken> {
        match opcode {
            Opcode::Nothing => port.receive(|_, _| {}),
            Opcode::Exit => exit(port),
            Opcode::Abort => {
                port.exchange(|_, _| {})?;
                port.receive(|_, _| {})?;
                std::process::abort()
            }
            Opcode::Write(output) => self.write(port, output, false),
            Opcode::WriteLine => self.write(port, Output::Standard, true),
            Opcode::Print(output, is_packed) => self.print(port, output, is_packed),
            Opcode::Allocate => port.exchange(|_, slot| {
                slot.set(0, self.memory.allocate(slot.get(0)));
            }),
            Opcode::Free => port.receive(|_, slot| self.memory.free(slot.get(0))),
            Opcode::HostCall => host_call(port),
            Opcode::Remove | Opcode::System => on_text(port, opcode),
            Opcode::Rename => rename(port),
            _ => self.use_stream(port, opcode),
        }
    }

    fn write(&self, port: &mut Port<'_>, output: Output, adds_line: bool) -> Result<(), Broken> {
        let streams = self.outputs(port, output)?;
        let lanes = port.receive_bytes()?;
        port.send(|lane, slot| {
            let bytes = lanes[lane].as_deref().unwrap_or_default();
            let Some(stream) = streams[lane] else { return slot.set(0, 0) };
            let mut count = stream.write(bytes);
            if adds_line && count == bytes.len() {
                count += stream.write(b"\n");
            }
            slot.set(0, count as u64);
        })
    }

    /// Returns the stream of each lane; the client sends the handles of streams that it names.
    fn outputs(&self, port: &mut Port<'_>, output: Output) -> Result<Lanes<Stream>, Broken> {
        let mut streams = vec![None; port.lane_count() as usize];
        if output == Output::Stream {
            port.receive(|lane, slot| streams[lane] = self.streams.output(output, slot.get(0)))?;
        } else {
            streams.fill_with(|| self.streams.output(output, 0));
        }
        Ok(streams)
    }

    fn print(&self, port: &mut Port<'_>, output: Output, is_packed: bool) -> Result<(), Broken> {
        let streams = self.outputs(port, output)?;
        let formats = port.receive_bytes()?;
        let format = |lane: usize| formats[lane].as_deref().unwrap_or_default();
        port.send(|lane, slot| slot.set(0, print::arguments_size(format(lane), is_packed)))?;
        let arguments = port.receive_bytes()?;
        let argument = |lane: usize| arguments[lane].as_deref().unwrap_or_default();
        let mut wanted: Vec<Vec<u64>> = (0..formats.len())
            .map(|lane| print::strings(format(lane), argument(lane), is_packed))
            .collect();
        let strings = receive_strings(port, &mut wanted)?;
        let results: Vec<u64> = (0..formats.len())
            .map(|lane| {
                let Some(stream) = streams[lane].filter(|_| formats[lane].is_some()) else {
                    return 0;
                };
                let text = print::print(format(lane), argument(lane), is_packed, &strings[lane]);
                stream.write(&text) as u64
            })
            .collect();
        port.send(|lane, slot| {
            slot.set(0, results[lane]);
            // No string is wanted any more.
            slot.set(1, 0);
        })
    }

    /// Answers a call about a stream. The answer is -1 for a handle of no open file.
    fn use_stream(&self, port: &mut Port<'_>, opcode: Opcode) -> Result<(), Broken> {
        let with = |handle, function: &dyn Fn(Stream) -> i64| {
            self.streams.find(handle).map_or(-1, function) as u64
        };
        match opcode {
            Opcode::Read | Opcode::ReadLine => self.read(port, opcode),
            Opcode::Open => self.open(port),
            Opcode::Close => port.exchange(|_, slot| {
                slot.set(0, self.streams.close(slot.get(0)) as u64);
            }),
            Opcode::Seek => port.exchange(|_, slot| {
                let (offset, origin) = (slot.get(1) as i64, slot.get(2) as c_int);
                slot.set(0, with(slot.get(0), &|stream| stream.seek(offset, origin)));
            }),
            Opcode::PutBack => port.exchange(|_, slot| {
                let character = slot.get(0) as c_int;
                slot.set(0, with(slot.get(1), &|stream| stream.put_back(character)));
            }),
            _ => port.exchange(|_, slot| {
                slot.set(0, with(slot.get(0), &|stream| stream.ask(opcode)));
            }),
        }
    }

    fn read(&self, port: &mut Port<'_>, opcode: Opcode) -> Result<(), Broken> {
        let mut lanes = vec![None; port.lane_count() as usize];
        let most = MOST_BYTES / u64::from(port.lane_count().max(1));
        port.receive(|lane, slot| {
            let size = slot.get(0).min(most) as usize;
            let stream = self.streams.find(slot.get(1));
            lanes[lane] = Some(stream.map_or(Vec::new(), |stream| match opcode {
                Opcode::Read => stream.read(size),
                _ => stream.read_line(size),
            }));
        })?;
        port.send_bytes(&lanes)?;
        if opcode == Opcode::Read {
            let sizes = |lane: usize| lanes[lane].as_ref().map_or(0, Vec::len);
            port.send(|lane, slot| slot.set(0, sizes(lane) as u64))?;
        }
        Ok(())
    }

    fn open(&self, port: &mut Port<'_>) -> Result<(), Broken> {
        let paths = port.receive_bytes()?;
        port.exchange(|lane, slot| {
            let path = paths[lane].as_deref().unwrap_or_default();
            slot.set(0, self.streams.open(path, &slot.bytes()));
        })
    }
}

/// Asks the client for the contents of strings, the last string of each lane first. Returns the
/// contents in the order of the addresses.
fn receive_strings(
    port: &mut Port<'_>,
    wanted: &mut [Vec<u64>],
) -> Result<Vec<Vec<Vec<u8>>>, Broken> {
    let mut strings: Vec<Vec<Vec<u8>>> = vec![Vec::new(); wanted.len()];
    let mut total = 0;
    while wanted.iter().any(|addresses| !addresses.is_empty()) {
        let asked: Vec<Option<u64>> = wanted.iter_mut().map(Vec::pop).collect();
        port.send(|lane, slot| slot.set(1, asked[lane].unwrap_or(0)))?;
        for (lane, bytes) in port.receive_bytes()?.into_iter().enumerate() {
            total += bytes.as_ref().map_or(0, Vec::len) as u64;
            if asked[lane].is_some() {
                strings[lane].push(bytes.unwrap_or_default());
            }
        }
        if total > MOST_BYTES {
            return Err(Broken::TooLong);
        }
    }
    strings.iter_mut().for_each(|strings| strings.reverse());
    Ok(strings)
}

fn exit(port: &mut Port<'_>) -> Result<(), Broken> {
    port.exchange(|_, _| {})?;
    let mut status = 0;
    port.receive(|_, slot| status = slot.get(0) as c_int)?;
    streams::flush_all();
    // SAFETY: ends the process. Handlers of `exit` would wait for this thread.
    unsafe { quick_exit(status) }
}

/// Calls a function of the host for each lane, with a copy of the lane's bytes.
fn host_call(port: &mut Port<'_>) -> Result<(), Broken> {
    let mut arguments = port.receive_bytes()?;
    let mut results = vec![0; arguments.len()];
    port.receive(|lane, slot| {
        let address = slot.get(0) as usize;
        let bytes = arguments[lane].get_or_insert_default();
        if address != 0 {
            // SAFETY: the program's device code names a function of the host with this type.
            results[lane] = unsafe {
                let function =
                    std::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void) -> u64>(address);
                function(bytes.as_mut_ptr().cast())
            };
        }
    })?;
    port.send(|lane, slot| slot.set(0, results[lane]))
}

/// Removes a file, or runs a command.
fn on_text(port: &mut Port<'_>, opcode: Opcode) -> Result<(), Broken> {
    let lanes = port.receive_bytes()?;
    port.send(|lane, slot| {
        let text = streams::text(lanes[lane].as_deref().unwrap_or_default());
        let done = text.map_or(-1, |text| match opcode {
            // SAFETY: the text is a C string.
            Opcode::Remove => unsafe { libc::remove(text.as_ptr()) },
            // SAFETY: as above.
            _ => unsafe { libc::system(text.as_ptr()) },
        });
        slot.set(0, done as u64);
    })
}

fn rename(port: &mut Port<'_>) -> Result<(), Broken> {
    let (from, to) = (port.receive_bytes()?, port.receive_bytes()?);
    port.send(|lane, slot| {
        let text = |lanes: &Lanes<Vec<u8>>| streams::text(lanes[lane].as_deref()?);
        let done = match (text(&from), text(&to)) {
            // SAFETY: both are C strings.
            (Some(from), Some(to)) => unsafe { libc::rename(from.as_ptr(), to.as_ptr()) },
            _ => -1,
        };
        slot.set(0, done as u64);
    })
}
