//! Macros that declare structs, and list them in a table for comparison with C.

/// Declares types that are only pointed to.
macro_rules! opaque {
    ($($name:ident),*) => {
        $(
            /// An opaque type.
            #[repr(C)]
            #[allow(non_camel_case_types)]
            pub struct $name {
                _private: [u8; 0],
            }

            impl CType for $name {
                fn declare(inner: &str) -> String {
                    format!("struct {} {inner}", stringify!($name))
                }
            }
        )*
    };
}

/// Declares structs with their size on x86-64, and lists them in a table.
macro_rules! structs {
    ($layouts:ident: $(
        $(#[$attribute:meta])* $name:ident ($kind:ident $extent:ident $size:literal) {
        $($field:ident: $type:ty),* $(,)?
    })*) => {
        $(
            #[doc = concat!("`", stringify!($kind), " ", stringify!($name), "`.")]
            #[repr(C)]
            $(#[$attribute])*
            #[derive(Clone, Copy)]
            #[allow(non_camel_case_types, missing_docs)]
            pub $kind $name {
                $(pub $field: $type),*
            }

            impl CType for $name {
                fn declare(inner: &str) -> String {
                    format!("{} {} {inner}", stringify!($kind), stringify!($name))
                }
            }

            #[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
            const _: () = assert!(size_of::<$name>() == $size);
        )*

        /// All structs that have a name in C.
        pub const $layouts: &[Layout] = &[$(Layout {
            name: concat!(stringify!($kind), " ", stringify!($name)),
            extent: Extent::$extent,
            size: size_of::<$name>(),
            fields: &[$((stringify!($field), offset_of!($name, $field), size_of::<$type>())),*],
        }),*];
    };
}

pub(super) use {opaque, structs};
