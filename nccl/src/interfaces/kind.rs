//! The kinds of interfaces, from /sys.

use std::fs;
use std::path::Path;

/// Maximum depth of nested interfaces: a bridge, a VLAN, a bond, a NIC.
const DEPTH: usize = 4;

/// The kind of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A NIC, an interface on top of one (a bond, a VLAN, a bridge with a NIC as a port), or an
    /// unknown interface.
    Nic,
    /// A bridge without a NIC, for containers or virtual machines of this host.
    Bridge,
    /// A port of a bridge. Packets to its address go to the bridge.
    BridgePort,
    /// Another virtual interface: one end of a container's link, or a tunnel.
    Virtual,
}

/// Returns the kind of this interface; `devices` is /sys/class/net.
pub(super) fn kind(devices: &Path, name: &str) -> Kind {
    let sys = devices.join(name);
    // Names of container runtimes and libvirt. NCCL recognises such interfaces only by name.
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

/// Returns whether the interface is a bus device or has one below it.
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
