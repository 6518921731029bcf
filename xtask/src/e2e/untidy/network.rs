//! The namespaces of one case: a client, a server, and a router that a case may put between them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use braid_lab::Namespace;

use crate::e2e::peers::{self, Said};
use crate::e2e::place;
use crate::process::Program;
use crate::{Failure, process};

/// Three namespaces; they go with this value.
pub(super) struct Network {
    pub(super) server: Namespace,
    pub(super) router: Namespace,
    pub(super) client: Namespace,
}

impl Network {
    /// Three namespaces with nothing but a loopback device.
    pub(super) fn new() -> Result<Self, Failure> {
        let [server, router, client] = place::namespaces()?;
        Ok(Network { server, router, client })
    }

    /// A veth pair, named alike at both ends and up.
    pub(super) fn link(&self, [a, b]: [&Namespace; 2], device: &str) -> Result<(), Failure> {
        a.join(b, device, 1500)?;
        a.set_up(device, &[])?;
        Ok(b.set_up(device, &[])?)
    }

    /// Has programs in a namespace read these lines as `/etc/hosts`, as `ip netns exec` does, until
    /// the value is dropped.
    pub(super) fn hosts(&self, host: &Namespace, lines: &[String]) -> Result<Hosts, Failure> {
        let folder = Path::new("/etc/netns").join(host.name());
        let failed = |error| Failure::new(format!("{}: {error}", folder.display()));
        fs::create_dir_all(&folder).map_err(failed)?;
        fs::write(folder.join("hosts"), lines.join("\n") + "\n").map_err(failed)?;
        Ok(Hosts(folder))
    }

    /// Bytes that a device has sent (`tx_bytes`) or received (`rx_bytes`).
    pub(super) fn bytes(
        &self,
        host: &Namespace,
        device: &str,
        which: &str,
    ) -> Result<u64, Failure> {
        let file = format!("/sys/class/net/{device}/statistics/{which}");
        let said = process::output(host.command(Path::new("cat")).arg(&file))?;
        said.trim().parse().map_err(|why| Failure::new(format!("{file} is `{said}`: {why}")))
    }

    /// Runs a server and, when it listens, its client to their ends. Each gets its arguments, split
    /// at spaces; port and address are among them.
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
        change: impl FnOnce(&mut Program) -> Result<(), Failure>,
        grace: Duration,
    ) -> Result<(Said, Duration), Failure> {
        let [server, client] = arguments;
        let server = command(&self.server, braid_perf, server);
        let client = command(&self.client, braid_perf, client);
        peers::exchange_and_change(server, client, change, grace)
    }
}

fn command(host: &Namespace, braid_perf: &Path, arguments: &str) -> Command {
    let mut command = host.command(braid_perf);
    command.args(arguments.split_ascii_whitespace());
    command
}

/// The file of [`Network::hosts`].
pub(super) struct Hosts(PathBuf);

impl Drop for Hosts {
    fn drop(&mut self) {
        // A remaining file belongs to a namespace that is gone.
        let _ = fs::remove_dir_all(&self.0);
    }
}
