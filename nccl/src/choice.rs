//! The choice of interfaces if the configuration names neither addresses nor rails. The rules are
//! those of NCCL's sockets. In addition, addresses that no other host can reach come last,
//! regardless of the interface's name.

use std::fmt;
use std::net::IpAddr;

use crate::config::Config;
use crate::error::Error;
use crate::interfaces::{Detection, Interface, Kind};

/// Maximum number of names in a list of a message.
const LISTED: usize = 8;

/// The use of an address between hosts, the best first. Without a configured name, only the best
/// class is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Class {
    Ordinary,
    /// An address on the loopback device outside 127.0.0.0/8, to which other hosts have routes.
    Routed,
    /// A tunnel, or the end of a container's link. A container may have nothing else.
    Alone,
    LinkLocal,
    Bridge,
    Loopback,
    BridgePort,
}

impl Class {
    fn of(interface: &Interface) -> Self {
        let ip = interface.addr.ip();
        match interface.kind {
            _ if ip.is_loopback() => Class::Loopback,
            Kind::BridgePort => Class::BridgePort,
            Kind::Bridge => Class::Bridge,
            _ if is_link_local(ip) => Class::LinkLocal,
            _ if interface.loopback => Class::Routed,
            Kind::Virtual if interface.is_alone() => Class::Alone,
            Kind::Virtual | Kind::Nic => Class::Ordinary,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Class::Ordinary => "ordinary",
            Class::Routed => "on the loopback device",
            Class::Alone => "neither a NIC nor a subnet",
            Class::LinkLocal => "link-local address only",
            Class::Bridge => "bridge without a NIC",
            Class::Loopback => "loopback",
            Class::BridgePort => "port of a bridge",
        }
    }
}

pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Returns the preference of an interface's address. The smallest value wins.
pub(crate) fn preference(interface: &Interface) -> impl Ord + use<> {
    (Class::of(interface), interface.addr.is_ipv6())
}

/// Returns the interfaces that NCCL's variables and `BRAID_IFNAME` select, or those of NCCL's
/// defaults, each with its best address.
///
/// # Errors
/// If there are none.
pub(crate) fn choose(all: &[Interface], config: &Config) -> Result<Vec<Interface>, Error> {
    let mut left_out = LeftOut::default();
    let usable: Vec<&Interface> =
        all.iter().filter(|one| left_out.keeps(one, unusable(one, config))).collect();
    let best = best_of_each(&usable);
    let chosen = match &config.devices.interfaces {
        Some(pattern) if !pattern.excludes() => {
            let is_far = |one: &Interface| Class::of(one) != Class::LinkLocal;
            let some_are_far = best.iter().any(|one| is_far(one));
            let wanted = |one: &&Interface| {
                let is_wanted = is_far(one) || !some_are_far || pattern.has_name(&one.name);
                left_out.keeps(one, (!is_wanted).then(|| Class::LinkLocal.name().to_owned()))
            };
            best.into_iter().filter(wanted).collect()
        }
        Some(_) => best_class(best, &mut left_out),
        None => by_default(&usable, best, config, &mut left_out),
    };
    left_out.forget(&chosen);
    if chosen.is_empty() {
        return Err(Error::NoInterface(why_none(config, &left_out)));
    }
    report(config, &chosen, &left_out);
    Ok(chosen.into_iter().cloned().collect())
}

/// Returns the reason why an address cannot be used.
fn unusable(interface: &Interface, config: &Config) -> Option<String> {
    if config.devices.interfaces.as_ref().is_some_and(|pattern| !pattern.selects(&interface.name)) {
        return Some(format!("not selected by {}", config.origin("ifname")));
    }
    let family = config.nccl.family.filter(|family| !family.has(interface.addr.ip()));
    if let Some(family) = family {
        return Some(format!("NCCL_SOCKET_FAMILY is {family}"));
    }
    interface.detection.map(|detection| detection_reason(detection).to_owned())
}

pub(crate) fn detection_reason(detection: Detection) -> &'static str {
    match detection {
        Detection::Tentative => "duplicate address detection is not over",
        Detection::Duplicate => "another host has the address",
    }
}

fn best_of_each<'a>(usable: &[&'a Interface]) -> Vec<&'a Interface> {
    let mut best: Vec<&Interface> = Vec::new();
    for &interface in usable {
        match best.iter_mut().find(|known| known.name == interface.name) {
            Some(known) if preference(interface) < preference(known) => *known = interface,
            Some(_) => {}
            None => best.push(interface),
        }
    }
    best
}

/// Selects interfaces as NCCL does without `NCCL_SOCKET_IFNAME`: InfiniBand, otherwise an interface
/// in the subnet of `NCCL_COMM_ID`, otherwise all.
fn by_default<'a>(
    usable: &[&'a Interface],
    best: Vec<&'a Interface>,
    config: &Config,
    left_out: &mut LeftOut,
) -> Vec<&'a Interface> {
    let is_ib = |one: &Interface| one.name.starts_with("ib") && Class::of(one) == Class::Ordinary;
    if best.iter().any(|one| is_ib(one)) {
        let why = |one: &Interface| (!is_ib(one)).then(|| "interfaces `ib*` come first".to_owned());
        return best.into_iter().filter(|one| left_out.keeps(one, why(one))).collect();
    }
    let root = config.nccl.root;
    let near = root.and_then(|root| usable.iter().copied().find(|one| one.has_neighbour(root)));
    if let Some(near) = near {
        let why = || Some("not the first in the subnet of NCCL_COMM_ID".to_owned());
        for one in best {
            left_out.keeps(one, why());
        }
        return vec![near];
    }
    best_class(best, left_out)
}

fn best_class<'a>(best: Vec<&'a Interface>, left_out: &mut LeftOut) -> Vec<&'a Interface> {
    let first = best.iter().map(|one| Class::of(one)).min();
    let why = |one: &Interface| {
        let class = Class::of(one);
        (Some(class) != first).then(|| class.name().to_owned())
    };
    best.into_iter().filter(|one| left_out.keeps(one, why(one))).collect()
}

fn why_none(config: &Config, left_out: &LeftOut) -> String {
    let cause = match (&config.devices.interfaces, config.nccl.family) {
        (Some(pattern), _) => format!("{} is `{pattern}`", config.origin("ifname")),
        (None, Some(family)) => format!("NCCL_SOCKET_FAMILY is {family}"),
        (None, None) => "no address can be used".to_owned(),
    };
    if left_out.0.is_empty() {
        return format!("{cause}; no interface is up (`ip link set IF up`)");
    }
    let is_tentative =
        |(_, why): &(Interface, String)| why == detection_reason(Detection::Tentative);
    let wait = match left_out.0.iter().any(is_tentative) {
        true => "wait until `ip address` shows no address as `tentative`, or ",
        false => "",
    };
    format!(
        "{cause}; left out: {left_out}; {wait}name another interface by BRAID_IFNAME, or an \
         address by BRAID_ADDR"
    )
}

/// Logs the addresses that are left out, as a warning if other hosts may not reach the chosen ones.
fn report(config: &Config, chosen: &[&Interface], left_out: &LeftOut) {
    let class = chosen.iter().map(|one| Class::of(one)).max();
    let is_named = config.devices.interfaces.as_ref().is_some_and(|pattern| !pattern.excludes());
    let is_near = |root: IpAddr| chosen.iter().any(|one| one.has_neighbour(root));
    let is_asked_for = is_named || config.nccl.root.is_some_and(is_near);
    let is_doubtful = class.is_some_and(|class| class >= Class::LinkLocal) && !is_asked_for;
    let names: Vec<&str> = chosen.iter().map(|one| one.name.as_str()).collect();
    let names = names.join(", ");
    match class {
        Some(class) if is_doubtful && (class != Class::Loopback || !left_out.0.is_empty()) => {
            let reason = class.name();
            tracing::warn!(
                "others may not reach {names} ({reason}); left out: {left_out}; see BRAID_IFNAME"
            );
        }
        _ if !left_out.0.is_empty() => tracing::info!("devices: {names}; left out: {left_out}"),
        _ => {}
    }
}

/// The addresses that are not used, with the reasons.
#[derive(Default)]
struct LeftOut(Vec<(Interface, String)>);

impl LeftOut {
    /// Returns whether an address is kept, and records the reason if not.
    fn keeps(&mut self, interface: &Interface, why: Option<String>) -> bool {
        let is_kept = why.is_none();
        self.0.extend(why.map(|why| (interface.clone(), why)));
        is_kept
    }

    /// Removes interfaces that are used with another address, unless a better address will become
    /// usable.
    fn forget(&mut self, chosen: &[&Interface]) {
        let is_used = |left: &Interface| chosen.iter().any(|one| one.name == left.name);
        let is_missed =
            |left: &Interface| left.detection.is_some() && !is_link_local(left.addr.ip());
        self.0.retain(|(left, _)| !is_used(left) || is_missed(left));
    }
}

/// Writes each reason with the interfaces and one of their addresses.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut reasons: Vec<&str> = Vec::new();
        for (_, why) in &self.0 {
            if !reasons.contains(&why.as_str()) {
                reasons.push(why);
            }
        }
        for (number, reason) in reasons.into_iter().enumerate() {
            let mut of_reason: Vec<&Interface> = Vec::new();
            for (interface, _) in self.0.iter().filter(|(_, why)| why == reason) {
                if of_reason.iter().all(|known| known.name != interface.name) {
                    of_reason.push(interface);
                }
            }
            let names = listed(of_reason.into_iter());
            write!(f, "{}{reason}: {names}", if number == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// Formats the first interfaces with their addresses.
pub(crate) fn listed<'a>(interfaces: impl Iterator<Item = &'a Interface>) -> String {
    let mut names: Vec<String> =
        interfaces.map(|one| format!("{} ({})", one.name, one.addr.ip())).collect();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    names.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Family;

    fn of_kind(kind: Kind, name: &str, addr: &str) -> Interface {
        Interface { kind, ..Interface::new(name, addr) }
    }

    /// A host with two NICs, docker, libvirt, and sixty pods on a bridge, on their own links and by
    /// Calico.
    fn host() -> Vec<Interface> {
        let mut all = vec![
            Interface::new("lo", "127.0.0.1/8"),
            of_kind(Kind::Bridge, "docker0", "172.17.0.1/16"),
            of_kind(Kind::Bridge, "virbr0", "192.168.122.1/24"),
            Interface::new("eth1", "fe80::1/64"),
            Interface::new("eth1", "fd00::1/64"),
            Interface::new("eth0", "fd00::2/64"),
            Interface::new("eth0", "10.0.0.2/24"),
            of_kind(Kind::Bridge, "cni0", "10.244.1.1/24"),
            of_kind(Kind::Virtual, "flannel.1", "10.244.1.0/32"),
        ];
        for pod in 0..60 {
            all.push(of_kind(Kind::BridgePort, &format!("veth{pod}"), "fe80::7/64"));
            all.push(of_kind(Kind::Virtual, &format!("ptp{pod}"), "10.244.1.1/32"));
            all.push(of_kind(Kind::Virtual, &format!("cali{pod}"), "fe80::ecee/64"));
        }
        all
    }

    fn chosen(all: &[Interface], config: &Config) -> Vec<String> {
        let chosen = choose(all, config).unwrap();
        chosen.iter().map(|i| format!("{} {}", i.name, i.addr.ip())).collect()
    }

    fn selected(all: &[Interface], pattern: &str) -> Vec<String> {
        let mut config = Config::default();
        config.devices.interfaces = pattern.parse().ok();
        chosen(all, &config)
    }

    #[test]
    fn a_host_with_sixty_pods_has_its_nics_as_devices() {
        assert_eq!(chosen(&host(), &Config::default()), ["eth1 fd00::1", "eth0 10.0.0.2"]);
    }

    #[test]
    fn what_is_excluded_brings_nothing_else_in() {
        assert_eq!(selected(&host(), "^docker0"), ["eth1 fd00::1", "eth0 10.0.0.2"]);
        assert_eq!(selected(&host(), "^eth1,docker"), ["eth0 10.0.0.2"]);
    }

    #[test]
    fn what_is_named_is_taken_whatever_it_is() {
        assert_eq!(selected(&host(), "lo,eth1"), ["lo 127.0.0.1", "eth1 fd00::1"]);
        assert_eq!(selected(&host(), "=docker0"), ["docker0 172.17.0.1"]);
        assert_eq!(
            selected(&host(), "docker,virbr"),
            ["docker0 172.17.0.1", "virbr0 192.168.122.1"]
        );
        assert_eq!(selected(&host(), "ptp7"), ["ptp7 10.244.1.1"]);
        assert_eq!(selected(&host(), "veth59"), ["veth59 fe80::7"]);
        // A prefix that matches a link-local interface does not select it. Its full name does.
        let mut all = host();
        all.push(Interface::new("eth9", "fe80::9/64"));
        assert_eq!(selected(&all, "eth"), ["eth1 fd00::1", "eth0 10.0.0.2"]);
        assert_eq!(selected(&all, "eth0,eth9"), ["eth0 10.0.0.2", "eth9 fe80::9"]);
    }

    #[test]
    fn without_a_name_the_best_that_there_is_counts() {
        let best = |names: &[&str]| {
            let mut all = host();
            all.push(Interface::new("lo", "10.9.0.1/32"));
            all.push(Interface::new("eth9", "fe80::9/64"));
            all.retain(|one| names.iter().any(|name| one.addr.ip().to_string() == **name));
            chosen(&all, &Config::default())
        };
        let mut left =
            vec!["127.0.0.1", "172.17.0.1", "fe80::9", "10.244.1.0", "10.9.0.1", "10.0.0.2"];
        let expected = ["eth0 10.0.0.2", "lo 10.9.0.1", "flannel.1 10.244.1.0", "eth9 fe80::9"];
        for expected in expected.into_iter().chain(["docker0 172.17.0.1", "lo 127.0.0.1"]) {
            assert_eq!(best(&left), [expected], "{left:?}");
            left.pop();
        }
    }

    #[test]
    fn an_address_of_the_host_on_the_loopback_device_comes_before_127_0_0_1() {
        let all = [Interface::new("lo", "127.0.0.1/8"), Interface::new("lo", "10.9.0.1/32")];
        assert_eq!(selected(&all, "lo"), ["lo 10.9.0.1"]);
    }

    #[test]
    fn infiniband_comes_first_then_the_subnet_of_the_root() {
        let mut config = Config::default();
        config.nccl.root = Some("172.17.0.9".parse().unwrap());
        assert_eq!(chosen(&host(), &config), ["docker0 172.17.0.1"]);
        config.nccl.root = Some("9.9.9.9".parse().unwrap());
        assert_eq!(chosen(&host(), &config).len(), 2);
        let mut all = host();
        all.push(Interface::new("ib1", "fe80::8/64"));
        assert_eq!(chosen(&all, &config).len(), 2, "InfiniBand without an address of its own");
        all.push(Interface::new("ib0", "10.8.0.1/16"));
        assert_eq!(chosen(&all, &config), ["ib0 10.8.0.1"]);
        assert_eq!(selected(&all, "^docker").len(), 3, "as NCCL, with any name");
    }

    #[test]
    fn the_family_and_duplicate_address_detection_leave_addresses_out() {
        let mut config = Config::default();
        config.nccl.family = Some(Family::V6);
        assert_eq!(chosen(&host(), &config), ["eth1 fd00::1", "eth0 fd00::2"]);
        let mut all = host();
        all[4].detection = Some(Detection::Tentative);
        all[5].detection = Some(Detection::Duplicate);
        // Only the link-local address of eth1 remains, which is not offered beside another
        // interface.
        assert_eq!(chosen(&all, &Config::default()), ["eth0 10.0.0.2"]);
        all.retain(|one| one.detection.is_some());
        let error = choose(&all, &Config::default()).unwrap_err().to_string();
        for words in ["detection is not over: eth1 (fd00::1)", "another host", "BRAID_ADDR"] {
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_link_local_address_does_not_hide_that_another_will_be_usable() {
        let mut left_out = LeftOut::default();
        let mut tentative = Interface::new("eth1", "fd00::1/64");
        tentative.detection = Some(Detection::Tentative);
        let used = Interface::new("eth1", "fe80::1/64");
        for one in [&tentative, &Interface::new("eth1", "10.0.0.1/24")] {
            left_out.keeps(one, Some("a reason".to_owned()));
        }
        left_out.forget(&[&used]);
        assert_eq!(left_out.to_string(), "a reason: eth1 (fd00::1)");
    }

    #[test]
    fn an_error_names_the_pattern_and_a_dozen_of_what_is_there() {
        let mut config = Config::default();
        config.devices.interfaces = "ib".parse().ok();
        let error = choose(&host(), &config).unwrap_err().to_string();
        for words in ["BRAID_IFNAME is `ib`", "not selected", "docker0 (172.17.0.1)", " more;"] {
            assert!(error.contains(words), "{error}");
        }
        assert!(error.len() < 700, "{error}");
        let error = choose(&[], &Config::default()).unwrap_err().to_string();
        assert!(error.contains("no interface is up"), "{error}");
    }
}
