//! Network namespaces, and two of them joined by a veth pair.
//!
//! Their names carry our process id, so that runs do not disturb each other and what a killed run
//! left behind can be told from what is in use.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Failure, process, tools};

/// The server's addresses.
pub(super) const SERVER_V4: &str = "10.77.0.1";
/// The client's.
pub(super) const CLIENT_V4: &str = "10.77.0.2";
/// See [`SERVER_V4`].
pub(super) const SERVER_V6: &str = "fd77::1";
/// See [`SERVER_V4`]; as the client calls it, whose device has the same name.
pub(super) const SERVER_LINK_LOCAL: &str = "fe80::77:1%braid0";

const PREFIX: &str = "braid-";
/// How long a device may take to be in operation.
const UP_LIMIT: Duration = Duration::from_secs(10);
/// What a namespace is for: server, client, router between them.
const ROLES: [&str; 3] = ["a-", "b-", "r-"];

/// Where a server and a client run.
pub(super) trait Place {
    /// A command in the server's namespace.
    fn on_server(&self, program: &Path) -> Command;

    /// A command in the client's namespace.
    fn on_client(&self, program: &Path) -> Command;

    /// What server and client are told beside what to do.
    fn arguments(&self) -> [Vec<String>; 2] {
        Default::default()
    }

    /// What lies between, for messages.
    fn name(&self) -> String;
}

/// The server's and the client's namespace; both vanish with this value.
pub(super) struct Pair {
    server: String,
    client: String,
    /// Of the link, for messages.
    mtu: u32,
}

/// Fails where namespaces cannot be made; removes what dead runs left.
pub(crate) fn need() -> Result<(), Failure> {
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
        let pair = Self { server: own("a-"), client: own("b-"), mtu };
        let (a, b) = (&pair.server, &pair.client);
        make(a)?;
        make(b)?;
        // Another link, set up first: an address without its link would be looked for there.
        join([a, b], "other0", mtu)?;
        for namespace in [a, b] {
            ip(&["-n", namespace, "link", "set", "other0", "up"])?;
        }
        join([a, b], "braid0", mtu)?;
        address(a, "braid0", SERVER_V4, SERVER_V6)?;
        address(b, "braid0", CLIENT_V4, "fd77::2")?;
        for (namespace, link_local) in [(a, "fe80::77:1/64"), (b, "fe80::77:2/64")] {
            ip(&["-n", namespace, "address", "add", link_local, "dev", "braid0", "nodad"])?;
        }
        Ok(pair)
    }
}

impl Place for Pair {
    fn on_server(&self, program: &Path) -> Command {
        inside(&self.server, program)
    }

    fn on_client(&self, program: &Path) -> Command {
        inside(&self.client, program)
    }

    fn name(&self) -> String {
        format!("veth, MTU {}", self.mtu)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        delete(&self.server);
        delete(&self.client);
    }
}

/// The name of a namespace of this process.
pub(crate) fn own(role: &str) -> String {
    format!("{PREFIX}{role}{}", std::process::id())
}

/// Makes a namespace with a loopback device.
pub(crate) fn make(namespace: &str) -> Result<(), Failure> {
    ip(&["netns", "add", namespace])?;
    ip(&["-n", namespace, "link", "set", "lo", "up"])
}

/// Makes a veth pair, named alike at both ends.
pub(super) fn join([a, b]: [&str; 2], device: &str, mtu: u32) -> Result<(), Failure> {
    let mtu = mtu.to_string();
    ip(&["link", "add", device, "mtu", &mtu, "netns", a, "type", "veth"]
        .into_iter()
        .chain(["peer", "name", device, "mtu", &mtu, "netns", b])
        .collect::<Vec<_>>())
}

/// `ip netns exec` replaces itself by the program, so the program is our child.
pub(crate) fn inside(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

/// Gives a device its addresses and sets it up.
pub(super) fn address(namespace: &str, device: &str, v4: &str, v6: &str) -> Result<(), Failure> {
    let on = |arguments: &[&str]| ip(&[&["-n", namespace], arguments].concat());
    on(&["address", "add", &format!("{v4}/24"), "dev", device])?;
    // nodad: the address is to work now, not when duplicate address detection is done.
    on(&["address", "add", &format!("{v6}/64"), "dev", device, "nodad"])?;
    on(&["link", "set", device, "up"])
}

/// Waits until a device that was set up is in operation (RFC 2863), for programs that use no other: the kernel looks at links once
/// a second.
pub(super) fn wait_until_up(namespace: &str, device: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + UP_LIMIT;
    let look = ["-n", namespace, "-oneline", "link", "show", "dev", device];
    while !process::output(Command::new("ip").args(look))?.contains(" state UP ") {
        if Instant::now() > deadline {
            return Err(Failure::new(format!(
                "{device} in {namespace} is not up after {UP_LIMIT:?}"
            )));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

pub(super) fn ip(arguments: &[&str]) -> Result<(), Failure> {
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
    ROLES.iter().find_map(|role| rest.strip_prefix(role))?.parse().ok()
}

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Deletes a namespace and ends whoever is still in it; there is nothing to do if it is gone.
pub(crate) fn delete(namespace: &str) {
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
        assert_eq!(owner(&own("r-")), Some(std::process::id()));
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
