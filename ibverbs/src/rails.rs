//! Several interfaces as one device: `BRAID_RAILS`.

use std::net::IpAddr;

use crate::interfaces::Interface;

/// Combines interfaces to devices. The first interface of each group becomes a device, with the
/// others as further rails. Without groups, each interface is a device.
///
/// # Errors
/// A group names an interface that this host does not have, or interfaces that cannot be one
/// device.
pub(crate) fn combine(
    all: Vec<Interface>,
    groups: &[Vec<String>],
) -> Result<Vec<Interface>, String> {
    if groups.is_empty() {
        return Ok(all);
    }
    groups.iter().map(|names| combine_group(&all, names)).collect()
}

fn combine_group(all: &[Interface], names: &[String]) -> Result<Interface, String> {
    let mut members = Vec::new();
    for name in names {
        members.push(find(all, name).ok_or_else(|| {
            let known: Vec<_> = all.iter().map(describe).collect();
            format!(
                "no interface has the name or address {name}; this host has {}",
                known.join(", ")
            )
        })?);
    }
    let (first, further) = members.split_first().expect("a list that was split has one at least");
    if further.iter().any(|rail| rail.addr.is_ipv4() != first.addr.is_ipv4()) {
        return Err(format!(
            "{} have addresses of both IPv4 and IPv6; name interfaces or addresses of one version",
            names.join(", ")
        ));
    }
    // The MTU that every rail supports.
    let mtu = members.iter().map(|rail| rail.mtu).min().unwrap_or(first.mtu);
    let rails: Vec<IpAddr> = further.iter().map(|rail| rail.addr).collect();
    // Each rail of several has one address.
    let second = first.second.filter(|_| rails.is_empty());
    Ok(Interface { mtu, rails, second, ..first.clone() })
}

/// The name and all addresses of an interface.
fn describe(interface: &Interface) -> String {
    let addrs = interface.addrs().chain(interface.further.iter().copied());
    let addrs: Vec<_> = addrs.map(|addr| addr.to_string()).collect();
    format!("{} ({})", interface.name, addrs.join(", "))
}

/// Finds an interface by its name or by one of its addresses. An address becomes the only one of
/// the device. All addresses of 127.0.0.0/8 belong to the loopback interface.
fn find(all: &[Interface], name: &str) -> Option<Interface> {
    let Ok(addr) = name.parse::<IpAddr>() else {
        return all.iter().find(|known| known.name == name).cloned();
    };
    let is_loopback = |addr: IpAddr| addr.is_ipv4() && addr.is_loopback();
    let of_loopback = |known: &&Interface| is_loopback(known.addr) && is_loopback(addr);
    let has_it =
        |known: &&Interface| known.addrs().any(|its| its == addr) || known.further.contains(&addr);
    let listed = all.iter().find(has_it);
    let known = listed.or_else(|| all.iter().find(of_loopback))?;
    Some(Interface { addr, second: None, further: Vec::new(), ..known.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<Interface> {
        let each =
            [("lo", "127.0.0.1", 65_536), ("eth0", "10.0.0.2", 9000), ("eth1", "10.0.1.2", 1500)];
        let v6 = [("eth2", "fd00::2", 1500), ("eth3", "fd00::3", 1500)];
        let interface = |(name, addr, mtu): (&str, &str, u32)| Interface {
            name: name.to_owned(),
            index: 1,
            addr: addr.parse().unwrap(),
            second: (name == "eth0").then(|| "fd00::1".parse().unwrap()),
            further: if name == "eth1" { vec!["10.0.1.3".parse().unwrap()] } else { Vec::new() },
            rails: Vec::new(),
            mtu,
        };
        each.into_iter().chain(v6).map(interface).collect()
    }

    fn parse(value: &str) -> Result<Vec<Vec<String>>, String> {
        let names = value.parse::<braid::RailNames>().map_err(|error| error.to_string())?;
        Ok(names.devices)
    }

    fn combined(value: &str) -> Result<Vec<(String, u32)>, String> {
        let devices = combine(host(), &parse(value)?)?;
        let text = |device: &Interface| {
            let addrs: Vec<_> = device.addrs().map(|addr| addr.to_string()).collect();
            (addrs.join("+"), device.mtu)
        };
        Ok(devices.iter().map(text).collect())
    }

    #[test]
    fn devices_are_the_named_interfaces_only() {
        assert_eq!(combined("eth0").unwrap(), [("10.0.0.2+fd00::1".to_owned(), 9000)]);
        assert_eq!(combined("10.0.0.2").unwrap(), [("10.0.0.2".to_owned(), 9000)]);
        assert_eq!(combined("fd00::1,eth3").unwrap(), [("fd00::1+fd00::3".to_owned(), 1500)]);
        let of_one_interface = [("10.0.1.3+10.0.1.2".to_owned(), 1500)];
        assert_eq!(combined("10.0.1.3,10.0.1.2").unwrap(), of_one_interface);
        assert_eq!(combined("10.0.1.3").unwrap(), [("10.0.1.3".to_owned(), 1500)]);
        let two =
            [("10.0.0.2+10.0.1.2".to_owned(), 1500), ("127.0.0.1+127.0.0.9".to_owned(), 65_536)];
        assert_eq!(combined("eth0, eth1; 127.0.0.1, 127.0.0.9").unwrap(), two);
        assert_eq!(combine(host(), &[]).unwrap(), host());
    }

    #[test]
    fn invalid_groups_are_named() {
        for wrong in ["", "eth0,", "eth0;;eth1", "eth 0", "/eth0"] {
            assert!(parse(wrong).unwrap_err().starts_with("accepted: "));
        }
        let unknown = combined("eth0,eth7").unwrap_err();
        assert!(
            unknown.contains("eth7") && unknown.contains("eth1 (10.0.1.2, 10.0.1.3)"),
            "{unknown}"
        );
        assert!(combined("eth0,10.9.9.9").unwrap_err().contains("10.9.9.9"));
        assert!(combined("eth0,eth2").unwrap_err().contains("both IPv4 and IPv6"));
    }
}
