//! The C ABI of libibverbs, as far as this crate uses it.
//!
//! All declarations go through macros that also list them in tables: names, offsets, sizes, values,
//! prototypes. `tests/drift.rs` compares those tables with the system's headers, so every
//! declaration is checked.
//!
//! Names are those of `infiniband/verbs.h`. C enumerations are plain integers, because values from
//! a library may be unknown here.

mod c_type;
mod constants;
mod declare;
mod extended;
mod functions;
mod structs;

pub use c_type::{CType, Extent, Layout};
pub use constants::*;
pub use extended::*;
pub use functions::{FUNCTIONS, Function, Symbols};
pub use structs::*;
