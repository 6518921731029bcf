//! `cargo xtask softroce`: the Soft-RoCE virtual machine.

use crate::Failure;

/// Says that there is no such machine yet.
pub fn run() -> Result<(), Failure> {
    Err(Failure::new("the Soft-RoCE machine is not built yet: ci-softroce/ does not exist"))
}
