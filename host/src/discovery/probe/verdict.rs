//! The verdict of a probe, sent over a socket of its own.
//!
//! Each message begins with a random secret that the program has drawn for this probe. Messages
//! without the secret are ignored, so output of a plugin, to any descriptor, is never taken for a
//! verdict. The secret does not stop a malicious plugin, which can find it in the memory of its
//! process.

use super::super::report::Outcome;
use longshore_plugin_api::{Error, ErrorCode};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// A message from a probe to the program.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// The outcome of the plugin, sent by the probing process.
    Verdict(Outcome),
    /// The exit status of the probing process, sent by its supervisor as the last message.
    End(ExitStatus),
}

/// One end of the socket.
pub(super) struct Channel {
    socket: OwnedFd,
    secret: Secret,
}

/// The result of [`Channel::receive`].
pub(super) enum Received {
    /// A message of the probe.
    Message(Message),
    /// A message without the secret, or of another form.
    Noise,
    /// No message yet.
    Nothing,
    /// The end of the channel: no further message follows.
    End,
}

type Secret = [u8; 16];

/// Largest message in bytes: four texts, each of at most twice [`MAX_TEXT_BYTES`] after escaping.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
const MAX_TEXT_BYTES: usize = 7 << 10;

impl Channel {
    /// Creates a channel. Returns the program's end, and the supervisor's standard input, from
    /// which the supervisor reads the secret.
    pub(super) fn pair() -> io::Result<(Channel, OwnedFd)> {
        let mut secret = Secret::default();
        draw(&mut secret)?;
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        send(&ours, &secret, SendFlags::NOSIGNAL)?;
        Ok((Channel { socket: ours, secret }, theirs))
    }

    /// Returns the supervisor's end, taken from standard input. Replaces standard input by
    /// `/dev/null`.
    ///
    /// # Errors
    /// An error if standard input is not an end of such a channel; errors of the system.
    pub(super) fn from_standard_input() -> io::Result<Channel> {
        let input = io::stdin();
        let mut secret = Secret::default();
        let received = recv(&input, &mut secret[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC);
        if received.map(|(_, bytes)| bytes) != Ok(secret.len()) {
            let message = "standard input is not a channel to a program that probes plugins";
            return Err(io::Error::other(message));
        }
        let socket = fcntl_dupfd_cloexec(&input, 3)?;
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        // SAFETY: only this function uses the standard input of the process.
        match unsafe { libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(Channel { socket, secret }),
        }
    }

    /// Sends a message. Blocks only while the socket is full: the program reads messages while it
    /// waits.
    pub(super) fn send(&self, message: &Message) -> io::Result<()> {
        let mut bytes = self.secret.to_vec();
        bytes.extend_from_slice(message.encode().as_bytes());
        retry_on_intr(|| send(&self.socket, &bytes, SendFlags::NOSIGNAL))?;
        Ok(())
    }

    /// Receives the next message. Does not block.
    pub(super) fn receive(&self) -> Received {
        let mut bytes = vec![0; MAX_MESSAGE_BYTES];
        let received = retry_on_intr(|| recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT));
        match received {
            // The end of the channel. An empty message of a plugin looks the same, and ends the
            // probe's messages too.
            Ok((_, 0)) => Received::End,
            Ok((_, count)) => {
                let content = bytes[..count].strip_prefix(&self.secret);
                let text = content.and_then(|content| std::str::from_utf8(content).ok());
                text.and_then(Message::decode).map_or(Received::Noise, Received::Message)
            }
            Err(Errno::AGAIN) => Received::Nothing,
            Err(_) => Received::End,
        }
    }

    /// Asks the supervisor to end the probe.
    pub(super) fn request_end(&self) {
        // Fails only if the supervisor has ended.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn draw(secret: &mut Secret) -> io::Result<()> {
    // SAFETY: `secret` has room for `secret.len()` bytes. At most 256 bytes come in one call.
    let drawn = unsafe { libc::getrandom(secret.as_mut_ptr().cast(), secret.len(), 0) };
    if drawn == secret.len() as isize { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Message {
    /// Encodes the message as fields separated by tabs: [`Outcome::label`] or [`END`], and the
    /// values of the case.
    fn encode(&self) -> String {
        let fields = match self {
            Message::End(status) => vec![END.to_owned(), status.into_raw().to_string()],
            Message::Verdict(outcome) => fields(outcome),
        };
        let fields: Vec<String> = fields.iter().map(|field| escape(shortened(field))).collect();
        fields.join("\t")
    }

    /// Decodes a message; `None` for text that is no encoded message.
    fn decode(text: &str) -> Option<Message> {
        let fields: Vec<String> = text.split('\t').map(unescape).collect();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let [label, held @ ..] = fields.as_slice() else { return None };
        let outcome = match (*label, held) {
            (END, [status]) => {
                return Some(Message::End(ExitStatus::from_raw(status.parse().ok()?)));
            }
            ("loaded", []) => Outcome::Loaded,
            ("no driver", [why]) => Outcome::NoDriver((*why).to_owned()),
            ("no device", [why]) => Outcome::NoDevice((*why).to_owned()),
            ("no plugin", [why]) => Outcome::NotAPlugin((*why).to_owned()),
            ("wrong layout", [why]) => Outcome::WrongLayout((*why).to_owned()),
            ("wrong name", [says]) => Outcome::Misnamed { says: (*says).to_owned() },
            ("wrong interface", [a, b, c, d]) => {
                let plugin = (a.parse().ok()?, b.parse().ok()?);
                Outcome::WrongInterface { plugin, host: (c.parse().ok()?, d.parse().ok()?) }
            }
            ("failed", [code, name, number, message]) => {
                let error = Error::new(ErrorCode::from_raw(code.parse().ok()?), *message);
                let number = number.parse().ok()?;
                Outcome::Failed(match name.is_empty() {
                    true => error,
                    false => error.with_vendor(*name, number),
                })
            }
            _ => return None,
        };
        Some(Message::Verdict(outcome))
    }
}

const END: &str = "end";

fn fields(outcome: &Outcome) -> Vec<String> {
    let mut fields = vec![outcome.label().to_owned()];
    match outcome {
        Outcome::Loaded => {}
        Outcome::Misnamed { says } => fields.push(says.clone()),
        Outcome::WrongInterface { plugin, host } => {
            fields.extend([plugin.0, plugin.1, host.0, host.1].map(|number| number.to_string()));
        }
        Outcome::Failed(error) => {
            let (name, number) =
                error.vendor().map_or(("", 0), |vendor| (&vendor.name, vendor.number));
            let (code, number) = ((error.code() as u32).to_string(), number.to_string());
            fields.extend([code, name.to_owned(), number, error.message().to_owned()]);
        }
        other => fields.push(other.reason()),
    }
    fields
}

fn shortened(field: &str) -> &str {
    &field[..field.floor_char_boundary(MAX_TEXT_BYTES)]
}

fn escape(field: &str) -> String {
    field.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t")
}

fn unescape(field: &str) -> String {
    let mut plain = String::with_capacity(field.len());
    let mut characters = field.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                other => other.unwrap_or('\\'),
            },
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_of_opening_survives_the_trip() {
        let odd = "tab\there, line\nbreak\r, back\\slash\\n";
        let error = Error::new(ErrorCode::OutOfResources, odd);
        let outcomes = [
            Outcome::Loaded,
            Outcome::NoDriver(odd.into()),
            Outcome::NoDevice(String::new()),
            Outcome::NotAPlugin(odd.into()),
            Outcome::WrongLayout(odd.into()),
            Outcome::Misnamed { says: "other".into() },
            Outcome::WrongInterface { plugin: (2, 3), host: (1, 0) },
            Outcome::Failed(error.clone()),
            Outcome::Failed(error.with_vendor("TOY_ERROR", -7)),
        ];
        for outcome in outcomes {
            let message = Message::Verdict(outcome);
            let text = message.encode();
            assert_eq!(Message::decode(&text), Some(message), "{text}");
        }
        let end = Message::End(ExitStatus::from_raw(libc::SIGABRT));
        assert_eq!(Message::decode(&end.encode()), Some(end));
    }

    #[test]
    fn other_texts_are_no_message() {
        for text in ["", "noise", "loaded\tx", "failed", "end", "end\tx"] {
            assert_eq!(Message::decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_message_without_the_secret_is_noise_and_the_longest_one_fits() {
        let (ours, theirs) = Channel::pair().unwrap();
        let mut secret = Secret::default();
        recv(&theirs, &mut secret[..], RecvFlags::empty()).unwrap();
        send(&theirs, b"loaded", SendFlags::empty()).unwrap();
        send(&theirs, &[&[7; 16][..], b"loaded"].concat(), SendFlags::empty()).unwrap();
        let theirs = Channel { socket: theirs, secret };
        let error = Error::new(ErrorCode::Unknown, "\n".repeat(1 << 20));
        let error = error.with_vendor("\t".repeat(1 << 20), 1);
        theirs.send(&Message::Verdict(Outcome::Failed(error))).unwrap();
        assert!(matches!(ours.receive(), Received::Noise));
        assert!(matches!(ours.receive(), Received::Noise));
        let Received::Message(Message::Verdict(Outcome::Failed(error))) = ours.receive() else {
            panic!("the message has arrived");
        };
        assert!(error.message().len() > 4096);
        assert!(matches!(ours.receive(), Received::Nothing));
        drop(theirs);
        assert!(matches!(ours.receive(), Received::End));
    }
}
