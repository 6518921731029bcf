//! The interfaces that are the rails of each device, as users write them.

use std::str::FromStr;

use braid_wire::MAX_RAILS;

/// The interfaces or addresses of this host that are the rails of each device, in order: 1 to 8.
/// The NCCL plugin and the drop-in libibverbs read them from `BRAID_RAILS`.
///
/// ```
/// use braid::RailNames;
///
/// let two: RailNames = "eth0,eth1; eth2,10.0.3.1".parse()?;
/// assert_eq!(two.devices[1], ["eth2", "10.0.3.1"]);
/// assert!("eth0,,eth1".parse::<RailNames>().is_err());
/// # Ok::<(), braid::MalformedRailNames>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RailNames {
    /// The rails of each device. Every entry has the form of an interface name or address; whether
    /// this host has it is not checked.
    pub devices: Vec<Vec<String>>,
}

/// The text is not a list of rails.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "accepted: for each device up to {MAX_RAILS} interfaces or addresses of this host with commas \
     between them, `;` between devices"
)]
pub struct MalformedRailNames;

impl FromStr for RailNames {
    type Err = MalformedRailNames;

    fn from_str(text: &str) -> Result<Self, MalformedRailNames> {
        let names = |device: &str| -> Vec<String> {
            device.split(',').map(|name| name.trim().to_owned()).collect()
        };
        let devices: Vec<Vec<String>> = text.split(';').map(names).collect();
        let is_name = |name: &String| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_graphic() && c != '/')
        };
        if devices.iter().all(|rails| rails.len() <= MAX_RAILS && rails.iter().all(is_name)) {
            Ok(RailNames { devices })
        } else {
            Err(MalformedRailNames)
        }
    }
}
