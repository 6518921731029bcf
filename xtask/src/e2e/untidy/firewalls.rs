//! Firewalls that pass less than Braid would like.

use std::path::Path;

use super::case::UntidyCase;
use super::degraded::{expect, results};
use super::network::Network;
use crate::Failure;

pub(super) const CASES: &[UntidyCase] = &[
    UntidyCase { name: "a stateful firewall at the client, who writes", run: stateful_and_writes },
    UntidyCase { name: "a stateful firewall at the client, who reads", run: stateful_and_reads },
    UntidyCase { name: "a firewall that drops UDP, `auto`", run: without_udp },
    UntidyCase { name: "a firewall that refuses UDP, `auto`", run: udp_refused },
    UntidyCase { name: "a firewall that drops long UDP packets, `auto`", run: long_udp_dropped },
    UntidyCase { name: "no firewall, `auto`", run: open },
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

const DROPS_UDP: &str = "table inet braid { chain in { type filter hook input priority 0;
    meta l4proto udp drop; }; }";
const REFUSES_UDP: &str = "table inet braid { chain in { type filter hook input priority 0;
    meta l4proto udp reject; }; }";
const DROPS_LONG_UDP: &str = "table inet braid { chain in { type filter hook input priority 0;
    meta l4proto udp ip length > 600 drop; }; }";

fn without_udp(braid_perf: &Path) -> Result<(), Failure> {
    auto(braid_perf, Some(DROPS_UDP), Some("were not answered; let UDP port 47910"))
}

fn udp_refused(braid_perf: &Path) -> Result<(), Failure> {
    auto(braid_perf, Some(REFUSES_UDP), Some("UDP port 47910 of 10.77.0.1 cannot be reached"))
}

fn long_udp_dropped(braid_perf: &Path) -> Result<(), Failure> {
    auto(braid_perf, Some(DROPS_LONG_UDP), Some("were not answered; let UDP port 47910"))
}

fn open(braid_perf: &Path) -> Result<(), Failure> {
    auto(braid_perf, None, None)
}

/// Moves data with the datapath `auto` behind a firewall at the server. `why`: part of the reason
/// for TCP. `None`: UDP has to be used.
fn auto(braid_perf: &Path, rules: Option<&str>, why: Option<&str>) -> Result<(), Failure> {
    let network = one_link()?;
    rules.map_or(Ok(()), |rules| network.server.nft(rules))?;
    let server = "write-bw -p 47910 --bind 10.77.0.1 --datapath auto";
    let client = "write-bw -p 47910 --datapath auto -n 2000 --verify --json - 10.77.0.1";
    let said = network.perf(braid_perf, server, client)?.succeeded()?;
    let results = results(&said)?;
    let (protocol, name) = match why {
        Some(_) => ("TCP", "datapath-unavailable"),
        None => ("UDP", ""),
    };
    let expected = [("client", name), ("server", name)];
    expect(&said, &results, if why.is_some() { &expected } else { &[] })?;
    let verified = results["rows"][0]["verified_messages"].as_u64();
    let reason = results["degradations"][0]["why"].as_str().unwrap_or_default();
    let is_right = results["protocol"] == protocol && reason.contains(why.unwrap_or_default());
    if is_right && verified == Some(2000) {
        return Ok(());
    }
    Err(Failure::new(format!("not {protocol} with the reason {why:?}:\n{results:#}")))
}
