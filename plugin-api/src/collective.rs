//! Requests of collective operations: operations over the memory of several devices.

use crate::error::{Error, ErrorCode, Result};

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $value:literal,)* })*) => { $(
        $(#[$doc])*
        #[repr(u32)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$each])* $variant = $value,)*
        }

        impl $name {
            /// Returns the enumerator with this value; `None` for any other value.
            pub fn from_raw(value: u32) -> Option<$name> {
                [$($name::$variant),*].into_iter().find(|known| *known as u32 == value)
            }
        }
    )* };
}

numbers! {
    /// The kind of a collective operation.
    CollectiveKind {
        /// Copy of the root's memory to all members. MPI: `MPI_Bcast`.
        Broadcast = 0,
        /// Copy of the memory of all members to the root, one after the other. MPI: `MPI_Gather`.
        Gather = 1,
        /// Copy of the memory of all members to all members. MPI: `MPI_Allgather`.
        AllGather = 2,
        /// Combination of the elements of all members, at the root. MPI: `MPI_Reduce`.
        Reduce = 3,
        /// Combination of the elements of all members, at all members. MPI: `MPI_Allreduce`.
        AllReduce = 4,
    }
    /// The type of the elements that a reduction combines.
    CollectiveElement {
        /// 8-bit signed integer.
        I8 = 0,
        /// 8-bit unsigned integer.
        U8 = 1,
        /// 16-bit signed integer.
        I16 = 2,
        /// 16-bit unsigned integer.
        U16 = 3,
        /// 32-bit signed integer.
        I32 = 4,
        /// 32-bit unsigned integer.
        U32 = 5,
        /// 64-bit signed integer.
        I64 = 6,
        /// 64-bit unsigned integer.
        U64 = 7,
        /// 32-bit floating-point number.
        F32 = 8,
        /// 64-bit floating-point number.
        F64 = 9,
    }
    /// The operation by which a reduction combines two elements.
    CollectiveOperation {
        /// Sum; of integers, modulo their size.
        Sum = 0,
        /// Product; of integers, modulo their size.
        Product = 1,
        /// Lesser element.
        Min = 2,
        /// Greater element.
        Max = 3,
        /// Bitwise and of integers.
        And = 4,
        /// Bitwise or of integers.
        Or = 5,
        /// Bitwise exclusive or of integers.
        Xor = 6,
    }
}

impl CollectiveElement {
    /// Returns the size of an element in bytes.
    pub fn bytes(self) -> u64 {
        match self {
            CollectiveElement::I8 | CollectiveElement::U8 => 1,
            CollectiveElement::I16 | CollectiveElement::U16 => 2,
            CollectiveElement::I32 | CollectiveElement::U32 | CollectiveElement::F32 => 4,
            CollectiveElement::I64 | CollectiveElement::U64 | CollectiveElement::F64 => 8,
        }
    }
}

/// A device that takes part in a collective operation. The creator of the request vouches for both
/// ranges of memory until the operation is done.
pub struct CollectiveMember<'a, D> {
    /// The device.
    pub device: &'a D,
    /// Address of the memory that the operation reads; 0 if it reads none.
    pub source: u64,
    /// Address of the memory that the operation writes; 0 if it writes none. It may be `source`.
    pub destination: u64,
}

/// The member with the data of a broadcast, or with the result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveRoot {
    /// The member with this index.
    Member(u32),
    /// Memory of the program at this address.
    Host(u64),
    /// No root: every member gets the result.
    None,
}

/// A collective operation.
#[non_exhaustive]
pub struct CollectiveRequest<'a, D> {
    /// The kind of the operation.
    pub kind: CollectiveKind,
    /// The root.
    pub root: CollectiveRoot,
    /// The elements and the operation of a reduction.
    pub reduction: Option<(CollectiveElement, CollectiveOperation)>,
    /// Number of bytes of each member, a multiple of the size of an element.
    pub bytes: u64,
    /// The members, at least 1.
    pub members: Vec<CollectiveMember<'a, D>>,
}

impl<'a, D> CollectiveRequest<'a, D> {
    /// Creates an operation.
    ///
    /// # Safety
    /// The memory of all members and of the root is valid until the operation is done, and nothing
    /// else writes it. It has `bytes` bytes each; at the destinations of a gathering operation,
    /// `bytes` times the number of members.
    pub unsafe fn new(
        kind: CollectiveKind,
        root: CollectiveRoot,
        bytes: u64,
        members: Vec<CollectiveMember<'a, D>>,
    ) -> Self {
        CollectiveRequest { kind, root, reduction: None, bytes, members }
    }

    /// Returns the same operation with the elements and the operation of a reduction.
    #[must_use]
    pub fn with_reduction(
        mut self,
        element: CollectiveElement,
        operation: CollectiveOperation,
    ) -> Self {
        self.reduction = Some((element, operation));
        self
    }

    /// Returns the same operation with its devices converted by `device`.
    ///
    /// # Errors
    /// Errors of `device`.
    pub fn with_devices<E>(
        &self,
        device: impl Fn(&'a D) -> Result<&'a E>,
    ) -> Result<CollectiveRequest<'a, E>> {
        let convert = |member: &CollectiveMember<'a, D>| {
            let (source, destination) = (member.source, member.destination);
            Ok(CollectiveMember { device: device(member.device)?, source, destination })
        };
        Ok(CollectiveRequest {
            kind: self.kind,
            root: self.root,
            reduction: self.reduction,
            bytes: self.bytes,
            members: self.members.iter().map(convert).collect::<Result<_>>()?,
        })
    }

    /// Checks that root, members and reduction fit the kind.
    ///
    /// # Errors
    /// `InvalidArgument` with the part that does not fit.
    pub fn check(&self) -> Result<()> {
        let count = self.members.len() as u64;
        let is_reduction = matches!(self.kind, CollectiveKind::Reduce | CollectiveKind::AllReduce);
        let has_root = !matches!(self.kind, CollectiveKind::AllGather | CollectiveKind::AllReduce);
        let problem = match (self.root, self.reduction) {
            _ if count == 0 => Some("it has no members".to_owned()),
            (CollectiveRoot::Member(index), _) if u64::from(index) >= count => {
                Some(format!("its root is member {index} of {count}"))
            }
            (root, _) if has_root == (root == CollectiveRoot::None) => {
                Some(format!("{:?} has the root {root:?}", self.kind))
            }
            (_, reduction) if reduction.is_some() != is_reduction => {
                Some(format!("{:?} has the reduction {reduction:?}", self.kind))
            }
            (_, Some((element, _))) if self.bytes % element.bytes() != 0 => {
                Some(format!("{} bytes are not whole elements of {element:?}", self.bytes))
            }
            _ => None,
        };
        match problem {
            None => Ok(()),
            Some(problem) => {
                let message = format!("a collective operation is malformed: {problem}");
                Err(Error::new(ErrorCode::InvalidArgument, message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_do_not_fit_the_kind_are_refused() {
        let check = |kind, root, reduction: Option<_>, bytes, members: usize| {
            let member = || CollectiveMember { device: &(), source: 0, destination: 0 };
            let members = (0..members).map(|_| member()).collect();
            // SAFETY: nothing touches the memory.
            let mut request = unsafe { CollectiveRequest::new(kind, root, bytes, members) };
            request.reduction = reduction;
            request.check().is_ok()
        };
        use CollectiveKind::{AllGather, AllReduce, Broadcast, Reduce};
        use CollectiveRoot::{Host, Member, None as NoRoot};
        let sum = Some((CollectiveElement::F32, CollectiveOperation::Sum));
        assert!(check(Broadcast, Member(1), None, 3, 2) && check(Broadcast, Host(1), None, 3, 1));
        assert!(check(AllGather, NoRoot, None, 3, 2) && check(AllReduce, NoRoot, sum, 8, 2));
        assert!(check(Reduce, Host(9), sum, 0, 2));
        assert!(!check(Broadcast, Member(2), None, 3, 2) && !check(Broadcast, NoRoot, None, 3, 2));
        assert!(!check(AllGather, Member(0), None, 3, 2) && !check(Reduce, Member(0), None, 4, 2));
        assert!(!check(Broadcast, Member(0), sum, 4, 2) && !check(Reduce, Member(0), sum, 6, 2));
        assert!(!check(AllGather, NoRoot, None, 3, 0));
    }
}
