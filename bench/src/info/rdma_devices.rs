//! The RDMA devices in sysfs, so that their GIDs need no libibverbs.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The folder in which the kernel has a folder for each device.
pub(super) const SYSFS: &str = "/sys/class/infiniband";

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct RdmaDevice {
    pub(super) name: String,
    pub(super) ports: Vec<Port>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Port {
    pub(super) number: u8,
    /// The state in the kernel's format: `4: ACTIVE`.
    pub(super) state: String,
    /// `Ethernet` or `InfiniBand`.
    pub(super) link_layer: String,
    /// The network interface of the port, if there is one.
    pub(super) interface: Option<String>,
    pub(super) gids: Vec<Gid>,
}

/// An entry of the port's GID table that is in use.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Gid {
    pub(super) index: u32,
    pub(super) gid: String,
    /// `RoCE v2`, or another type of the kernel.
    pub(super) kind: String,
}

/// Lists the devices of `class`, by name.
pub(super) fn list(class: &Path) -> Vec<RdmaDevice> {
    folders(class).into_iter().map(|folder| device(&folder)).collect()
}

fn device(folder: &Path) -> RdmaDevice {
    let ports = folders(&folder.join("ports"));
    let port = |folder: &PathBuf| Some(port(name(folder).parse().ok()?, folder));
    RdmaDevice { name: name(folder), ports: ports.iter().filter_map(port).collect() }
}

fn port(number: u8, folder: &Path) -> Port {
    let indices = folders(&folder.join("gids"));
    let mut indices: Vec<u32> = indices.iter().filter_map(|gid| name(gid).parse().ok()).collect();
    indices.sort_unstable();
    let gids: Vec<Gid> = indices.iter().filter_map(|index| gid(*index, folder)).collect();
    let interface = gids.first().and_then(|gid| {
        let interface = line(&folder.join("gid_attrs/ndevs").join(gid.index.to_string()));
        Some(interface).filter(|name| !name.is_empty())
    });
    let [state, link_layer] = ["state", "link_layer"].map(|file| line(&folder.join(file)));
    Port { number, state, link_layer, interface, gids }
}

fn gid(index: u32, port: &Path) -> Option<Gid> {
    let gid = line(&port.join("gids").join(index.to_string()));
    let is_used = gid.chars().any(|digit| !matches!(digit, '0' | ':'));
    let kind = || line(&port.join("gid_attrs/types").join(index.to_string()));
    is_used.then(|| Gid { index, kind: kind(), gid })
}

/// Returns the entries of a folder, by name.
fn folders(of: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        fs::read_dir(of).into_iter().flatten().flatten().map(|f| f.path()).collect();
    all.sort();
    all
}

fn name(of: &Path) -> String {
    of.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Reads a line of a file. Empty if it cannot be read, as for unused entries of the GID table.
fn line(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the files of a Soft-RoCE device, with a GID table of three entries.
    fn write_device(folder: &Path) {
        let ports = folder.join("ports/1");
        for (file, text) in [
            ("state", "4: ACTIVE\n"),
            ("link_layer", "Ethernet\n"),
            ("gids/0", "fe80:0000:0000:0000:0000:00ff:fe00:0001\n"),
            ("gids/1", "0000:0000:0000:0000:0000:ffff:0a00:0001\n"),
            ("gids/2", "0000:0000:0000:0000:0000:0000:0000:0000\n"),
            ("gid_attrs/types/0", "RoCE v2\n"),
            ("gid_attrs/types/1", "RoCE v2\n"),
            ("gid_attrs/ndevs/0", "eth0\n"),
            ("gid_attrs/ndevs/1", "eth0\n"),
        ] {
            let file = ports.join(file);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, text).expect("a file");
        }
    }

    #[test]
    fn a_device_is_shown_with_the_gids_that_are_in_use() {
        let class = std::env::temp_dir().join(format!("braid-rdma-{}", std::process::id()));
        write_device(&class.join("rxe0"));
        let found = list(&class);
        fs::remove_dir_all(&class).expect("it is there");
        let gid = |index, gid: &str| Gid { index, gid: gid.into(), kind: "RoCE v2".into() };
        let port = Port {
            number: 1,
            state: "4: ACTIVE".into(),
            link_layer: "Ethernet".into(),
            interface: Some("eth0".into()),
            gids: vec![
                gid(0, "fe80:0000:0000:0000:0000:00ff:fe00:0001"),
                gid(1, "0000:0000:0000:0000:0000:ffff:0a00:0001"),
            ],
        };
        assert_eq!(found, [RdmaDevice { name: "rxe0".into(), ports: vec![port] }]);
        assert_eq!(list(&class), [], "no such folder: no devices");
    }
}
