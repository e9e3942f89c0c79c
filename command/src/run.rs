//! `longshore run`.

mod argument;
mod debugger;
mod element;
mod grid;
mod memory;
mod report;
mod supervised;
mod symbols;
mod tracking;

use crate::common::CommonOptions;
use crate::failure::{Exit, Failure};
use argument::{ArgumentSpec, Save};
use clap::{Args, ValueEnum};
use longshore::units;
use longshore::{Device, ErrorCode, Grid, Image, Kernel, LoadOptions, Program, Queue, SymbolKind};
use memory::Prepared;
use report::{Report, Times};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tracking::Tracking;

const ARGUMENT_HELP: &str = "\
Arguments, in the kernel's order, one --arg each. TYPE is u8, i8, u16, i16, u32, i32, u64, i64, f32
or f64. Quote arguments with brackets: some shells expand them.

  TYPE=VALUE            A number by value. Integers also as 0x2a; f32 and f64 also as inf and nan.
  ptr=null              A null pointer.
  TYPE[N]=CONTENTS      A pointer to N elements in the device's memory.
  out:TYPE[N]           The same, all zero, and printed after the run.
  out:TYPE[N]=CONTENTS  The same, and printed after the run.

  CONTENTS is one of:
    zero, one           All elements 0 or 1.
    iota                0, 1, 2, ... (wrapping around in small types).
    VALUE               All elements VALUE.
    V0,V1,...           These values. N may be left out: f32[]=1,2.5
    @FILE               The file's bytes, little endian. N may be left out: f32[]=@x.bin

Examples:
  longshore run saxpy.so --list
  longshore run saxpy.so --kernel saxpy --groups 8 --items 128 \\
      --arg u64=1024 --arg f32=2.5 --arg 'f32[1024]=iota' --arg 'out:f32[1024]=one'
  longshore run sum.ptx -k sum -g 16,16 -i 8,8 -a 'f32[]=@in.bin' -a 'out:f32[256]' \\
      --save 1=sums.bin -n 100";

/// A kind of errors of kernels. The variable `LONGSHORE_HOST_CHECK` has the same names.
#[derive(Clone, Copy, ValueEnum)]
enum CheckKind {
    Memory,
    Races,
    Initialized,
    Barriers,
    All,
}

/// Run a kernel of a device image
#[derive(Args)]
#[command(after_help = ARGUMENT_HELP)]
pub(crate) struct Run {
    /// The device image: a shared object, PTX, cubin, code object, SPIR-V, ...
    image: PathBuf,
    /// The kernel's name; required if the image has several kernels
    #[arg(long, short, value_name = "NAME")]
    kernel: Option<String>,
    /// One argument of the kernel, see below; repeat the option for each
    #[arg(long = "arg", short, value_name = "ARGUMENT", value_parser = argument::parse)]
    arguments: Vec<ArgumentSpec>,
    /// Pass arguments even if the image declares another kind of the same size, such as an integer
    /// for a float
    #[arg(long)]
    unchecked: bool,
    /// Work-groups: X, X,Y or X,Y,Z
    #[arg(long, short, value_name = "X,Y,Z", default_value = "1,1,1", value_parser = grid::parse)]
    groups: [u32; 3],
    /// Work-items per group: X, X,Y or X,Y,Z; by default as many as the kernel requires, else 1
    #[arg(long, short, value_name = "X,Y,Z", value_parser = grid::parse)]
    items: Option<[u32; 3]>,
    /// Dynamic shared memory per group, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    shared: u64,
    /// Look for errors of these kinds, separated by commas; without a value, for all. For images
    /// made by `longshore cc --check`, on a CPU
    #[arg(long, value_name = "KINDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "all", value_delimiter = ',')]
    check: Vec<CheckKind>,
    /// Run all groups at once, so that they can wait for each other
    #[arg(long)]
    cooperative: bool,
    /// Link each part of the image at its first call, if the device can: relocatable objects and
    /// archives on the CPU
    #[arg(long)]
    lazy: bool,
    /// The device, such as "cuda:1"; by default the first of `longshore devices` that takes the
    /// image
    #[arg(long, short, value_name = "DEVICE")]
    device: Option<String>,
    /// Run the kernel N times and print the times; `out:` buffers are reset before each run
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Give up, with exit code 1, when a run of the kernel takes longer than SECONDS
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// Write argument INDEX, a buffer, to FILE after the run; arguments count from 0
    #[arg(long, short, value_name = "INDEX=FILE", value_parser = argument::parse_save)]
    save: Vec<Save>,
    /// Print all elements of the `out:` buffers, not only the first
    #[arg(long)]
    full: bool,
    /// Print the results, all elements, as JSON
    #[arg(long)]
    json: bool,
    /// Run under gdb: stop at the kernel's first item, with the commands `longshore ...` (see `help
    /// longshore` in gdb)
    #[arg(long, conflicts_with = "list")]
    gdb: bool,
    #[command(flatten)]
    tracking: Tracking,
    /// List the image's kernels and globals without running any
    #[arg(long, conflicts_with_all = ["kernel", "arguments", "repeat", "save", "full", "timeout",
          "unchecked", "memory_report", "memory_timeline"])]
    list: bool,
}

impl Run {
    /// Runs in a child process, and returns the exit code. A run that did not finish never returns
    /// the code of success.
    pub(crate) fn supervised(&self, common: &CommonOptions) -> ExitCode {
        if self.gdb {
            return self.under_gdb(common).report();
        }
        supervised::supervised(|| self.execute(common))
    }

    fn execute(&self, common: &CommonOptions) -> Result<(), Failure> {
        self.check_saves()?;
        let image = Image::read(&self.image)?;
        let device = common.open(
            self.device.as_deref(),
            &image,
            self.tracking.is_wanted(),
            self.checks().as_deref(),
        )?;
        let start = Instant::now();
        // SAFETY: the user has named the image in order to run it, and vouches for its code.
        let program =
            unsafe { device.load_with(image, &LoadOptions::new().with_lazy_linking(self.lazy))? };
        let load = start.elapsed();
        match (self.list, &self.kernel) {
            (true, _) => symbols::print(&program, self.json)?,
            (false, Some(name)) => self.run_and_report(&device, &program, name, load)?,
            (false, None) => {
                self.run_and_report(&device, &program, &self.only_kernel(&program)?, load)?;
            }
        }
        let unloaded = program.unload()?;
        if let Some(file) = unloaded.profile_file {
            log::info!("the profile is in '{}'", file.display());
        }
        Ok(())
    }

    /// Returns the value of `LONGSHORE_HOST_CHECK` for `--check`; `None` without the option.
    fn checks(&self) -> Option<String> {
        let names = self.check.iter().filter_map(ValueEnum::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// Returns the name of the image's only kernel.
    fn only_kernel(&self, program: &Program) -> Result<String, Failure> {
        let symbols = program.symbols()?.into_iter();
        let mut kernels: Vec<_> =
            symbols.filter(|(_, kind)| *kind == SymbolKind::Kernel).map(|(name, _)| name).collect();
        match kernels.len() {
            1 => {
                let symbol = kernels.remove(0);
                Ok(longshore::source_name(&symbol).unwrap_or(symbol))
            }
            0 => {
                Err(Failure::new(Exit::Usage, "--kernel is missing, and the image shows no kernel")
                    .or_hint(self.hint_for_missing(program)))
            }
            count => {
                let message = format!("--kernel is missing, and the image has {count} kernels");
                Err(Failure::new(Exit::Usage, message).or_hint(self.hint_for_missing(program)))
            }
        }
    }

    /// Checks that each saved argument exists and is a buffer.
    fn check_saves(&self) -> Result<(), Failure> {
        for Save { argument, .. } in &self.save {
            let problem = match self.arguments.get(*argument) {
                Some(ArgumentSpec::Buffer(_)) => continue,
                Some(_) => "is not a buffer",
                None => "does not exist",
            };
            let message = format!("--save {argument}=...: argument {argument} {problem}");
            return Err(Failure::new(Exit::Usage, message)
                .or_hint("arguments count from 0, in the order of the --arg options"));
        }
        Ok(())
    }

    /// Runs the kernel, and prints the results and the memory reports; the latter even if the run
    /// fails.
    fn run_and_report(
        &self,
        device: &Device,
        program: &Program,
        name: &str,
        load: Duration,
    ) -> Result<(), Failure> {
        let ran = self.run(device, program, name, load);
        if self.json
            && let Ok(mut report) = ran
        {
            report.memory = self.tracking.report_as_json(device)?;
            return report.print_json();
        }
        let printed = self.tracking.print_reports(device);
        ran?.print(self.full)?;
        printed
    }

    fn run<'a>(
        &self,
        device: &Device,
        program: &Program,
        name: &'a str,
        load: Duration,
    ) -> Result<Report<'a>, Failure> {
        let kernel = self.find(program, name)?;
        let queue = device.queue()?;
        let mut prepared = Prepared::new(&self.arguments, device, &queue)?;
        if self.unchecked {
            prepared = prepared.untyped();
        }
        let run = self.launch_all(&kernel, &queue, &prepared)?;
        for Save { argument, file } in &self.save {
            prepared.save(*argument, &queue, file)?;
        }
        Ok(Report {
            device: device.name(),
            kernel: name,
            groups: self.groups,
            items: self.items(&kernel),
            times: Times::new(load, run),
            outputs: prepared.outputs(&queue)?,
            memory: None,
        })
    }

    fn find(&self, program: &Program, name: &str) -> Result<Kernel, Failure> {
        program.kernel(name).map_err(|error| {
            let not_there = error.code() == ErrorCode::NotFound;
            let failure = Failure::from(error);
            if !not_there {
                return failure;
            }
            failure.or_hint(self.hint_for_missing(program))
        })
    }

    fn items(&self, kernel: &Kernel) -> [u32; 3] {
        self.items.unwrap_or_else(|| kernel.attributes().required_group.map(|items| items.max(1)))
    }

    fn hint_for_missing(&self, program: &Program) -> String {
        let symbols = program.symbols().unwrap_or_default();
        if symbols.iter().any(|(_, kind)| *kind == SymbolKind::Kernel) {
            let image = self.image.display();
            return format!("`longshore run {image} --list` shows the image's kernels");
        }
        "the image shows no kernel: export its kernels".to_owned()
    }

    /// Runs the kernel `--repeat` times. Returns the time of each run, from the launch until the
    /// kernel is done.
    fn launch_all(
        &self,
        kernel: &Kernel,
        queue: &Queue,
        prepared: &Prepared<'_>,
    ) -> Result<Vec<Duration>, Failure> {
        let items = self.items(kernel);
        let grid = grid::build(self.groups, items, self.shared, self.cooperative);
        let mut times = Vec::new();
        for _ in 0..self.repeat {
            prepared.reset(queue)?;
            let start = Instant::now();
            self.launch(kernel, grid, queue, prepared)?;
            times.push(start.elapsed());
        }
        Ok(times)
    }

    /// Runs the kernel once. When the time limit expires, the process ends: a running kernel cannot
    /// be stopped, and closing its device would wait for it.
    fn launch(
        &self,
        kernel: &Kernel,
        grid: Grid,
        queue: &Queue,
        prepared: &Prepared<'_>,
    ) -> Result<(), Failure> {
        let Some(limit) = self.timeout else {
            return prepared.launch_and_wait(kernel, grid, queue);
        };
        prepared.launch(kernel, grid, queue)?;
        if !queue.synchronize_for(limit)? {
            let limit = units::duration(limit);
            let message = format!("{} still runs after {limit}", kernel.name());
            let failure = Failure::new(Exit::Runtime, message)
                .or_hint("--timeout SECONDS sets the time limit of a run");
            supervised::end_process(&failure);
        }
        Ok(())
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse()
        .map_err(|_| format!("'{text}' is not a number of seconds; expected one such as 0.5"))?;
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| {
        format!("{text} seconds are out of range; expected more than 0 and less than 1e19")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_a_positive_number_of_seconds() {
        assert_eq!(parse_seconds("0.25"), Ok(Duration::from_millis(250)));
        for wrong in ["", "0", "-1", "1e30", "nan", "inf", "2s"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }
}
