//! The laboratory of untidy hosts: several addresses, interfaces in one subnet, firewalls, bridges,
//! networks that lose one way only. Each case has a network of its own.

mod addresses;
mod case;
mod degraded;
mod devices;
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

use case::UntidyCase;

use crate::{Failure, tools};

/// All of them, in the order in which they run.
const CASES: &[&[UntidyCase]] = &[
    addresses::CASES,
    rails::CASES,
    firewalls::CASES,
    devices::CASES,
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
