//! User-defined mappers: functions of the program that list the components of a value.

use crate::abi::{MapArgument, MapArguments, MapType, Mapper};
use std::ffi::c_void;

/// Flags of an argument that hold for its components, too. Mappers of clang 13 to 22 omit them.
const INHERITED: i64 = MapType::ALWAYS.0 | MapType::DELETE.0;

/// The components of a value, as its mapper lists them.
#[derive(Default)]
pub(crate) struct Components {
    bases: Vec<*mut c_void>,
    begins: Vec<*mut c_void>,
    sizes: Vec<i64>,
    types: Vec<i64>,
    names: Vec<*mut c_void>,
}

impl Components {
    /// Adds a component.
    pub(crate) fn push(
        &mut self,
        base: *mut c_void,
        begin: *mut c_void,
        size: i64,
        kind: i64,
        name: *mut c_void,
    ) {
        self.bases.push(base);
        self.begins.push(begin);
        self.sizes.push(size);
        self.types.push(kind);
        self.names.push(name);
    }

    /// Adds the flags of the argument to all components but pointers to attach.
    fn inherit(&mut self, kind: MapType) {
        let flags = kind.0 & INHERITED;
        let mapped = self.types.iter_mut().filter(|kind| !MapType(**kind).has(MapType::ATTACH));
        mapped.for_each(|kind| *kind |= flags);
    }

    /// Returns the number of components.
    pub(crate) fn len(&self) -> usize {
        self.bases.len()
    }

    /// Returns the components as arguments of a construct.
    pub(crate) fn arguments(&self) -> MapArguments {
        MapArguments {
            count: self.len(),
            bases: self.bases.as_ptr().cast_mut(),
            begins: self.begins.as_ptr().cast_mut(),
            sizes: self.sizes.as_ptr(),
            types: self.types.as_ptr(),
            names: self.names.as_ptr(),
            mappers: std::ptr::null(),
        }
    }
}

/// Calls a mapper and returns the components of the argument.
///
/// # Safety
/// `mapper` is the argument's mapper.
pub(crate) unsafe fn components(mapper: Mapper, argument: &MapArgument) -> Components {
    let mut components = Components::default();
    let handle = (&raw mut components).cast();
    let (base, begin) = (argument.base as *mut c_void, argument.begin as *mut c_void);
    // SAFETY: promised by the caller; the mapper passes the handle back to this library only.
    unsafe {
        mapper(
            handle,
            base,
            begin,
            argument.size,
            argument.kind.0,
            argument.name.cast_mut().cast(),
        );
    }
    components.inherit(argument.kind);
    components
}
