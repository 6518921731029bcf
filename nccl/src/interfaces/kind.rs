//! The kinds of interfaces, as the kernel tells in /sys.

use std::fs;
use std::path::Path;

/// The depth to which interfaces are looked at: a bridge, a VLAN, a bond, a NIC.
const DEPTH: usize = 4;

/// The kind of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A NIC, or something that lies on one: a bond, a VLAN, a bridge that has a NIC as its port.
    /// Or nobody knows.
    Nic,
    /// A bridge without a NIC: of containers or virtual machines of this host.
    Bridge,
    /// The port of a bridge: packets to its address go to the bridge.
    BridgePort,
    /// Something else that the kernel makes: one end of a container's link, a tunnel.
    Virtual,
}

/// Returns the kind of this interface; `devices` is /sys/class/net.
pub(super) fn kind(devices: &Path, name: &str) -> Kind {
    let sys = devices.join(name);
    // Those of container runtimes and libvirt are called like this; NCCL knows them by their names
    // only.
    let is_bridge = || sys.join("bridge").exists() || is_named_as_bridge(name);
    if sys.join("brport").exists() || master(&sys).is_some_and(|master| master == "ovs-system") {
        Kind::BridgePort
    } else if is_bridge() {
        if lies_on_nic(devices, name, DEPTH) { Kind::Nic } else { Kind::Bridge }
    } else if !sys.exists() || lies_on_nic(devices, name, DEPTH) {
        Kind::Nic
    } else {
        Kind::Virtual
    }
}

fn is_named_as_bridge(name: &str) -> bool {
    ["docker", "virbr"].iter().any(|start| name.starts_with(start))
}

fn master(sys: &Path) -> Option<String> {
    let master = fs::read_link(sys.join("master")).ok()?;
    Some(master.file_name()?.to_string_lossy().into_owned())
}

/// Whether it is a device of a bus, or has one below it.
fn lies_on_nic(devices: &Path, name: &str, depth: usize) -> bool {
    let sys = devices.join(name);
    if sys.join("device").exists() {
        return true;
    }
    let entries = fs::read_dir(sys).into_iter().flatten().flatten();
    let mut below = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_prefix("lower_")?.to_owned()));
    depth > 0 && below.any(|name| lies_on_nic(devices, &name, depth - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn kinds_follow_from_what_lies_below() {
        let root = std::env::temp_dir().join(format!("braid-kinds-{}", std::process::id()));
        let entries = [
            "eth0/device",
            "bond0/lower_eth0",
            "bond0.7/lower_bond0",
            "br0/bridge",
            "br0/lower_bond0.7",
            "br-5f/bridge",
            "br-5f/lower_veth1",
            "veth1/brport",
            "cali7/queues",
            "docker0/queues",
        ];
        entries.iter().for_each(|entry| fs::create_dir_all(root.join(entry)).unwrap());
        fs::create_dir_all(root.join("vnet0")).unwrap();
        symlink("../ovs-system", root.join("vnet0/master")).unwrap();
        let expected = [
            ("eth0", Kind::Nic),
            ("bond0", Kind::Nic),
            ("bond0.7", Kind::Nic),
            ("br0", Kind::Nic),
            ("br-5f", Kind::Bridge),
            ("docker0", Kind::Bridge),
            ("virbr9", Kind::Bridge),
            ("veth1", Kind::BridgePort),
            ("vnet0", Kind::BridgePort),
            ("cali7", Kind::Virtual),
            ("nobody-knows", Kind::Nic),
        ];
        let seen = expected.map(|(name, _)| (name, kind(&root, name)));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(seen, expected);
    }
}
