//! Checks of random kernels, some of which have races: the check must find a race if, and only if,
//! there is one.
//!
//! `LONGSHORE_RANDOM_CHECKS` is the number of kernels, and `LONGSHORE_RANDOM_SEED` the first one's
//! seed.

use longshore::{Grid, Image};
use longshore_conformance::TrustedImages;
use longshore_tests::device_code::{Workshop, threads};
use longshore_tests::effort;
use longshore_tests::random_kernels::Random;
use longshore_tests::world::command;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

/// Number of elements of the shared array and of the buffer.
const ELEMENTS: i64 = 512;
/// Number of kernels in an image.
const BATCH: u64 = 40;

/// The index of an element, in terms of the item's place and the rounds of a loop.
struct Index {
    by_round: i64,
    by_column: i64,
    by_row: i64,
    start: i64,
    rounds: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    Both,
}

/// The items that take part.
#[derive(Clone, Copy)]
enum Part {
    All,
    Row(i64),
    Below(i64),
    NotFirst,
}

/// A step of a kernel: accesses by its items, or a barrier.
enum Step {
    Accesses { index: Index, access: Access, part: Part, is_shared: bool },
    Barrier,
}

/// A kernel, for groups of `columns` by `rows` items.
struct Kernel {
    seed: u64,
    element: &'static str,
    columns: i64,
    rows: i64,
    groups: i64,
    steps: Vec<Step>,
}

#[test]
fn races_of_random_kernels_are_found_and_no_others() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let usual = if effort::is_all() { 2000 } else { 60 };
    let count = number("LONGSHORE_RANDOM_CHECKS").unwrap_or(usual);
    let first = number("LONGSHORE_RANDOM_SEED").unwrap_or(0);
    let environment = threads(1).with("LONGSHORE_HOST_CHECK", "all");
    let workshop = Workshop::new();
    let device = workshop.device(environment);
    let queue = device.queue().unwrap();
    let mut races = 0;
    for begin in (first..first + count).step_by(BATCH as usize) {
        let seeds = begin..(begin + BATCH).min(first + count);
        let kernels: Vec<Kernel> = seeds.map(Kernel::from_seed).collect();
        let level = ["-O1", "-O2", "-O3"][(begin / BATCH % 3) as usize];
        let program = device.load_trusted(image(&kernels, level)).unwrap();
        for kernel in &kernels {
            let name = kernel.name();
            let launched = program.kernel(&name).unwrap();
            let items = (kernel.groups * kernel.columns * kernel.rows) as usize;
            let shape = [kernel.columns as u32, kernel.rows as u32, 1];
            let grid = Grid::new([kernel.groups as u32, 1, 1], shape);
            let buffer = device.buffer_of(&queue, &[0_u64; ELEMENTS as usize]).unwrap();
            let results = device.buffer_of(&queue, &vec![0_u64; items]).unwrap();
            // SAFETY: the kernel accesses elements of its buffers alone.
            let result = unsafe {
                queue.launch_and_wait(&launched, grid, (buffer.pointer(), results.pointer()))
            };
            let said = result.err().map(|error| error.to_string()).unwrap_or_default();
            let expected = kernel.has_race();
            races += u64::from(expected);
            let is_right = said.is_empty() != expected && (!expected || said.contains("race: "));
            assert!(is_right, "{name}, {level}: race {expected}\n{}\n{said}", kernel.source());
        }
    }
    println!("{races} of {count} kernels have races");
    assert!(races > count / 4 && races < count, "{races} of {count} kernels have races");
}

/// Compiles kernels.
fn image(kernels: &[Kernel], level: &str) -> Image {
    let folder = tempfile::tempdir().unwrap();
    let [source, image] = ["k.c", "k.img"].map(|name| folder.path().join(name));
    let text: String = kernels.iter().map(Kernel::source).collect();
    std::fs::write(&source, format!("#include <longshore_device.h>\n{text}")).unwrap();
    let mut compile = Command::new(command());
    compile.args(["cc", "--check", level, "--clang", "clang-19"]).arg(source).arg("-o").arg(&image);
    let output = compile.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Image::read(image).unwrap()
}

impl Index {
    fn random(random: &mut Random, (columns, rows): (i64, i64), has_loop: bool) -> Index {
        loop {
            let by_round = match has_loop {
                true => random.choice(&[0, 1, columns, columns, 2 * columns, 3, columns * rows]),
                false => 0,
            };
            let by_column = random.choice(&[1, 1, 1, 1, -1, 0, 2, columns, rows]);
            let by_row = random.choice(&[0, columns, columns, 1, 2 * columns, 16]);
            let start = random.choice(&[0, 0, 0, 1, 5, columns, columns - 1]);
            let rounds = if has_loop { random.choice(&[2, 4, 7, 8, 16]) } else { 1 };
            let index = Index { by_round, by_column, by_row, start, rounds };
            let ends = [0, columns - 1].map(|column| {
                [0, rows - 1].map(|row| [0, rounds - 1].map(|round| index.at(round, column, row)))
            });
            if ends.as_flattened().as_flattened().iter().all(|at| (0..ELEMENTS).contains(at)) {
                return index;
            }
        }
    }

    fn at(&self, round: i64, column: i64, row: i64) -> i64 {
        self.by_round * round + self.by_column * column + self.by_row * row + self.start
    }
}

impl Part {
    fn has(self, column: i64, row: i64) -> bool {
        match self {
            Part::All => true,
            Part::Row(one) => row == one,
            Part::Below(end) => column < end,
            Part::NotFirst => column > 0,
        }
    }

    fn condition(self) -> String {
        match self {
            Part::All => String::new(),
            Part::Row(row) => format!("if (y == {row}) "),
            Part::Below(end) => format!("if (x < {end}) "),
            Part::NotFirst => "if (x > 0) ".to_owned(),
        }
    }
}

impl Kernel {
    fn from_seed(seed: u64) -> Kernel {
        let random = &mut Random::new(seed);
        let (columns, rows) = (random.choice(&[4, 8, 16, 32]), random.choice(&[1, 2, 3, 4]));
        let has_buffer = random.percent(35);
        let mut steps = Vec::new();
        for _ in 0..random.within(2, 7) {
            let access = random.choice(&[Access::Read, Access::Read, Access::Write, Access::Both]);
            let has_loop = access == Access::Read || random.percent(50);
            let part = match random.below(7) {
                0 => Part::Row(random.below(rows as usize) as i64),
                1 => Part::Below(random.below(columns as usize) as i64 + 1),
                2 => Part::NotFirst,
                _ => Part::All,
            };
            let index = Index::random(random, (columns, rows), has_loop);
            let is_shared = !has_buffer || random.percent(65);
            steps.push(Step::Accesses { index, access, part, is_shared });
            if random.percent(60) {
                steps.push(Step::Barrier);
            }
        }
        Kernel {
            seed,
            element: random.choice(&["float", "double", "uint32_t"]),
            columns,
            rows,
            groups: random.choice(&[1, 1, 2, 3]),
            steps,
        }
    }

    fn name(&self) -> String {
        format!("kernel_{}", self.seed)
    }

    fn source(&self) -> String {
        let Kernel { element, columns, rows, .. } = self;
        let mut text = format!(
            "LONGSHORE_KERNEL({}, ({element} *buffer, {element} *results)) {{
  LONGSHORE_SHARED({element}, shared, [{ELEMENTS}]);
  uint32_t x = longshore_item_id(0), y = longshore_item_id(1);
  for (uint32_t i = {columns} * y + x; i < {ELEMENTS}; i += {columns} * {rows}) shared[i] = i;
  longshore_barrier();
  {element} sum = 0;
",
            self.name()
        );
        for step in &self.steps {
            let Step::Accesses { index, access, part, is_shared } = step else {
                text += "  longshore_barrier();\n";
                continue;
            };
            let Index { by_round, by_column, by_row, start, rounds } = index;
            let sign = if *by_column < 0 { '-' } else { '+' };
            let by_column = by_column.abs();
            let array = if *is_shared { "shared" } else { "buffer" };
            let at =
                format!("{array}[{by_round} * k + {by_row} * y + {start} {sign} {by_column} * x]");
            let statement = match access {
                Access::Read => format!("sum += {at}"),
                Access::Write => format!("{at} = sum"),
                Access::Both => format!("{at} += 1"),
            };
            let condition = part.condition();
            writeln!(text, "  {condition}for (uint32_t k = 0; k < {rounds}; ++k) {statement};")
                .unwrap();
        }
        let item = format!("({columns} * ({rows} * longshore_group_id(0) + y) + x)");
        writeln!(text, "  results[{item}] = sum;\n}}").unwrap();
        text
    }

    /// Returns whether two items, of which one writes, access the same element without a barrier
    /// between them.
    fn has_race(&self) -> bool {
        // The accesses of each element: group, number of barriers before, item, and whether it is a
        // write. Groups have shared arrays of their own.
        type Accesses = BTreeSet<(i64, usize, (i64, i64), bool)>;
        let mut all: BTreeMap<(Option<i64>, i64), Accesses> = BTreeMap::new();
        let mut barriers = 0;
        for step in &self.steps {
            let Step::Accesses { index, access, part, is_shared } = step else {
                barriers += 1;
                continue;
            };
            for group in 0..self.groups {
                for (column, row) in
                    (0..self.rows).flat_map(|row| (0..self.columns).map(move |it| (it, row)))
                {
                    for round in (0..index.rounds).filter(|_| part.has(column, row)) {
                        let at = index.at(round, column, row);
                        let accesses = all.entry((is_shared.then_some(group), at)).or_default();
                        let item = (group, barriers, (column, row));
                        if *access != Access::Write {
                            accesses.insert((item.0, item.1, item.2, false));
                        }
                        if *access != Access::Read {
                            accesses.insert((item.0, item.1, item.2, true));
                        }
                    }
                }
            }
        }
        all.values().any(|accesses| {
            let mut writes = accesses.iter().filter(|(.., writes)| *writes);
            writes.any(|(group, barriers, item, _)| {
                accesses.iter().any(|(other, others, other_item, _)| {
                    group != other || barriers == others && item != other_item
                })
            })
        })
    }
}
