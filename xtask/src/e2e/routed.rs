//! A router between server and client whose links and rules change: what a path carries, and from
//! which ports.

use std::path::Path;

use braid_lab::Namespace;

use super::cases::{CASES, Case};
use super::peers;
use super::place::{self, Place, SERVER_V4, SERVER_V6, prefixed};
use crate::{Failure, tools};

const CLIENT_V4: &str = "10.78.0.2";
const CLIENT_V6: &str = "fd78::2";
/// The router's address and device on the server's side, and on the client's.
const SERVER_SIDE: [&str; 3] = ["10.77.0.254", "fd77::fe", "braid0"];
const CLIENT_SIDE: [&str; 3] = ["10.78.0.254", "fd78::fe", "braid1"];

/// Bytes of IP packets that the longest links take, and that short ones do.
const LONG: u32 = 9000;
const SHORT: u32 = 1500;

/// Routers that say nothing when a packet is too large.
const NO_ICMP: &str = "table inet braid { chain out { type filter hook output priority 0;
    icmp type destination-unreachable drop; icmpv6 type packet-too-big drop; }; }";
/// Addresses and ports of the client's side are replaced, and only answers come in.
const NAT: &str = "table ip braid { chain nat { type nat hook postrouting priority 100; oif braid0 masquerade; };
    chain stateful { type filter hook forward priority 0; iif braid0 ct state new,invalid drop; }; }";

/// Client, router and server; all vanish with this value.
struct Routed {
    server: Namespace,
    router: Namespace,
    client: Namespace,
    /// For messages.
    what: &'static str,
}

/// Every case; the first that fails ends it.
pub(super) fn run(braid_perf: &Path) -> Result<(), Failure> {
    tools::need("nft")?;
    let [write_bw, read_bw, ..] = CASES else { unreachable!("both are there") };
    narrow(braid_perf, write_bw)?;
    for case in [write_bw, read_bw] {
        shrinking(braid_perf, case)?;
        let routed = Routed::new("router, NAT", SHORT, Some(NAT))?;
        peers::server_and_client(braid_perf, case, &routed, &[], SERVER_V4)?;
    }
    Ok(())
}

/// A link in the middle that takes less than those of the hosts.
fn narrow(braid_perf: &Path, case: &Case) -> Result<(), Failure> {
    for (what, rules) in [("router, 1280", None), ("router, 1280, no ICMP", Some(NO_ICMP))] {
        let routed = Routed::new(what, SHORT, rules)?;
        routed.set_mtu(1280)?;
        peers::server_and_client(braid_perf, case, &routed, &[], SERVER_V4)?;
        peers::server_and_client(braid_perf, case, &routed, &[], SERVER_V6)?;
    }
    let routed = Routed::new("router, 576", SHORT, None)?;
    routed.set_mtu(576)?;
    peers::client_fails(braid_perf, case, &routed, SERVER_V4, "carries no datagrams of 1200 bytes")
}

/// A link in the middle that takes less from one moment to the next.
fn shrinking(braid_perf: &Path, case: &Case) -> Result<(), Failure> {
    for (what, rules) in [("router, shrinks", None), ("router, shrinks, no ICMP", Some(NO_ICMP))] {
        let routed = Routed::new(what, LONG, rules)?;
        for host in [SERVER_V4, SERVER_V6] {
            let shrink = || routed.set_mtu(SHORT);
            peers::server_and_client_while(braid_perf, case, &routed, host, shrink)?;
            routed.set_mtu(LONG)?;
        }
    }
    Ok(())
}

impl Routed {
    /// Links of this MTU on both sides of a router with these rules (for `nft`).
    fn new(what: &'static str, mtu: u32, rules: Option<&str>) -> Result<Self, Failure> {
        let [server, router, client] = place::namespaces()?;
        let routed = Self { server, router, client, what };
        let sides = [
            (&routed.server, SERVER_SIDE, [SERVER_V4, SERVER_V6]),
            (&routed.client, CLIENT_SIDE, [CLIENT_V4, CLIENT_V6]),
        ];
        for (host, [v4, v6, device], own) in sides {
            host.join(&routed.router, device, mtu)?;
            host.set_up(device, &prefixed(&own))?;
            routed.router.set_up(device, &prefixed(&[v4, v6]))?;
            host.ip(&[
                &format!("route add default via {v4}"),
                &format!("route add ::/0 via {v6}"),
            ])?;
        }
        for forwards in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            routed.router.sysctl(forwards, 1)?;
        }
        rules.map_or(Ok(()), |rules| routed.router.nft(rules))?;
        Ok(routed)
    }

    /// The link between router and server takes packets of so many bytes from now on.
    fn set_mtu(&self, mtu: u32) -> Result<(), Failure> {
        let [.., device] = SERVER_SIDE;
        Ok(self.router.ip(&[&format!("link set {device} mtu {mtu}")])?)
    }
}

impl Place for Routed {
    fn ends(&self) -> [&Namespace; 2] {
        [&self.server, &self.client]
    }

    fn name(&self) -> String {
        self.what.to_owned()
    }
}
