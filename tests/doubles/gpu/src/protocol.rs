//! What the driver and a GPU process say to each other.
//!
//! The driver asks and the process answers, over a control connection and one for each stream of work. A message is
//! its length in 8 bytes and its fields: numbers in 8 bytes, bytes and text behind their length.

use std::io::{self, Read, Write};

/// What the driver asks. The comment says what the answer holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Makes pages of a window accessible, or not. Nothing.
    Protect {
        /// First byte.
        address: u64,
        /// How many.
        bytes: u64,
        /// What they are from now on.
        accessible: bool,
    },
    /// Loads an object, or an archive of objects, as a module. Nothing.
    Load {
        /// The number that the module goes by.
        module: u64,
        /// The object.
        object: Vec<u8>,
    },
    /// Forgets a module. Nothing.
    Unload {
        /// The module.
        module: u64,
    },
    /// Looks a name up in a module. [`Symbol`] in three numbers, or nothing.
    Find {
        /// The module.
        module: u64,
        /// Its name.
        name: String,
    },
    /// Looks the profile's counters of a function up in a module. [`Symbol`] in three numbers, or nothing.
    Counters {
        /// The module.
        module: u64,
        /// What the function's record calls it: a hash of its name.
        function: u64,
    },
    /// Reads a variable of a module. The bytes.
    Read {
        /// First byte.
        address: u64,
        /// How many.
        bytes: u64,
    },
    /// Writes a variable of a module, which may be constant. Nothing.
    Write {
        /// First byte.
        address: u64,
        /// What to write.
        contents: Vec<u8>,
    },
    /// Runs a kernel to its end. Nothing.
    Launch(Launch),
    /// Runs a module's constructors, or its destructors. Nothing.
    Life {
        /// The module.
        module: u64,
        /// Its destructors.
        ends: bool,
    },
    /// Calls functions without arguments, one after the other. Nothing.
    Call {
        /// The module whose functions they are.
        module: u64,
        /// Their addresses.
        functions: Vec<u64>,
    },
}

/// One run of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The kernel's module.
    pub module: u64,
    /// The kernel.
    pub kernel: String,
    /// Work-groups in x, y, z.
    pub groups: [u32; 3],
    /// Work-items per group in x, y, z.
    pub items: [u32; 3],
    /// Dynamic shared memory per group.
    pub shared_bytes: u64,
    /// All groups run at once.
    pub cooperative: bool,
    /// The arguments' values.
    pub arguments: Vec<Vec<u8>>,
}

/// What a module's name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address in the GPU process.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// It is a function, not a variable.
    pub is_function: bool,
}

/// Why a request was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The same in words.
    pub message: String,
}

/// What happened to a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum FaultKind {
    /// Nothing ran: the request was refused.
    Refused = 0,
    /// It accessed what it must not.
    Address = 1,
    /// An assertion failed.
    Assertion = 2,
    /// It met an instruction that stops it.
    Instruction = 3,
    /// Anything else, the end of the GPU process included.
    Other = 4,
}

/// What a request was answered with.
pub type Reply = Result<Vec<u8>, Fault>;

impl Fault {
    /// A request that was refused.
    pub fn refused(message: impl Into<String>) -> Fault {
        Fault { kind: FaultKind::Refused, message: message.into() }
    }
}

impl Request {
    /// As a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        match self {
            Request::Protect { address, bytes, accessible } => {
                to.numbers(&[0, *address, *bytes, u64::from(*accessible)]);
            }
            Request::Load { module, object } => {
                to.numbers(&[1, *module]);
                to.bytes(object);
            }
            Request::Unload { module } => to.numbers(&[2, *module]),
            Request::Find { module, name } => {
                to.numbers(&[3, *module]);
                to.bytes(name.as_bytes());
            }
            Request::Counters { module, function } => to.numbers(&[8, *module, *function]),
            Request::Read { address, bytes } => to.numbers(&[4, *address, *bytes]),
            Request::Write { address, contents } => {
                to.numbers(&[5, *address]);
                to.bytes(contents);
            }
            Request::Launch(launch) => launch.encode(&mut to),
            Request::Life { module, ends } => to.numbers(&[9, *module, u64::from(*ends)]),
            Request::Call { module, functions } => {
                to.numbers(&[7, *module, functions.len() as u64]);
                to.numbers(functions);
            }
        }
        to.0
    }

    /// Reads a message; `None` if it is none of these.
    pub fn decode(message: &[u8]) -> Option<Request> {
        let mut from = Reader(message);
        Some(match from.number()? {
            0 => Request::Protect {
                address: from.number()?,
                bytes: from.number()?,
                accessible: from.number()? != 0,
            },
            1 => Request::Load { module: from.number()?, object: from.bytes()?.to_vec() },
            2 => Request::Unload { module: from.number()? },
            3 => Request::Find { module: from.number()?, name: from.text()? },
            4 => Request::Read { address: from.number()?, bytes: from.number()? },
            5 => Request::Write { address: from.number()?, contents: from.bytes()?.to_vec() },
            6 => Request::Launch(Launch::decode(&mut from)?),
            7 => {
                let (module, count) = (from.number()?, from.number()?);
                let functions = (0..count).map(|_| from.number()).collect::<Option<_>>()?;
                Request::Call { module, functions }
            }
            8 => Request::Counters { module: from.number()?, function: from.number()? },
            9 => Request::Life { module: from.number()?, ends: from.number()? != 0 },
            _ => return None,
        })
    }
}

impl Launch {
    fn encode(&self, to: &mut Writer) {
        to.numbers(&[6, self.module]);
        to.bytes(self.kernel.as_bytes());
        to.numbers(&self.groups.map(u64::from));
        to.numbers(&self.items.map(u64::from));
        let count = self.arguments.len() as u64;
        to.numbers(&[self.shared_bytes, u64::from(self.cooperative), count]);
        for argument in &self.arguments {
            to.bytes(argument);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Launch> {
        let (module, kernel) = (from.number()?, from.text()?);
        let (groups, items) = (from.sizes()?, from.sizes()?);
        let (shared_bytes, cooperative) = (from.number()?, from.number()? != 0);
        let count = from.number()?;
        let arguments =
            (0..count).map(|_| from.bytes().map(<[u8]>::to_vec)).collect::<Option<_>>()?;
        Some(Launch { module, kernel, groups, items, shared_bytes, cooperative, arguments })
    }
}

impl Symbol {
    /// As an answer.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.numbers(&[self.address, self.bytes, u64::from(self.is_function)]);
        to.0
    }

    /// Reads an answer; `None` if nothing was found.
    pub fn decode(answer: &[u8]) -> Option<Symbol> {
        let mut from = Reader(answer);
        let (address, bytes) = (from.number()?, from.number()?);
        Some(Symbol { address, bytes, is_function: from.number()? != 0 })
    }
}

/// Sends a message. Blocks.
///
/// # Errors
/// Those of the connection.
pub fn send(mut to: impl Write, message: &[u8]) -> io::Result<()> {
    to.write_all(&(message.len() as u64).to_le_bytes())?;
    to.write_all(message)
}

/// Waits for a message.
///
/// # Errors
/// Those of the connection, its end included.
pub fn receive(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let mut message = vec![0; u64::from_le_bytes(length) as usize];
    from.read_exact(&mut message)?;
    Ok(message)
}

/// An answer as a message.
pub fn encode_reply(reply: &Reply) -> Vec<u8> {
    let mut to = Writer::default();
    match reply {
        Ok(answer) => {
            to.numbers(&[0]);
            to.bytes(answer);
        }
        Err(fault) => {
            to.numbers(&[1, fault.kind as u64]);
            to.bytes(fault.message.as_bytes());
        }
    }
    to.0
}

/// Reads an answer; `None` if it is none.
pub fn decode_reply(message: &[u8]) -> Option<Reply> {
    let mut from = Reader(message);
    if from.number()? == 0 {
        return Some(Ok(from.bytes()?.to_vec()));
    }
    let kind = match from.number()? {
        0 => FaultKind::Refused,
        1 => FaultKind::Address,
        2 => FaultKind::Assertion,
        3 => FaultKind::Instruction,
        _ => FaultKind::Other,
    };
    Some(Err(Fault { kind, message: from.text()? }))
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn numbers(&mut self, numbers: &[u64]) {
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.numbers(&[bytes.len() as u64]);
        self.0.extend_from_slice(bytes);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn sizes(&mut self) -> Option<[u32; 3]> {
        let mut next = || u32::try_from(self.number()?).ok();
        Some([next()?, next()?, next()?])
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_back_what_they_were_made_of() {
        let launch = Launch {
            module: 3,
            kernel: "scale".to_owned(),
            groups: [1, 2, 3],
            items: [4, 5, 6],
            shared_bytes: 7,
            cooperative: true,
            arguments: vec![vec![1, 2, 3, 4], Vec::new()],
        };
        for request in [
            Request::Protect { address: 1, bytes: 2, accessible: true },
            Request::Load { module: 1, object: vec![1, 2] },
            Request::Find { module: 1, name: "x".to_owned() },
            Request::Counters { module: 1, function: 2 },
            Request::Life { module: 1, ends: true },
            Request::Write { address: 9, contents: vec![7] },
            Request::Launch(launch),
            Request::Call { module: 2, functions: vec![8, 9] },
        ] {
            let message = request.encode();
            assert_eq!(Request::decode(&message).as_ref(), Some(&request));
            for end in 0..message.len() {
                assert_ne!(Request::decode(&message[..end]).as_ref(), Some(&request));
            }
        }
    }

    #[test]
    fn answers_read_back_what_they_were_made_of() {
        let fault = Fault { kind: FaultKind::Assertion, message: "no".to_owned() };
        for reply in [Ok(vec![1]), Ok(Vec::new()), Err(fault)] {
            assert_eq!(decode_reply(&encode_reply(&reply)), Some(reply));
        }
    }
}
