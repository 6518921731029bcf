//! Handles: numbers with pointer types, so that C checks their types although the library never
//! dereferences them.
//!
//! 8 bits name the kind, 32 the generation and 24 the slot. The kind makes the number an address
//! that no process uses.

mod table;

use std::ptr;
use std::sync::Arc;

use crate::failure::Failure;

pub(crate) use self::table::{Held, Table};
use self::table::{Place, Refused};

const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 32;

const _: () = assert!(usize::BITS == 64, "handles of the C API have 64 bits");

/// A type of objects with handles in C.
pub(crate) trait Object: Sized + Send + Sync + 'static {
    /// The name in messages.
    const NAME: &'static str;
    /// The unique number of the kind.
    const KIND: u8;
    /// Returns the table of the objects.
    fn table() -> &'static Table<Self>;

    /// Returns whether the object can be closed now.
    fn may_close(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The number of a kind, implemented for the array type of that length, so that two kinds with the
/// same number do not compile.
pub(crate) trait Kind {
    const NUMBER: u8;
}

/// Implements [`Object`] for a type, with its own table.
macro_rules! object {
    ($type:ident, $kind:literal, $name:literal $(, $may_close:item)?) => {
        impl $crate::handle::Object for $type {
            const NAME: &'static str = $name;
            const KIND: u8 = <[(); $kind] as $crate::handle::Kind>::NUMBER;
            fn table() -> &'static $crate::handle::Table<Self> {
                static TABLE: $crate::handle::Table<$type> = $crate::handle::Table::new();
                &TABLE
            }
            $($may_close)?
        }

        impl $crate::handle::Kind for [(); $kind] {
            const NUMBER: u8 = $kind;
        }
    };
}
pub(crate) use object;

/// Creates a handle for an object.
pub(crate) fn hand_out<T: Object>(object: T) -> Result<*mut T, Failure> {
    let place = T::table().insert(object).ok_or(Failure::Handles { kind: T::NAME })?;
    Ok(ptr::without_provenance_mut(encode(T::KIND, place)))
}

/// Returns the object of a handle.
pub(crate) fn find<T: Object>(handle: *const T) -> Result<Held<T>, Failure> {
    T::table().get(decode(handle)?).ok_or(Failure::Handle { kind: T::NAME })
}

/// Closes a handle and returns its object to the caller, who then owns it.
pub(crate) fn take<T: Object>(handle: *mut T) -> Result<T, Failure> {
    T::table().remove(decode(handle)?, T::may_close).map_err(|refused| match refused {
        Refused::Gone => Failure::Handle { kind: T::NAME },
        Refused::InUse => Failure::InCall { kind: T::NAME },
        Refused::Unwilling(failure) => failure,
    })
}

fn encode(kind: u8, place: Place) -> usize {
    let (kind, generation) = (usize::from(kind), place.generation as usize);
    (kind << GENERATION_BITS | generation) << INDEX_BITS | place.index as usize
}

fn decode<T: Object>(handle: *const T) -> Result<Place, Failure> {
    if handle.is_null() {
        return Err(Failure::Null(T::NAME));
    }
    let bits = handle.addr();
    if bits >> (INDEX_BITS + GENERATION_BITS) != usize::from(T::KIND) {
        return Err(Failure::Handle { kind: T::NAME });
    }
    let index = bits as u32 & ((1 << INDEX_BITS) - 1);
    Ok(Place { index, generation: (bits >> INDEX_BITS) as u32 })
}

/// A count of the objects that must be closed before their parent. Each of them holds a [`Child`].
#[derive(Default)]
pub(crate) struct Children(Arc<()>);

/// A registration with the parent that lasts as long as the child. A clone counts as another child.
#[derive(Clone)]
pub(crate) struct Child {
    _of: Arc<()>,
}

impl Children {
    pub(crate) fn add(&self) -> Child {
        Child { _of: self.0.clone() }
    }

    pub(crate) fn none(&self, kind: &'static str) -> Result<(), Failure> {
        match Arc::strong_count(&self.0) - 1 {
            0 => Ok(()),
            count => Err(Failure::HasChildren { kind, count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Apple;
    object!(Apple, 101, "apple");
    struct Pear(Children);
    object!(
        Pear,
        102,
        "pear",
        fn may_close(&self) -> Result<(), Failure> {
            self.0.none("pear")
        }
    );

    #[test]
    fn a_handle_says_where_and_what() {
        let place = Place { index: 0xFF_FFFF, generation: u32::MAX };
        let handle = ptr::without_provenance::<Apple>(encode(101, place));
        assert_eq!(decode(handle).unwrap(), place);
        assert!(matches!(decode(handle.cast::<Pear>()), Err(Failure::Handle { kind: "pear" })));
        assert!(matches!(decode(ptr::null::<Pear>()), Err(Failure::Null("pear"))));
    }

    #[test]
    fn numbers_that_are_no_handles_are_refused() {
        for bits in [1, 0xDEAD_BEEF, 101 << 56, 101 << 56 | 1 << 24 | 0xFF_FFFF, usize::MAX] {
            let handle = ptr::without_provenance_mut::<Apple>(bits);
            assert!(matches!(find(handle), Err(Failure::Handle { .. })), "{bits:#x}");
            assert!(matches!(take(handle), Err(Failure::Handle { .. })), "{bits:#x}");
        }
    }

    #[test]
    fn children_go_first() {
        let pear = hand_out(Pear(Children::default())).unwrap();
        let child = find(pear).unwrap().0.add();
        assert!(matches!(take(pear), Err(Failure::HasChildren { count: 1, .. })));
        drop(child);
        assert!(take(pear).is_ok());
        assert!(matches!(take(pear), Err(Failure::Handle { .. })));
    }
}
