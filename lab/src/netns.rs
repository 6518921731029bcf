//! Network namespaces of this process, joined by veth pairs.

use std::array;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::layout::Layout;
use crate::{FabricError, namespace, plan, process, remove, tools, wait_until};

/// Time that a device has to be in operation (RFC 2863). The kernel looks at links once a second.
const UP_LIMIT: Duration = Duration::from_secs(10);

/// A network namespace of this process. It goes with this value, together with all processes in it.
///
/// The next network that anybody makes removes the namespaces that a killed process leaves.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes namespaces with a loopback device that is up. `name` has up to 12 lower-case letters
    /// and digits, a letter first. The caller needs root and the program `ip`.
    ///
    /// # Errors
    /// The name is not possible, or the system refuses; then no namespace is left.
    pub fn up<const N: usize>(name: &str) -> Result<[Self; N], FabricError> {
        plan::check_name(name)?;
        tools::need_ip()?;
        remove::sweep()?;
        let layout = Layout::new(name, Some(std::process::id()));
        let all: [Self; N] = array::from_fn(|index| Self { name: layout.host(index) });
        for Self { name } in &all {
            tools::ip(&format!("netns add {name}\n"))?;
            tools::ip_in(name, "link set lo up\n")?;
        }
        Ok(all)
    }

    /// The name that `ip netns` uses.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs a program in this namespace.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        tools::inside(&self.name, program)
    }

    /// Runs a function in this namespace, on a thread of its own. Sockets that the function opens
    /// stay there, wherever they are used later.
    ///
    /// # Errors
    /// The namespace is gone.
    pub fn on<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, FabricError> {
        namespace::inside(&self.name, work)
    }

    /// Makes a veth pair to another namespace. The device has the same name at both ends, and is
    /// down.
    ///
    /// # Errors
    /// The system refuses.
    pub fn join(&self, other: &Self, device: &str, mtu: u32) -> Result<(), FabricError> {
        let (a, b) = (&self.name, &other.name);
        let end = format!("{device} mtu {mtu} netns");
        tools::ip(&format!("link add {end} {a} type veth peer name {end} {b}\n"))
    }

    /// Gives a device its addresses, each with the length of its prefix, and sets it up.
    ///
    /// # Errors
    /// The system refuses.
    pub fn set_up(&self, device: &str, addresses: &[String]) -> Result<(), FabricError> {
        let add = |address: &String| {
            // An IPv6 address has to work now, not after duplicate address detection.
            let nodad = if address.contains(':') { " nodad" } else { "" };
            format!("address add {address} dev {device}{nodad}\n")
        };
        let lines: String = addresses.iter().map(add).collect();
        tools::ip_in(&self.name, &format!("{lines}link set {device} up\n"))
    }

    /// Runs `ip` with each of these lines.
    ///
    /// # Errors
    /// A line fails; those after it are not run.
    pub fn ip(&self, lines: &[&str]) -> Result<(), FabricError> {
        tools::ip_in(&self.name, &(lines.join("\n") + "\n"))
    }

    /// Takes over a rule set of `nft`, as a whole or not at all.
    ///
    /// # Errors
    /// `nft` is missing or refuses.
    pub fn nft(&self, rules: &str) -> Result<(), FabricError> {
        tools::nft_in(&self.name, rules)
    }

    /// Sets a variable below `/proc/sys/net`, such as `ipv4/ip_forward`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn sysctl(&self, key: &str, value: u32) -> Result<(), FabricError> {
        namespace::set(&self.name, &[(key, &value.to_string())])
    }

    /// Waits until a device that was set up is in operation.
    ///
    /// # Errors
    /// The device is not in operation after ten seconds.
    pub fn wait_until_up(&self, device: &str) -> Result<(), FabricError> {
        let look = ["-n", &self.name, "-oneline", "link", "show", "dev", device];
        let is_up = || {
            process::output(Command::new("ip").args(look))
                .is_ok_and(|shown| shown.contains(" state UP "))
        };
        match wait_until(UP_LIMIT, is_up) {
            true => Ok(()),
            false => Err(FabricError::LinkDown { device: format!("{device} in {}", self.name) }),
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // The next network removes a namespace that cannot be removed now.
        let _ = namespace::remove(std::slice::from_ref(&self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_joined_and_go() {
        // Others may not make namespaces.
        if !nix::unistd::geteuid().is_root() || tools::need_ip().is_err() {
            return;
        }
        let [a, b] = Namespace::up("labtest").expect("namespaces");
        a.join(&b, "braid0", 1500).expect("a veth pair");
        for (end, last) in [(&a, 1), (&b, 2)] {
            let addresses = [format!("10.77.0.{last}/24"), format!("fe80::77:{last}/64")];
            end.set_up("braid0", &addresses).expect("it is set up");
        }
        a.wait_until_up("braid0").expect("it is up");
        a.sysctl("ipv4/ip_forward", 1).expect("a variable");
        a.ip(&["route add 10.78.0.0/24 via 10.77.0.2", "link set braid0 mtu 1280"]).expect("lines");
        let mut shown = a.command(Path::new("ip"));
        let shown = process::output(shown.args(["address", "show"])).expect("addresses");
        let all = ["10.77.0.1/24", "fe80::77:1/64", "mtu 1280", "LOOPBACK,UP"];
        assert!(all.iter().all(|expected| shown.contains(expected)), "{shown}");
        let name = a.name().to_owned();
        drop((a, b));
        assert!(!namespace::exists(&name));
    }
}
