//! Names and addresses, as a pure function of the plan.
//!
//! | what | address |
//! |---|---|
//! | host `i` of leaf `l` | `10.80.l.(i+1)`, its default route through the leaf |
//! | leaf `l` | `10.80.l.254` |
//! | link of leaf `l` and spine `s` | `10.81.l.(2s)` at the leaf, `10.81.l.(2s+1)` at the spine, /31 |
//!
//! Hosts are numbered through, leaf by leaf: `h0`, `h1`, ... A leaf's devices are `hN` towards a
//! host and `sN` towards a spine, a spine's are `lN`, a host's is `eth0`.

use std::net::Ipv4Addr;

use crate::Plan;

/// All hosts of all leaves.
pub(crate) const HOSTS: &str = "10.80.0.0/16";

const PREFIX: &str = "braid-fabric-";

/// A host of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// `h0`, `h1`, ...
    pub name: String,
    /// The only address of the host.
    pub ip: Ipv4Addr,
    /// The name of the network namespace, for `ip netns`.
    pub netns: String,
    /// The leaf of the host.
    pub leaf: usize,
}

/// The namespaces of one fabric. Their names contain the name of the fabric and the id of the
/// process that owns it, if any. The id identifies the remains of a killed process.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    prefix: String,
}

impl Layout {
    pub(crate) fn new(fabric: &str, owner: Option<u32>) -> Self {
        let prefix = match owner {
            Some(pid) => format!("{PREFIX}{fabric}-{pid}-"),
            None => format!("{PREFIX}{fabric}-"),
        };
        Self { prefix }
    }

    pub(crate) fn leaf(&self, leaf: usize) -> String {
        format!("{}l{leaf}", self.prefix)
    }

    pub(crate) fn spine(&self, spine: usize) -> String {
        format!("{}s{spine}", self.prefix)
    }

    pub(crate) fn host(&self, host: usize) -> String {
        format!("{}h{host}", self.prefix)
    }

    pub(crate) fn hosts(&self, plan: &Plan) -> Vec<Host> {
        (0..plan.leaves * plan.hosts)
            .map(|host| Host {
                name: format!("h{host}"),
                ip: host_ip(host / plan.hosts, host % plan.hosts),
                netns: self.host(host),
                leaf: host / plan.hosts,
            })
            .collect()
    }

    /// Every namespace of this plan.
    pub(crate) fn all(&self, plan: &Plan) -> Vec<String> {
        let leaves = (0..plan.leaves).map(|leaf| self.leaf(leaf));
        let spines = (0..plan.spines).map(|spine| self.spine(spine));
        let hosts = (0..plan.leaves * plan.hosts).map(|host| self.host(host));
        leaves.chain(spines).chain(hosts).collect()
    }
}

/// The fabric of a namespace, and the process that owns it, if one does.
pub(crate) fn whose(namespace: &str) -> Option<(&str, Option<u32>)> {
    let mut parts = namespace.strip_prefix(PREFIX)?.split('-');
    let (name, second, third) = (parts.next()?, parts.next()?, parts.next());
    let (owner, part) = match third {
        Some(part) => (Some(second.parse().ok()?), part),
        None => (None, second),
    };
    let (kind, number) = (part.get(..1)?, part.get(1..)?);
    let ours = ["l", "s", "h"].contains(&kind) && number.parse::<u8>().is_ok();
    (ours && parts.next().is_none()).then_some((name, owner))
}

fn octet(value: usize) -> u8 {
    u8::try_from(value).expect("Plan::check keeps every number of an address below 255")
}

/// The address of a leaf, which is the gateway of its hosts.
pub(crate) fn gateway(leaf: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 80, octet(leaf), 254)
}

/// The subnet of the hosts of one leaf.
pub(crate) fn subnet(leaf: usize) -> String {
    format!("10.80.{leaf}.0/24")
}

/// The address of host `index` of a leaf.
pub(crate) fn host_ip(leaf: usize, index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 80, octet(leaf), octet(index + 1))
}

/// The two ends of a link: the leaf's address and the spine's.
pub(crate) fn link(leaf: usize, spine: usize) -> (Ipv4Addr, Ipv4Addr) {
    let end = |side| Ipv4Addr::new(10, 81, octet(leaf), octet(2 * spine + side));
    (end(0), end(1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn hosts_are_numbered_leaf_by_leaf() {
        let plan = Plan { hosts: 2, ..Plan::default() };
        let hosts = Layout::new("lab", Some(7)).hosts(&plan);
        let third = Host {
            name: "h2".into(),
            ip: Ipv4Addr::new(10, 80, 1, 1),
            netns: "braid-fabric-lab-7-h2".into(),
            leaf: 1,
        };
        assert_eq!(hosts[2], third);
        assert_eq!(hosts.len(), 4);
    }

    #[test]
    fn no_address_is_used_twice_in_the_largest_plans() {
        for (leaves, spines, hosts) in [(4, 64, 32), (32, 8, 4), (2, 64, 64)] {
            let plan = Plan { leaves, spines, hosts, ..Plan::default() };
            plan.check().expect("within the limits");
            let mut seen = BTreeSet::new();
            let links = (0..leaves).flat_map(|l| (0..spines).map(move |s| link(l, s)));
            let ends = links.flat_map(|(leaf, spine)| [leaf, spine]);
            let hosts = Layout::new("lab", None).hosts(&plan).into_iter().map(|host| host.ip);
            for ip in ends.chain(hosts).chain((0..leaves).map(gateway)) {
                assert!(seen.insert(ip), "{ip} twice");
            }
        }
    }

    #[test]
    fn a_namespace_tells_whose_it_is() {
        assert_eq!(whose("braid-fabric-lab-l0"), Some(("lab", None)));
        assert_eq!(whose("braid-fabric-spray-123-h12"), Some(("spray", Some(123))));
        let layout = Layout::new("lab", Some(9));
        for namespace in layout.all(&Plan::default()) {
            assert_eq!(whose(&namespace), Some(("lab", Some(9))), "{namespace}");
        }
        for foreign in [
            "braid-a-12",
            "braid-fabric-lab",
            "braid-fabric-lab-x0",
            "braid-fabric-",
            "braid-fabric-lab-x-l0",
            "braid-fabric-lab-1-l0-2",
            "disc-h0",
        ] {
            assert_eq!(whose(foreign), None, "{foreign}");
        }
    }
}
