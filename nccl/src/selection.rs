//! The devices of the configuration, from addresses, rails or interfaces ([`crate::choice`]).

use std::net::IpAddr;

use braid::{Datapath, DatapathOptions, Medium, VerbsOptions};

use crate::choice::{choose, detection_reason, is_link_local, listed, preference};
use crate::config::{Config, Family};
use crate::device::Device;
use crate::error::Error;
use crate::interfaces::{self, Detection, Interface};
use crate::rdma;

/// Returns the devices of the configuration.
///
/// # Errors
/// If there are none, or if the system does not list its interfaces.
pub(crate) fn devices(config: &Config) -> Result<Vec<Device>, Error> {
    let all = interfaces::list().map_err(Error::Interfaces)?;
    if !config.devices.rails.is_empty() {
        let devices = config.devices.rails.iter().enumerate();
        return devices.map(|(index, names)| of_rails(index, &all, names, config)).collect();
    }
    let mut devices = Vec::new();
    let chosen = match config.devices.addresses.is_empty() {
        true => choose(&all, config)?,
        false => addresses_named(&all, config)?,
    };
    for interface in chosen {
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

/// Combines rails to one device, which NCCL treats like one interface.
fn of_rails(
    index: usize,
    all: &[Interface],
    names: &[String],
    config: &Config,
) -> Result<Device, Error> {
    let mut rails = Vec::new();
    for interface in rails_named(all, names, config)? {
        let datapath = datapath(&interface, config)?.ok_or_else(|| no_rdma_device(&interface))?;
        rails.push(Device::new(index, &interface, datapath, config));
    }
    let device = Device::combined(index, &rails.iter().collect::<Vec<_>>())?;
    Ok(Device { members: vec![index], ..device })
}

/// Returns the named interfaces, each with an address of a family that all of them have, IPv4
/// first.
fn rails_named(
    all: &[Interface],
    names: &[String],
    config: &Config,
) -> Result<Vec<Interface>, Error> {
    let origin = config.origin("rails");
    let called = |name: &String| -> Vec<Interface> {
        match name.parse() {
            Ok(ip) => with_address(all, ip).into_iter().collect(),
            Err(_) => all.iter().filter(|known| known.name == *name).cloned().collect(),
        }
    };
    if let Some(unknown) = names.iter().find(|name| called(name).is_empty()) {
        let known = listed(all.iter());
        return Err(Error::NoInterface(format!("{origin} names {unknown}, this host has {known}")));
    }
    let is_used = |family: Family, one: &Interface| {
        let is_allowed = config.nccl.family.is_none_or(|wanted| wanted == family);
        let is_global = family == Family::V4 || !is_link_local(one.addr.ip());
        is_allowed && is_global && family.has(one.addr.ip()) && one.detection.is_none()
    };
    let of_family = |family| -> Option<Vec<Interface>> {
        let one = |name| {
            let known = called(name).into_iter().filter(|one| is_used(family, one));
            known.min_by_key(preference)
        };
        names.iter().map(one).collect()
    };
    of_family(Family::V4).or_else(|| of_family(Family::V6)).ok_or_else(|| {
        let unusable = |name| called(name).iter().find_map(|one| usable(one, &origin).err());
        names.iter().find_map(unusable).unwrap_or_else(|| {
            let names = names.join(", ");
            let family = config.nccl.family;
            let only = family.map(|family| format!(" (NCCL_SOCKET_FAMILY is {family})"));
            Error::NoInterface(format!(
                "{origin} makes one device of {names}, which have no addresses of one family, \
                 IPv4 or global IPv6{}",
                only.unwrap_or_default()
            ))
        })
    })
}

/// Returns a named address if the engine can bind to it.
fn usable<'a>(interface: &'a Interface, origin: &str) -> Result<&'a Interface, Error> {
    let Some(detection) = interface.detection else { return Ok(interface) };
    let remedy = match detection {
        Detection::Tentative => {
            "wait until `ip address` does not show it as `tentative`, or add it with `nodad`"
        }
        Detection::Duplicate => "give one of the two hosts another address",
    };
    let (ip, name) = (interface.addr.ip(), &interface.name);
    Err(Error::NoInterface(format!(
        "{origin} names {ip} of {name}, which cannot be used: {}; {remedy}",
        detection_reason(detection)
    )))
}

const HOW_TO_RDMA: &str = "load the driver of the NIC, or make a Soft-RoCE device (`rdma link add rxe0 type rxe netdev IF`), \
     or set BRAID_DATAPATH=udp";

/// Returns the datapath of an interface, or `None` if it has no RDMA device and was not named.
fn datapath(interface: &Interface, config: &Config) -> Result<Option<Datapath>, Error> {
    let build = |device| {
        let options = DatapathOptions { device, ..DatapathOptions::default() };
        Ok(config.devices.datapath.build(&options)?)
    };
    if config.devices.datapath.medium() != Medium::Device {
        return build(None).map(Some);
    }
    let selected = config.devices.interfaces.as_ref().is_some_and(|pattern| !pattern.excludes());
    let named = selected || !config.devices.addresses.is_empty();
    match rdma::port_of(&interface.name) {
        Some(rdma::Port { device, number }) => {
            let options = VerbsOptions::new(device);
            let service = config.devices.service;
            build(Some(VerbsOptions { port: number, service, ..options })).map(Some)
        }
        None if named => Err(no_rdma_device(interface)),
        None => Ok(None),
    }
}

fn no_rdma_device(interface: &Interface) -> Error {
    Error::NoInterface(format!("{} has no RDMA device; {HOW_TO_RDMA}", interface.name))
}

fn addresses_named(all: &[Interface], config: &Config) -> Result<Vec<Interface>, Error> {
    let origin = config.origin("addr");
    let interface = |ip: &IpAddr| {
        let found = with_address(all, *ip).ok_or_else(|| {
            let known = listed(all.iter());
            Error::NoInterface(format!("{origin} names {ip}, this host has {known}"))
        });
        found.and_then(|found| usable(&found, &origin).cloned())
    };
    config.devices.addresses.iter().map(interface).collect()
}

/// Returns the interface of an address. The loopback device has all of 127.0.0.0/8.
fn with_address(all: &[Interface], ip: IpAddr) -> Option<Interface> {
    let listed = all.iter().find(|interface| interface.addr.ip() == ip).cloned();
    listed.or_else(|| {
        let loopback = all.iter().find(|interface| interface.loopback && interface.addr.is_ipv4());
        let mut interface = loopback.filter(|_| ip.is_ipv4() && ip.is_loopback())?.clone();
        interface.addr.set_ip(ip);
        Some(interface)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<Interface> {
        vec![
            Interface::new("lo", "127.0.0.1/8"),
            Interface::new("eth1", "fe80::1/64"),
            Interface::new("eth1", "fd00::1/64"),
            Interface::new("eth0", "fd00::2/64"),
            Interface::new("eth0", "10.0.0.2/24"),
        ]
    }

    fn shown(found: Result<Vec<Interface>, Error>) -> Result<Vec<String>, String> {
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.iter().map(|i| format!("{} {}", i.name, i.addr.ip())).collect())
    }

    fn rails(host: &[Interface], names: &[&str]) -> Result<Vec<String>, String> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        shown(rails_named(host, &names, &Config::default()))
    }

    #[test]
    fn addresses_can_be_asked_for() {
        let named = |ips: &[&str]| {
            let addresses = ips.iter().map(|ip| ip.parse().unwrap()).collect();
            let mut host = host();
            host[3].detection = Some(Detection::Tentative);
            let mut config = Config::default();
            config.devices.addresses = addresses;
            shown(addresses_named(&host, &config))
        };
        assert_eq!(named(&["10.0.0.2", "fd00::1"]).unwrap(), ["eth0 10.0.0.2", "eth1 fd00::1"]);
        assert_eq!(named(&["127.0.0.9"]).unwrap(), ["lo 127.0.0.9"]);
        let error = named(&["10.9.9.9"]).unwrap_err();
        assert!(
            error.contains("BRAID_ADDR names 10.9.9.9") && error.contains("10.0.0.2"),
            "{error}"
        );
        let error = named(&["fd00::2"]).unwrap_err();
        assert!(error.contains("fd00::2 of eth0") && error.contains("`nodad`"), "{error}");
    }

    #[test]
    fn rails_have_addresses_of_one_family() {
        let mut host = host();
        assert_eq!(rails(&host, &["eth0"]).unwrap(), ["eth0 10.0.0.2"]);
        let both = rails(&host, &["eth0", "eth1"]);
        assert_eq!(both.unwrap(), ["eth0 fd00::2", "eth1 fd00::1"]);
        let mixed = rails(&host, &["127.0.0.7", "eth0"]);
        assert_eq!(mixed.unwrap(), ["lo 127.0.0.7", "eth0 10.0.0.2"]);
        let error = rails(&host, &["lo", "eth1"]).unwrap_err();
        assert!(error.contains("lo, eth1") && error.contains("family"), "{error}");
        let error = rails(&host, &["eth0", "eth"]).unwrap_err();
        assert!(error.contains("names eth,") && error.contains("eth1 (fd00::1)"), "{error}");
        host[2].detection = Some(Detection::Duplicate);
        let error = rails(&host, &["eth0", "eth1"]).unwrap_err();
        assert!(error.contains("BRAID_RAILS names fd00::1 of eth1"), "{error}");
        assert!(error.contains("another host has the address"), "{error}");
        host.push(Interface::new("lo", "10.9.0.1/32"));
        assert_eq!(rails(&host, &["lo"]).unwrap(), ["lo 10.9.0.1"]);
    }

    #[test]
    fn rails_are_of_the_family_that_nccl_is_told() {
        let mut config = Config::default();
        config.nccl.family = Some(Family::V6);
        let rails = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            shown(rails_named(&host(), &names, &config))
        };
        assert_eq!(rails(&["eth0"]).unwrap(), ["eth0 fd00::2"]);
        let error = rails(&["lo"]).unwrap_err();
        assert!(error.contains("NCCL_SOCKET_FAMILY is AF_INET6"), "{error}");
    }
}
