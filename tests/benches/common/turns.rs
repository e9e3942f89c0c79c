//! Contenders that run in turns, so that what else the machine does hits all of them alike.

use std::thread;
use std::time::{Duration, Instant};

const MOST_ROUNDS: usize = 40;
const FEWEST_ROUNDS: usize = 5;
/// After so much time, no more rounds than the fewest.
const ENOUGH: Duration = Duration::from_secs(6);
/// Between two turns: until threads of the last one have stopped looking for more.
const PAUSE: Duration = Duration::from_millis(3);

/// Something to be timed.
pub(crate) struct Contender<'a> {
    /// Takes a turn, and answers what one time took.
    pub(crate) turn: Box<dyn FnMut() -> Duration + 'a>,
}

/// What one time took, in all turns; sorted.
#[derive(Clone)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    /// At least one.
    pub(crate) fn of(mut times: Vec<Duration>) -> Option<Times> {
        times.sort();
        (!times.is_empty()).then_some(Times(times))
    }

    pub(crate) fn best(&self) -> Duration {
        self.0[0]
    }

    pub(crate) fn median(&self) -> Duration {
        self.0[self.0.len() / 2]
    }
}

/// Runs those that are there in turns.
pub(crate) fn in_turns<const N: usize>(
    mut contenders: [Option<Contender<'_>>; N],
) -> [Option<Times>; N] {
    let mut times = [const { Vec::new() }; N];
    let start = Instant::now();
    for round in 0..MOST_ROUNDS {
        if round >= FEWEST_ROUNDS && start.elapsed() > ENOUGH {
            break;
        }
        for (contender, times) in contenders.iter_mut().zip(&mut times) {
            if let Some(contender) = contender {
                thread::sleep(PAUSE);
                times.push((contender.turn)());
            }
        }
    }
    times.map(Times::of)
}

impl<'a> Contender<'a> {
    /// A turn does it `count` times, behind a first time that does not count.
    pub(crate) fn new(count: u32, mut run: impl FnMut() + 'a) -> Contender<'a> {
        let turn = move || {
            run();
            let start = Instant::now();
            (0..count).for_each(|_| run());
            start.elapsed() / count
        };
        Contender { turn: Box::new(turn) }
    }
}
