//! User-defined mappers: functions of the program that list the components of a value.

use crate::abi::{MapArgument, MapArguments, MapType, Mapper};
use std::ffi::c_void;

/// Flags of an argument that hold for its components, too. Mappers of clang 13 to 22 omit them.
const INHERITED: i64 = MapType::ALWAYS.0 | MapType::DELETE.0;

/// A component of a value. LLVM: `MapComponentInfoTy`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Component {
    base: *mut c_void,
    begin: *mut c_void,
    size: i64,
    kind: i64,
    name: *mut c_void,
}

/// The components that a mapper has added, laid out as a `std::vector`: a program may pass a vector
/// of its own. The memory is that of `malloc`. LLVM: `MapperComponentsTy`.
#[repr(C)]
pub(crate) struct List {
    first: *mut Component,
    last: *mut Component,
    limit: *mut Component,
}

impl List {
    const fn new() -> List {
        let none = std::ptr::null_mut();
        List { first: none, last: none, limit: none }
    }

    /// Returns the number of components.
    pub(crate) fn len(&self) -> usize {
        (self.last as usize - self.first as usize) / size_of::<Component>()
    }

    /// Adds a component.
    pub(crate) fn push(
        &mut self,
        base: *mut c_void,
        begin: *mut c_void,
        size: i64,
        kind: i64,
        name: *mut c_void,
    ) {
        if self.last == self.limit {
            self.grow();
        }
        // SAFETY: the list has memory for one more component.
        unsafe {
            self.last.write(Component { base, begin, size, kind, name });
            self.last = self.last.add(1);
        }
    }

    /// Doubles the memory of the list.
    #[cold]
    fn grow(&mut self) {
        let (count, limit) = (self.len(), (2 * self.len()).max(8));
        // SAFETY: the list's memory is that of `malloc`, as that of a vector is.
        let memory = unsafe { libc::realloc(self.first.cast(), limit * size_of::<Component>()) };
        assert!(!memory.is_null(), "no memory for {limit} components of a mapper");
        self.first = memory.cast();
        // SAFETY: the memory has `limit` components.
        unsafe { (self.last, self.limit) = (self.first.add(count), self.first.add(limit)) };
    }

    fn iter(&self) -> impl Iterator<Item = Component> {
        // SAFETY: the list has as many components.
        (0..self.len()).map(|index| unsafe { self.first.add(index).read() })
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list owns its memory.
        unsafe { libc::free(self.first.cast()) };
    }
}

/// The components of a value, each property in an array of its own.
#[derive(Default)]
pub(crate) struct Components {
    bases: Vec<*mut c_void>,
    begins: Vec<*mut c_void>,
    sizes: Vec<i64>,
    types: Vec<i64>,
    names: Vec<*mut c_void>,
}

impl Components {
    /// Adds the flags of the argument to all components but pointers to attach.
    fn inherit(&mut self, kind: MapType) {
        let flags = kind.0 & INHERITED;
        let mapped = self.types.iter_mut().filter(|kind| !MapType(**kind).has(MapType::ATTACH));
        mapped.for_each(|kind| *kind |= flags);
    }

    /// Returns the components as arguments of a construct.
    pub(crate) fn arguments(&self) -> MapArguments {
        MapArguments {
            count: self.bases.len(),
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
    let mut list = List::new();
    let handle = (&raw mut list).cast();
    let (base, begin) = (argument.base as *mut c_void, argument.begin as *mut c_void);
    let name = argument.name.cast_mut().cast();
    // SAFETY: promised by the caller; the mapper passes the handle back to this library only.
    unsafe { mapper(handle, base, begin, argument.size, argument.kind.0, name) };
    let mut components = Components::default();
    for component in list.iter() {
        components.bases.push(component.base);
        components.begins.push(component.begin);
        components.sizes.push(component.size);
        components.types.push(component.kind);
        components.names.push(component.name);
    }
    components.inherit(argument.kind);
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_the_layout_of_a_vector() {
        assert_eq!((size_of::<List>(), size_of::<Component>()), (3 * size_of::<usize>(), 40));
        let mut list = List::new();
        let none = std::ptr::null_mut();
        (0..100).for_each(|size| list.push(none, none, size, 2 * size, none));
        assert_eq!(list.len(), 100);
        let found = list.iter().map(|component| (component.size, component.kind));
        assert!(found.eq((0..100).map(|size| (size, 2 * size))));
    }
}
