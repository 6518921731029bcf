//! `[spraying]`: the packets for which a path is picked, and the destinations that share paths.

use serde::Deserialize;
use toml::Spanned;

use super::error::Refusal;
use crate::host::{HostConfig, Sharing};
use crate::topology::Topology;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SprayingKeys {
    quantum: Option<Spanned<u32>>,
    destination_groups: Option<Spanned<Vec<Vec<u32>>>>,
}

impl SprayingKeys {
    /// Applies the keys to the hosts.
    pub(super) fn apply(&self, host: &mut HostConfig, topology: &Topology) -> Result<(), Refusal> {
        if let Some(key) = &self.quantum {
            let (packets, window) = (*key.get_ref(), u32::from(host.window));
            if !(1..=window).contains(&packets) {
                let what =
                    format!("quantum = {packets} is not possible; give 1 to {window}, the window");
                return Err(Refusal::of(key, what));
            }
            host.quantum = Some(packets);
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
