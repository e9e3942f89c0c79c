//! Arguments of a launch, with buffers in the memory of a device.

use super::argument::{ArgumentSpec, BufferSpec, Contents};
use super::element::ElementType;
use super::report::Output;
use crate::failure::{Exit, Failure};
use longshore::{
    Allocation, ArgumentKind, ArgumentType, Device, Error, Grid, Kernel, MemoryKind, Queue,
    RawArguments, read_at_most,
};
use std::ffi::c_void;
use std::io::ErrorKind;
use std::path::Path;

/// Alignment of buffers in bytes, enough for any vector type of a kernel.
const ALIGNMENT_BYTES: u64 = 256;

/// The arguments of a launch, their buffers allocated and filled.
pub(super) struct Prepared<'a> {
    arguments: Vec<Argument<'a>>,
    types: Vec<ArgumentType>,
}

enum Argument<'a> {
    /// The value in the low bytes of the word, and its size in bytes.
    Value {
        word: u64,
        bytes: usize,
    },
    Buffer(DeviceBuffer<'a>),
}

struct DeviceBuffer<'a> {
    spec: &'a BufferSpec,
    initial: Vec<u8>,
    allocation: Allocation,
}

impl<'a> Prepared<'a> {
    /// Allocates and fills the buffers. Blocks until they are filled.
    pub(super) fn new(
        specs: &'a [ArgumentSpec],
        device: &Device,
        queue: &Queue,
    ) -> Result<Prepared<'a>, Failure> {
        let prepare = |(index, spec)| match spec {
            &ArgumentSpec::Null => Ok(Argument::Value { word: 0, bytes: size_of::<u64>() }),
            &ArgumentSpec::Scalar(value) => {
                let mut bytes = Vec::new();
                value.append_to(&mut bytes);
                bytes.resize(size_of::<u64>(), 0);
                let word = bytes.try_into().map(u64::from_le_bytes).expect("resized to a word");
                Ok(Argument::Value { word, bytes: value.element().size() })
            }
            ArgumentSpec::Buffer(spec) => {
                DeviceBuffer::new(spec, index, device, queue).map(Argument::Buffer)
            }
        };
        let arguments = specs.iter().enumerate().map(prepare).collect::<Result<_, _>>()?;
        Ok(Prepared { arguments, types: specs.iter().map(type_of).collect() })
    }

    /// Replaces the arguments' types by unknown ones, which match any declared type.
    pub(super) fn untyped(mut self) -> Prepared<'a> {
        self.types.fill(ArgumentType::UNKNOWN);
        self
    }

    /// Restores the outputs' contents from before the first run. Blocks.
    pub(super) fn reset(&self, queue: &Queue) -> Result<(), Failure> {
        self.buffers()
            .filter(|(_, buffer)| buffer.spec.output)
            .try_for_each(|(_, buffer)| buffer.fill(queue))
    }

    /// Runs the kernel and blocks until it is done.
    pub(super) fn launch_and_wait(
        &self,
        kernel: &Kernel,
        grid: Grid,
        queue: &Queue,
    ) -> Result<(), Failure> {
        self.with_arguments(|arguments| {
            // SAFETY: by running the command, the user guarantees that the kernel takes these
            // arguments and stays within them; the buffers live until after the kernel is done.
            let ran = unsafe { queue.launch_and_wait(kernel, grid, arguments) };
            ran.map_err(|error| self.with_argument_numbers(error))
        })
    }

    /// Queues the kernel. The queue must be idle before `self` is dropped.
    pub(super) fn launch(&self, kernel: &Kernel, grid: Grid, queue: &Queue) -> Result<(), Failure> {
        self.with_arguments(|arguments| {
            // SAFETY: as in `launch_and_wait`; the caller waits for the queue before it drops the
            // buffers.
            unsafe { queue.launch(kernel, grid, arguments) }
        })
    }

    /// Returns an error that names buffers by their arguments, in place of their allocating call.
    fn with_argument_numbers(&self, error: Error) -> Error {
        let mut message = error.message().to_owned();
        for (argument, buffer) in self.buffers() {
            let address = buffer.allocation.pointer().address();
            let origin = format!(" at {address:#x}, made at ");
            while let Some(begin) = message.find(&origin) {
                let rest = &message[begin + origin.len()..];
                let end = rest.find([',', ';', ' ']).unwrap_or(rest.len());
                let end = begin + origin.len() + end;
                message
                    .replace_range(begin..end, &format!(" at {address:#x}, argument {argument}"));
            }
        }
        if message == error.message() {
            return error;
        }
        let named = Error::new(error.code(), message);
        match error.vendor() {
            Some(vendor) => named.with_vendor(vendor.name.as_str(), vendor.number),
            None => named,
        }
    }

    /// Returns the current contents of the `out:` buffers. Blocks.
    pub(super) fn outputs(&self, queue: &Queue) -> Result<Vec<Output>, Failure> {
        let outputs = self.buffers().filter(|(_, buffer)| buffer.spec.output);
        outputs
            .map(|(argument, buffer)| {
                let element = buffer.spec.element;
                let bytes = buffer.read(queue)?;
                let values = bytes.chunks_exact(element.size());
                let values = values.filter_map(|bytes| element.decode(bytes)).collect();
                Ok(Output { argument, element: element.name(), values })
            })
            .collect()
    }

    /// Writes the current contents of a buffer to a file. Blocks.
    pub(super) fn save(&self, argument: usize, queue: &Queue, file: &Path) -> Result<(), Failure> {
        let mut buffers = self.buffers();
        let Some((_, buffer)) = buffers.find(|(index, _)| *index == argument) else {
            return Ok(());
        };
        std::fs::write(file, buffer.read(queue)?).map_err(|error| {
            let message =
                format!("cannot write argument {argument} to '{}': {error}", file.display());
            Failure::new(Exit::Runtime, message)
        })
    }

    fn with_arguments(
        &self,
        launch: impl FnOnce(RawArguments<'_>) -> longshore::Result<()>,
    ) -> Result<(), Failure> {
        let words: Vec<(u64, usize)> = self.arguments.iter().map(Argument::word).collect();
        let pointers: Vec<*const c_void> =
            words.iter().map(|(word, _)| (&raw const *word).cast()).collect();
        let sizes: Vec<usize> = words.iter().map(|(_, bytes)| *bytes).collect();
        // SAFETY: each pointer is to a word of 8 bytes that lives until the end of this function,
        // and no size is above 8 bytes.
        let arguments = unsafe { RawArguments::new(&pointers, &sizes)? };
        let arguments = arguments.with_types(&self.types)?;
        Ok(launch(arguments)?)
    }

    fn buffers(&self) -> impl Iterator<Item = (usize, &DeviceBuffer<'a>)> {
        self.arguments.iter().enumerate().filter_map(|(index, argument)| match argument {
            Argument::Buffer(buffer) => Some((index, buffer)),
            Argument::Value { .. } => None,
        })
    }
}

/// Returns the type of an argument on the command line.
fn type_of(spec: &ArgumentSpec) -> ArgumentType {
    match spec {
        ArgumentSpec::Null => ArgumentType::new(ArgumentKind::Pointer),
        ArgumentSpec::Scalar(value) => ArgumentType::new(value.element().kind()),
        ArgumentSpec::Buffer(BufferSpec { element, .. }) => {
            ArgumentType::pointer_to(element.kind(), element.size() as u16)
        }
    }
}

impl Argument<'_> {
    fn word(&self) -> (u64, usize) {
        match self {
            Argument::Value { word, bytes } => (*word, *bytes),
            Argument::Buffer(buffer) => (buffer.allocation.pointer().address(), size_of::<u64>()),
        }
    }
}

impl<'a> DeviceBuffer<'a> {
    fn new(
        spec: &'a BufferSpec,
        index: usize,
        device: &Device,
        queue: &Queue,
    ) -> Result<DeviceBuffer<'a>, Failure> {
        let named = |why| Failure::new(Exit::Runtime, format!("argument {index}: {why}"));
        let initial = bytes_of(&spec.contents, spec.element).map_err(named)?;
        let bytes = initial.len() as u64;
        let allocation = device
            .allocate(MemoryKind::Device, bytes, ALIGNMENT_BYTES)
            .map_err(|error| error.context(format_args!("argument {index}")))?;
        let buffer = DeviceBuffer { spec, initial, allocation };
        buffer.fill(queue)?;
        Ok(buffer)
    }

    fn fill(&self, queue: &Queue) -> Result<(), Failure> {
        let (to, bytes) = (self.allocation.pointer(), self.initial.len() as u64);
        // SAFETY: both ends belong to `self`, which is borrowed until `synchronize` returns.
        unsafe { queue.copy_from_host(to, self.initial.as_ptr().cast(), bytes)? };
        Ok(queue.synchronize()?)
    }

    fn read(&self, queue: &Queue) -> Result<Vec<u8>, Failure> {
        let mut read = vec![0; self.initial.len()];
        let (from, bytes) = (self.allocation.pointer(), read.len() as u64);
        // SAFETY: `read` and the allocation live until `synchronize` returns.
        unsafe { queue.copy_to_host(read.as_mut_ptr().cast(), from, bytes)? };
        queue.synchronize()?;
        Ok(read)
    }
}

/// Returns the contents of a buffer before a run; the error is a message.
fn bytes_of(contents: &Contents, element: ElementType) -> Result<Vec<u8>, String> {
    match contents {
        Contents::Iota { len } => {
            let mut bytes = reserve(*len, element)?;
            (0..*len as u64).for_each(|index| element.natural(index).append_to(&mut bytes));
            Ok(bytes)
        }
        Contents::Fill { len, value } => {
            let mut bytes = reserve(*len, element)?;
            (0..*len).for_each(|_| value.append_to(&mut bytes));
            Ok(bytes)
        }
        Contents::List(values) => {
            let mut bytes = reserve(values.len(), element)?;
            values.iter().for_each(|value| value.append_to(&mut bytes));
            Ok(bytes)
        }
        Contents::File { len, path } => read_file(path, *len, element),
    }
}

fn reserve(len: usize, element: ElementType) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let size = len * element.size();
    let reserved = bytes.try_reserve_exact(size);
    reserved.map_err(|_| format!("cannot allocate {size} bytes for its contents"))?;
    Ok(bytes)
}

fn read_file(path: &Path, len: Option<usize>, element: ElementType) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let (name, size) = (element.name(), element.size());
    let most = len.map_or(isize::MAX as u64, |len| len.saturating_mul(size) as u64);
    let bytes = read_at_most(path, most).map_err(|error| match (error.kind(), len) {
        (ErrorKind::FileTooLarge, Some(len)) => {
            format!("'{shown}': {error}, the size of {name}[{len}]")
        }
        _ => format!("cannot read '{shown}': {error}"),
    })?;
    let has = bytes.len();
    match len {
        Some(len) if has != len * size => {
            let expected = len * size;
            Err(format!("'{shown}' has {has} bytes, expected {expected} for {name}[{len}]"))
        }
        None if has == 0 || has % size != 0 => Err(format!(
            "'{shown}' has {has} bytes, expected a multiple of {size} for {name}[], not 0"
        )),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::element::Value;

    #[test]
    fn contents_become_little_endian_bytes() {
        let bytes = |contents| bytes_of(&contents, ElementType::U16);
        assert_eq!(bytes(Contents::Iota { len: 3 }), Ok(vec![0, 0, 1, 0, 2, 0]));
        let value = Value::U16(0x1234);
        assert_eq!(bytes(Contents::Fill { len: 2, value }), Ok(vec![0x34, 0x12, 0x34, 0x12]));
        assert_eq!(bytes(Contents::List(vec![value])), Ok(vec![0x34, 0x12]));
    }

    #[test]
    fn a_files_size_must_fit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1, 2, 3, 4]).unwrap();
        let read =
            |len, element| bytes_of(&Contents::File { len, path: file.path().to_owned() }, element);
        assert_eq!(read(None, ElementType::U16), Ok(vec![1, 2, 3, 4]));
        assert_eq!(read(Some(1), ElementType::F32), Ok(vec![1, 2, 3, 4]));
        assert!(read(Some(3), ElementType::U16).unwrap_err().ends_with("expected 6 for u16[3]"));
        let too_large = read(Some(3), ElementType::U8).unwrap_err();
        assert!(too_large.ends_with("it has 4 bytes, expected at most 3, the size of u8[3]"));
        assert!(read(None, ElementType::F64).unwrap_err().contains("expected a multiple of 8"));
        let missing = Contents::File { len: None, path: "/nonexistent".into() };
        assert!(bytes_of(&missing, ElementType::U8).unwrap_err().starts_with("cannot read '/none"));
    }

    #[test]
    fn a_size_that_no_process_has_is_an_error() {
        let contents = Contents::Iota { len: isize::MAX as usize };
        assert!(bytes_of(&contents, ElementType::U8).unwrap_err().contains("cannot allocate"));
    }
}
