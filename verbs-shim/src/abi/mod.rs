//! The C ABI of libibverbs, as far as it is used.
//!
//! Everything is declared through macros that also write it down in tables: names, offsets, sizes, values,
//! prototypes. `tests/drift.rs` compares those tables with the system's headers, so nothing can be
//! declared here that is not checked there.
//!
//! Names are those of `infiniband/verbs.h`. C enumerations are plain integers: what comes from a
//! library must not be trusted to be one of the values known here.

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
