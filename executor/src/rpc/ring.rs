//! The two ends of a ring of messages.

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use super::EndReason;
use super::futex;
use super::link::{Direction, RING_BYTES};
use super::wire::{Header, Kind};

/// Greatest number of bytes of a message's content in a ring; larger messages use the stream.
pub(super) const MAX_IN_RING: usize = RING_BYTES / 4;

/// The initial state, in which no thread watches the ring: the sender must wake one.
pub(super) const UNATTENDED: u32 = 0;
/// The state in which a thread watches the ring, or was woken to do so.
pub(super) const ATTENDED: u32 = 1;

/// Wakes a thread of the receiving side, unless another sender does so.
pub(super) fn call_attention(ring: Direction<'_>) {
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    let taken = ring.attention().compare_exchange(UNATTENDED, ATTENDED, success, failure);
    if taken.is_ok() {
        ring.bell().fetch_add(1, Ordering::Release);
        futex::wake(ring.bell(), 1);
    }
}

/// The sending end of a ring. One thread at a time.
#[derive(Debug, Default)]
pub(super) struct Sender {
    tail: u32,
}

/// The receiving end of a ring. One thread at a time.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    head: u32,
}

/// The mark that the rest of the ring is skipped. No message has this identity and method.
const SKIP: Header = Header { kind: Kind::Bye, method: u32::MAX, identity: u64::MAX, size: 0 };

impl Sender {
    /// Puts a message into the ring, and wakes a thread of the other side if no thread watches.
    /// Blocks while the ring is full.
    pub(super) fn send(
        &mut self,
        ring: Direction<'_>,
        header: Header,
        content: &[u8],
        ended: &dyn Fn() -> Option<EndReason>,
    ) -> Result<(), EndReason> {
        let needed = record_bytes(content.len());
        let at = self.tail as usize % RING_BYTES;
        if RING_BYTES - at < needed {
            self.wait_for_room(ring, RING_BYTES - at, ended)?;
            if RING_BYTES - at >= Header::BYTES {
                ring.write_ring(at, &SKIP.to_bytes());
            }
            self.tail = self.tail.wrapping_add((RING_BYTES - at) as u32);
        }
        self.wait_for_room(ring, needed, ended)?;
        let at = self.tail as usize % RING_BYTES;
        ring.write_ring(at, &header.to_bytes());
        ring.write_ring(at + Header::BYTES, content);
        self.tail = self.tail.wrapping_add(needed as u32);
        self.publish(ring);
        Ok(())
    }

    fn publish(&self, ring: Direction<'_>) {
        ring.tail().store(self.tail, Ordering::Release);
        // A thread that stops watching sets `attention` before it checks the ring for the last
        // time.
        fence(Ordering::SeqCst);
        if ring.attention().load(Ordering::Relaxed) == UNATTENDED {
            call_attention(ring);
        }
    }

    fn wait_for_room(
        &self,
        ring: Direction<'_>,
        bytes: usize,
        ended: &dyn Fn() -> Option<EndReason>,
    ) -> Result<(), EndReason> {
        let mut is_published = false;
        loop {
            let head = futex::load(ring.head());
            let used = self.tail.wrapping_sub(head) as usize;
            if used > RING_BYTES {
                return Err(broken());
            }
            if bytes <= RING_BYTES - used {
                return Ok(());
            }
            if let Some(ended) = ended() {
                return Err(ended);
            }
            if !is_published {
                // The receiver must see the skipped bytes to free them.
                self.publish(ring);
                is_published = true;
            }
            ring.sender_sleeps().store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if futex::load(ring.head()) == head {
                // The timeout covers an other side that ended without a wake-up.
                futex::sleep(ring.head(), head, Some(Duration::from_millis(100)));
            }
            ring.sender_sleeps().store(0, Ordering::Relaxed);
        }
    }
}

impl Receiver {
    /// Takes a message out of the ring, if there is one, and stores its content in `content`.
    pub(super) fn receive(
        &mut self,
        ring: Direction<'_>,
        content: &mut Vec<u8>,
    ) -> Result<Option<Header>, EndReason> {
        loop {
            let available = futex::load(ring.tail()).wrapping_sub(self.head) as usize;
            if available == 0 {
                return Ok(None);
            }
            if available > RING_BYTES || !available.is_multiple_of(8) {
                return Err(broken());
            }
            let at = self.head as usize % RING_BYTES;
            let to_end = RING_BYTES - at;
            if to_end < Header::BYTES {
                self.take(ring, to_end.min(available));
                continue;
            }
            let mut header = [0; Header::BYTES];
            ring.read_ring(at, &mut header);
            let header = Header::from_bytes(&header)?;
            if header == SKIP {
                if available < to_end {
                    return Err(broken());
                }
                self.take(ring, to_end);
                continue;
            }
            let bytes = record_bytes(header.size);
            if bytes > available.min(to_end) {
                return Err(broken());
            }
            content.clear();
            content.resize(header.size, 0);
            ring.read_ring(at + Header::BYTES, content);
            self.take(ring, bytes);
            return Ok(Some(header));
        }
    }

    /// Returns whether the ring is empty.
    pub(super) fn is_at_tail(&self, ring: Direction<'_>) -> bool {
        futex::load(ring.tail()) == self.head
    }

    /// Returns the number of bytes taken out so far: the tail of an empty ring.
    pub(super) fn taken(&self) -> u32 {
        self.head
    }

    fn take(&mut self, ring: Direction<'_>, bytes: usize) {
        self.head = self.head.wrapping_add(bytes as u32);
        ring.head().store(self.head, Ordering::Release);
        fence(Ordering::SeqCst);
        if ring.sender_sleeps().load(Ordering::Relaxed) != 0 {
            futex::wake(ring.head(), 1);
        }
    }
}

fn record_bytes(content: usize) -> usize {
    (Header::BYTES + content).next_multiple_of(8)
}

fn broken() -> EndReason {
    EndReason::Protocol("the shared ring of messages is damaged".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::thread::spawn;

    use super::super::link::{Link, Origin};
    use super::*;

    fn header(identity: u64, size: usize) -> Header {
        Header { kind: Kind::Call, method: 3, identity, size }
    }

    #[test]
    fn messages_of_all_sizes_come_out_in_order_whatever_thread_is_faster() {
        let link = Arc::new(Link::anonymous().unwrap());
        let sizes = |index: u64| (index * 7919 % (MAX_IN_RING as u64 + 1)) as usize;
        let other = link.clone();
        let sender = spawn(move || {
            let ring = other.direction(Origin::Controller);
            let mut sender = Sender::default();
            for index in 0..2000 {
                let content = vec![index as u8; sizes(index)];
                sender.send(ring, header(index, content.len()), &content, &|| None).unwrap();
            }
        });
        let ring = link.direction(Origin::Controller);
        let (mut receiver, mut content) = (Receiver::default(), Vec::new());
        for index in 0..2000 {
            let received = loop {
                match receiver.receive(ring, &mut content).unwrap() {
                    Some(header) => break header,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(received, header(index, sizes(index)));
            assert!(content.iter().all(|byte| *byte == index as u8));
        }
        sender.join().unwrap();
        assert_eq!(receiver.receive(ring, &mut content).unwrap(), None);
        assert!(receiver.is_at_tail(ring));
    }

    #[test]
    fn a_writer_that_waits_for_room_gets_the_end_of_the_connection() {
        let link = Link::anonymous().unwrap();
        let ring = link.direction(Origin::Executor);
        let mut sender = Sender::default();
        let content = vec![0; MAX_IN_RING];
        let result = loop {
            let sent =
                sender.send(ring, header(0, content.len()), &content, &|| Some(EndReason::Cut));
            if sent.is_err() {
                break sent;
            }
        };
        assert_eq!(result, Err(EndReason::Cut));
    }

    #[test]
    fn a_ring_with_any_bytes_and_any_counters_gives_messages_or_an_error() {
        let link = Link::anonymous().unwrap();
        let ring = link.direction(Origin::Executor);
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 32) as u32
        };
        let mut content = Vec::new();
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..64).map(|_| (random() & random() & random()) as u8).collect();
            let mut receiver = Receiver { head: random() & !7 };
            let at = receiver.head as usize % RING_BYTES;
            ring.write_ring(at, &bytes[..bytes.len().min(RING_BYTES - at)]);
            ring.tail().store(receiver.head.wrapping_add(random() & 0x1f8), Ordering::Relaxed);
            while let Ok(Some(_)) = receiver.receive(ring, &mut content) {}
            let sender = Sender { tail: random() };
            let _ = sender.wait_for_room(ring, 64, &|| Some(EndReason::Cut));
        }
    }
}
