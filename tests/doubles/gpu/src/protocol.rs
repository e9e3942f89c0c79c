//! The protocol between the driver and a GPU process.
//!
//! The driver sends requests and the process replies, over a control connection and one connection
//! for each stream of work. A message is its length in 8 bytes and its fields: numbers of 8 bytes
//! each, bytes and text after their length.

use std::io::{self, Read, Write};

/// A request of the driver. The comments say what the reply contains.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Change of the access to pages of a window. The reply is empty.
    Protect {
        /// First byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// Whether the pages are accessible from now on.
        accessible: bool,
    },
    /// Loading of an object, or an archive of objects, as a module. The reply is empty.
    Load {
        /// Number of the new module.
        module: u64,
        /// The object.
        object: Vec<u8>,
    },
    /// Unloading of a module. The reply is empty.
    Unload {
        /// The module.
        module: u64,
    },
    /// Look-up of a name in a module. The reply is a [`Symbol`] in three numbers, or empty.
    Find {
        /// The module.
        module: u64,
        /// Name of the symbol.
        name: String,
    },
    /// Look-up of a function's profile counters in a module. The reply is a [`Symbol`] in three
    /// numbers, or empty.
    Counters {
        /// The module.
        module: u64,
        /// Hash of the function's name, as in its record.
        function: u64,
    },
    /// Read of a module's variable. The reply is its bytes.
    Read {
        /// First byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Write of a module's variable, which may be constant. The reply is empty.
    Write {
        /// First byte.
        address: u64,
        /// New contents.
        contents: Vec<u8>,
    },
    /// Launch of a kernel, which has ended at the reply. The reply is empty.
    Launch(Launch),
    /// Run of a module's constructors or destructors. The reply is empty.
    Life {
        /// The module.
        module: u64,
        /// Whether to run the destructors.
        ends: bool,
    },
    /// Calls of functions without arguments, one after the other. The reply is empty.
    Call {
        /// The functions' module.
        module: u64,
        /// Addresses of the functions.
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
    /// Dynamic shared memory per group, in bytes.
    pub shared_bytes: u64,
    /// Whether all groups must run at once.
    pub cooperative: bool,
    /// The arguments' values.
    pub arguments: Vec<Vec<u8>>,
}

/// A symbol of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Address in the GPU process.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the symbol is a function, not a variable.
    pub is_function: bool,
}

/// The failure of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Kind of the failure.
    pub kind: FaultKind,
    /// Description of the failure.
    pub message: String,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum FaultKind {
    /// Refused request: nothing ran.
    Refused = 0,
    /// Access to memory outside the kernel's own.
    Address = 1,
    /// Failed assertion.
    Assertion = 2,
    /// Instruction that stops the kernel.
    Instruction = 3,
    /// Any other failure, including the end of the GPU process.
    Other = 4,
}

/// The reply to a request.
pub type Reply = Result<Vec<u8>, Fault>;

impl Fault {
    /// Creates the failure of a refused request.
    pub fn refused(message: impl Into<String>) -> Fault {
        Fault { kind: FaultKind::Refused, message: message.into() }
    }
}

impl Request {
    /// Returns the request as a message.
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

    /// Reads a message; `None` for an unknown request.
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
    /// Returns the symbol as the contents of a reply.
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::default();
        to.numbers(&[self.address, self.bytes, u64::from(self.is_function)]);
        to.0
    }

    /// Reads the contents of a reply; `None` if the name was not found.
    pub fn decode(answer: &[u8]) -> Option<Symbol> {
        let mut from = Reader(answer);
        let (address, bytes) = (from.number()?, from.number()?);
        Some(Symbol { address, bytes, is_function: from.number()? != 0 })
    }
}

/// Sends a message. Blocks.
///
/// # Errors
/// The connection's error.
pub fn send(mut to: impl Write, message: &[u8]) -> io::Result<()> {
    to.write_all(&(message.len() as u64).to_le_bytes())?;
    to.write_all(message)
}

/// Waits for a message.
///
/// # Errors
/// The connection's error, or its end.
pub fn receive(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let mut message = vec![0; u64::from_le_bytes(length) as usize];
    from.read_exact(&mut message)?;
    Ok(message)
}

/// Returns a reply as a message.
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

/// Reads a reply; `None` for a malformed message.
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
    fn messages_read_back_their_values() {
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
    fn replies_can_be_read_back() {
        let fault = Fault { kind: FaultKind::Assertion, message: "no".to_owned() };
        for reply in [Ok(vec![1]), Ok(Vec::new()), Err(fault)] {
            assert_eq!(decode_reply(&encode_reply(&reply)), Some(reply));
        }
    }
}
