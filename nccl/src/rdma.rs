//! The RDMA device of a network interface, from /sys.

use std::fs;
use std::path::Path;

const DEVICES: &str = "/sys/class/infiniband";

/// A port of an RDMA device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Port {
    pub(crate) device: String,
    pub(crate) number: u8,
}

/// Returns the port whose GID table contains the addresses of this interface, the first by name.
pub(crate) fn port_of(interface: &str) -> Option<Port> {
    find(Path::new(DEVICES), interface)
}

fn find(devices: &Path, interface: &str) -> Option<Port> {
    for device in names(devices) {
        let ports = devices.join(&device).join("ports");
        for port in names(&ports) {
            let Ok(number) = port.parse() else { continue };
            // Each entry of the GID table names its interface.
            let owners = ports.join(&port).join("gid_attrs/ndevs");
            let owner = |entry: &String| fs::read_to_string(owners.join(entry)).ok();
            if names(&owners).iter().filter_map(owner).any(|owner| owner.trim() == interface) {
                return Some(Port { device, number });
            }
        }
    }
    None
}

/// Returns the sorted names in a folder, or nothing if it does not exist.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gid_table_tells_whose_a_port_is() {
        let root = std::env::temp_dir().join(format!("braid-rdma-{}", std::process::id()));
        let entries = [("rxe0", "1", "eth0"), ("mlx5_0", "1", "ens1"), ("mlx5_0", "2", "ens2")];
        for (device, port, interface) in entries {
            let folder = root.join(device).join("ports").join(port).join("gid_attrs/ndevs");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("0"), format!("{interface}\n")).unwrap();
        }
        let port = |device: &str, number| Some(Port { device: device.to_owned(), number });
        assert_eq!(find(&root, "eth0"), port("rxe0", 1));
        assert_eq!(find(&root, "ens2"), port("mlx5_0", 2));
        assert_eq!((find(&root, "eth1"), find(&root, "ens")), (None, None));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(find(&root, "eth0"), None);
    }
}
