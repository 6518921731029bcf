//! The devices that NCCL sees: one per usable network interface, or one per address asked for.

use std::ffi::{CStr, CString};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use braid::{Datapath, EngineConfig, VerbsOptions};

use crate::config::{Carrier, Config};
use crate::error::Error;
use crate::interfaces::{self, Interface};
use crate::rdma;

/// What NCCL takes a network for whose speed the system does not know, in Mbit/s; as its own sockets.
const UNKNOWN_SPEED: i32 = 10_000;
/// The loopback is limited by the processor.
const LOOPBACK_SPEED: i32 = 50_000;
/// Most payload bytes of a packet over UDP unless told otherwise.
const DEFAULT_PAYLOAD: u16 = 16384;
/// Paths over verbs unless told otherwise: each has 2 MiB of receive buffers, and a job has many connections.
const VERBS_PATHS: usize = 4;
/// Bytes of a packet that are not payload, without IP: UDP, and Braid's data header (`docs/wire.md`).
const HEADERS: usize = 8 + 60;

/// One network interface.
pub(crate) struct Device {
    pub(crate) index: usize,
    pub(crate) name: &'static CStr,
    /// In /sys; `None`: it is no PCI device.
    pub(crate) pci_path: Option<&'static CStr>,
    pub(crate) guid: u64,
    /// Mbit/s.
    pub(crate) speed: i32,
    pub(crate) addr: SocketAddr,
    pub(crate) datapath: Datapath,
    /// Most payload bytes of a packet; `None`: the RDMA device knows.
    pub(crate) mtu: Option<u16>,
}

impl Device {
    fn new(index: usize, interface: &Interface, datapath: Datapath, config: &Config) -> Self {
        let sys = Path::new("/sys/class/net").join(&interface.name);
        let pci = fs::canonicalize(sys.join("device")).ok();
        let shown = format!("{}:{}", interface.name, interface.addr.ip());
        Device {
            index,
            name: keep(&shown),
            pci_path: pci.map(|path| keep(&path.to_string_lossy())),
            guid: guid(&sys, index, &shown),
            speed: speed(&sys, interface.loopback),
            addr: interface.addr,
            mtu: match config.carrier {
                Carrier::Udp => {
                    let asked = config.mtu.unwrap_or(DEFAULT_PAYLOAD);
                    Some(packet_payload(&sys, interface.addr, asked))
                }
                Carrier::Verbs => config.mtu,
            },
            datapath,
        }
    }

    /// How many paths a connection has.
    pub(crate) fn paths(&self, config: &Config) -> usize {
        config.paths.unwrap_or(match self.datapath {
            Datapath::Verbs(_) => VERBS_PATHS,
            _ => EngineConfig::default().paths,
        })
    }
}

/// The devices that the configuration asks for.
///
/// # Errors
/// There are none, or the system does not tell.
pub(crate) fn find(config: &Config) -> Result<Vec<Device>, Error> {
    let all = interfaces::list().map_err(Error::Interfaces)?;
    let mut devices = Vec::new();
    for interface in choose(&all, config)? {
        if let Some(datapath) = datapath(interface, config)? {
            devices.push(Device::new(devices.len(), interface, datapath, config));
        }
    }
    if devices.is_empty() {
        return Err(Error::NoInterface(format!(
            "none of this host's has an RDMA device; {HOW_TO_RDMA}"
        )));
    }
    Ok(devices)
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
        None if named => {
            let text = format!("{} has no RDMA device; {HOW_TO_RDMA}", interface.name);
            Err(Error::NoInterface(text))
        }
        None => Ok(None),
    }
}

fn choose<'a>(all: &'a [Interface], config: &Config) -> Result<Vec<&'a Interface>, Error> {
    if !config.addresses.is_empty() {
        return config.addresses.iter().map(|ip| with_address(all, *ip)).collect();
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
        let names = all.iter().map(|i| format!("{} ({})", i.name, i.addr.ip()));
        let names = names.collect::<Vec<_>>().join(", ");
        return Err(Error::NoInterface(format!(
            "BRAID_IFNAME selects none of those that are up: {names}"
        )));
    }
    Ok(chosen)
}

fn with_address(all: &[Interface], ip: IpAddr) -> Result<&Interface, Error> {
    let found = all.iter().find(|interface| interface.addr.ip() == ip);
    found.ok_or_else(|| {
        let known = all.iter().map(|i| i.addr.ip().to_string()).collect::<Vec<_>>().join(", ");
        Error::NoInterface(format!("BRAID_ADDR names {ip}, this host has {known}"))
    })
}

/// Which of an interface's addresses is taken: IPv4, then global IPv6, then link-local.
fn rank(interface: &Interface) -> u8 {
    match interface.addr.ip() {
        IpAddr::V4(_) => 0,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 2,
        IpAddr::V6(_) => 1,
    }
}

/// No larger than asked for, in whole 8-byte words: GPUs look at words while they land, so no packet
/// may end inside one.
fn packet_payload(sys: &Path, addr: SocketAddr, asked: u16) -> u16 {
    let ip = if addr.is_ipv4() { 20 } else { 40 };
    let fits = read::<usize>(&sys.join("mtu")).map(|mtu| mtu.saturating_sub(ip + HEADERS) & !7);
    fits.and_then(|fits| u16::try_from(fits).ok())
        .filter(|fits| *fits > 0)
        .map_or(asked, |f| f.min(asked))
}

fn speed(sys: &Path, loopback: bool) -> i32 {
    let known = read::<i32>(&sys.join("speed")).filter(|speed| *speed > 0);
    known.unwrap_or(if loopback { LOOPBACK_SPEED } else { UNKNOWN_SPEED })
}

/// Differs between the devices of a host, and mostly between hosts.
fn guid(sys: &Path, index: usize, name: &str) -> u64 {
    let mac = fs::read_to_string(sys.join("address")).unwrap_or_default();
    let mac = u64::from_str_radix(&mac.trim().replace(':', ""), 16).unwrap_or(0);
    let name =
        name.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let low = if mac == 0 { name } else { mac };
    (low & 0xFFFF_FFFF_FFFF) | (index as u64) << 48
}

fn read<T: std::str::FromStr>(file: &PathBuf) -> Option<T> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// NCCL keeps pointers to names for as long as it likes, so each is kept once and for good.
fn keep(text: &str) -> &'static CStr {
    static KEPT: Mutex<Vec<&'static CStr>> = Mutex::new(Vec::new());
    let text = CString::new(text.replace('\0', "")).expect("there is no NUL any more");
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = kept.iter().find(|known| ***known == *text) {
        return known;
    }
    let new: &'static CStr = Box::leak(text.into_boxed_c_str());
    kept.push(new);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn packets_hold_whole_words() {
        let nowhere = Path::new("/nonexistent");
        assert_eq!(packet_payload(nowhere, "10.0.0.2:0".parse().unwrap(), 4096), 4096);
        let lo = Path::new("/sys/class/net/lo");
        assert_eq!(packet_payload(lo, "127.0.0.1:0".parse().unwrap(), 60_000) % 8, 0);
    }

    #[test]
    fn names_are_kept_once() {
        assert!(std::ptr::eq(keep("eth7:10.0.0.7"), keep("eth7:10.0.0.7")));
    }
}
