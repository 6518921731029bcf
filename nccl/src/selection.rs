//! Which interfaces of this host become devices.

use std::net::IpAddr;

use braid::{Datapath, VerbsOptions};

use crate::config::{Carrier, Config};
use crate::device::Device;
use crate::error::Error;
use crate::interfaces::{self, Interface};
use crate::rdma;

/// The devices that the configuration asks for.
///
/// # Errors
/// There are none, or the system does not tell.
pub(crate) fn devices(config: &Config) -> Result<Vec<Device>, Error> {
    let all = interfaces::list().map_err(Error::Interfaces)?;
    if !config.rails.is_empty() {
        let devices = config.rails.iter().enumerate();
        return devices.map(|(index, names)| of_rails(index, &all, names, config)).collect();
    }
    let mut devices = Vec::new();
    for interface in choose(&all, config)? {
        if let Some(datapath) = datapath(&interface, config)? {
            devices.push(Device::new(devices.len(), &interface, datapath, config));
        }
    }
    if devices.is_empty() {
        return Err(Error::NoInterface(format!(
            "none of this host's has an RDMA device; {HOW_TO_RDMA}"
        )));
    }
    Ok(devices)
}

/// One device for NCCL, as if it were one interface.
fn of_rails(
    index: usize,
    all: &[Interface],
    names: &[String],
    config: &Config,
) -> Result<Device, Error> {
    let mut rails = Vec::new();
    for interface in rails_named(all, names)? {
        let datapath = datapath(&interface, config)?.ok_or_else(|| no_rdma_device(&interface))?;
        rails.push(Device::new(index, &interface, datapath, config));
    }
    let device = Device::combined(index, &rails.iter().collect::<Vec<_>>())?;
    Ok(Device { members: vec![index], ..device })
}

/// The interfaces, each with an address of the family that all of them have, IPv4 first.
fn rails_named(all: &[Interface], names: &[String]) -> Result<Vec<Interface>, Error> {
    let called = |name: &String| -> Vec<Interface> {
        match name.parse() {
            Ok(ip) => with_address(all, ip).into_iter().collect(),
            Err(_) => all.iter().filter(|known| known.name == *name).cloned().collect(),
        }
    };
    if let Some(unknown) = names.iter().find(|name| called(name).is_empty()) {
        let known = listed(all);
        return Err(Error::NoInterface(format!(
            "BRAID_RAILS names {unknown}, this host has {known}"
        )));
    }
    let of_family = |wanted: u8| -> Option<Vec<Interface>> {
        let one = |name| called(name).into_iter().find(|interface| rank(interface) == wanted);
        names.iter().map(one).collect()
    };
    of_family(IPV4).or_else(|| of_family(IPV6)).ok_or_else(|| {
        let names = names.join(", ");
        Error::NoInterface(format!(
            "BRAID_RAILS makes one device of {names}, which have no addresses of one family, IPv4 or global IPv6"
        ))
    })
}

const HOW_TO_RDMA: &str = "load the driver of the NIC, or make a Soft-RoCE device (`rdma link add rxe0 type rxe netdev IF`), \
     or set BRAID_DATAPATH=udp";

/// What carries the packets of an interface. `None`: it has no RDMA device, and nobody has asked for this one.
fn datapath(interface: &Interface, config: &Config) -> Result<Option<Datapath>, Error> {
    if config.carrier == Carrier::Udp {
        return Ok(Some(Datapath::Udp));
    }
    let named = config.interfaces.is_some() || !config.addresses.is_empty();
    match rdma::port_of(&interface.name) {
        Some(rdma::Port { device, number }) => {
            let options = VerbsOptions::new(device);
            let service = config.service;
            Ok(Some(Datapath::Verbs(VerbsOptions { port: number, service, ..options })))
        }
        None if named => Err(no_rdma_device(interface)),
        None => Ok(None),
    }
}

fn no_rdma_device(interface: &Interface) -> Error {
    Error::NoInterface(format!("{} has no RDMA device; {HOW_TO_RDMA}", interface.name))
}

fn choose(all: &[Interface], config: &Config) -> Result<Vec<Interface>, Error> {
    if !config.addresses.is_empty() {
        let interface = |ip: &IpAddr| {
            with_address(all, *ip).ok_or_else(|| {
                let known = listed(all);
                Error::NoInterface(format!("BRAID_ADDR names {ip}, this host has {known}"))
            })
        };
        return config.addresses.iter().map(interface).collect();
    }
    let selected = |interface: &&Interface| {
        config.interfaces.as_ref().is_none_or(|pattern| pattern.selects(&interface.name))
    };
    let selected: Vec<_> = all.iter().filter(selected).collect();
    // On a host with nothing else, processes can still talk to each other.
    let want_loopback = config.interfaces.is_some() || selected.iter().all(|i| i.loopback);
    let mut chosen: Vec<&Interface> = Vec::new();
    for interface in selected.into_iter().filter(|i| want_loopback || !i.loopback) {
        match chosen.iter_mut().find(|known| known.name == interface.name) {
            Some(known) if rank(interface) < rank(known) => *known = interface,
            Some(_) => {}
            None => chosen.push(interface),
        }
    }
    if chosen.is_empty() {
        let known = listed(all);
        return Err(Error::NoInterface(format!(
            "BRAID_IFNAME selects none of those that are up: {known}"
        )));
    }
    Ok(chosen.into_iter().cloned().collect())
}

/// The interface of an address, which all of 127.0.0.0/8 are of the loopback.
fn with_address(all: &[Interface], ip: IpAddr) -> Option<Interface> {
    let listed = all.iter().find(|interface| interface.addr.ip() == ip).cloned();
    listed.or_else(|| {
        let loopback = all.iter().find(|interface| interface.loopback && interface.addr.is_ipv4());
        let mut interface = loopback.filter(|_| ip.is_ipv4() && ip.is_loopback())?.clone();
        interface.addr.set_ip(ip);
        Some(interface)
    })
}

fn listed(all: &[Interface]) -> String {
    let names = all.iter().map(|i| format!("{} ({})", i.name, i.addr.ip()));
    names.collect::<Vec<_>>().join(", ")
}

const IPV4: u8 = 0;
const IPV6: u8 = 1;
const LINK_LOCAL: u8 = 2;

/// Which of an interface's addresses is taken: IPv4, then global IPv6, then link-local.
fn rank(interface: &Interface) -> u8 {
    match interface.addr.ip() {
        IpAddr::V4(_) => IPV4,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => LINK_LOCAL,
        IpAddr::V6(_) => IPV6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn interface(name: &str, addr: &str) -> Interface {
        let addr = SocketAddr::new(addr.parse().unwrap(), 0);
        Interface { name: name.to_owned(), addr, loopback: name == "lo" }
    }

    fn host() -> Vec<Interface> {
        vec![
            interface("lo", "127.0.0.1"),
            interface("eth1", "fe80::1"),
            interface("eth1", "fd00::1"),
            interface("eth0", "fd00::2"),
            interface("eth0", "10.0.0.2"),
        ]
    }

    fn chosen(config: &Config) -> Vec<String> {
        let host = host();
        let chosen = choose(&host, config).unwrap();
        chosen.iter().map(|i| format!("{} {}", i.name, i.addr.ip())).collect()
    }

    #[test]
    fn each_interface_is_a_device_with_its_best_address() {
        assert_eq!(chosen(&Config::default()), ["eth1 fd00::1", "eth0 10.0.0.2"]);
    }

    #[test]
    fn interfaces_and_addresses_can_be_asked_for() {
        let interfaces = "lo,eth1".parse().ok();
        let config = Config { interfaces, ..Config::default() };
        assert_eq!(chosen(&config), ["lo 127.0.0.1", "eth1 fd00::1"]);
        let addresses = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
        let config = Config { addresses, ..Config::default() };
        assert_eq!(chosen(&config), ["eth0 10.0.0.2", "eth0 fd00::2"]);
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let config = Config { interfaces: "ib".parse().ok(), ..Config::default() };
        let error = choose(&host(), &config).unwrap_err().to_string();
        assert!(error.contains("BRAID_IFNAME") && error.contains("eth0 (10.0.0.2)"), "{error}");
        let config = Config { addresses: vec!["10.9.9.9".parse().unwrap()], ..Config::default() };
        let error = choose(&host(), &config).unwrap_err().to_string();
        assert!(error.contains("10.9.9.9") && error.contains("10.0.0.2"), "{error}");
    }

    fn rails(names: &[&str]) -> Result<Vec<String>, String> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let found = rails_named(&host(), &names).map_err(|error| error.to_string())?;
        Ok(found.iter().map(|i| format!("{} {}", i.name, i.addr.ip())).collect())
    }

    #[test]
    fn rails_have_addresses_of_one_family() {
        assert_eq!(rails(&["eth0"]).unwrap(), ["eth0 10.0.0.2"]);
        assert_eq!(rails(&["eth0", "eth1"]).unwrap(), ["eth0 fd00::2", "eth1 fd00::1"]);
        assert_eq!(rails(&["127.0.0.7", "eth0"]).unwrap(), ["lo 127.0.0.7", "eth0 10.0.0.2"]);
        let error = rails(&["lo", "eth1"]).unwrap_err();
        assert!(error.contains("lo, eth1") && error.contains("family"), "{error}");
        let error = rails(&["eth0", "eth"]).unwrap_err();
        assert!(error.contains("names eth,") && error.contains("eth1 (fd00::1)"), "{error}");
    }
}
