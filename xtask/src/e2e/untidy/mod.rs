//! The laboratory of untidy hosts: several addresses, interfaces in one subnet, firewalls, bridges,
//! networks that lose one way only. Each case has a network of its own.

mod addresses;
mod degraded;
mod ends;
mod firewalls;
mod marks;
mod nccl;
mod network;
mod one_way;
mod processes;
mod rails;
mod reordering;

use std::path::Path;

use network::Network;

use crate::{Failure, tools};

/// One untidy network and what has to hold on it.
struct UntidyCase {
    /// Printed before the case runs.
    name: &'static str,
    run: fn(&Path) -> Result<(), Failure>,
}

/// All of them, in the order in which they run.
const CASES: &[&[UntidyCase]] = &[
    addresses::CASES,
    rails::CASES,
    firewalls::CASES,
    marks::CASES,
    one_way::CASES,
    reordering::CASES,
    ends::CASES,
    processes::CASES,
    nccl::CASES,
];

/// Runs every case with this `braid-perf`; the first that fails ends it.
pub(super) fn run(braid_perf: &Path) -> Result<(), Failure> {
    tools::need("nft")?;
    for case in CASES.iter().copied().flatten() {
        println!("untidy: {}", case.name);
        (case.run)(braid_perf)
            .map_err(|why| Failure::new(format!("untidy: {}: {why}", case.name)))?;
    }
    Ok(())
}
