//! Contenders that run in turns, so that other work of the machine affects all of them alike.

use std::thread;
use std::time::{Duration, Instant};

const MOST_ROUNDS: usize = 40;
const FEWEST_ROUNDS: usize = 5;
/// Time after which only the fewest rounds are run.
const ENOUGH: Duration = Duration::from_secs(6);
/// Time between two turns, in which spinning threads of the last turn go to sleep.
const PAUSE: Duration = Duration::from_millis(3);

/// A contender: work to be timed.
pub struct Contender<'a> {
    /// Function that takes a turn, and returns the time of one repetition.
    pub round: Box<dyn FnMut() -> Duration + 'a>,
}

/// Times of all turns, sorted; at least one.
#[derive(Clone)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Creates sorted times; `None` without a time.
    pub fn new(mut times: Vec<Duration>) -> Option<Times> {
        times.sort();
        (!times.is_empty()).then_some(Times(times))
    }

    /// Returns the shortest time.
    pub fn best(&self) -> Duration {
        self.0[0]
    }

    /// Returns the median, the greater of two candidates.
    pub fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }
}

/// Runs the present contenders in turns.
pub fn in_rounds<const N: usize>(mut contenders: [Option<Contender<'_>>; N]) -> [Option<Times>; N] {
    let mut times = [const { Vec::new() }; N];
    let start = Instant::now();
    for round in 0..MOST_ROUNDS {
        if round >= FEWEST_ROUNDS && start.elapsed() > ENOUGH {
            break;
        }
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            if let Some(contender) = contender {
                thread::sleep(PAUSE);
                times.push((contender.round)());
            }
        }
    }
    times.map(Times::new)
}

impl<'a> Contender<'a> {
    /// Creates a contender with turns of `count` runs, after a run that does not count.
    pub fn new(count: u32, mut run: impl FnMut() + 'a) -> Contender<'a> {
        let round = move || {
            run();
            let start = Instant::now();
            (0..count).for_each(|_| run());
            start.elapsed() / count
        };
        Contender { round: Box::new(round) }
    }
}
