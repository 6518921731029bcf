//! C declarations of Rust's types, for checks by a C compiler.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A type with a name in C.
pub trait CType {
    /// Writes a C declaration of `inner` as this type: `int x` for `x`, `int` for an empty `inner`.
    fn declare(inner: &str) -> String;
}

/// The declared part of a C struct.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The whole struct, because libibverbs gets memory of this size.
    Whole,
    /// The first fields, because only those are read, or because the struct may grow and its length
    /// is passed.
    Prefix,
}

/// The layout of a declared struct.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The name in C, including `struct`.
    pub name: &'static str,
    /// Whether the size must also equal that of C.
    pub extent: Extent,
    /// Size of the Rust declaration in bytes.
    pub size: usize,
    /// Name, offset and size of each field, in bytes.
    pub fields: &'static [(&'static str, usize, usize)],
}

macro_rules! named {
    ($($rust:ty => $c:literal),* $(,)?) => {
        $(impl CType for $rust {
            fn declare(inner: &str) -> String {
                format!("{} {inner}", $c)
            }
        })*
    };
}

named! {
    c_char => "char", c_void => "void", u8 => "uint8_t", u16 => "uint16_t",
    c_int => "int", c_uint => "unsigned int", u64 => "uint64_t", usize => "size_t",
}

impl<T: CType> CType for *mut T {
    fn declare(inner: &str) -> String {
        T::declare(&format!("*{inner}"))
    }
}

impl<T: CType> CType for *const T {
    fn declare(inner: &str) -> String {
        format!("const {}", T::declare(&format!("*{inner}")))
    }
}

macro_rules! function_pointers {
    ($(($($argument:ident),*))*) => {
        $(impl<R: CReturn, $($argument: CType),*> CType
            for unsafe extern "C" fn($($argument),*) -> R
        {
            fn declare(inner: &str) -> String {
                let arguments: Vec<String> = vec![$($argument::declare("")),*];
                R::declare(&format!("(*{inner})({})", arguments.join(", ")))
            }
        })*
    };
}

function_pointers! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

/// The return type of a C function: a type, or nothing.
pub trait CReturn {
    /// Writes a C declaration like [`CType::declare`].
    fn declare(inner: &str) -> String;
}

impl CReturn for () {
    fn declare(inner: &str) -> String {
        format!("void {inner}")
    }
}

impl<T: CType> CReturn for T {
    fn declare(inner: &str) -> String {
        <T as CType>::declare(inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_read_as_in_c() {
        type Get = unsafe extern "C" fn(*mut *mut c_void, c_int) -> *const c_char;
        assert_eq!(<Get as CType>::declare("f"), "const char *(*f)(void **, int )");
        type Free = unsafe extern "C" fn(u64);
        assert_eq!(<Free as CType>::declare(""), "void (*)(uint64_t )");
    }
}
