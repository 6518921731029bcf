//! The namespaces of one case: a client, a server, and a router that a case may put between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::e2e::namespaces::{self, inside};
use crate::e2e::peers::{self, Said};
use crate::{Failure, process};

/// All of them vanish with this value.
pub(super) struct Network {
    pub(super) server: String,
    pub(super) router: String,
    pub(super) client: String,
}

impl Network {
    /// Three namespaces with nothing but a loopback device.
    pub(super) fn new() -> Result<Self, Failure> {
        let [server, router, client] = ["a-", "r-", "b-"].map(namespaces::own);
        let network = Network { server, router, client };
        for namespace in [&network.server, &network.router, &network.client] {
            namespaces::make(namespace)?;
        }
        Ok(network)
    }

    /// A veth pair, named alike at both ends and up.
    pub(super) fn link(&self, ends: [&str; 2], device: &str) -> Result<(), Failure> {
        namespaces::join(ends, device, 1500)?;
        ends.iter().try_for_each(|end| namespaces::ip(&["-n", end, "link", "set", device, "up"]))
    }

    /// `ip -n NAMESPACE` with each of these lines, split at spaces.
    pub(super) fn ip(&self, namespace: &str, lines: &[&str]) -> Result<(), Failure> {
        lines.iter().try_for_each(|line| {
            let words: Vec<&str> = ["-n", namespace].into_iter().chain(line.split(' ')).collect();
            namespaces::ip(&words)
        })
    }

    /// Sets a variable such as `net.ipv4.conf.all.rp_filter`.
    pub(super) fn sysctl(&self, namespace: &str, name: &str, value: u32) -> Result<(), Failure> {
        let mut sysctl = inside(namespace, Path::new("sysctl"));
        process::run(sysctl.args(["-q", "-w", &format!("{name}={value}")]))
    }

    /// Adds these rules of `nft`.
    pub(super) fn nft(&self, namespace: &str, rules: &str) -> Result<(), Failure> {
        process::run(inside(namespace, Path::new("nft")).arg(rules).stdin(Stdio::null()))
    }

    /// Has programs in a namespace read these lines as `/etc/hosts`, as `ip netns exec` does, until
    /// the value is dropped.
    pub(super) fn hosts(&self, namespace: &str, lines: &[String]) -> Result<Hosts, Failure> {
        let folder = Path::new("/etc/netns").join(namespace);
        let failed = |error| Failure::new(format!("{}: {error}", folder.display()));
        fs::create_dir_all(&folder).map_err(failed)?;
        fs::write(folder.join("hosts"), lines.join("\n") + "\n").map_err(failed)?;
        Ok(Hosts(folder))
    }

    /// Bytes that a device has sent (`tx_bytes`) or received (`rx_bytes`).
    pub(super) fn bytes(&self, namespace: &str, device: &str, which: &str) -> Result<u64, Failure> {
        let file = format!("/sys/class/net/{device}/statistics/{which}");
        let said = process::output(inside(namespace, Path::new("cat")).arg(&file))?;
        said.trim().parse().map_err(|why| Failure::new(format!("{file} is `{said}`: {why}")))
    }

    /// Runs a server and, when it listens, its client to their ends. Each gets its arguments, split at spaces; port and address
    /// are among them.
    pub(super) fn perf(
        &self,
        braid_perf: &Path,
        server: &str,
        client: &str,
    ) -> Result<Said, Failure> {
        let server = command(&self.server, braid_perf, server);
        peers::exchange(server, command(&self.client, braid_perf, client))
    }

    /// The same, but something happens to the server once the transfer runs. The server has `grace`
    /// after the client's end. Returns also how long after the change the client has ended.
    pub(super) fn perf_and_change(
        &self,
        braid_perf: &Path,
        arguments: [&str; 2],
        change: impl FnOnce(&mut Child) -> Result<(), Failure>,
        grace: Duration,
    ) -> Result<(Said, Duration), Failure> {
        let [server, client] = arguments;
        let server = command(&self.server, braid_perf, server);
        let client = command(&self.client, braid_perf, client);
        peers::exchange_and_change(server, client, change, grace)
    }
}

fn command(namespace: &str, braid_perf: &Path, arguments: &str) -> Command {
    let mut command = inside(namespace, braid_perf);
    command.args(arguments.split_ascii_whitespace());
    command
}

/// The file of [`Network::hosts`].
pub(super) struct Hosts(PathBuf);

impl Drop for Hosts {
    fn drop(&mut self) {
        // What stays behind is for a namespace that is gone.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for namespace in [&self.server, &self.router, &self.client] {
            namespaces::delete(namespace);
        }
    }
}
