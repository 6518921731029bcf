//! Networks that mark, drop or rewrite what is ECN-capable.

use std::path::Path;

use super::case::UntidyCase;
use super::degraded::{expect, results};
use super::firewalls::one_link;
use super::network::Network;
use crate::Failure;

pub(super) const CASES: &[UntidyCase] = &[
    UntidyCase { name: "every packet carries a congestion mark", run: all_marked },
    UntidyCase { name: "packets with ECN are dropped", run: dropped },
    UntidyCase {
        name: "packets with ECN are dropped, both ways and over IPv6",
        run: dropped_both_ways,
    },
    UntidyCase { name: "ECN is bleached", run: bleached },
];

/// A client and a server, and rules for what the client sends and receives.
fn network(out: &str, incoming: &str) -> Result<Network, Failure> {
    let network = one_link()?;
    let rules = format!(
        "table inet braid {{ chain out {{ type filter hook output priority 0;\n{out}\n}}
         chain in {{ type filter hook input priority 0;\n{incoming}\n}}\n}}"
    );
    network.client.nft(&rules)?;
    Ok(network)
}

/// The window is cut to its minimum, and then the marks are ignored. The tests of `transport` show
/// how fast it grows then.
fn all_marked(braid_perf: &Path) -> Result<(), Failure> {
    let network = network("ip ecn set ce", "")?;
    let client = "write-bw -p 47910 -D 2 --json - 10.77.0.1";
    let said = network.perf(braid_perf, "write-bw -p 47910 --bind 10.77.0.1", client)?;
    let said = said.succeeded()?;
    expect(&said, &results(&said)?, &[("client", "ecn-always-marked")])
}

fn dropped(braid_perf: &Path) -> Result<(), Failure> {
    let network = network("ip ecn != not-ect drop", "")?;
    let client = "write-bw -p 47910 -D 1 --verify --json - 10.77.0.1";
    let said = network.perf(braid_perf, "write-bw -p 47910 --bind 10.77.0.1", client)?;
    let said = said.succeeded()?;
    expect(&said, &results(&said)?, &[("client", "ecn-dropped")])
}

fn dropped_both_ways(braid_perf: &Path) -> Result<(), Failure> {
    let network = network("ip6 ecn != not-ect drop", "ip6 ecn != not-ect drop")?;
    network.server.ip(&["address add fd77::1/64 dev braid0 nodad"])?;
    network.client.ip(&["address add fd77::2/64 dev braid0 nodad"])?;
    let client = "write-bw -b -p 47910 -D 1 --json - fd77::1";
    let said = network.perf(braid_perf, "write-bw -p 47910 --bind fd77::1", client)?;
    let said = said.succeeded()?;
    let expected = [("client", "ecn-dropped"), ("server", "ecn-dropped")];
    expect(&said, &results(&said)?, &expected)
}

/// Nothing is marked, and nobody misses anything.
fn bleached(braid_perf: &Path) -> Result<(), Failure> {
    let network = network("ip ecn set not-ect", "ip ecn set not-ect")?;
    let client = "write-bw -p 47910 -n 2000 --json - 10.77.0.1";
    let said = network.perf(braid_perf, "write-bw -p 47910 --bind 10.77.0.1", client)?;
    let said = said.succeeded()?;
    expect(&said, &results(&said)?, &[])
}
