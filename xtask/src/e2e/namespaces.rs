//! Two network namespaces joined by a veth pair.
//!
//! Their names carry our process id, so that runs do not disturb each other and what a killed run
//! left behind can be told from what is in use.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Failure, process, tools};

/// The server's addresses.
pub(super) const SERVER_V4: &str = "10.77.0.1";
/// See [`SERVER_V4`].
pub(super) const SERVER_V6: &str = "fd77::1";

const PREFIX: &str = "braid-";

/// The server's and the client's namespace; both vanish with this value.
pub(super) struct Pair {
    server: String,
    client: String,
    /// Of the link, for messages.
    pub(super) mtu: u32,
}

/// Fails where namespaces cannot be made; removes what dead runs left.
pub(super) fn need() -> Result<(), Failure> {
    tools::need("ip")?;
    if !nix::unistd::geteuid().is_root() {
        return Err(Failure::new("network namespaces need root")
            .remedy("run as root: sudo -E env \"PATH=$PATH\" cargo xtask e2e"));
    }
    remove(|owner| !alive(owner));
    Ok(())
}

/// Removes the namespaces of this process.
pub fn remove_own() {
    remove(|owner| owner == std::process::id());
}

impl Pair {
    /// Makes the namespaces and a veth pair of this MTU between them.
    pub(super) fn new(mtu: u32) -> Result<Self, Failure> {
        let pid = std::process::id();
        let pair =
            Self { server: format!("{PREFIX}a-{pid}"), client: format!("{PREFIX}b-{pid}"), mtu };
        let (a, b, mtu) = (&pair.server, &pair.client, mtu.to_string());
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        #[rustfmt::skip]
        ip(&[
            "link", "add", "braid0", "mtu", &mtu, "netns", a, "type", "veth",
            "peer", "name", "braid0", "mtu", &mtu, "netns", b,
        ])?;
        address(a, SERVER_V4, SERVER_V6)?;
        address(b, "10.77.0.2", "fd77::2")?;
        Ok(pair)
    }

    /// A command in the server's namespace.
    pub(super) fn on_server(&self, program: &Path) -> Command {
        inside(&self.server, program)
    }

    /// A command in the client's namespace.
    pub(super) fn on_client(&self, program: &Path) -> Command {
        inside(&self.client, program)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        delete(&self.server);
        delete(&self.client);
    }
}

/// `ip netns exec` replaces itself by the program, so the program is our child.
fn inside(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

fn address(namespace: &str, v4: &str, v6: &str) -> Result<(), Failure> {
    let on = |arguments: &[&str]| ip(&[&["-n", namespace], arguments].concat());
    on(&["address", "add", &format!("{v4}/24"), "dev", "braid0"])?;
    // nodad: the address is to work now, not when duplicate address detection is done.
    on(&["address", "add", &format!("{v6}/64"), "dev", "braid0", "nodad"])?;
    on(&["link", "set", "lo", "up"])?;
    on(&["link", "set", "braid0", "up"])
}

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    process::run(Command::new("ip").args(arguments)).map_err(|failure| {
        failure.remedy("the kernel needs network namespaces, veth and IPv6, and we CAP_NET_ADMIN")
    })
}

fn remove(whose: impl Fn(u32) -> bool) {
    let Ok(list) = Command::new("ip").args(["netns", "list"]).output() else { return };
    for line in String::from_utf8_lossy(&list.stdout).lines() {
        // `NAME` or `NAME (id: N)`
        let name = line.split_whitespace().next().unwrap_or_default();
        if owner(name).is_some_and(&whose) {
            delete(name);
        }
    }
}

fn owner(namespace: &str) -> Option<u32> {
    let rest = namespace.strip_prefix(PREFIX)?;
    rest.strip_prefix("a-").or_else(|| rest.strip_prefix("b-"))?.parse().ok()
}

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Deletes a namespace and ends whoever is still in it; there is nothing to do if it is gone.
fn delete(namespace: &str) {
    let quietly = |arguments: &[&str]| {
        Command::new("ip").args(arguments).stderr(Stdio::null()).output().map(|o| o.stdout)
    };
    let inhabitants = quietly(&["netns", "pids", namespace]).unwrap_or_default();
    for pid in String::from_utf8_lossy(&inhabitants).lines().filter_map(|l| l.trim().parse().ok()) {
        process::kill(pid);
    }
    let _ = quietly(&["netns", "delete", namespace]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_owner() {
        assert_eq!(owner("braid-a-123"), Some(123));
        assert_eq!(owner("braid-b-4"), Some(4));
        for foreign in ["braid-a-", "braid-c-1", "other", "braid-a-1x"] {
            assert_eq!(owner(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn we_are_alive_and_nobody_else_is_by_accident() {
        assert!(alive(std::process::id()));
        assert!(!alive(u32::MAX));
    }
}
