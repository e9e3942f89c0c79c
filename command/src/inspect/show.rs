//! Text tables of a report.

use super::report::{
    ArgumentReport, DescriptionReport, EntryReport, FileReport, GlobalReport, ImageReport,
    KernelReport, MetadataReport, Priorities, PriorityReport, Uses,
};
use crate::escape::name as shown;
use crate::table;
use crate::table::group;
use longshore::units;

/// Limit of a table's rows.
const MOST_ROWS: usize = 5000;

/// Formats the whole report, without a newline at its end.
pub(super) fn text(report: &FileReport) -> String {
    let bytes = units::bytes(report.bytes as u64);
    let mut parts = vec![format!("{}: {}, {bytes}", shown(&report.file), report.format)];
    parts.extend(report.problem.as_ref().map(|problem| format!("problem: {problem}")));
    if report.container {
        let rows = report.images.iter().enumerate().map(entry_row).collect();
        let header = ["IMAGE", "KIND", "TRIPLE", "ARCH", "FORMAT", "SIZE"];
        parts.push(table::render(header, rows));
    }
    let numbered = report.images.len() > 1 || report.container;
    for (index, image) in report.images.iter().enumerate() {
        let number = if numbered { format!("image {index}") } else { "image".to_owned() };
        add_image(&mut parts, &number, image);
    }
    parts.join("\n\n")
}

fn entry_row((index, image): (usize, &ImageReport)) -> [String; 6] {
    let entry = image.entry.as_ref();
    let fact = |of: fn(&EntryReport) -> &String| entry.map(|entry| shown(of(entry)));
    [
        index.to_string(),
        fact(|entry| &entry.offload_kind).unwrap_or_else(|| "the file itself".to_owned()),
        fact(|entry| &entry.triple).unwrap_or_default(),
        fact(|entry| &entry.arch).unwrap_or_default(),
        image.format.clone(),
        units::bytes(image.bytes as u64),
    ]
}

fn add_image(parts: &mut Vec<String>, name: &str, image: &ImageReport) {
    let mut lines = vec![heading(name, image)];
    lines.extend(image.facts.iter().map(|(name, value)| format!("  {name}: {}", shown(value))));
    if let Some(needed) = &image.requirements {
        lines.push(format!("  SPIR-V version: {}", needed.version));
        lines.extend(listed("capabilities", names(&needed.capabilities)));
        lines.extend(listed("extensions", names(&needed.extensions)));
    }
    lines.extend(listed("constructors", priorities(&image.constructors)));
    lines.extend(listed("destructors", priorities(&image.destructors)));
    lines.extend(listed("profile", profile(image)));
    lines.extend(listed("functions use", uses(&image.uses)));
    lines.extend(listed("undefined", names(&image.undefined)));
    lines.extend(image.problems.iter().map(|problem| format!("  problem: {problem}")));
    parts.push(lines.join("\n"));
    if !image.kernels.is_empty() {
        let header = ["KERNEL", "FORM", "ON CPU", "ARGUMENTS", "GROUP", "USES", "DEVICE"];
        let rows = image.kernels.iter().take(MOST_ROWS).map(kernel_row).collect();
        parts.push(table::render(header, rows));
        parts.extend(more("kernels", image.kernels.len()));
        parts.extend(image.kernels.iter().take(MOST_ROWS).filter_map(no_loops));
    }
    if !image.globals.is_empty() {
        let row = |global: &GlobalReport| [shown(&global.name), units::bytes(global.bytes)];
        let rows = image.globals.iter().take(MOST_ROWS).map(row).collect();
        parts.push(table::render(["GLOBAL", "SIZE"], rows));
        parts.extend(more("globals", image.globals.len()));
    }
    for member in &image.members {
        add_image(parts, &shown(member.member.as_deref().unwrap_or("member")), member);
    }
}

/// Returns a line with the reason why the items of a kernel keep their stacks.
fn no_loops(kernel: &KernelReport) -> Option<String> {
    let reason = kernel.description.as_ref()?.no_loops_because.as_ref()?;
    Some(format!("{}: each item has a stack: {}", shown(&kernel.name), shown(reason)))
}

fn heading(name: &str, image: &ImageReport) -> String {
    let architecture = image.architecture.as_ref().map(|name| format!(" for {}", shown(name)));
    let bytes = units::bytes(image.bytes as u64);
    format!("{name}: {}{}, {bytes}", image.format, architecture.unwrap_or_default())
}

/// Returns a line with the number of omitted rows; `None` if there are no more.
fn more(what: &str, all: usize) -> Option<String> {
    let left = all.checked_sub(MOST_ROWS).filter(|left| *left > 0)?;
    Some(format!("and {left} more {what}, which --json lists"))
}

fn names(list: &[String]) -> Vec<String> {
    let mut names: Vec<_> = list.iter().take(MOST_ROWS).map(|name| shown(name)).collect();
    names.extend(more("names", list.len()));
    names
}

fn listed(what: &str, items: Vec<String>) -> Option<String> {
    (!items.is_empty()).then(|| format!("  {what}: {}", items.join(", ")))
}

fn priorities(list: &Priorities) -> Vec<String> {
    let one = |known: PriorityReport| match known.priority {
        Some(priority) => format!("{} of priority {priority}", known.count),
        None => known.count.to_string(),
    };
    list.list().into_iter().map(one).collect()
}

fn profile(image: &ImageReport) -> Vec<String> {
    let section = |(kind, bytes): (&&str, &u64)| format!("{kind} {}", units::bytes(*bytes));
    // The upper bits of the version hold the variant.
    let version = image.profile.raw_version.map(|raw| format!("raw version {}", raw & 0xffff_ffff));
    image.profile.sections.iter().map(section).chain(version).collect()
}

fn uses(uses: &Uses) -> Vec<String> {
    let shared = uses.static_shared_bytes;
    let named = [
        uses.barrier.then(|| "barrier".to_owned()),
        uses.sub_group.then(|| "sub-group".to_owned()),
        uses.grid_barrier.then(|| "grid barrier".to_owned()),
        (shared > 0).then(|| format!("{} shared", units::bytes(shared))),
        uses.dynamic_shared.then(|| "dynamic shared".to_owned()),
    ];
    named.into_iter().flatten().collect()
}

fn kernel_row(kernel: &KernelReport) -> [String; 7] {
    let described = kernel.description.as_ref();
    let of = |text: fn(&DescriptionReport) -> String| described.map(text).unwrap_or_default();
    let form = kernel.metadata.form.unwrap_or_default().to_owned();
    [
        shown(&kernel.name),
        described.map_or(form, |known| known.form.to_owned()),
        of(|known| known.on_cpu.to_owned()),
        described.map_or_else(|| sizes(kernel), arguments),
        of(|known| group(&known.required_group.map(u64::from))),
        of(|known| uses(&known.uses).join(", ")),
        device(kernel),
    ]
}

/// Formats the arguments: "(uint64_t n, float *x): 8 unsigned, 8 pointer".
fn arguments(known: &DescriptionReport) -> String {
    let one = |argument: &ArgumentReport| format!("{} {}", argument.bytes, argument.kind);
    let listed: Vec<_> = known.arguments.iter().map(one).collect();
    match known.declaration.is_empty() {
        true => listed.join(", "),
        false => format!("{}: {}", shown(&known.declaration), listed.join(", ")),
    }
}

/// Formats the parameters, else the known sizes.
fn sizes(kernel: &KernelReport) -> String {
    if let Some(parameters) = &kernel.metadata.parameters {
        return parameters.iter().map(|one| shown(&one.to_string())).collect::<Vec<_>>().join("\n");
    }
    let sizes = kernel.metadata.argument_sizes.as_ref();
    let sizes = sizes.map(|sizes| sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(", "));
    sizes.unwrap_or_default()
}

/// Formats the group size: "groups of 64x1x1", "groups of 64x?x1, by default 64x1x1".
fn groups(known: &MetadataReport) -> Option<String> {
    let required = known.required_group.as_deref().map(group)?;
    let default = known.default_group.as_deref().map(group).unwrap_or_default();
    let is_open = known.required_group.iter().flatten().any(|items| *items == 0);
    match (required.is_empty(), is_open && !default.is_empty()) {
        (true, true) => Some(format!("groups of any size, by default {default}")),
        (true, false) => None,
        (false, true) => Some(format!("groups of {required}, by default {default}")),
        (false, false) => Some(format!("groups of {required}")),
    }
}

fn device(kernel: &KernelReport) -> String {
    let known = &kernel.metadata;
    let shared = known.static_shared_bytes.filter(|bytes| *bytes > 0);
    let private = known.private_bytes.filter(|bytes| *bytes > 0);
    let some = |count: Option<u64>, what: &str| {
        count.filter(|count| *count > 0).map(|count| format!("{count} {what}"))
    };
    let facts = [
        known.registers.map(|count| format!("{count} registers")),
        known.scalar_registers.map(|count| format!("{count} scalar registers")),
        some(known.accumulation_registers, "accumulation registers"),
        some(known.spilled_registers, "registers spilled"),
        some(known.spilled_scalar_registers, "scalar registers spilled"),
        shared.map(|bytes| format!("{} shared", units::bytes(bytes))),
        private.map(|bytes| format!("{} private", units::bytes(bytes))),
        known.dynamic_private.filter(|may| *may).map(|_| "dynamic private".to_owned()),
        known.max_group_items.map(|items| format!("at most {items} items per group")),
        known.dynamic_shared.filter(|may| *may).map(|_| "dynamic shared".to_owned()),
        groups(known),
        known.required_cluster.as_deref().map(|sizes| format!("clusters of {}", group(sizes))),
        known.sub_group_items.map(|items| format!("sub-groups of {items}")),
    ];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
