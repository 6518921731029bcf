//! The entries: the layout of Linux (`Documentation/ABI/stable/sysfs-class-infiniband`).

use std::fs;
use std::path::{Path, PathBuf};

use crate::device::Device;
use crate::query;

/// A file below the directory. The path has no leading slash.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Entry {
    pub(super) path: PathBuf,
    pub(super) content: Content,
}

/// The content of an entry.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Content {
    /// A line of text, as sysfs has it.
    Text(String),
    /// A symbolic link to a target.
    Link(PathBuf),
}

/// A character device that may be opened for reading and writing.
const DEVICE: &str = "/dev/null";
const DEV: &str = "dev/infiniband";
const CLASS: &str = "sys/class/infiniband";
const VERBS_CLASS: &str = "sys/class/infiniband_verbs";
const CM_CLASS: &str = "sys/class/misc/rdma_cm";
/// The directory of each device, which corresponds to the PCI function of a NIC.
const DEVICES: &str = "sys/devices/virtual/braid";
/// The version of the kernel's interface to uverbs and rdma_cm that librdmacm and libibverbs
/// expect.
const UVERBS_ABI: &str = "6";
const DEVICE_ABI: &str = "1";
const CM_ABI: &str = "4";

/// All entries of these devices.
pub(super) fn of(devices: &[&Device]) -> Vec<Entry> {
    let mut entries = Entries::default();
    entries.link(DEV, "rdma_cm", DEVICE);
    entries.text(VERBS_CLASS, "abi_version", UVERBS_ABI);
    entries.text(CM_CLASS, "abi_version", CM_ABI);
    devices.iter().for_each(|device| entries.device(device));
    entries.0
}

#[derive(Default)]
struct Entries(Vec<Entry>);

impl Entries {
    fn text(&mut self, folder: &str, name: &str, text: &str) {
        let path = Path::new(folder).join(name);
        self.0.push(Entry { path, content: Content::Text(text.to_owned()) });
    }

    fn link(&mut self, folder: &str, name: &str, target: &str) {
        let path = Path::new(folder).join(name);
        self.0.push(Entry { path, content: Content::Link(target.into()) });
    }

    fn device(&mut self, device: &Device) {
        let (name, verbs_name) = (device.name(), device.verbs_name());
        let own = format!("{DEVICES}/{name}");
        self.link(DEV, &verbs_name, DEVICE);
        let to_class = format!("../../devices/virtual/braid/{name}");
        self.link(CLASS, &name, &format!("{to_class}/infiniband/{name}"));
        self.link(VERBS_CLASS, &verbs_name, &format!("{to_class}/infiniband_verbs/{verbs_name}"));
        self.parent(&own, &device.interface.name);
        self.adapter(&format!("{own}/infiniband/{name}"), device);
        let verbs = format!("{own}/infiniband_verbs/{verbs_name}");
        self.text(&verbs, "abi_version", DEVICE_ABI);
        self.text(&verbs, "ibdev", &name);
        self.link(&verbs, "device", &format!("../../../{name}"));
    }

    /// Adds the directory that corresponds to the PCI function of a NIC: the network interface and
    /// its parent.
    fn parent(&mut self, own: &str, interface: &str) {
        let real = format!("/sys/class/net/{interface}");
        self.link(&format!("{own}/net"), interface, &real);
        // The vendor 0 tells programs that the device is not the interface's own NIC.
        self.text(own, "vendor", "0x0000");
        self.text(own, "device", "0x0000");
        let plug = |name: &str| fs::read_to_string(format!("{real}/device/{name}")).ok();
        let node = plug("numa_node");
        self.text(own, "numa_node", node.as_deref().map_or("-1", str::trim_end));
        for name in ["local_cpus", "local_cpulist"] {
            plug(name).iter().for_each(|text| self.text(own, name, text.trim_end()));
        }
    }

    fn adapter(&mut self, own: &str, device: &Device) {
        let guid = groups(&device.guid().to_ne_bytes());
        self.link(own, "device", &format!("../../../{}", device.name()));
        for (name, text) in [
            ("node_type", "1: CA"),
            ("node_guid", &guid),
            ("sys_image_guid", &guid),
            ("node_desc", "Braid"),
            ("hca_type", "Braid"),
            ("hw_rev", "0x0"),
            ("board_id", "Braid"),
            ("fw_ver", env!("CARGO_PKG_VERSION")),
        ] {
            self.text(own, name, text);
        }
        self.port(&format!("{own}/ports/1"), device);
    }

    fn port(&mut self, own: &str, device: &Device) {
        for (name, text) in [
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("link_layer", "Ethernet"),
            ("rate", query::RATE),
            ("cap_mask", &format!("{:#010x}", query::PORT_CAPABILITIES)),
            ("lid", "0x0"),
            ("lid_mask_count", "0"),
            ("sm_lid", "0x0"),
            ("sm_sl", "0"),
            ("pkeys/0", &format!("{:#06x}", query::P_KEY)),
        ] {
            self.text(own, name, text);
        }
        for (index, gid) in device.gids.all().enumerate() {
            // SAFETY: both members of the union are plain bytes.
            let raw = unsafe { gid.raw };
            self.text(own, &format!("gids/{index}"), &groups(&raw));
            self.text(own, &format!("gid_attrs/types/{index}"), "RoCE v2");
            self.text(own, &format!("gid_attrs/ndevs/{index}"), &device.interface.name);
        }
    }
}

/// Formats bytes as groups of four digits, as sysfs writes GUIDs and GIDs: `fe80:0000`, without
/// abbreviation.
fn groups(bytes: &[u8]) -> String {
    let groups: Vec<String> =
        bytes.chunks(2).map(|two| two.iter().map(|byte| format!("{byte:02x}")).collect()).collect();
    groups.join(":")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::net::Ipv6Addr;

    use super::*;
    use crate::device;

    #[test]
    fn every_device_has_its_files_and_every_link_a_target() {
        let devices = device::list().expect("the system lists interfaces");
        let all = of(&devices);
        let text: HashMap<&Path, &Content> =
            all.iter().map(|entry| (entry.path.as_path(), &entry.content)).collect();
        assert_eq!(text.len(), all.len(), "no path is there twice");
        for device in devices {
            let name = device.name();
            let own = format!("sys/devices/virtual/braid/{name}");
            let of = |name: &str| text.get(Path::new(&format!("{own}/{name}"))).copied();
            let line = |text: &str| Some(Content::Text(text.to_owned()));
            let port = format!("infiniband/{name}/ports/1");
            assert_eq!(of(&format!("{port}/state")).cloned(), line("4: ACTIVE"));
            let ndev = of(&format!("{port}/gid_attrs/ndevs/0")).cloned();
            assert_eq!(ndev, line(&device.interface.name));
            let verbs_name = device.verbs_name();
            let ibdev = of(&format!("infiniband_verbs/{verbs_name}/ibdev")).cloned();
            assert_eq!(ibdev, line(&name));
            let node = Path::new("dev/infiniband").join(&verbs_name);
            assert_eq!(text.get(node.as_path()), Some(&&Content::Link("/dev/null".into())));
        }
    }

    #[test]
    fn numbers_are_written_as_sysfs_writes_them() {
        let mapped: Ipv6Addr = "::ffff:127.0.0.1".parse().expect("an address");
        assert_eq!(groups(&mapped.octets()), "0000:0000:0000:0000:0000:ffff:7f00:0001");
    }
}
