//! Two interfaces of each host in one subnet, a rail each. The routing table prefers the first for
//! all of them.

use std::path::Path;

use super::case::UntidyCase;
use super::network::Network;
use crate::Failure;
use crate::e2e::peers::Said;

pub(super) const CASES: &[UntidyCase] = &[
    UntidyCase { name: "two interfaces in one subnet", run: one_subnet },
    UntidyCase { name: "the same over IPv6", run: one_subnet_ipv6 },
    UntidyCase { name: "the same, as rules route by source address", run: policy_routing },
    UntidyCase { name: "the same, and strict reverse-path filters", run: strict_filters },
    UntidyCase { name: "a rail on the second interface alone", run: the_second_alone },
    UntidyCase { name: "rails whose addresses are those of the loopback", run: loopback_addresses },
];

const DEVICES: [&str; 2] = ["braid0", "braid1"];
const SERVER: [&str; 2] = ["10.77.0.1", "10.77.0.11"];
const CLIENT: [&str; 2] = ["10.77.0.2", "10.77.0.12"];
/// Bytes of the transfers below.
const SENT: u64 = 1000 * 65_536;
/// Less than this a rail sends that carries nothing.
const IDLE: u64 = SENT / 100;

/// Both ends' interfaces, joined pairwise, with these filters.
fn two_interfaces(arp_ignore: u32, rp_filter: u32) -> Result<Network, Failure> {
    let network = Network::new()?;
    for (rail, device) in DEVICES.into_iter().enumerate() {
        network.link([&network.server, &network.client], device)?;
        for (host, addresses) in [(&network.server, SERVER), (&network.client, CLIENT)] {
            let address = addresses[rail];
            host.ip(&[&format!("address add {address}/24 dev {device}")])?;
        }
    }
    for host in [&network.server, &network.client] {
        host.sysctl("ipv4/conf/all/arp_ignore", arp_ignore)?;
        // The kernel obeys the larger value of `all` and the device.
        host.sysctl("ipv4/conf/all/rp_filter", 0)?;
        for device in DEVICES {
            host.sysctl(&format!("ipv4/conf/{device}/rp_filter"), rp_filter)?;
        }
    }
    Ok(network)
}

/// WRITEs over both rails. Returns what was said, and the bytes that have left by each of the
/// client's interfaces.
fn over(
    network: &Network,
    braid_perf: &Path,
    [server, client]: [&str; 2],
    to: &str,
) -> Result<(Said, [u64; 2]), Failure> {
    let left = || -> Result<Vec<u64>, Failure> {
        let each = DEVICES.iter();
        each.map(|device| network.bytes(&network.client, device, "tx_bytes")).collect()
    };
    let before = left()?;
    let said = network.perf(
        braid_perf,
        &format!("write-bw -p 47910 {server}"),
        &format!("write-bw -p 47910 -n 1000 --verify {client} {to}"),
    )?;
    let after = left()?;
    Ok((said, [0, 1].map(|rail| after[rail] - before[rail])))
}

fn both_carry(network: &Network, braid_perf: &Path, rails: [[&str; 2]; 2]) -> Result<(), Failure> {
    let arguments = rails.map(|addresses| format!("--rails {}", addresses.join(",")));
    let arguments = [arguments[0].as_str(), arguments[1].as_str()];
    let (said, left) = over(network, braid_perf, arguments, rails[0][0])?;
    said.succeeded()?;
    match left.iter().all(|bytes| *bytes > IDLE) {
        true => Ok(()),
        false => Err(Failure::new(format!("{left:?} bytes have left by the two interfaces"))),
    }
}

fn one_subnet(braid_perf: &Path) -> Result<(), Failure> {
    for (arp_ignore, rp_filter) in [(0, 0), (1, 0), (0, 2), (1, 2)] {
        let network = two_interfaces(arp_ignore, rp_filter)?;
        both_carry(&network, braid_perf, [SERVER, CLIENT]).map_err(|why| {
            Failure::new(format!("arp_ignore={arp_ignore} rp_filter={rp_filter}: {why}"))
        })?;
    }
    Ok(())
}

fn one_subnet_ipv6(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_interfaces(1, 0)?;
    let (server, client) = (["fd77::1", "fd77::11"], ["fd77::2", "fd77::12"]);
    for (host, addresses) in [(&network.server, server), (&network.client, client)] {
        for (device, address) in DEVICES.into_iter().zip(addresses) {
            host.ip(&[&format!("address add {address}/64 dev {device} nodad")])?;
        }
    }
    both_carry(&network, braid_perf, [server, client])
}

/// Routes what leaves from each address by the interface that has it.
fn route_by_source(network: &Network) -> Result<(), Failure> {
    for (host, addresses) in [(&network.server, SERVER), (&network.client, CLIENT)] {
        for (table, (device, address)) in (101..).zip(DEVICES.into_iter().zip(addresses)) {
            host.ip(&[
                &format!("route add 10.77.0.0/24 dev {device} table {table}"),
                &format!("rule add from {address} lookup {table}"),
            ])?;
        }
    }
    Ok(())
}

/// As hosts have to be set up for other programs. Strict filters let it pass.
fn policy_routing(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_interfaces(1, 1)?;
    route_by_source(&network)?;
    both_carry(&network, braid_perf, [SERVER, CLIENT])
}

/// The message about a rail whose packets the reverse-path filter drops.
const FILTERED: &str = "braid1 drops what comes from there: its rp_filter is 1 (strict)";

/// The second rail cannot carry anything. The connection goes on over the first, and both ends say
/// why.
fn strict_filters(braid_perf: &Path) -> Result<(), Failure> {
    for arp_ignore in [0, 1] {
        let network = two_interfaces(arp_ignore, 1)?;
        let arguments =
            [SERVER, CLIENT].map(|addresses| format!("--rails {}", addresses.join(",")));
        let arguments = [arguments[0].as_str(), arguments[1].as_str()];
        let (said, left) = over(&network, braid_perf, arguments, SERVER[0])?;
        let said = said.succeeded()?;
        let ends = [&said.server, &said.client];
        if left[0] < SENT || !ends.iter().all(|end| end.contains(FILTERED)) {
            return Err(Failure::new(format!(
                "{left:?} bytes have left, and not both say `{FILTERED}`\n{}\n{}",
                said.server, said.client
            )));
        }
    }
    Ok(())
}

/// As the second device of the NCCL plugin and of the drop-in. With strict filters the error says
/// what they do.
fn the_second_alone(braid_perf: &Path) -> Result<(), Failure> {
    let arguments = ["--bind 10.77.0.11", "--bind 10.77.0.12"];
    for arp_ignore in [0, 1] {
        let network = two_interfaces(arp_ignore, 0)?;
        let (said, left) = over(&network, braid_perf, arguments, SERVER[1])?;
        said.succeeded()?;
        if left[0] > IDLE || left[1] < SENT {
            return Err(Failure::new(format!("{left:?} bytes have left by the two interfaces")));
        }
    }
    let network = two_interfaces(1, 1)?;
    let (said, _) = over(&network, braid_perf, arguments, SERVER[1])?;
    match said.failure {
        Some(_) if said.client.contains(FILTERED) => Ok(()),
        _ => Err(Failure::new(format!("nobody says `{FILTERED}`\n{}", said.client))),
    }
}

/// An address of the loopback interface is one of the whole host: its packets leave as the routing
/// table says.
fn loopback_addresses(braid_perf: &Path) -> Result<(), Failure> {
    let network = two_interfaces(1, 0)?;
    let (server, client) = (["10.99.0.1", "10.99.1.1"], ["10.99.0.2", "10.99.1.2"]);
    for (host, own, other) in [(&network.server, server, CLIENT), (&network.client, client, SERVER)]
    {
        let theirs = if own == server { client } else { server };
        for rail in [0, 1] {
            let (device, via) = (DEVICES[rail], other[rail]);
            host.ip(&[
                &format!("address add {}/32 dev lo", own[rail]),
                &format!("route add {}/32 via {via} dev {device}", theirs[rail]),
            ])?;
        }
    }
    both_carry(&network, braid_perf, [server, client])
}
