//! The report on a file.

use longshore_plugin_api::{ArgumentKind, KernelForm};
use serde::Serialize;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Room for names in the reports of a file, shared by all its images. Names in an object may
/// overlap, so that together they are much larger than the file.
pub(super) struct NameBudget(Cell<usize>);

/// Total bytes of all names and their entries.
const MOST_BYTES_NAMED: usize = 64 << 20;
/// Bytes of a name's entry, without the name.
const BYTES_BESIDE_NAME: usize = 512;

impl Default for NameBudget {
    fn default() -> NameBudget {
        NameBudget(Cell::new(MOST_BYTES_NAMED))
    }
}

impl NameBudget {
    /// Reserves room for a name, and returns whether there is any. After the first failure every
    /// call fails.
    fn take(&self, name: &str) -> bool {
        let left = self.0.get().checked_sub(name.len().saturating_add(BYTES_BESIDE_NAME));
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// A file, and the images in it.
#[derive(Serialize)]
pub(super) struct FileReport {
    pub(super) file: String,
    pub(super) format: String,
    pub(super) bytes: usize,
    /// Whether the file holds images for several targets.
    pub(super) container: bool,
    /// Reason for which a container cannot be opened.
    pub(super) problem: Option<String>,
    pub(super) images: Vec<ImageReport>,
}

/// A container's facts about an image.
#[derive(Serialize)]
pub(super) struct EntryReport {
    pub(super) offload_kind: String,
    pub(super) image_kind: String,
    pub(super) triple: String,
    pub(super) arch: String,
    pub(super) properties: BTreeMap<String, String>,
}

/// An image. Facts that its format lacks are empty.
#[derive(Serialize)]
pub(super) struct ImageReport {
    /// The container's facts, for an image in a container.
    pub(super) entry: Option<EntryReport>,
    /// Name of the member, for an image in an archive.
    pub(super) member: Option<String>,
    pub(super) format: String,
    pub(super) bytes: usize,
    /// The architecture, such as "x86_64", "gfx90a:xnack+" or "sm_90".
    pub(super) architecture: Option<String>,
    /// Further facts by name, such as PTX's version.
    pub(super) facts: BTreeMap<&'static str, String>,
    /// Requirements of a module for Vulkan.
    pub(super) requirements: Option<RequirementsReport>,
    pub(super) kernels: Vec<KernelReport>,
    pub(super) globals: Vec<GlobalReport>,
    pub(super) constructors: Priorities,
    pub(super) destructors: Priorities,
    pub(super) profile: ProfileReport,
    /// Facts about code outside of kernels' own functions.
    pub(super) uses: Uses,
    /// Names of undefined symbols.
    pub(super) undefined: Vec<String>,
    /// The images of an archive.
    pub(super) members: Vec<ImageReport>,
    /// Messages about unreadable parts.
    pub(super) problems: Vec<String>,
    #[serde(skip)]
    budget: Rc<NameBudget>,
    #[serde(skip)]
    is_full: bool,
    #[serde(skip)]
    name_bytes_left: usize,
}

/// Limit of the bytes of all names, as a multiple of the file's size. Names are read a few times,
/// and names with a common end share it.
const MOST_READINGS: usize = 32;

impl ImageReport {
    /// Replaces the room by one that is shared with other images.
    pub(super) fn sharing(self, budget: &Rc<NameBudget>) -> ImageReport {
        ImageReport { budget: Rc::clone(budget), ..self }
    }

    pub(super) fn budget(&self) -> &Rc<NameBudget> {
        &self.budget
    }

    /// Returns whether the names read so far can belong to a file of this size.
    pub(super) fn may_read_names(&self) -> bool {
        self.name_bytes_left > 0
    }

    /// Counts a name that was read. Exceeding the limit of [`ImageReport::may_read_names`] is a
    /// problem in the report.
    pub(super) fn note_name_read(&mut self, name: &str) {
        let had_any = self.name_bytes_left > 0;
        self.name_bytes_left = self.name_bytes_left.saturating_sub(name.len() + 1);
        if had_any && self.name_bytes_left == 0 {
            self.problems.push("names overlap; the remaining names are left out".to_owned());
        }
    }

    /// Reserves room for a name, and returns whether there is any. A failure is a problem in the
    /// report.
    pub(super) fn has_room(&mut self, name: &str) -> bool {
        let has_room = self.budget.take(name);
        if !has_room && !self.is_full {
            self.is_full = true;
            self.problems.push(format!(
                "names take more than {} MiB; the remaining names are left out",
                MOST_BYTES_NAMED >> 20
            ));
        }
        has_room
    }

    pub(super) fn new(format: String, bytes: usize) -> ImageReport {
        ImageReport {
            entry: None,
            member: None,
            format,
            bytes,
            architecture: None,
            facts: BTreeMap::new(),
            requirements: None,
            kernels: Vec::new(),
            globals: Vec::new(),
            constructors: Priorities::default(),
            destructors: Priorities::default(),
            profile: ProfileReport::default(),
            uses: Uses::default(),
            undefined: Vec::new(),
            members: Vec::new(),
            problems: Vec::new(),
            budget: Rc::default(),
            is_full: false,
            name_bytes_left: bytes.saturating_mul(MOST_READINGS),
        }
    }
}

/// Kernels by which clang's code for NVPTX runs constructors and destructors.
pub(super) const STEPS: [&str; 2] = ["nvptx$device$init", "nvptx$device$fini"];

impl ImageReport {
    /// Counts a variable that stands for a constructor or destructor, and returns whether it does.
    /// Clang makes one for each such function for NVPTX, with the priority at the end of its name.
    pub(super) fn add_step(&mut self, variable: &str) -> bool {
        let list = if variable.starts_with("__init_array_object_") {
            &mut self.constructors
        } else if variable.starts_with("__fini_array_object_") {
            &mut self.destructors
        } else {
            return false;
        };
        let priority = variable.rsplit('_').next().and_then(|number| number.parse().ok());
        list.add(priority, 1);
        true
    }
}

/// A kernel, with the description from its source, which is the same on all targets, and the
/// metadata of its target.
#[derive(Serialize, Default)]
pub(super) struct KernelReport {
    pub(super) name: String,
    pub(super) description: Option<DescriptionReport>,
    pub(super) metadata: MetadataReport,
}

#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub(super) struct DescriptionReport {
    /// Form of the kernel: "items" or "regions".
    pub(super) form: &'static str,
    /// Execution on the CPU: "loop", "fibers" or "regions".
    pub(super) on_cpu: &'static str,
    /// Reason why `longshore cc` has made no loops of items that wait for each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) no_loops_because: Option<String>,
    pub(super) declaration: String,
    pub(super) arguments: Vec<ArgumentReport>,
    /// The required group size, with 0 for an open dimension.
    pub(super) required_group: [u32; 3],
    #[serde(flatten)]
    pub(super) uses: Uses,
}

#[derive(Serialize, Clone, Debug, PartialEq, Eq)]
pub(super) struct ArgumentReport {
    pub(super) bytes: u32,
    pub(super) kind: &'static str,
}

/// The facts in notes.
#[derive(Serialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) barrier: bool,
    /// Whether each work-item waits at the barrier by itself.
    #[serde(skip)]
    pub(super) item_barrier: bool,
    /// Whether loops replace the waits of work-items.
    #[serde(skip)]
    pub(super) item_loops: bool,
    pub(super) sub_group: bool,
    pub(super) grid_barrier: bool,
    pub(super) static_shared_bytes: u64,
    pub(super) dynamic_shared: bool,
}

/// The metadata of a kernel in the target's own format.
#[derive(Serialize, Default, Debug, PartialEq, Eq)]
pub(super) struct MetadataReport {
    /// "host form", for a function of an image for the CPU without a description.
    pub(super) form: Option<&'static str>,
    pub(super) argument_sizes: Option<Vec<u64>>,
    /// Parameters of a module for Vulkan, in which every argument has a place.
    pub(super) parameters: Option<Vec<ParameterReport>>,
    pub(super) registers: Option<u64>,
    pub(super) scalar_registers: Option<u64>,
    /// AMD's registers for multiplying matrices.
    pub(super) accumulation_registers: Option<u64>,
    /// Registers that are spilled to memory.
    pub(super) spilled_registers: Option<u64>,
    pub(super) spilled_scalar_registers: Option<u64>,
    pub(super) static_shared_bytes: Option<u64>,
    /// Whether a launch may request dynamic shared memory.
    pub(super) dynamic_shared: Option<bool>,
    pub(super) private_bytes: Option<u64>,
    /// Whether a work-item may need more than `private_bytes`.
    pub(super) dynamic_private: Option<bool>,
    pub(super) max_group_items: Option<u64>,
    /// The required group size, with 0 for an open dimension.
    pub(super) required_group: Option<Vec<u64>>,
    /// Group size with the default of each dimension that a launch may set.
    pub(super) default_group: Option<Vec<u64>>,
    pub(super) sub_group_items: Option<u64>,
    /// Cluster size in groups.
    pub(super) required_cluster: Option<Vec<u64>>,
}

/// A parameter of a kernel, and its place.
#[derive(Serialize, Default, Debug, PartialEq, Eq)]
pub(super) struct ParameterReport {
    /// Name of the parameter; empty if the module has none.
    pub(super) name: String,
    pub(super) bytes: u32,
    /// Kind of the parameter: "pointer" or "value".
    pub(super) kind: &'static str,
    /// Memory of the parameter: "push constants", "uniform buffer" or "storage buffer".
    pub(super) memory: &'static str,
    /// Descriptor set and binding of a buffer.
    pub(super) set: Option<u32>,
    pub(super) binding: Option<u32>,
    /// Offset in bytes in a block; `None` for a pointer that is passed as a bound buffer.
    pub(super) offset: Option<u32>,
}

/// Formats a parameter: "4 count in push constants at 8", or with set and binding "pointer x in
/// storage buffer 0.1".
impl fmt::Display for ParameterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            "pointer" => f.write_str("pointer ")?,
            _ if self.bytes > 0 => write!(f, "{} ", self.bytes)?,
            _ => {}
        }
        if !self.name.is_empty() {
            write!(f, "{} ", self.name)?;
        }
        if !self.kind.is_empty() {
            f.write_str("in ")?;
        }
        f.write_str(self.memory)?;
        if let (Some(set), Some(binding)) = (self.set, self.binding) {
            write!(f, " {set}.{binding}")?;
        }
        self.offset.map_or(Ok(()), |offset| write!(f, " at {offset}"))
    }
}

/// The features that a module requires of a device.
#[derive(Serialize)]
pub(super) struct RequirementsReport {
    /// Version of SPIR-V, such as "1.5".
    pub(super) version: String,
    pub(super) capabilities: Vec<String>,
    pub(super) extensions: Vec<String>,
}

#[derive(Serialize, Debug, PartialEq, Eq)]
pub(super) struct GlobalReport {
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// The numbers of constructors or destructors of each priority.
#[derive(Default)]
pub(super) struct Priorities(BTreeMap<u64, u64>);

/// The number of functions of one priority. A priority is `None` if the file does not state it.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub(super) struct PriorityReport {
    pub(super) priority: Option<u32>,
    pub(super) count: u64,
}

impl Priorities {
    /// Key of functions without a priority, after all priorities.
    const NOT_STATED: u64 = u64::MAX;

    pub(super) fn add(&mut self, priority: Option<u32>, count: u64) {
        if count > 0 {
            let known =
                self.0.entry(priority.map_or(Priorities::NOT_STATED, u64::from)).or_default();
            *known = known.saturating_add(count);
        }
    }

    pub(super) fn list(&self) -> Vec<PriorityReport> {
        let one = |(priority, count): (&u64, &u64)| PriorityReport {
            priority: u32::try_from(*priority).ok(),
            count: *count,
        };
        self.0.iter().map(one).collect()
    }
}

impl Serialize for Priorities {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.list().serialize(serializer)
    }
}

#[derive(Serialize, Default)]
pub(super) struct ProfileReport {
    /// Sizes in bytes by kind: "counters", "data", "names" and others.
    pub(super) sections: BTreeMap<&'static str, u64>,
    /// The format's version, with its variant bits.
    pub(super) raw_version: Option<u64>,
}

pub(super) fn form_name(form: KernelForm) -> &'static str {
    match form {
        KernelForm::Items => "items",
        KernelForm::Regions => "regions",
        _ => "unknown",
    }
}

pub(super) fn kind_name(kind: ArgumentKind) -> &'static str {
    match kind {
        ArgumentKind::Signed => "signed",
        ArgumentKind::Unsigned => "unsigned",
        ArgumentKind::Float => "float",
        ArgumentKind::Pointer => "pointer",
        ArgumentKind::Structure => "structure",
        _ => "unknown",
    }
}
