//! Input for `ip`, `tc` and `nft` that makes a fabric, as a pure function of plan and troubles.

use std::fmt::Write;

use crate::layout::{HOSTS, Layout, gateway, link, subnet};
use crate::trouble::Troubles;
use crate::{Condition, Host, Plan, Rate, Routing, Trouble, Where};

/// The mark and the routing table of spine 0. The other spines have the following numbers.
const FIRST_TABLE: usize = 1000;

/// Bytes of a GSO batch of 64 KiB with a header per segment. A shorter burst would split the batch.
const BATCH: u64 = 72 * 1024;

/// A limit of segments that the kernel never reaches.
const WHOLE_TRAINS: u32 = 65_535;

/// Formats into a `String`, which cannot fail.
macro_rules! line {
    ($text:expr, $($format:tt)*) => {
        writeln!($text, $($format)*).expect("a String takes everything")
    };
}

/// Lines for `ip`, outside of all namespaces, that make every namespace of the plan.
pub(crate) fn namespaces(layout: &Layout, plan: &Plan) -> String {
    layout.all(plan).iter().map(|name| format!("netns add {name}\n")).collect()
}

/// Lines for `ip`, outside of all namespaces, that make every veth pair between two namespaces. The
/// relay makes the links with a delay.
pub(crate) fn veths(layout: &Layout, plan: &Plan) -> String {
    let mut text = String::new();
    let mut veth = |a: (&str, String), b: (&str, String)| {
        let mtu = plan.mtu;
        line!(
            text,
            "link add {} mtu {mtu} netns {} type veth peer name {} mtu {mtu} netns {}",
            a.0,
            a.1,
            b.0,
            b.1
        );
    };
    for host in layout.hosts(plan) {
        veth((&host.name, layout.leaf(host.leaf)), ("eth0", host.netns));
    }
    for spine in (0..plan.spines).filter(|spine| plan.delay_over(*spine).is_zero()) {
        for leaf in 0..plan.leaves {
            let (at_leaf, at_spine) = (format!("s{spine}"), format!("l{leaf}"));
            veth((&at_leaf, layout.leaf(leaf)), (&at_spine, layout.spine(spine)));
        }
    }
    text
}

/// Lines for `ip` in a host.
pub(crate) fn host(host: &Host) -> String {
    let gateway = gateway(host.leaf);
    format!(
        "link set lo up\n\
         address add {}/32 dev eth0\n\
         link set eth0 up\n\
         route add default via {gateway} dev eth0 onlink\n",
        host.ip
    )
}

/// Lines for `ip` in a leaf.
pub(crate) fn leaf(plan: &Plan, leaf: usize, hosts: &[Host]) -> String {
    let mut text = format!("link set lo up\naddress add {}/32 dev lo\n", gateway(leaf));
    for host in hosts.iter().filter(|host| host.leaf == leaf) {
        line!(text, "link set {} up", host.name);
        line!(text, "route add {}/32 dev {} src {}", host.ip, host.name, gateway(leaf));
    }
    // Without it, a packet to a host that is not there would come back from a spine.
    line!(text, "route add unreachable {}", subnet(leaf));
    for spine in 0..plan.spines {
        line!(text, "address add {}/31 dev s{spine}", link(leaf, spine).0);
        line!(text, "link set s{spine} mtu {} up", plan.mtu);
        if plan.routing == Routing::Acl {
            let table = FIRST_TABLE + spine;
            line!(text, "rule add priority {table} fwmark {table} lookup {table}");
        }
    }
    text + &leaf_routes(plan, &Troubles::default(), leaf)
}

/// Lines for `ip` in a leaf that route to other leaves over the spines whose link is not cut.
pub(crate) fn leaf_routes(plan: &Plan, troubles: &Troubles, leaf: usize) -> String {
    let live: Vec<usize> =
        (0..plan.spines).filter(|spine| !troubles.condition(plan, leaf, *spine).cut).collect();
    if live.is_empty() {
        return String::new();
    }
    let mut text = format!("route replace {HOSTS}");
    for spine in &live {
        write!(text, " nexthop via {} dev s{spine}", link(leaf, *spine).1)
            .expect("a String takes everything");
    }
    text.push('\n');
    if plan.routing == Routing::Acl {
        for spine in live {
            let (via, table) = (link(leaf, spine).1, FIRST_TABLE + spine);
            line!(text, "route replace {HOSTS} via {via} dev s{spine} table {table}");
        }
    }
    text
}

/// Lines for `ip` in a spine.
pub(crate) fn spine(plan: &Plan, spine: usize) -> String {
    let mut text = String::from("link set lo up\n");
    // A spine that has lost a leaf silently drops the packets for it, as hardware does.
    line!(text, "route add blackhole {HOSTS}");
    for leaf in 0..plan.leaves {
        line!(text, "address add {}/31 dev l{leaf}", link(leaf, spine).1);
        line!(text, "link set l{leaf} mtu {} up", plan.mtu);
        text += &spine_route(leaf, spine);
    }
    text
}

/// A line for `ip` in a spine that routes to a leaf.
pub(crate) fn spine_route(leaf: usize, spine: usize) -> String {
    format!("route replace {} via {} dev l{leaf}\n", subnet(leaf), link(leaf, spine).0)
}

/// Lines for `ip` at one end of a link: up or down, and batches whole or cut into packets.
pub(crate) fn device(device: &str, condition: Condition, by_packet: bool) -> String {
    let state = if condition.cut { "down" } else { "up" };
    let segments = if by_packet { 1 } else { WHOLE_TRAINS };
    format!("link set dev {device} gso_max_segs {segments}\nlink set dev {device} {state}\n")
}

/// A line for `tc` at one end of a link that makes or changes its rate and its queue.
pub(crate) fn shape(device: &str, rate: Rate, queue: u64) -> String {
    let (bits, burst) = (rate.bits(), rate.bytes_in_ms(1).max(BATCH));
    format!(
        "qdisc replace dev {device} root handle 1: tbf rate {bits}bit burst {burst} limit {queue}\n"
    )
}

/// Rules for `nft` in a leaf that map source ports to spines (PRO, section V). Only packets from a
/// host to another leaf have a choice.
pub(crate) fn acl(plan: &Plan, leaf: usize) -> String {
    let spines: Vec<String> =
        (0..64).map(|low| format!("{low} : {}", FIRST_TABLE + low % plan.spines)).collect();
    format!(
        "table ip fabric {{\n\
         \tchain prerouting {{\n\
         \t\ttype filter hook prerouting priority mangle; policy accept;\n\
         \t\tip daddr {HOSTS} ip daddr != {} udp sport 0xc000-0xcfff \
         meta mark set udp sport & 0x3f map {{ {} }}\n\
         \t}}\n}}\n",
        subnet(leaf),
        spines.join(", ")
    )
}

/// Rules for `nft` in a spine that drop packets, in place of all earlier ones.
///
/// A packet passes prerouting of a spine once, so the loss of the spine is applied there. The loss
/// of a link is applied where the packet enters or leaves by that link.
pub(crate) fn vanishing(plan: &Plan, troubles: &Troubles, spine: usize) -> String {
    let (mut enter, mut leave) = (String::new(), String::new());
    if let Some(fate) = fate(troubles.at(Where { spine, leaf: None })) {
        line!(enter, "\t\tiifname \"l*\" {fate}");
    }
    for leaf in 0..plan.leaves {
        if let Some(fate) = fate(troubles.at(Where { spine, leaf: Some(leaf) })) {
            line!(enter, "\t\tiifname \"l{leaf}\" {fate}");
            line!(leave, "\t\toifname \"l{leaf}\" {fate}");
        }
    }
    // `table` before `delete table` makes the deletion succeed when there is none.
    let mut text = String::from("table ip fabric\ndelete table ip fabric\n");
    if !enter.is_empty() {
        line!(
            text,
            "table ip fabric {{\n\
             \tchain prerouting {{\n\
             \t\ttype filter hook prerouting priority raw; policy accept;\n{enter}\t}}\n\
             \tchain postrouting {{\n\
             \t\ttype filter hook postrouting priority raw; policy accept;\n{leave}\t}}\n}}"
        );
    }
    text
}

/// The verdict on a packet.
fn fate(trouble: Option<Trouble>) -> Option<String> {
    match trouble? {
        Trouble::Blackhole => Some("drop".into()),
        Trouble::BlackholeFrom(second) => Some(format!("meta time >= {second} drop")),
        Trouble::Lossy(percent) => {
            let of_10_000 = (percent * 100.0).round();
            Some(format!("numgen random mod 10000 < {of_10_000} drop"))
        }
        Trouble::Cut | Trouble::Slow(_) => None,
    }
}

/// Sysctls of every namespace, below `/proc/sys/net`. Devices inherit the defaults, so these are
/// set first. IPv6 is off because its own packets would be counted.
pub(crate) const EVERYWHERE: &[(&str, &str)] = &[
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
];

/// Sysctls of leaves and spines, which forward and answer every probe whose time to live ends
/// there.
pub(crate) const ROUTERS: &[(&str, &str)] =
    &[("ipv4/ip_forward", "1"), ("ipv4/icmp_ratelimit", "0")];

/// Further sysctls of leaves and spines, which older kernels do not have in a namespace.
pub(crate) const ROUTERS_IF_THERE: &[(&str, &str)] =
    &[("ipv4/icmp_msgs_per_sec", "1000000"), ("ipv4/icmp_msgs_burst", "10000")];

/// Sysctls of leaves. With policy 1, UDP from this machine keeps the hash of its socket across a
/// veth, so that one port takes several routes. Fields 0x37 are addresses, protocol and ports.
pub(crate) const LEAVES: &[(&str, &str)] =
    &[("ipv4/fib_multipath_hash_policy", "3"), ("ipv4/fib_multipath_hash_fields", "0x37")];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn plan() -> Plan {
        Plan { spines: 3, ..Plan::default() }
    }

    #[test]
    fn devices_are_made_where_they_belong() {
        let layout = Layout::new("lab", None);
        let text = veths(&layout, &plan());
        assert!(text.contains(
            "link add s2 mtu 1500 netns braid-fabric-lab-l1 type veth \
             peer name l1 mtu 1500 netns braid-fabric-lab-s2\n"
        ));
        assert_eq!(text.lines().count(), 2 + 2 * 3);
        let delay = vec![Duration::ZERO, Duration::from_millis(1), Duration::ZERO];
        let text = veths(&layout, &Plan { delay, ..plan() });
        assert_eq!(text.lines().count(), 2 + 2 * 2, "the relay makes the delayed links:\n{text}");
    }

    #[test]
    fn source_ports_are_dealt_to_spines() {
        let rules = acl(&plan(), 1);
        assert!(rules.contains("ip daddr != 10.80.1.0/24 udp sport 0xc000-0xcfff"), "{rules}");
        for dealt in ["0 : 1000,", "1 : 1001,", "2 : 1002,", "3 : 1000,", "63 : 1000 }"] {
            assert!(rules.contains(dealt), "{dealt} in {rules}");
        }
    }

    #[test]
    fn a_cut_link_is_on_no_route() {
        let mut troubles = Troubles::default();
        troubles.set(Where { spine: 1, leaf: Some(0) }, Trouble::Cut);
        let routes = leaf_routes(&plan(), &troubles, 0);
        assert_eq!(
            routes,
            "route replace 10.80.0.0/16 nexthop via 10.81.0.1 dev s0 nexthop via 10.81.0.5 dev s2\n\
             route replace 10.80.0.0/16 via 10.81.0.1 dev s0 table 1000\n\
             route replace 10.80.0.0/16 via 10.81.0.5 dev s2 table 1002\n"
        );
        assert!(leaf_routes(&plan(), &troubles, 1).contains("10.81.1.3 dev s1"));
        let ecmp = Plan { routing: Routing::Ecmp, ..plan() };
        assert_eq!(leaf_routes(&ecmp, &troubles, 0).lines().count(), 1);
        for spine in 0..3 {
            troubles.set(Where { spine, leaf: None }, Trouble::Cut);
        }
        assert_eq!(leaf_routes(&plan(), &troubles, 1), "");
    }

    #[test]
    fn a_packet_meets_each_loss_once() {
        let mut troubles = Troubles::default();
        troubles.set(Where { spine: 1, leaf: None }, Trouble::Lossy(1.25));
        let rules = vanishing(&plan(), &troubles, 1);
        assert_eq!(rules.matches("numgen random mod 10000 < 125 drop").count(), 1, "{rules}");
        troubles.set(Where { spine: 1, leaf: Some(0) }, Trouble::Blackhole);
        let rules = vanishing(&plan(), &troubles, 1);
        assert!(rules.contains("iifname \"l0\" drop") && rules.contains("oifname \"l0\" drop"));
        troubles.set(Where { spine: 2, leaf: None }, Trouble::BlackholeFrom(1_800_000_000));
        let rules = vanishing(&plan(), &troubles, 2);
        assert!(rules.contains("iifname \"l*\" meta time >= 1800000000 drop"), "{rules}");
        let untroubled = vanishing(&plan(), &troubles, 0);
        assert_eq!(untroubled, "table ip fabric\ndelete table ip fabric\n");
    }

    #[test]
    fn a_burst_holds_a_batch_and_a_millisecond() {
        let slow = shape("s0", Rate::from_bits(200_000_000), 250_000);
        assert!(slow.contains("rate 200000000bit burst 73728 limit 250000"), "{slow}");
        let fast = shape("s0", Rate::from_bits(10_000_000_000), 250_000);
        assert!(fast.contains("burst 1250000 "), "{fast}");
    }
}
