//! The devices that NCCL sees: a network interface, one of its addresses, or several of them as
//! rails.

use std::ffi::{CStr, CString};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, Weak};

use braid::{Datapath, EngineConfig, Medium};

use crate::config::Config;
use crate::device_context::DeviceContext;
use crate::error::Error;
use crate::interfaces::Interface;

/// Maximum number of rails of a device.
pub(crate) const MAX_RAILS: usize = 8;

/// Speed in Mbit/s if the system does not know it, as in NCCL's sockets.
const UNKNOWN_SPEED: i32 = 10_000;
/// Speed of the loopback device in Mbit/s, which the processor limits.
const LOOPBACK_SPEED: i32 = 50_000;
/// Default maximum payload of a packet over UDP, in bytes.
const DEFAULT_PAYLOAD: u16 = 16384;
/// Default number of paths over verbs. Each path has 2 MiB of receive buffers, and a job has many
/// connections.
const VERBS_PATHS: usize = 4;
/// Length of the headers except IP, in bytes: UDP and Braid's data header (`docs/wire.md`).
const HEADERS: usize = 8 + 60;

/// A device; see the module.
pub(crate) struct Device {
    pub(crate) index: usize,
    /// The numbers of the devices that NCCL combined, or the device's own number.
    pub(crate) members: Vec<usize>,
    pub(crate) name: &'static CStr,
    /// The path in /sys, or `None` without a PCI device. With several rails, the path of the first.
    pub(crate) pci_path: Option<&'static CStr>,
    pub(crate) guid: u64,
    /// Speed of all rails in Mbit/s.
    pub(crate) speed: i32,
    /// Address of the first rail.
    pub(crate) addr: SocketAddr,
    pub(crate) further_rails: Vec<IpAddr>,
    /// The plane of the network, if it is configured, and the same for all members.
    pub(crate) plane: Option<i16>,
    /// The datapath. Over verbs, it names the RDMA device of the first rail. The engine finds those
    /// of the other rails by their addresses.
    pub(crate) datapath: Datapath,
    /// Maximum payload of a packet in bytes, or `None` if the RDMA device determines it.
    pub(crate) mtu: Option<u16>,
    /// Present while the device has communicators.
    pub(crate) context: Mutex<Weak<DeviceContext>>,
}

impl Device {
    pub(crate) fn new(
        index: usize,
        interface: &Interface,
        datapath: Datapath,
        config: &Config,
    ) -> Self {
        let sys = Path::new("/sys/class/net").join(&interface.name);
        let pci = fs::canonicalize(sys.join("device")).ok();
        let shown = format!("{}:{}", interface.name, interface.addr.ip());
        Device {
            index,
            members: vec![index],
            name: keep(&shown),
            pci_path: pci.map(|path| keep(&path.to_string_lossy())),
            guid: guid(&sys, index, &shown),
            speed: speed(&sys, interface.addr.ip().is_loopback()),
            addr: interface.addr,
            further_rails: Vec::new(),
            plane: config.devices.planes.get(index).copied(),
            mtu: match config.devices.datapath.medium() {
                Medium::Device => config.mtu,
                _ => {
                    let asked = config.mtu.unwrap_or(DEFAULT_PAYLOAD);
                    Some(packet_payload(&sys, interface.addr, asked))
                }
            },
            datapath,
            context: Mutex::default(),
        }
    }

    /// Creates one device with the rails of all `members`, in their order.
    ///
    /// # Errors
    /// If there are no members or too many, or if a connection cannot use all rails.
    pub(crate) fn combined(index: usize, members: &[&Device]) -> Result<Self, Error> {
        let names: Vec<_> = members.iter().map(|member| member.name.to_string_lossy()).collect();
        let apart = |why| Error::Apart { devices: names.join(", "), why };
        let [first, ..] = members else { return Err(apart("there has to be one at least")) };
        let rails: Vec<IpAddr> = members.iter().flat_map(|member| member.addresses()).collect();
        check_rails(&rails).map_err(apart)?;
        Ok(Device {
            index,
            members: members.iter().map(|member| member.index).collect(),
            name: keep(&names.join("+")),
            pci_path: first.pci_path,
            guid: numbered(first.guid, index),
            speed: members.iter().fold(0, |sum, member| member.speed.saturating_add(sum)),
            addr: first.addr,
            further_rails: rails[1..].to_vec(),
            plane: first.plane.filter(|plane| members.iter().all(|it| it.plane == Some(*plane))),
            datapath: first.datapath.clone(),
            // The largest packet that fits every rail.
            mtu: members.iter().filter_map(|member| member.mtu).min(),
            context: Mutex::default(),
        })
    }

    fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        std::iter::once(self.addr.ip()).chain(self.further_rails.iter().copied())
    }

    /// Logs the device.
    pub(crate) fn announce(&self) {
        tracing::info!(
            "device {} {:?}, {} rails, {} Mbit/s, guid {:#x}, {}",
            self.index,
            self.name,
            1 + self.further_rails.len(),
            self.speed,
            self.guid,
            self.pci_path.map_or("no PCI device".into(), |path| path.to_string_lossy()),
        );
    }

    /// Returns the number of paths of a connection.
    pub(crate) fn paths(&self, config: &Config) -> usize {
        config.paths.count.unwrap_or(match self.datapath.kind().medium() {
            Medium::Device => VERBS_PATHS,
            _ => EngineConfig::default().paths,
        })
    }
}

/// Checks what the engine would refuse at the first communicator, and what would leave a rail idle.
fn check_rails(rails: &[IpAddr]) -> Result<(), &'static str> {
    let is_link_local =
        |rail: &IpAddr| matches!(rail, IpAddr::V6(ip) if ip.is_unicast_link_local());
    if rails.len() > MAX_RAILS {
        return Err("a device has 8 rails at most");
    }
    if rails.iter().any(|rail| rail.is_ipv4() != rails[0].is_ipv4()) {
        return Err(
            "the addresses of its rails have to be IPv4 addresses, or IPv6 addresses, all of them",
        );
    }
    if rails.len() > 1 && rails.iter().any(is_link_local) {
        return Err("link-local addresses cannot be rails");
    }
    if (1..rails.len()).any(|index| rails[..index].contains(&rails[index])) {
        return Err("each address is one rail");
    }
    Ok(())
}

/// Returns the maximum payload, in whole 8-byte words and at most as requested. GPUs read words
/// while they arrive, so no packet may end inside one.
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

/// Returns a GUID that differs between the devices of a host and usually between hosts.
fn guid(sys: &Path, index: usize, name: &str) -> u64 {
    let mac = fs::read_to_string(sys.join("address")).unwrap_or_default();
    let mac = u64::from_str_radix(&mac.trim().replace(':', ""), 16).unwrap_or(0);
    let name =
        name.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    numbered(if mac == 0 { name } else { mac }, index)
}

/// Returns the GUID of the same interface for a device with another number.
fn numbered(guid: u64, index: usize) -> u64 {
    (guid & 0xFFFF_FFFF_FFFF) | (index as u64) << 48
}

fn read<T: std::str::FromStr>(file: &PathBuf) -> Option<T> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Returns a static copy of a name, because NCCL keeps pointers to names indefinitely. Each name is
/// stored once.
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

    fn device(index: usize, addr: &str) -> Device {
        let interface = Interface::new(&format!("eth{index}"), addr);
        Device::new(index, &interface, Datapath::Udp, &Config::default())
    }

    #[test]
    fn a_combined_device_has_the_rails_and_the_speed_of_all() {
        let both = [device(0, "10.0.0.1"), device(1, "10.1.0.1")];
        let combined = Device::combined(2, &[&both[0], &both[1]]).unwrap();
        assert_eq!(combined.name.to_str(), Ok("eth0:10.0.0.1+eth1:10.1.0.1"));
        assert_eq!(combined.members, [0, 1]);
        assert_eq!(combined.speed, both[0].speed + both[1].speed);
        assert_eq!(combined.addr, both[0].addr);
        assert_eq!(combined.further_rails, [both[1].addr.ip()]);
        assert!(both.iter().all(|one| one.guid != combined.guid));
        assert_eq!(combined.plane, None, "no plane is configured");
        let all = Device::combined(3, &[&combined, &device(4, "10.2.0.1")]).unwrap();
        assert_eq!(all.further_rails.len(), 2);
    }

    #[test]
    fn a_device_is_on_the_plane_of_all_its_members() {
        let mut config = Config::default();
        config.devices.planes = vec![4, 4, 5];
        let device = |index: usize| {
            let interface = Interface::new("eth0", &format!("10.{index}.0.1"));
            Device::new(index, &interface, Datapath::Udp, &config)
        };
        let all = [0, 1, 2, 3].map(device);
        assert_eq!(all.each_ref().map(|it| it.plane), [Some(4), Some(4), Some(5), None]);
        let plane = |members: &[&Device]| Device::combined(9, members).unwrap().plane;
        assert_eq!(plane(&[&all[0], &all[1]]), Some(4));
        assert_eq!(plane(&[&all[0], &all[2]]), None);
        assert_eq!(plane(&[&all[0], &all[3]]), None);
    }

    #[test]
    fn what_cannot_be_one_device_is_named() {
        let refused = |addresses: &[&str], why: &str| {
            let devices: Vec<_> =
                addresses.iter().enumerate().map(|(index, addr)| device(index, addr)).collect();
            let devices: Vec<_> = devices.iter().collect();
            let error = Device::combined(9, &devices).err().unwrap().to_string();
            assert!(error.contains(why), "{error}");
            assert!(addresses.iter().all(|addr| error.contains(addr)), "{error}");
        };
        refused(&[], "one at least");
        refused(&["10.0.0.1", "fd00::1"], "IPv4");
        refused(&["10.0.0.1", "10.0.0.1"], "each address");
        refused(&["fe80::1", "fe80::2"], "link-local");
        let nine: Vec<_> = (0..9).map(|host| format!("10.0.0.{host}")).collect();
        refused(&nine.iter().map(String::as_str).collect::<Vec<_>>(), "8 rails");
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
