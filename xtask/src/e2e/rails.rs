//! Two links between server and client, a rail each, of which one is cut and mended.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use super::cases::CASES;
use super::namespaces::{self, Place, address, inside};
use super::peers;
use crate::{Failure, process};

/// By rail: the device, and the addresses of server and client.
const LINKS: [[&str; 3]; 2] =
    [["braid0", "10.77.0.1", "10.77.0.2"], ["braid1", "10.79.0.1", "10.79.0.2"]];
const MTU: u32 = 1500;
const POLICIES: [&str; 5] = ["least-loaded", "round-robin", "hash", "lpt", "min-rtt"];

/// Both namespaces; they vanish with this value.
struct Rails {
    server: String,
    client: String,
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
        let rails =
            Self { server: namespaces::own("a-"), client: namespaces::own("b-"), policy, what };
        let hosts = [&rails.server, &rails.client];
        hosts.into_iter().try_for_each(|host| namespaces::make(host))?;
        for (rail, [device, server, client]) in LINKS.into_iter().enumerate() {
            namespaces::join([&rails.server, &rails.client], device, MTU)?;
            address(&rails.server, device, server, &format!("fd77:{rail}::1"))?;
            address(&rails.client, device, client, &format!("fd77:{rail}::2"))?;
        }
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
        let mut nft = inside(&self.server, Path::new("nft"));
        process::run(nft.arg(rules).stdin(Stdio::null()))
    }
}

impl Place for Rails {
    fn on_server(&self, program: &Path) -> Command {
        inside(&self.server, program)
    }

    fn on_client(&self, program: &Path) -> Command {
        inside(&self.client, program)
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

impl Drop for Rails {
    fn drop(&mut self) {
        namespaces::delete(&self.server);
        namespaces::delete(&self.client);
    }
}
