//! Two links between server and client, a rail each, of which one is cut and mended.

use std::path::Path;
use std::thread;
use std::time::Duration;

use braid_lab::Namespace;

use super::cases::CASES;
use super::peers;
use super::place::{self, Place, prefixed};
use crate::Failure;

/// By rail: the device, and the addresses of server and client.
const LINKS: [[&str; 3]; 2] =
    [["braid0", "10.77.0.1", "10.77.0.2"], ["braid1", "10.79.0.1", "10.79.0.2"]];
const MTU: u32 = 1500;
const POLICIES: [&str; 5] = ["least-loaded", "round-robin", "hash", "lpt", "min-rtt"];

/// Server and client, with two links between them.
struct Rails {
    ends: [Namespace; 2],
    policy: &'static str,
    what: String,
}

/// Every verb over both rails; then each rail is cut in mid-transfer, under every policy.
pub(super) fn run(braid_perf: &Path) -> Result<(), Failure> {
    let [[.., server, _], _] = LINKS;
    let rails = Rails::new(POLICIES[0], "two rails".to_owned())?;
    for case in CASES {
        peers::server_and_client(braid_perf, case, &rails, &[], server)?;
    }
    drop(rails);
    for policy in POLICIES {
        for [device, ..] in LINKS {
            let rails = Rails::new(policy, format!("two rails, {device} cut, {policy}"))?;
            let cut = || {
                rails.cut(device)?;
                thread::sleep(Duration::from_secs(1));
                rails.mend()
            };
            peers::server_and_client_while(braid_perf, &CASES[0], &rails, server, cut)?;
        }
    }
    Ok(())
}

impl Rails {
    fn new(policy: &'static str, what: String) -> Result<Self, Failure> {
        let rails = Self { ends: place::namespaces()?, policy, what };
        join(&rails.ends, &LINKS, MTU)?;
        Ok(rails)
    }

    /// Nothing passes this link any more, and nobody says so.
    fn cut(&self, device: &str) -> Result<(), Failure> {
        self.nft(&format!(
            "table inet cut {{ chain in {{ type filter hook input priority 0; iif {device} drop; }};
                chain out {{ type filter hook output priority 0; oif {device} drop; }}; }}"
        ))
    }

    fn mend(&self) -> Result<(), Failure> {
        self.nft("delete table inet cut")
    }

    fn nft(&self, rules: &str) -> Result<(), Failure> {
        Ok(self.ends[0].nft(rules)?)
    }
}

impl Place for Rails {
    fn ends(&self) -> [&Namespace; 2] {
        self.ends.each_ref()
    }

    fn arguments(&self) -> [Vec<String>; 2] {
        let addresses = |end: usize| LINKS.map(|link| link[end]).join(",");
        [1, 2].map(|end| {
            let arguments = ["--rails", &addresses(end), "--rail-policy", self.policy];
            arguments.map(str::to_owned).to_vec()
        })
    }

    fn name(&self) -> String {
        self.what.clone()
    }
}

/// Joins two hosts by several links, each with an IPv4 and an IPv6 address at both ends.
pub(super) fn join(
    [server, client]: &[Namespace; 2],
    links: &[[&str; 3]],
    mtu: u32,
) -> Result<(), Failure> {
    for (rail, [device, at_server, at_client]) in links.iter().enumerate() {
        server.join(client, device, mtu)?;
        for (number, host, v4) in [(1, server, at_server), (2, client, at_client)] {
            host.set_up(device, &prefixed(&[v4, &format!("fd77:{rail}::{number}")]))?;
        }
    }
    Ok(())
}
