//! Contenders that run in rounds.

use anyhow::Result;
use std::time::Duration;

const MOST_RUNS: usize = 30;
const FEWEST_RUNS: usize = 3;
/// Running time after which a contender stops at [`FEWEST_RUNS`] runs.
const ENOUGH: Duration = Duration::from_secs(3);
/// Running time after which a contender stops at once.
const TOO_MUCH: Duration = Duration::from_secs(10);

/// A contender that links a workload repeatedly.
pub(crate) struct Contender<'a> {
    name: &'a str,
    run: Run<'a>,
    samples: Vec<Duration>,
    nothing: Option<Run<'a>>,
    overheads: Vec<Duration>,
    failure: Option<String>,
}

type Run<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

/// The outcome of a contender.
pub(crate) struct Outcome {
    pub(crate) name: String,
    /// Overhead that was subtracted from each sample.
    pub(crate) overhead: Option<Duration>,
    /// Sorted samples, or the reason for their absence.
    pub(crate) samples: Result<Vec<Duration>, String>,
}

impl<'a> Contender<'a> {
    /// Creates a contender. `run` links once and returns its time.
    pub(crate) fn new(name: &'a str, run: impl FnMut() -> Result<Duration> + 'a) -> Self {
        let (run, samples, overheads) = (Box::new(run), Vec::new(), Vec::new());
        Self { name, run, samples, nothing: None, overheads, failure: None }
    }

    /// Subtracts the best time of `nothing` from each sample. `nothing` runs after each sample.
    pub(crate) fn less(self, nothing: impl FnMut() -> Result<Duration> + 'a) -> Self {
        Self { nothing: Some(Box::new(nothing)), ..self }
    }

    pub(crate) fn finish(mut self) -> Outcome {
        let overhead = self.overheads.into_iter().min();
        self.samples.sort();
        let samples = self.samples.into_iter();
        let samples = samples.map(|sample| sample.saturating_sub(overhead.unwrap_or_default()));
        let samples = match self.failure {
            Some(failure) => Err(failure),
            None => Ok(samples.collect()),
        };
        Outcome { name: self.name.to_owned(), overhead, samples }
    }

    fn wants_more(&self) -> bool {
        let (runs, spent) = (self.samples.len(), self.samples.iter().sum::<Duration>());
        let enough = if runs < FEWEST_RUNS { TOO_MUCH } else { ENOUGH };
        self.failure.is_none() && runs < MOST_RUNS && spent < enough
    }

    fn run_once(&mut self) {
        if let Err(error) = self.sample() {
            self.failure = Some(format!("{error:#}"));
        }
    }

    fn sample(&mut self) -> Result<()> {
        self.samples.push((self.run)()?);
        if let Some(nothing) = &mut self.nothing {
            self.overheads.push(nothing()?);
        }
        Ok(())
    }
}

impl Outcome {
    pub(crate) fn best(&self) -> Option<Duration> {
        self.samples.as_ref().ok()?.first().copied()
    }

    pub(crate) fn median(&self) -> Option<Duration> {
        let samples = self.samples.as_ref().ok()?;
        samples.get(samples.len() / 2).copied()
    }
}

/// Runs each contender once, again and again, until none wants more samples.
pub(crate) fn run_in_rounds(contenders: &mut [Contender<'_>]) {
    while contenders.iter().any(Contender::wants_more) {
        for contender in contenders.iter_mut().filter(|contender| contender.wants_more()) {
            contender.run_once();
        }
    }
}
