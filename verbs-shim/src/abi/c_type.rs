//! How Rust's declarations are written in C, so that a C compiler can judge them.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A type that has a name in C.
pub trait CType {
    /// Writes a C declaration of `inner` as this type: `int x` for `x`, `int` for an empty `inner`.
    fn declare(inner: &str) -> String;
}

/// How much of a C struct is declared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All of it: libibverbs is handed memory of this size.
    Whole,
    /// Its first fields: either only those are read, or the struct may grow and its length is passed along.
    Prefix,
}

/// Where the fields of a declared struct lie.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its name in C, `struct` included.
    pub name: &'static str,
    /// Whether the size must be that of C, too.
    pub extent: Extent,
    /// Its size in bytes as declared here.
    pub size: usize,
    /// Name, offset and size of each field in bytes.
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
        $(impl<R: CReturn, $($argument: CType),*> CType for unsafe extern "C" fn($($argument),*) -> R {
            fn declare(inner: &str) -> String {
                let arguments: Vec<String> = vec![$($argument::declare("")),*];
                R::declare(&format!("(*{inner})({})", arguments.join(", ")))
            }
        })*
    };
}

function_pointers! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) }

/// What a C function returns: a type, or nothing.
pub trait CReturn {
    /// As [`CType::declare`].
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
