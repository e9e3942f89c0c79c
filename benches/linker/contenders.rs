//! Runs that are compared with each other.

use anyhow::Result;
use std::time::Duration;

const MOST_RUNS: usize = 30;
const FEWEST_RUNS: usize = 3;
/// A contender that has run for so long stops after [`FEWEST_RUNS`].
const ENOUGH: Duration = Duration::from_secs(3);
/// One that has run for so long stops at once.
const TOO_MUCH: Duration = Duration::from_secs(10);

/// One who links a workload again and again.
pub(crate) struct Contender<'a> {
    name: &'a str,
    run: Run<'a>,
    samples: Vec<Duration>,
    nothing: Option<Run<'a>>,
    overheads: Vec<Duration>,
    failure: Option<String>,
}

type Run<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

/// What became of a contender.
pub(crate) struct Outcome {
    pub(crate) name: String,
    /// What was taken off each sample.
    pub(crate) overhead: Option<Duration>,
    /// Sorted; or why there are none.
    pub(crate) samples: Result<Vec<Duration>, String>,
}

impl<'a> Contender<'a> {
    /// `run` links once and returns the time that it took.
    pub(crate) fn new(name: &'a str, run: impl FnMut() -> Result<Duration> + 'a) -> Self {
        let (run, samples, overheads) = (Box::new(run), Vec::new(), Vec::new());
        Self { name, run, samples, nothing: None, overheads, failure: None }
    }

    /// What `nothing` takes at best is taken off each sample. It has its turns as the contender has.
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

    fn round(&mut self) {
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

/// Lets everyone run once, again and again, until nobody wants more.
pub(crate) fn run_in_rounds(contenders: &mut [Contender<'_>]) {
    while contenders.iter().any(Contender::wants_more) {
        for contender in contenders.iter_mut().filter(|contender| contender.wants_more()) {
            contender.round();
        }
    }
}
