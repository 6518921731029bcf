//! A rail-optimised fabric: hosts ("domains") with an interface on each rail, and a switch for each
//! rail. The switches are not connected, so that rail `r` of a host reaches rail `r` of all others
//! and nothing else (RailS, section IV-A).
//!
//! Host `d` has the address `10.90.r.(d+1)` on rail `r`, at its device `rail{r}`.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use crate::layout::Layout;
use crate::{FabricError, Owner, Plan, Rate, configure, namespace, plan, remove, tools};

const MAX_DOMAINS: usize = 32;
const MAX_RAILS: usize = 8;

/// The plan of a fabric of rails.
#[derive(Clone, Debug)]
pub struct RailPlan {
    /// Up to 12 lower-case letters and digits, a letter first.
    pub name: String,
    /// Hosts, 2 to 32.
    pub domains: usize,
    /// 1 to 8.
    pub rails: usize,
    /// The rate of each interface of a host, in each direction, with Ethernet headers.
    pub rate: Rate,
    /// The MTU of every link, in bytes.
    pub mtu: u32,
    /// Bytes that each end of a link queues before it drops.
    pub queue: u64,
}

/// A fabric of rails that is up.
#[derive(Debug)]
pub struct RailFabric {
    layout: Layout,
    plan: RailPlan,
    owner: Owner,
}

impl Drop for RailFabric {
    fn drop(&mut self) {
        if self.owner == Owner::Process {
            // The next fabric removes the rest.
            let _ = remove::remove(&self.plan.name);
        }
    }
}

impl RailFabric {
    /// Makes a fabric.
    ///
    /// # Errors
    /// The plan is not possible, the name is taken, or the system refuses; then nothing is left.
    pub fn up(plan: RailPlan, owner: Owner) -> Result<Self, FabricError> {
        plan.check()?;
        tools::need()?;
        remove::sweep()?;
        if !namespace::find(|name, _| name == plan.name).is_empty() {
            return Err(FabricError::IsUp { name: plan.name });
        }
        let pid = (owner == Owner::Process).then(std::process::id);
        let fabric = Self { layout: Layout::new(&plan.name, pid), plan, owner };
        fabric.make().inspect_err(|_| drop(remove::down(&fabric.plan.name)))?;
        Ok(fabric)
    }

    /// The namespaces of the hosts, by number.
    #[must_use]
    pub fn domains(&self) -> Vec<String> {
        (0..self.plan.domains).map(|domain| self.layout.host(domain)).collect()
    }

    /// The addresses of a host, by rail.
    #[must_use]
    pub fn addresses(&self, domain: usize) -> Vec<Ipv4Addr> {
        (0..self.plan.rails).map(|rail| address(rail, domain)).collect()
    }

    /// A command that runs a program on a host. The end of the fabric kills the program.
    #[must_use]
    pub fn command_on(&self, domain: usize, program: &Path) -> Command {
        tools::inside(&self.layout.host(domain), program)
    }

    /// Lets a rail drop all packets, or none. Its interfaces stay up, because the switch drops
    /// silently.
    ///
    /// # Errors
    /// There is no such rail, or the system refuses.
    pub fn cut(&self, rail: usize, cut: bool) -> Result<(), FabricError> {
        cut_switch(&self.layout.spine(rail), &self.plan.name, rail, cut)
    }

    fn make(&self) -> Result<(), FabricError> {
        let Self { layout, plan, .. } = self;
        let mut text = String::new();
        let switches = (0..plan.rails).map(|rail| layout.spine(rail));
        for name in switches.chain(self.domains()) {
            text += &format!("netns add {name}\n");
        }
        tools::ip(&text)?;
        let mut veths = String::new();
        let mtu = plan.mtu;
        for rail in 0..plan.rails {
            for (domain, host) in self.domains().iter().enumerate() {
                let switch = layout.spine(rail);
                let line = format!(
                    "link add rail{rail} mtu {mtu} netns {host} type veth peer name h{domain} mtu {mtu} netns {switch}\n"
                );
                veths += &line;
            }
        }
        tools::ip(&veths)?;
        (0..plan.rails).try_for_each(|rail| self.make_switch(rail))?;
        (0..plan.domains).try_for_each(|domain| self.make_host(domain))
    }

    fn make_switch(&self, rail: usize) -> Result<(), FabricError> {
        let (switch, plan) = (self.layout.spine(rail), &self.plan);
        let mut text =
            format!("link add br0 mtu {} type bridge stp_state 0\nlink set br0 up\n", plan.mtu);
        let mut shape = String::new();
        for domain in 0..plan.domains {
            let device = format!("h{domain}");
            text += &format!("link set {device} master br0 up\n");
            shape += &configure::shape(&device, plan.rate, plan.queue);
        }
        tools::ip_in(&switch, &text)?;
        tools::tc_in(&switch, &shape)
    }

    fn make_host(&self, domain: usize) -> Result<(), FabricError> {
        let (host, plan) = (self.layout.host(domain), &self.plan);
        let mut text = String::from("link set lo up\n");
        let mut shape = String::new();
        for rail in 0..plan.rails {
            let device = format!("rail{rail}");
            let addr = address(rail, domain);
            text += &format!("address add {addr}/24 dev {device}\nlink set {device} up\n");
            shape += &configure::shape(&device, plan.rate, plan.queue);
        }
        tools::ip_in(&host, &text)?;
        tools::tc_in(&host, &shape)
    }
}

/// A command that runs a program on a host of a standing fabric of rails, if there is such a host.
///
/// # Errors
/// The name is not possible.
pub fn command_on_domain(
    name: &str,
    domain: usize,
    program: &Path,
) -> Result<Option<Command>, FabricError> {
    plan::check_name(name)?;
    let host = Layout::new(name, None).host(domain);
    let stands = namespace::exists(&host);
    Ok(stands.then(|| tools::inside(&host, program)))
}

/// Does the same as [`RailFabric::cut`] to a standing fabric.
///
/// # Errors
/// There is no such rail, or the system refuses.
pub fn cut_rail(name: &str, rail: usize, cut: bool) -> Result<(), FabricError> {
    plan::check_name(name)?;
    cut_switch(&Layout::new(name, None).spine(rail), name, rail, cut)
}

fn cut_switch(switch: &str, name: &str, rail: usize, cut: bool) -> Result<(), FabricError> {
    if !namespace::exists(switch) {
        return Err(FabricError::argument("rail", rail, format!("a rail of the fabric {name}")));
    }
    tools::ip_in(switch, &format!("link set br0 {}\n", if cut { "down" } else { "up" }))
}

impl RailPlan {
    fn check(&self) -> Result<(), FabricError> {
        plan::check_name(&self.name)?;
        for (what, value, max, min) in
            [("domains", self.domains, MAX_DOMAINS, 2), ("rails", self.rails, MAX_RAILS, 1)]
        {
            if !(min..=max).contains(&value) {
                return Err(FabricError::argument(what, value, format!("{min} to {max}")));
            }
        }
        // Rate, MTU and queue have the limits of any fabric.
        let Self { name, rate, mtu, queue, .. } = self.clone();
        Plan { name, rate, mtu, queue, ..Plan::default() }.check()
    }
}

fn address(rail: usize, domain: usize) -> Ipv4Addr {
    let octet = |value: usize| u8::try_from(value).expect("RailPlan::check keeps it small");
    Ipv4Addr::new(10, 90, octet(rail), octet(domain + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let good = RailPlan {
            name: "rails".into(),
            domains: 4,
            rails: 4,
            rate: Rate::from_bits(100_000_000),
            mtu: 1500,
            queue: 1 << 17,
        };
        good.check().expect("four domains and rails");
        let refused = |plan: RailPlan| plan.check().expect_err("it cannot be").to_string();
        assert!(refused(RailPlan { domains: 33, ..good.clone() }).contains("2 to 32"));
        assert!(refused(RailPlan { rails: 9, ..good.clone() }).contains("1 to 8"));
        assert!(refused(RailPlan { mtu: 100, ..good.clone() }).contains("mtu"));
        assert_eq!(address(3, 1), Ipv4Addr::new(10, 90, 3, 2));
    }
}
