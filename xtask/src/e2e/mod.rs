//! `cargo xtask e2e`: real processes that move real bytes and check every one of them.
//!
//! The runs, in their order:
//!
//! 1. over loopback, clean and with faults injected below the protocol;
//! 2. between two network namespaces joined by a veth pair, at the MTUs of plain Ethernet and of
//!    jumbo frames, over UDP and AF_XDP;
//! 3. through a router that has a smaller MTU, reduces its MTU during the run, or translates
//!    addresses;
//! 4. over several rails, all to all, and with a rail that is cut;
//! 5. on untidy hosts;
//! 6. with the NCCL plugin.

mod all_to_all;
mod cases;
mod nccl;
mod peers;
mod place;
mod rail_cut;
mod rails;
mod routed;
mod untidy;
mod xdp;

use std::path::{Path, PathBuf};

use cases::{CASES, Case, FAULTS};
use place::Pair;

use crate::{Failure, programs, tools};

const MTUS: [u32; 2] = [1500, 9000];

/// The choice of cases.
#[derive(clap::Args)]
pub struct E2eOptions {
    /// Only the laboratory of untidy hosts
    #[arg(long)]
    untidy: bool,
}

/// Builds `braid-perf` and runs every case; the first that fails ends it.
pub fn run(options: &E2eOptions) -> Result<(), Failure> {
    let braid_perf = build()?;
    if options.untidy {
        return untidy::run(&braid_perf);
    }
    for case in CASES {
        peers::loopback(&braid_perf, case, &[])?;
        peers::loopback(&braid_perf, case, FAULTS)?;
    }
    for mtu in MTUS {
        between_namespaces(&braid_perf, mtu)?;
    }
    xdp::run(&braid_perf)?;
    routed::run(&braid_perf)?;
    rails::run(&braid_perf)?;
    all_to_all::run(&braid_perf)?;
    rail_cut::run(&braid_perf)?;
    untidy::run(&braid_perf)?;
    nccl::run()
}

fn between_namespaces(braid_perf: &Path, mtu: u32) -> Result<(), Failure> {
    let pair = Pair::new(mtu)?;
    for case in CASES {
        peers::server_and_client(braid_perf, case, &pair, &[], place::SERVER_V4)?;
    }
    let write_bw: &Case = &CASES[0];
    for host in [place::SERVER_V6, place::SERVER_LINK_LOCAL] {
        peers::server_and_client(braid_perf, write_bw, &pair, &[], host)?;
    }
    Ok(())
}

fn build() -> Result<PathBuf, Failure> {
    tools::need("ip")?;
    Ok(programs::build()?.join("braid-perf"))
}
