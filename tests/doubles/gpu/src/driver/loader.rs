//! Addresses and initial values of an image's variables.
//!
//! A variable that the twin also has gets the twin's address, as kernels use that one; any other
//! variable has memory of its own. In machine code, programs may rely on the device's distances
//! between variables of a section, to find variables that the driver's look-up does not. So all
//! variables of a section with hidden variables get further addresses, with the distances of the
//! section, which stand for the real addresses. The further addresses are for the program alone:
//! kernels that get one fault.

use super::blocks::{Kind, OF_MODULE};
use super::context::Context;
use super::image::{Contents, Refusal, Variable};
use super::memory::allocate_block;
use super::range::{DataLocation, Range};
use super::{Code, machine, transfer};
use crate::Window;
use crate::protocol::{Fault, Symbol};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Prefixes of the compiler's names for addresses of constructors and destructors.
const LISTED_FUNCTIONS: [&str; 2] = ["__init_array_object_", "__fini_array_object_"];
/// Prefixes of the compiler's names for a profile's counters and their records.
const COUNTERS: &str = "__profc_";
const RECORD: &str = "__profd_";

/// Addresses of all variables of a module, by name.
#[derive(Default)]
pub(crate) struct Variables {
    /// Addresses that kernels use.
    pub(crate) real: BTreeMap<String, u64>,
    /// Addresses that programs get from the driver.
    pub(crate) seen: BTreeMap<String, u64>,
}

/// A loader of an image's variables.
pub(crate) struct Loader<'a> {
    pub(crate) context: &'a Arc<Context>,
    pub(crate) module: u64,
    pub(crate) contents: &'a Contents,
}

impl Loader<'_> {
    /// Places the variables and writes their values. Entries in `variables` are valid even if the
    /// function fails.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`, or the part of the image that does not fit the twin.
    pub(crate) fn place(&self, variables: &mut Variables) -> Result<(), Refusal> {
        for variable in self.variables() {
            let address = self.place_one(variable)?;
            variables.real.insert(variable.name.clone(), address);
        }
        variables.seen.clone_from(&variables.real);
        self.place_sections(variables)?;
        for variable in self.variables() {
            self.fill(variable, variables).map_err(broken_process)?;
        }
        Ok(())
    }

    fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.contents.variables.iter().filter(|variable| variable.bytes > 0)
    }

    /// Returns the variable's address in the twin, else allocates memory for the variable.
    fn place_one(&self, variable: &Variable) -> Result<u64, Refusal> {
        let (context, bytes) = (self.context, variable.bytes);
        let found = self.find_variable(&variable.name).map_err(broken_process)?;
        let Some(symbol) = found.filter(|symbol| !symbol.is_function) else {
            let block = allocate_block(context, Kind::Device, bytes, OF_MODULE);
            return Ok(block?.address);
        };
        if symbol.bytes != bytes {
            let (name, twin_bytes) = (&variable.name, symbol.bytes);
            let log = format!("'{name}' has {bytes} bytes, in the double's twin {twin_bytes}\n");
            return Err(Refusal::new(Code::INVALID_IMAGE, log));
        }
        machine()?.blocks.add(context, Kind::Variable, symbol.address, bytes, OF_MODULE);
        Ok(symbol.address)
    }

    fn place_sections(&self, variables: &mut Variables) -> Result<(), Refusal> {
        let hidden = self.variables().filter(|variable| !variable.is_seen);
        let places = hidden.filter_map(|variable| variable.place);
        for section in places.map(|place| place.section).collect::<BTreeSet<_>>() {
            self.place_section(section, variables)?;
        }
        Ok(())
    }

    fn place_section(&self, section: u32, variables: &mut Variables) -> Result<(), Refusal> {
        let placed_at = |variable| {
            let variable: &Variable = variable;
            let place = variable.place.filter(|place| place.section == section)?;
            Some((variable, place.offset))
        };
        let placed: Vec<_> = self.variables().filter_map(placed_at).collect();
        let end = placed.iter().map(|(variable, offset)| offset + variable.bytes).max();
        let start = self.window()?.take_addresses(end.unwrap_or(0));
        let start = start.ok_or(Code::OUT_OF_MEMORY)?;
        for (variable, offset) in placed {
            let address = start + offset;
            let kind = Kind::Alias(variables.real[&variable.name]);
            let blocks = &machine()?.blocks;
            blocks.add(self.context, kind, address, variable.bytes, OF_MODULE);
            variables.seen.insert(variable.name.clone(), address);
        }
        Ok(())
    }

    /// Writes the variable's initial value from the image.
    fn fill(&self, variable: &Variable, variables: &Variables) -> Result<(), Fault> {
        let address = variables.real[&variable.name];
        let range = self.range(address, variable.bytes);
        if !self.contents.has_references && matches!(range.at, DataLocation::Process(..)) {
            return Ok(());
        }
        let mut value = variable.initial.clone();
        value.resize(variable.bytes as usize, 0);
        // Variables that only the program reads refer to the program's addresses.
        let names = match range.at {
            DataLocation::Here(_) => &variables.seen,
            DataLocation::Process(..) => &variables.real,
        };
        for reference in &variable.references {
            let Some(target) = self.resolve(&reference.symbol, names)? else { continue };
            let target = target.wrapping_add_signed(reference.addend);
            let start = reference.offset as usize;
            if let Some(place) = value.get_mut(start..start + 8) {
                place.copy_from_slice(&target.to_le_bytes());
            }
        }
        if let Some(target) = self.listed_function(variable)? {
            value[..8].copy_from_slice(&target.to_le_bytes());
        }
        // The twin mostly has the image's values, and constant memory should not be written without
        // need.
        if transfer::read(&range)? != value {
            transfer::write(&range, &value)?;
        }
        Ok(())
    }

    /// Returns the function in a list of constructors, if the image has no reference for it: the
    /// variable's name contains the function's.
    fn listed_function(&self, variable: &Variable) -> Result<Option<u64>, Fault> {
        let rest = LISTED_FUNCTIONS.iter().find_map(|start| variable.name.strip_prefix(start));
        if !variable.references.is_empty() || variable.bytes < 8 {
            return Ok(None);
        }
        let name = rest.and_then(|rest| rest.rsplitn(3, '_').nth(2));
        let found = name.map(|name| self.find(name)).transpose()?.flatten();
        Ok(found.map(|symbol| symbol.address))
    }

    fn resolve(&self, name: &str, names: &BTreeMap<String, u64>) -> Result<Option<u64>, Fault> {
        if let Some(address) = names.get(name) {
            return Ok(Some(*address));
        }
        Ok(self.find(name)?.map(|symbol| symbol.address))
    }

    /// Looks a name up in the twin. A compiler's counters have no symbols there: the function's
    /// record leads to them. If the image's compiler and the twin's compiler count differently,
    /// nothing is counted.
    fn find_variable(&self, name: &str) -> Result<Option<Symbol>, Fault> {
        let found = self.find(name)?;
        let Some(function) = name.strip_prefix(COUNTERS).filter(|_| found.is_none()) else {
            return Ok(found);
        };
        let named = |name: &str| self.variables().find(|variable| variable.name == name);
        let record = named(&format!("{RECORD}{function}"));
        let hash = record.and_then(|record| record.initial.first_chunk());
        let (Some(hash), Ok(gpu)) = (hash, self.context.gpu()) else { return Ok(None) };
        let found = gpu.counters(self.module, u64::from_le_bytes(*hash))?;
        let bytes = named(name).map(|variable| variable.bytes);
        Ok(found.filter(|counters| Some(counters.bytes) == bytes))
    }

    fn find(&self, name: &str) -> Result<Option<Symbol>, Fault> {
        match self.context.gpu() {
            Ok(gpu) => gpu.find(self.module, name),
            Err(_) => Ok(None),
        }
    }

    fn range(&self, address: u64, bytes: u64) -> Range {
        let at = match self.window() {
            Ok(window) if window.contains(address) => DataLocation::Here(window.alias_of(address)),
            _ => DataLocation::Process(Arc::clone(self.context), address),
        };
        Range { at, bytes, is_pageable: false, registration: None }
    }

    fn window(&self) -> Result<&'static Window, Refusal> {
        Ok(&machine()?.devices[self.context.device].window)
    }
}

fn broken_process(fault: Fault) -> Refusal {
    Refusal::new(Code::LAUNCH_FAILED, format!("{}\n", fault.message))
}
