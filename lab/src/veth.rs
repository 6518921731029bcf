//! Two hosts joined by one veth pair: the shortest network between two namespaces, without a rate, a queue or a delay of its own.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::layout::{Layout, host_ip};
use crate::{FabricError, Host, namespace, plan, remove, tools};

const MTUS: std::ops::RangeInclusive<u32> = 1280..=65_535;
/// How long the device may take to be in operation (RFC 2863): the kernel looks at links once a second.
const UP_LIMIT: Duration = Duration::from_secs(10);

/// Two hosts, each with a device `eth0`. They go with this value; what a killed process leaves is removed by the next network
/// or fabric that anybody makes.
#[derive(Debug)]
pub struct VethPair {
    hosts: [Host; 2],
    mtu: u32,
}

impl VethPair {
    /// Makes it. `name`: up to 12 lower-case letters and digits, a letter first. Needs root and `ip`.
    ///
    /// # Errors
    /// The name or the MTU cannot be, or the system refuses; then nothing is left.
    pub fn up(name: &str, mtu: u32) -> Result<Self, FabricError> {
        plan::check_name(name)?;
        if !MTUS.contains(&mtu) {
            return Err(FabricError::argument("mtu", mtu, format!("{MTUS:?}")));
        }
        tools::need()?;
        remove::sweep()?;
        let layout = Layout::new(name, Some(std::process::id()));
        let host = |index| Host {
            name: format!("h{index}"),
            ip: host_ip(0, index),
            netns: layout.host(index),
            leaf: 0,
        };
        let pair = VethPair { hosts: [host(0), host(1)], mtu };
        pair.build()?;
        Ok(pair)
    }

    /// Both hosts.
    #[must_use]
    pub fn hosts(&self) -> &[Host; 2] {
        &self.hosts
    }

    /// Of both devices, in bytes.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// A command that runs a program on a host. What still runs when the pair goes is killed.
    #[must_use]
    pub fn command_on(&self, host: &Host, program: &Path) -> Command {
        tools::inside(&host.netns, program)
    }

    /// The processes on both hosts, by their ids.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        namespace::inhabitants(&self.names())
    }

    fn names(&self) -> Vec<String> {
        self.hosts.iter().map(|host| host.netns.clone()).collect()
    }

    fn build(&self) -> Result<(), FabricError> {
        let [a, b] = self.hosts.each_ref().map(|host| host.netns.as_str());
        let mtu = self.mtu;
        tools::ip(&format!(
            "netns add {a}\nnetns add {b}\n\
             link add eth0 mtu {mtu} netns {a} type veth peer name eth0 mtu {mtu} netns {b}\n"
        ))?;
        for host in &self.hosts {
            let lines = "link set lo up\nlink set eth0 up\n";
            tools::ip_in(&host.netns, &format!("address add {}/24 dev eth0\n{lines}", host.ip))?;
        }
        self.hosts.iter().try_for_each(|host| wait_until_up(&host.netns))
    }
}

impl Drop for VethPair {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next network.
        let _ = namespace::remove(&self.names());
    }
}

fn wait_until_up(namespace: &str) -> Result<(), FabricError> {
    let deadline = Instant::now() + UP_LIMIT;
    let look = ["-n", namespace, "-oneline", "link", "show", "dev", "eth0"];
    loop {
        let shown = tools::read(Command::new("ip").args(look))?;
        if String::from_utf8_lossy(&shown).contains(" state UP ") {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(FabricError::LinkDown { device: format!("eth0 in {namespace}") });
        }
        thread::sleep(Duration::from_millis(20));
    }
}
