//! Floors: the shortest times of two processes that wake each other.

use anyhow::{Result, ensure};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The way in which a process waits for the other one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    Asleep,
    Spinning,
}

/// A word for each direction. This process and a forked one increment the words in turns.
pub(crate) struct PingPong {
    words: &'static [AtomicU32; 64],
    waiting: Waiting,
    round: u32,
    child: i32,
}

const HERE: usize = 0;
const THERE: usize = 32;

impl PingPong {
    pub(crate) fn new(waiting: Waiting) -> Result<Self> {
        let (size, access) = (4096, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping of zeroes, which stays until this process ends.
        let words = unsafe { libc::mmap(null_mut(), size, access, flags, -1, 0) };
        ensure!(words != libc::MAP_FAILED, "no shared memory");
        // SAFETY: the mapping is larger, and used by atomic operations alone.
        let words = unsafe { &*words.cast::<[AtomicU32; 64]>() };
        // SAFETY: the child only counts and waits, until it is killed.
        let child = unsafe { libc::fork() };
        if child == 0 {
            for round in 0.. {
                wait(&words[HERE], round, waiting);
                set(&words[THERE], round + 1, waiting);
            }
        }
        let pair = Self { words, waiting, round: 0, child };
        if waiting == Waiting::Spinning {
            pair.signal(libc::SIGSTOP);
        }
        Ok(pair)
    }

    /// Returns the time of a round, from `count` rounds. A spinning child is stopped before and
    /// afterwards, as it occupies a processor.
    pub(crate) fn rounds(&mut self, count: u32) -> Duration {
        self.signal(libc::SIGCONT);
        self.round();
        let start = Instant::now();
        (0..count).for_each(|_| self.round());
        let took = start.elapsed() / count;
        if self.waiting == Waiting::Spinning {
            self.signal(libc::SIGSTOP);
        }
        took
    }

    fn signal(&self, signal: i32) {
        // SAFETY: it is this process's child, which has not been waited for.
        unsafe { libc::kill(self.child, signal) };
    }

    /// Runs a round: to the child and back.
    fn round(&mut self) {
        self.round += 1;
        set(&self.words[HERE], self.round, self.waiting);
        wait(&self.words[THERE], self.round - 1, self.waiting);
    }
}

impl Drop for PingPong {
    fn drop(&mut self) {
        // SAFETY: it is this process's child, which has not been waited for.
        unsafe {
            libc::kill(self.child, libc::SIGKILL);
            libc::waitpid(self.child, null_mut(), 0);
        }
    }
}

fn set(word: &AtomicU32, value: u32, waiting: Waiting) {
    word.store(value, Ordering::Release);
    if waiting == Waiting::Asleep {
        futex(word, libc::FUTEX_WAKE, 1);
    }
}

fn wait(word: &AtomicU32, while_it_is: u32, waiting: Waiting) {
    while word.load(Ordering::Acquire) == while_it_is {
        match waiting {
            Waiting::Asleep => futex(word, libc::FUTEX_WAIT, while_it_is),
            Waiting::Spinning => std::hint::spin_loop(),
        }
    }
}

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    // SAFETY: the word lives during the call.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, value, 0, 0, 0) };
}
