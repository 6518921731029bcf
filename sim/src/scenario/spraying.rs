//! `[spraying]`: the packets that leave together on a path, and the destinations that share paths.

use braid_wire::DATA_HEADER_LEN;
use serde::Deserialize;
use toml::Spanned;

use super::error::Refusal;
use super::quantity::{Bytes, Parsed};
use crate::host::{HostConfig, Sharing};
use crate::topology::Topology;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SprayingKeys {
    batch_packets: Option<Spanned<u32>>,
    batch_bytes: Option<Spanned<Parsed<Bytes>>>,
    destination_groups: Option<Spanned<Vec<Vec<u32>>>>,
}

impl SprayingKeys {
    /// Applies the keys to the hosts. `payload`: payload bytes of a full packet.
    pub(super) fn apply(
        &self,
        host: &mut HostConfig,
        topology: &Topology,
        payload: u16,
    ) -> Result<(), Refusal> {
        let window = u32::from(host.window);
        if let Some(key) = &self.batch_packets {
            host.batch.packets = *key.get_ref();
            if !(1..=window).contains(key.get_ref()) {
                let packets = key.get_ref();
                let what = format!(
                    "batch_packets = {packets} is not possible; give 1 to {window}, the window"
                );
                return Err(Refusal::of(key, what));
            }
        }
        if let Some(key) = &self.batch_bytes {
            let Parsed(Bytes(bytes)) = *key.get_ref();
            host.batch.bytes = bytes;
            let packet = u64::from(payload) + DATA_HEADER_LEN as u64;
            let most = packet * u64::from(window);
            if !(packet..=most).contains(&bytes) {
                let what = format!(
                    "batch_bytes = {bytes} B is not possible; give {packet} B, a full packet, to \
                     {most} B, the window"
                );
                return Err(Refusal::of(key, what));
            }
        }
        if let Some(key) = &self.destination_groups {
            check_groups(key.get_ref(), host.sharing, topology.hosts())
                .map_err(|what| Refusal::of(key, what))?;
            host.destination_groups = key.get_ref().clone();
        }
        Ok(())
    }
}

/// Checks that groups of hosts are disjoint and have members.
fn check_groups(groups: &[Vec<u32>], sharing: Sharing, hosts: u32) -> Result<(), String> {
    if sharing != Sharing::Host {
        return Err(
            "destination_groups are groups of hosts; add sharing = \"host\" to [hosts]".into()
        );
    }
    let mut group_of = vec![None; hosts as usize];
    for (number, members) in groups.iter().enumerate() {
        if members.is_empty() {
            return Err(format!("destination group {number} has no host; name its hosts"));
        }
        for member in members {
            match group_of.get_mut(*member as usize) {
                None => {
                    return Err(format!(
                        "destination group {number} names host {member}; the topology has \
                         {hosts} hosts, numbered from 0"
                    ));
                }
                Some(Some(other)) => {
                    return Err(format!(
                        "host {member} is in the destination groups {other} and {number}; \
                         name it once"
                    ));
                }
                Some(group) => *group = Some(number),
            }
        }
    }
    Ok(())
}
