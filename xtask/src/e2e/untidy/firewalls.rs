//! Firewalls that pass less than Braid would like.

use std::path::Path;

use super::case::UntidyCase;
use super::degraded::{expect, results};
use super::network::Network;
use crate::Failure;

pub(super) const CASES: &[UntidyCase] = &[
    UntidyCase { name: "a stateful firewall at the client, who writes", run: stateful_and_writes },
    UntidyCase { name: "a stateful firewall at the client, who reads", run: stateful_and_reads },
];

/// A client and a server on one link.
pub(super) fn one_link() -> Result<Network, Failure> {
    let network = Network::new()?;
    network.link([&network.server, &network.client], "braid0")?;
    network.server.ip(&["address add 10.77.0.1/24 dev braid0"])?;
    network.client.ip(&["address add 10.77.0.2/24 dev braid0"])?;
    Ok(network)
}

/// Lets in what answers, and nothing else.
const ONLY_ANSWERS: &str = "table inet braid { chain in { type filter hook input priority 0;
    ct state established,related accept; meta l4proto udp drop; }; }";

/// Data leaves by all paths: what leaves opens the firewall. What the server sends leaves by one.
fn stateful_and_writes(braid_perf: &Path) -> Result<(), Failure> {
    stateful(braid_perf, "write-bw")
}

fn stateful_and_reads(braid_perf: &Path) -> Result<(), Failure> {
    stateful(braid_perf, "read-bw")
}

fn stateful(braid_perf: &Path, verb: &str) -> Result<(), Failure> {
    let network = one_link()?;
    network.client.nft(ONLY_ANSWERS)?;
    let server = format!("{verb} -p 47910 --bind 10.77.0.1");
    let client = format!("{verb} -p 47910 -D 1 --json - 10.77.0.1");
    let said = network.perf(braid_perf, &server, &client)?.succeeded()?;
    let results = results(&said)?;
    expect(&said, &results, &[("server", "path-ports-blocked")])?;
    let row = &results["rows"][0];
    match (row["paths_live"].as_u64(), row["server_paths_live"].as_u64()) {
        (Some(16), Some(1)) => Ok(()),
        counts => Err(Failure::new(format!("{counts:?} paths in use, not 16 and 1:\n{row:#}"))),
    }
}
