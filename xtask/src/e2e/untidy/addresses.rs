//! Hosts with several addresses, and names with several.

use std::path::Path;

use super::case::UntidyCase;
use super::network::Network;
use crate::Failure;

pub(super) const CASES: &[UntidyCase] = &[
    UntidyCase { name: "a server bound to its second address", run: bound_to_the_second_address },
    UntidyCase {
        name: "a wildcard server called at its second address",
        run: called_at_the_second,
    },
    UntidyCase { name: "the same, bound to [::]", run: called_at_the_second_v6_socket },
    UntidyCase { name: "the same over IPv6, link-local too", run: called_at_the_second_ipv6 },
    UntidyCase {
        name: "a wildcard server called at an address of its loopback",
        run: called_at_lo,
    },
    UntidyCase {
        name: "a name whose last address alone has a server",
        run: the_last_address_of_a_name,
    },
    UntidyCase { name: "hosts as people write them", run: hosts_as_written },
];

/// A client and a server, whose device has two addresses of one subnet.
fn two_addresses() -> Result<Network, Failure> {
    let network = Network::new()?;
    network.link([&network.server, &network.client], "braid0")?;
    network.server.ip(&["address add 10.77.0.1/24 dev braid0"])?;
    network.server.ip(&["address add 10.77.0.11/24 dev braid0"])?;
    network.client.ip(&["address add 10.77.0.2/24 dev braid0"])?;
    Ok(network)
}

/// A firewall that lets in what answers.
const ONLY_ANSWERS: &str = "table inet braid { chain in { type filter hook input priority 0;
    ct state established,related accept; meta l4proto udp drop; }; }";

/// Counts UDP packets that come from the server's first address.
const FROM_THE_FIRST: &str = "table inet first { chain in { type filter hook input priority -10;
    meta l4proto udp ip saddr 10.77.0.1 counter drop;
    meta l4proto udp ip6 saddr fd77::1 counter drop; }; }";

/// Bytes of the transfers below.
const SENT: u64 = 1000 * 65_536;

/// The client's WRITEs reach the server, and it drops whatever comes from the server's first
/// address.
fn writes(network: &Network, braid_perf: &Path, server: &str, client: &str) -> Result<(), Failure> {
    let before = network.bytes(&network.client, "braid0", "tx_bytes")?;
    let said = network.perf(
        braid_perf,
        &format!("write-bw -p 47910 {server}"),
        &format!("write-bw -p 47910 -n 1000 --verify {client}"),
    )?;
    said.succeeded()?;
    match network.bytes(&network.client, "braid0", "tx_bytes")? - before {
        0..SENT => Err(Failure::new("the bytes did not leave by braid0")),
        _ => Ok(()),
    }
}

fn bound_to_the_second_address(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_addresses()?;
    network.client.sysctl("ipv4/conf/all/rp_filter", 1)?;
    network.client.nft(ONLY_ANSWERS)?;
    writes(&network, braid_perf, "--bind 10.77.0.11", "10.77.0.11")
}

fn called_at_the_second(braid_perf: &Path) -> Result<(), Failure> {
    wildcard_at_the_second(braid_perf, "0.0.0.0")
}

fn called_at_the_second_v6_socket(braid_perf: &Path) -> Result<(), Failure> {
    wildcard_at_the_second(braid_perf, "::")
}

/// Set-up and data come from the address that was called, and nothing from the first.
fn wildcard_at_the_second(braid_perf: &Path, bind: &str) -> Result<(), Failure> {
    let network = two_addresses()?;
    network.client.nft(FROM_THE_FIRST)?;
    writes(&network, braid_perf, &format!("--bind {bind}"), "10.77.0.11")?;
    network.client.nft(ONLY_ANSWERS)?;
    writes(&network, braid_perf, &format!("--bind {bind}"), "10.77.0.11")
}

fn called_at_the_second_ipv6(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_addresses()?;
    for ip in ["fd77::1/64", "fd77::11/64", "fe80::77:1/64", "fe80::77:11/64"] {
        network.server.ip(&[&format!("address add {ip} dev braid0 nodad")])?;
    }
    for ip in ["fd77::2/64", "fe80::77:2/64"] {
        network.client.ip(&[&format!("address add {ip} dev braid0 nodad")])?;
    }
    network.client.nft(ONLY_ANSWERS)?;
    // Which of them the system prefers depends on their order, so each is called.
    for called in ["fd77::1", "fd77::11", "fe80::77:1%braid0", "fe80::77:11%braid0"] {
        writes(&network, braid_perf, "--bind ::", called)?;
    }
    Ok(())
}

/// The client knows a route to the called address only, which is a /32 of the server's loopback
/// device.
fn called_at_lo(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_addresses()?;
    network.server.ip(&["address add 10.99.0.1/32 dev lo"])?;
    network
        .client
        .ip(&["route add 10.99.0.1/32 via 10.77.0.1", "route add blackhole 10.77.0.1/32"])?;
    writes(&network, braid_perf, "", "10.99.0.1")
}

fn the_last_address_of_a_name(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_addresses()?;
    // One that nobody has, one without a server, one that no route leads to.
    let addresses = ["10.77.0.77", "10.77.0.1", "fd99::1", "10.77.0.11"];
    let _hosts = network.hosts(&network.client, &addresses.map(|ip| format!("{ip} untidy")))?;
    writes(&network, braid_perf, "--bind 10.77.0.11", "untidy")
}

fn hosts_as_written(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_addresses()?;
    writes(&network, braid_perf, "--bind 10.77.0.11", "10.77.0.11:47910")?;
    network.server.ip(&["address add fd77::1/64 dev braid0 nodad"])?;
    network.client.ip(&["address add fd77::2/64 dev braid0 nodad"])?;
    writes(&network, braid_perf, "", "[fd77::1]:47910")?;
    writes(&network, braid_perf, "", "[fd77::1]")?;
    for (host, why) in [
        ("no.such.host", "`no.such.host`: "),
        ("[fd77::1", "`[fd77::1` is no host; accepted: "),
        ("10.77.0.11:0", "`10.77.0.11:0` has no port from 1 to 65535"),
    ] {
        let said = network.perf(
            braid_perf,
            "write-bw -p 47910",
            &format!("write-bw -p 47910 -n 1000 {host}"),
        )?;
        match said.failure {
            Some(_) if said.client.contains(why) => {}
            _ => return Err(Failure::new(format!("nobody says `{why}`\n{}", said.client))),
        }
    }
    Ok(())
}
