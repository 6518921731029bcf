//! Two hosts joined by one veth pair: the shortest network between two namespaces, without a rate,
//! a queue or a delay of its own.

use std::path::Path;
use std::process::Command;

use crate::layout::host_ip;
use crate::{FabricError, Host, Namespace, namespace};

const MTUS: std::ops::RangeInclusive<u32> = 1280..=65_535;
const DEVICE: &str = "eth0";

/// Two hosts, each with a device `eth0`. They go with this value.
#[derive(Debug)]
pub struct VethPair {
    ends: [Namespace; 2],
    hosts: [Host; 2],
}

impl VethPair {
    /// Makes both hosts. The name and the needs are those of [`Namespace::up`].
    ///
    /// # Errors
    /// The name or the MTU is not possible, or the system refuses; then nothing is left.
    pub fn up(name: &str, mtu: u32) -> Result<Self, FabricError> {
        if !MTUS.contains(&mtu) {
            return Err(FabricError::argument("mtu", mtu, format!("{MTUS:?}")));
        }
        let ends = Namespace::up(name)?;
        let host = |index: usize, end: &Namespace| Host {
            name: format!("h{index}"),
            ip: host_ip(0, index),
            netns: end.name().to_owned(),
            leaf: 0,
        };
        let [a, b] = &ends;
        let hosts = [host(0, a), host(1, b)];
        a.join(b, DEVICE, mtu)?;
        for (end, host) in ends.iter().zip(&hosts) {
            end.set_up(DEVICE, &[format!("{}/24", host.ip)])?;
        }
        ends.iter().try_for_each(|end| end.wait_until_up(DEVICE))?;
        Ok(Self { ends, hosts })
    }

    /// The two hosts.
    #[must_use]
    pub fn hosts(&self) -> &[Host; 2] {
        &self.hosts
    }

    /// A command that runs a program on a host. The end of the pair kills the program.
    #[must_use]
    pub fn command_on(&self, host: usize, program: &Path) -> Command {
        self.ends[host].command(program)
    }

    /// The ids of the processes on both hosts.
    #[must_use]
    pub fn processes(&self) -> Vec<i32> {
        namespace::inhabitants(&self.ends.each_ref().map(|end| end.name().to_owned()))
    }
}
