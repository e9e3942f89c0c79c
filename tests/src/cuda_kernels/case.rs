//! Launches of kernels, with the reference that computes the same.

use std::fmt;

/// Contents of a buffer or of a global.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) bytes: Vec<u8>,
    kind: Kind,
}

/// The comparison of a buffer with the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// All bytes are the same.
    Same,
    /// Numbers with a relative or absolute difference of at most the tolerance.
    Floats(f32),
    Doubles(f64),
    /// The same elements of 4 bytes, in any order.
    Unordered,
    /// Memory with any contents.
    Scratch,
}

/// An argument of a kernel.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    /// A value, as the bytes that the kernel receives.
    Value(Vec<u8>),
    /// A pointer to a new buffer.
    Buffer(Data),
    /// A pointer to the case's buffer with this index.
    At(usize),
    /// A structure whose last member points to a new buffer, which the bytes precede.
    Structure(Vec<u8>, Data),
    /// A structure whose last member points to the case's buffer with this index.
    StructureAt(Vec<u8>, usize),
}

/// The case's buffer with an index, as an argument.
pub(crate) struct At(pub(crate) usize);

impl From<At> for Given {
    fn from(at: At) -> Given {
        Given::At(at.0)
    }
}

/// A launch; its arguments are values, and indices of buffers.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) kernel: String,
    pub(crate) groups: [u32; 3],
    pub(crate) items: [u32; 3],
    pub(crate) shared_bytes: u64,
    pub(crate) is_cooperative: bool,
    pub(crate) arguments: Vec<Given>,
}

/// Launches in order, and the call of their reference.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) buffers: Vec<Data>,
    /// Globals: their contents before the launches.
    pub(crate) globals: Vec<(&'static str, Data)>,
    pub(crate) steps: Vec<Step>,
    pub(crate) reference: String,
    pub(crate) expected: Vec<Given>,
    /// Whether the case needs a heap, which AMD GPUs lack, or globals with addresses, which the
    /// double of CUDA does not set.
    pub(crate) only_on_cpu: bool,
    /// Whether items race with atomic operations of other items, or in writing the same value. Such
    /// kernels are common, and the checks report them.
    pub(crate) has_races: bool,
}

/// Sizes of a grid in one to three dimensions.
pub(crate) trait Sizes {
    fn sizes(self) -> [u32; 3];
}

impl Sizes for u32 {
    fn sizes(self) -> [u32; 3] {
        [self, 1, 1]
    }
}

impl Sizes for [u32; 2] {
    fn sizes(self) -> [u32; 3] {
        [self[0], self[1], 1]
    }
}

impl Sizes for [u32; 3] {
    fn sizes(self) -> [u32; 3] {
        self
    }
}

/// Makes a list of arguments: numbers, structures as arrays of bytes, buffers.
macro_rules! args {
    ($($argument:expr),* $(,)?) => { vec![$($crate::cuda_kernels::case::Given::from($argument)),*] };
}
pub(crate) use args;

macro_rules! values {
    ($($number:ty),*) => { $(
        impl From<$number> for Given {
            fn from(value: $number) -> Given {
                Given::Value(value.to_ne_bytes().to_vec())
            }
        }
    )* };
}
values!(f32, f64, i8, u8, i16, u16, i32, u32, i64, u64);

impl From<bool> for Given {
    fn from(value: bool) -> Given {
        Given::Value(vec![u8::from(value)])
    }
}

impl<const BYTES: usize> From<[u8; BYTES]> for Given {
    fn from(value: [u8; BYTES]) -> Given {
        Given::Value(value.to_vec())
    }
}

impl From<Data> for Given {
    fn from(data: Data) -> Given {
        Given::Buffer(data)
    }
}

/// Returns a case of one launch. The reference has the name of the kernel, without namespaces
/// and arguments of templates, and the same arguments.
pub(crate) fn case(
    kernel: &str,
    groups: impl Sizes,
    items: impl Sizes,
    arguments: Vec<Given>,
) -> Case {
    let plain = kernel.split('<').next().and_then(|name| name.rsplit("::").next());
    let mut case = Case {
        buffers: Vec::new(),
        globals: Vec::new(),
        steps: Vec::new(),
        reference: plain.expect("a name has a first part").to_owned(),
        expected: Vec::new(),
        only_on_cpu: false,
        has_races: false,
    };
    case = case.then(kernel, groups, items, arguments);
    case.expected = case.steps[0].arguments.clone();
    case
}

impl Case {
    /// Adds a launch after the others. Buffers among its arguments follow the case's.
    pub(crate) fn then(
        mut self,
        kernel: &str,
        groups: impl Sizes,
        items: impl Sizes,
        arguments: Vec<Given>,
    ) -> Case {
        let arguments = self.placed(arguments);
        self.steps.push(Step {
            kernel: kernel.to_owned(),
            groups: groups.sizes(),
            items: items.sizes(),
            shared_bytes: 0,
            is_cooperative: false,
            arguments,
        });
        self
    }

    /// Sets the bytes of dynamic shared memory of the last launch.
    pub(crate) fn shared(mut self, bytes: u64) -> Case {
        self.steps.last_mut().expect("a case has a launch").shared_bytes = bytes;
        self
    }

    /// Lets the blocks of the last launch wait for each other.
    pub(crate) fn cooperative(mut self) -> Case {
        self.steps.last_mut().expect("a case has a launch").is_cooperative = true;
        self
    }

    /// Sets the name of the reference.
    pub(crate) fn like(mut self, reference: &str) -> Case {
        reference.clone_into(&mut self.reference);
        self
    }

    /// Sets the reference and its arguments.
    pub(crate) fn expecting(mut self, reference: &str, arguments: Vec<Given>) -> Case {
        self.expected = self.placed(arguments);
        self.like(reference)
    }

    /// Sets a global of the program, and of the reference, before the launches.
    pub(crate) fn with_global(mut self, name: &'static str, data: Data) -> Case {
        self.globals.push((name, data));
        self
    }

    /// Leaves the case out on doubles.
    pub(crate) fn only_on_cpu(mut self) -> Case {
        self.only_on_cpu = true;
        self
    }

    /// Expects reports of races from the checks.
    pub(crate) fn with_races(mut self) -> Case {
        self.has_races = true;
        self
    }

    fn placed(&mut self, arguments: Vec<Given>) -> Vec<Given> {
        let place = |argument| match argument {
            Given::Buffer(data) => {
                self.buffers.push(data);
                Given::At(self.buffers.len() - 1)
            }
            Given::Structure(bytes, data) => {
                self.buffers.push(data);
                Given::StructureAt(bytes, self.buffers.len() - 1)
            }
            other => other,
        };
        arguments.into_iter().map(place).collect()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = &self.steps[0];
        write!(f, "{} in {:?} blocks of {:?}", first.kernel, first.groups, first.items)
    }
}

impl Data {
    fn same(bytes: impl IntoIterator<Item = u8>) -> Data {
        Data { bytes: bytes.into_iter().collect(), kind: Kind::Same }
    }

    /// Returns the data with another tolerance for its numbers.
    pub(crate) fn within(mut self, tolerance: f64) -> Data {
        self.kind = match self.kind {
            Kind::Floats(_) => Kind::Floats(tolerance as f32),
            Kind::Doubles(_) => Kind::Doubles(tolerance),
            other => panic!("{other:?} has no tolerance"),
        };
        self
    }

    /// Returns the data with its first words replaced by the least and the greatest integers.
    pub(crate) fn with_edges(mut self) -> Data {
        let edges = [0, u32::MAX, 1, i32::MAX as u32, i32::MIN as u32, 32, 0xff];
        let edges = edges.into_iter().flat_map(u32::to_ne_bytes);
        self.bytes.iter_mut().zip(edges).for_each(|(byte, edge)| *byte = edge);
        self
    }

    /// Returns the data as a set of words.
    pub(crate) fn unordered(mut self) -> Data {
        self.kind = Kind::Unordered;
        self
    }

    /// Returns the data as memory that is not compared.
    pub(crate) fn scratch(mut self) -> Data {
        self.kind = Kind::Scratch;
        self
    }

    /// Returns the first difference between a result and the expected contents.
    pub(crate) fn difference(&self, got: &[u8], expected: &[u8]) -> Option<String> {
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.chunks_exact(4).map(|it| u32::from_ne_bytes(it.try_into().unwrap())).collect()
        };
        match self.kind {
            Kind::Scratch => None,
            Kind::Same => first_difference(got, expected, |a, b| a == b),
            Kind::Unordered => {
                let [mut got, mut expected] = [got, expected].map(words);
                got.sort_unstable();
                expected.sort_unstable();
                first_difference(&got, &expected, |a, b| a == b)
            }
            Kind::Floats(tolerance) => {
                let floats = |bytes| words(bytes).into_iter().map(f32::from_bits).collect();
                let [got, expected]: [Vec<f32>; 2] = [got, expected].map(floats);
                first_difference(&got, &expected, |a, b| {
                    a == b || (a - b).abs() <= tolerance * b.abs().max(1.0)
                })
            }
            Kind::Doubles(tolerance) => {
                let double = |it: &[u8]| f64::from_ne_bytes(it.try_into().unwrap());
                let doubles = |bytes: &[u8]| bytes.chunks_exact(8).map(double).collect();
                let [got, expected]: [Vec<f64>; 2] = [got, expected].map(doubles);
                first_difference(&got, &expected, |a, b| {
                    a == b || (a - b).abs() <= tolerance * b.abs().max(1.0)
                })
            }
        }
    }
}

fn first_difference<T: fmt::Debug>(
    got: &[T],
    expected: &[T],
    same: impl Fn(&T, &T) -> bool,
) -> Option<String> {
    let at = got.iter().zip(expected).position(|(got, expected)| !same(got, expected))?;
    Some(format!("element {at}: {:?}, expected {:?}", got[at], expected[at]))
}

/// Returns the number of blocks of `items` items for `count` elements.
pub(crate) fn parts(count: u32, items: u32) -> u32 {
    count.div_ceil(items)
}

/// Returns the number of blocks that cover an area.
pub(crate) fn cover(size: [u32; 2], block: [u32; 2]) -> [u32; 2] {
    [parts(size[0], block[0]), parts(size[1], block[1])]
}

/// Returns numbers between 0 and `end` that are the same in each run.
fn random(count: u32, end: u32) -> impl Iterator<Item = u32> {
    let mut state = 12_345_u32;
    (0..count).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % end
    })
}

/// Returns words below `end`.
pub(crate) fn words(count: u32, end: u32) -> Data {
    Data::same(random(count, end).flat_map(u32::to_ne_bytes))
}

pub(crate) fn words_of(words: &[u32]) -> Data {
    Data::same(words.iter().flat_map(|word| word.to_ne_bytes()))
}

pub(crate) fn longs_of(words: &[u64]) -> Data {
    Data::same(words.iter().flat_map(|word| word.to_ne_bytes()))
}

pub(crate) fn bytes(count: u32, end: u32) -> Data {
    Data::same(random(count, end).map(|word| word as u8))
}

pub(crate) fn bytes_of(bytes: &[u8]) -> Data {
    Data::same(bytes.iter().copied())
}

/// Returns numbers from -1 to 2.
pub(crate) fn floats(count: u32) -> Data {
    floats_of(random(count, 3_000_000).map(|word| word as f32 / 1e6 - 1.0))
}

pub(crate) fn floats_of(numbers: impl IntoIterator<Item = f32>) -> Data {
    let bytes = numbers.into_iter().flat_map(f32::to_ne_bytes).collect();
    Data { bytes, kind: Kind::Floats(1e-4) }
}

pub(crate) fn doubles(count: u32) -> Data {
    doubles_of(random(count, 3_000_000).map(|word| f64::from(word) / 1e6 - 1.0))
}

pub(crate) fn doubles_of(numbers: impl IntoIterator<Item = f64>) -> Data {
    let bytes = numbers.into_iter().flat_map(f64::to_ne_bytes).collect();
    Data { bytes, kind: Kind::Doubles(1e-9) }
}

/// Returns words of 0.
pub(crate) fn zeros(count: u32) -> Data {
    Data::same(vec![0; 4 * count as usize])
}

pub(crate) fn zero_floats(count: u32) -> Data {
    floats_of(vec![0.0; count as usize])
}

pub(crate) fn zero_doubles(count: u32) -> Data {
    Data { bytes: vec![0; 8 * count as usize], kind: Kind::Doubles(1e-9) }
}
