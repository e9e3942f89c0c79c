//! Contenders that run in rounds, so that other work of the machine affects all of them alike.

use std::thread;
use std::time::{Duration, Instant};

const MOST_ROUNDS: usize = 40;
const FEWEST_ROUNDS: usize = 5;
/// Time after which only [`FEWEST_ROUNDS`] are run.
const ENOUGH: Duration = Duration::from_secs(6);
/// Time between two samples, in which spinning threads of the last one go to sleep.
const PAUSE: Duration = Duration::from_millis(3);

/// A contender: work to be timed.
pub struct Contender<'a> {
    /// Function that runs the work repeatedly, and returns the time of one repetition.
    pub sample: Box<dyn FnMut() -> Duration + 'a>,
}

/// Times of all samples, sorted; at least one.
#[derive(Clone)]
pub struct Times(Vec<Duration>);

impl Times {
    /// Sorts times; `None` for an empty list.
    pub fn new(mut times: Vec<Duration>) -> Option<Times> {
        times.sort();
        (!times.is_empty()).then_some(Times(times))
    }

    /// Returns the shortest time.
    pub fn best(&self) -> Duration {
        self.0[0]
    }

    /// Returns the median; of an even number of times, the greater of the middle two.
    pub fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }
}

/// Takes a sample of each present contender in every round.
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
                times.push((contender.sample)());
            }
        }
    }
    times.map(Times::new)
}

impl<'a> Contender<'a> {
    /// Creates a contender with samples of `count` runs, after a run that does not count.
    pub fn new(count: u32, mut run: impl FnMut() + 'a) -> Contender<'a> {
        let sample = move || {
            run();
            let start = Instant::now();
            (0..count).for_each(|_| run());
            start.elapsed() / count
        };
        Contender { sample: Box::new(sample) }
    }
}
