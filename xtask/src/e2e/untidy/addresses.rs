//! Hosts with several addresses.

use std::path::Path;

use super::{Case, Network};
use crate::Failure;

pub(super) const CASES: &[Case] =
    &[Case { name: "a server bound to its second address", run: bound_to_the_second_address }];

/// A client and a server, whose device has two addresses of one subnet.
fn two_addresses() -> Result<Network, Failure> {
    let network = Network::new()?;
    network.link([&network.server, &network.client], "braid0")?;
    network.ip(&network.server, &["address add 10.77.0.1/24 dev braid0"])?;
    network.ip(&network.server, &["address add 10.77.0.11/24 dev braid0"])?;
    network.ip(&network.client, &["address add 10.77.0.2/24 dev braid0"])?;
    Ok(network)
}

/// A firewall that lets in what answers.
const ONLY_ANSWERS: &str = "table inet braid { chain in { type filter hook input priority 0;
    ct state established,related accept; meta l4proto udp drop; }; }";

fn bound_to_the_second_address(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_addresses()?;
    network.sysctl(&network.client, "net.ipv4.conf.all.rp_filter", 1)?;
    network.nft(&network.client, ONLY_ANSWERS)?;
    let before = network.bytes(&network.client, "braid0", "tx_bytes")?;
    let said = network.perf(
        braid_perf,
        "write-bw -p 47910 --bind 10.77.0.11",
        "write-bw -p 47910 -n 1000 --verify 10.77.0.11",
    )?;
    said.succeeded()?;
    match network.bytes(&network.client, "braid0", "tx_bytes")? - before {
        0..65_536_000 => Err(Failure::new("the bytes did not leave by braid0")),
        _ => Ok(()),
    }
}
