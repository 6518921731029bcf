//! Themis (Liu et al., APNet 2025). Edge switches spray packets by their PSN, so that two PSNs tell
//! whether they took the same route. They hold back NACKs that a packet of another route has
//! triggered.

mod destination;
mod memory;
mod source;

pub(crate) use destination::Destination;
pub use memory::ThemisMemory;
pub(crate) use source::Spray;

#[cfg(test)]
mod tests;
