//! Changes to a valid call that make an argument invalid, from the third column of the table.

mod memory;
mod work;

use crate::errors::calls::Call;
use crate::errors::functions::Function;
use crate::errors::table::{Class, Declared, Mode, Row};
use crate::errors::world::{World, made};
use longshore_capi::*;
use std::ffi::CStr;

/// A change to a call.
pub(crate) type Mutation = Box<dyn Fn(&World, &mut Call)>;

/// Returns all changes of a row; none for an unknown text.
pub(crate) fn for_row(world: &World, row: &Row, declared: &Declared) -> Vec<Mutation> {
    if let Some((row, kernel)) = row.clang_row() {
        let changes = for_row(world, &row, declared).into_iter();
        return changes.map(|change| with_clang(change, kernel)).collect();
    }
    let special = special(row);
    if !special.is_empty() {
        return special;
    }
    let Some(argument) = &row.argument else { return Vec::new() };
    let kind = declared.parameters.iter().find(|(name, _)| name == argument);
    let Some((_, kind)) = kind else { panic!("{} has no {argument}", row.function) };
    let words = words(world, kind, &row.made);
    words.into_iter().map(|word| set(argument, word)).collect()
}

/// Returns the change for a call with a kernel from clang.
fn with_clang(change: Mutation, kernel: &'static CStr) -> Mutation {
    Box::new(move |world, call| {
        change(world, call);
        let words = [world.program_of_clang(), kernel.as_ptr() as usize, 0];
        call.set("Kernel", made("olGetSymbol", &words));
    })
}

/// Returns the invalid words for an argument of any function.
fn words(world: &World, kind: &str, made: &str) -> Vec<usize> {
    let class = Class::from_kind(kind);
    match (class, made) {
        (Class::Handle(_) | Class::Pointer | Class::Callback, "null") => vec![0],
        (Class::Handle(kind), "another kind of handle") => {
            let others = world.first().objects.all().into_iter();
            others.filter(|(other, _)| *other != kind).map(|(_, handle)| handle).collect()
        }
        (Class::Handle(kind), "no handle") => no_handles(world, world.first().objects.get(kind)),
        (Class::Handle(kind), "of an earlier olInit") => vec![world.earlier.get(kind)],
        (Class::Handle(kind), "destroyed") => vec![world.gone.get(kind)],
        (Class::Handle(kind), "of another platform") => vec![world.other().objects.get(kind)],
        (Class::Enumeration, "no enumerator") => {
            [count(kind), count(kind) + 1, 1000, 0x7fff_ffff, 0xffff_ffff].to_vec()
        }
        (Class::Flags, "an unknown bit") => (2..32).map(|bit| 1 << bit).collect(),
        (Class::Size, "0") => vec![0],
        (Class::Size, "SIZE_MAX") => vec![usize::MAX],
        _ => Vec::new(),
    }
}

/// Returns numbers and addresses, and a handle with changed bits behind its kind.
fn no_handles(world: &World, valid: usize) -> Vec<usize> {
    let head = valid & (0xff << 56);
    let numbers = [1, 8, 0xdead_beef, usize::MAX, usize::MAX >> 1, 1 << 63, world.room()];
    let wild = [20, 25, 30, 40, 50, 55].map(|bit| head | 1 << bit);
    // Bits of the generation, and of the place; changed low bits of the place may give another
    // valid handle.
    let flipped = (8..32).chain(40..60).map(|bit| valid ^ (1 << bit));
    let more = [head | !(0xff << 56), head | 1000, head | 0xff_ffff];
    numbers.into_iter().chain(wild).chain(flipped).chain(more).collect()
}

/// Returns the number of enumerators, which begin with 0.
fn count(kind: &str) -> usize {
    match kind {
        "ol_platform_info_t" => ol_platform_info_t::ALL.len(),
        "ol_device_info_t" => ol_device_info_t::ALL.len(),
        "ol_mem_info_t" => ol_mem_info_t::ALL.len(),
        "ol_queue_info_t" => ol_queue_info_t::ALL.len(),
        "ol_event_info_t" => ol_event_info_t::ALL.len(),
        "ol_symbol_info_t" => ol_symbol_info_t::ALL.len(),
        "ol_symbol_kind_t" => ol_symbol_kind_t::ALL.len(),
        "ol_alloc_type_t" => ol_alloc_type_t::ALL.len(),
        other => panic!("{other} is no enumeration"),
    }
}

fn one(change: impl Fn(&World, &mut Call) + 'static) -> Vec<Mutation> {
    vec![Box::new(change)]
}

fn set(parameter: &str, word: usize) -> Mutation {
    let parameter = parameter.to_owned();
    Box::new(move |_, call| call.set(&parameter, word))
}

/// Returns the changes for texts of some functions only.
fn special(row: &Row) -> Vec<Mutation> {
    let made = row.made.as_str();
    let argument = row.argument.as_deref().unwrap_or("");
    match (row.function.as_str(), argument) {
        (_, "NumEntries") if made == "more than there are" => {
            vec![set(argument, 1000), set(argument, u32::MAX as usize)]
        }
        (_, "") if made == "all null and 0" => one(|_, call| call.words.fill(0)),
        (function, "PropSize") if function.starts_with("olGet") => property_size(function, made),
        (function, "PropName") if function.starts_with("olGetSymbolInfo") => match made {
            "of a variable, for a kernel" => vec![1, 2]
                .into_iter()
                .map(|query| -> Mutation {
                    Box::new(move |world, call| {
                        call.set("Symbol", world.first().objects.symbol);
                        call.set("PropName", query);
                    })
                })
                .collect(),
            _ => Vec::new(),
        },
        ("olGetMemInfo" | "olGetMemInfoSize" | "olMemFree" | "olMemFill", _) => {
            memory::memory(argument, made)
        }
        ("olMemAlloc" | "olMemAllocAligned", _) => memory::allocation(argument, made),
        ("olMemRegister" | "olMemUnregister", _) => {
            memory::registration(&row.function, argument, made)
        }
        ("olMemPrefetch", _) => memory::prefetch(argument, made),
        ("olMemcpy", _) => memory::copy(argument, made),
        ("olWaitEvents", _) => work::events(argument, made),
        ("olGetEventElapsedTime", _) => work::elapsed(argument, made),
        ("olCreateProgram" | "olIsValidBinary", _) => work::image(argument, made),
        ("olGetSymbol", _) => work::symbol(argument, made),
        ("olLaunchKernel", "NumArgs" | "ArgPtrs" | "ArgSizes") => {
            work::launch_arguments(argument, made)
        }
        (
            "olLaunchKernel"
            | "olCalculateOptimalOccupancy"
            | "olGetKernelMaxCooperativeGroupCount",
            _,
        ) => work::launch(argument, made),
        _ => Vec::new(),
    }
}

/// Returns a change for each query that the device answers; the CPU answers all.
fn property_size(function: &str, how: &str) -> Vec<Mutation> {
    let offset = match how {
        "one too small" => -1,
        "larger than needed" => 1,
        _ => return Vec::new(),
    };
    let object = function.trim_start_matches("olGet").trim_end_matches("Info").to_lowercase();
    let queries = 0..count(&format!("ol_{object}_info_t"));
    let change = |query| -> Mutation {
        Box::new(move |world, call| {
            let size_of = Function::named(&format!("{}Size", call.function.name));
            let mut size = 0usize;
            let words = [call.words[0], query, &raw mut size as usize];
            if !size_of.call(Mode::Plain, &words).is_null() {
                assert!(!world.is_on_cpu(), "{}: {query}", call.function.name);
                return call.set("PropSize", if offset < 0 { 1 } else { 256 });
            }
            call.set("PropName", query);
            call.set("PropSize", size.checked_add_signed(offset).expect("sizes are not 0"));
        })
    };
    queries.map(change).collect()
}
