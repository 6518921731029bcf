//! Structs that may grow without breaking programs: the first field holds the size that the program
//! knows (as in Linux's `copy_struct_from_user`).

use std::ptr;

use crate::failure::Failure;

/// Maximum size of such a struct. A larger value means that `size` was not initialised.
const MAX_SIZE: usize = 4096;

/// # Safety
/// The type is `repr(C)`, its first field is `size: usize`, and every pattern of bytes is a value
/// of it: numbers, raw pointers and arrays of them.
pub(crate) unsafe trait Growing: Copy {
    /// The name in C.
    const NAME: &'static str;
}

/// Checks the value of `size`.
fn check_size<T: Growing>(size: usize) -> Result<usize, Failure> {
    let possible = (size_of::<usize>()..=MAX_SIZE).contains(&size);
    if possible { Ok(size) } else { Err(Failure::Size { name: T::NAME, size }) }
}

/// # Safety
/// The caller's promise, with at least the field `size` at `from`.
unsafe fn size_at<T: Growing>(from: *const T) -> Result<usize, Failure> {
    if from.is_null() {
        return Err(Failure::Null(T::NAME));
    }
    // SAFETY: `size` is the first field and valid.
    check_size::<T>(unsafe { from.cast::<usize>().read_unaligned() })
}

/// Reads a struct of the size that it states. Fields that the program does not know take the value
/// of `defaults`. Fields that this library does not know must be 0.
///
/// # Safety
/// The caller's promise, with as many bytes as the field `size` states.
pub(crate) unsafe fn read<T: Growing>(from: *const T, defaults: T) -> Result<T, Failure> {
    // SAFETY: as the caller promises.
    let size = unsafe { size_at(from) }?;
    let known = size_of::<T>();
    // SAFETY: as the caller promises, `size` bytes are valid.
    let unknown = (known..size).any(|at| unsafe { from.cast::<u8>().add(at).read() } != 0);
    if unknown {
        return Err(Failure::Newer { name: T::NAME, size, known });
    }
    let mut value = defaults;
    // SAFETY: both sides have at least that many bytes, and any bytes are a value of `T`.
    unsafe {
        ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut value).cast(), size.min(known));
    }
    Ok(value)
}

/// Writes as much of `value` as fits the struct at `to` by its field `size`, which does not change.
///
/// # Safety
/// The caller's promise, with as many bytes as the field `size` states.
pub(crate) unsafe fn write<T: Growing>(to: *mut T, value: T) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    let size = unsafe { size_at(to) }?;
    // SAFETY: as the caller promises, `size` has the value of the field.
    unsafe { init(to, size, value) }
}

/// Writes like [`write`] to a struct whose field `size` is set to `size` first.
///
/// # Safety
/// The caller's promise, with `size` bytes at `to`.
pub(crate) unsafe fn init<T: Growing>(to: *mut T, size: usize, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::Null(T::NAME));
    }
    check_size::<T>(size)?;
    let (to, known) = (to.cast::<u8>(), size_of::<T>().min(size));
    // SAFETY: `size` bytes are valid, and `value` has `known`. `size` itself is written last
    // because the copy has overwritten it.
    unsafe {
        ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), to, known);
        ptr::write_bytes(to.add(known), 0, size - known);
        to.cast::<usize>().write_unaligned(size);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(C)]
    struct Old {
        size: usize,
        a: u32,
        b: u32,
    }

    #[derive(Clone, Copy, PartialEq, Debug)]
    #[repr(C)]
    struct New {
        size: usize,
        a: u32,
        b: u32,
        c: u64,
    }

    // SAFETY: `repr(C)`, `size` first, numbers only.
    unsafe impl Growing for Old {
        const NAME: &'static str = "old";
    }
    // SAFETY: as above.
    unsafe impl Growing for New {
        const NAME: &'static str = "new";
    }

    const DEFAULTS: New = New { size: 24, a: 1, b: 2, c: 3 };

    #[test]
    fn an_older_program_gets_the_defaults_of_what_it_does_not_know() {
        let mut old = Old { size: 0, a: 0, b: 0 };
        // SAFETY: the memory of `old`, with its own size.
        unsafe { init((&raw mut old).cast::<New>(), size_of::<Old>(), DEFAULTS) }.unwrap();
        assert_eq!(old, Old { size: 16, a: 1, b: 2 });
        old.b = 7;
        // SAFETY: the memory of `old`, whose size says how much that is.
        let read = unsafe { read((&raw const old).cast::<New>(), DEFAULTS) }.unwrap();
        assert_eq!((read.a, read.b, read.c), (1, 7, 3));
    }

    #[test]
    fn a_newer_program_may_only_set_what_this_library_knows() {
        let mut new = New { size: 0, a: 9, b: 9, c: 9 };
        let old = Old { size: 16, a: 5, b: 6 };
        // SAFETY: the memory of `new`, with its own size.
        unsafe { init((&raw mut new).cast::<Old>(), size_of::<New>(), old) }.unwrap();
        assert_eq!(new, New { size: 24, a: 5, b: 6, c: 0 });
        // SAFETY: the memory of `new`, here and below.
        assert!(unsafe { read((&raw const new).cast::<Old>(), old) }.is_ok());
        new.c = 1;
        // SAFETY: as above.
        let refused = unsafe { read((&raw const new).cast::<Old>(), old) };
        assert!(matches!(refused, Err(Failure::Newer { size: 24, known: 16, .. })), "{refused:?}");
    }

    #[test]
    fn a_size_that_was_never_set_is_refused() {
        for size in [0, 7, 4097, usize::MAX] {
            let wrong = New { size, ..DEFAULTS };
            // SAFETY: the size is refused before anything else is read.
            let refused = unsafe { read(&raw const wrong, DEFAULTS) };
            assert!(matches!(refused, Err(Failure::Size { .. })), "{refused:?}");
        }
    }
}
