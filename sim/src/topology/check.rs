//! Consistency checks of a topology.

use super::{Node, Tier, Topology, TopologyError};

impl Topology {
    /// Checks the invariants of a topology: cables and interfaces name existing nodes, edge
    /// switches come first, cables lead upwards, and every interface has one cable, to its edge
    /// switch. Topologies of the builders pass; call this on those made or changed by hand.
    ///
    /// # Errors
    /// The topology breaks an invariant.
    pub fn check(&self) -> Result<(), TopologyError> {
        let wrong = |what| Err(TopologyError::Inconsistent { what });
        let tiers = self.switches.iter().map(|switch| switch.tier);
        if !tiers.clone().map(|tier| tier != Tier::Edge).is_sorted() {
            return wrong("an edge switch comes after a higher one in `switches`".into());
        }
        if let Some(at) = tiers.clone().position(|tier| tier == Tier::Host) {
            return wrong(format!("switch {at} has the tier of a host"));
        }
        let edges = tiers.filter(|tier| *tier == Tier::Edge).count();
        if let Some(at) = self.nics.iter().position(|nic| nic.edge as usize >= edges) {
            let edge = self.nics[at].edge;
            return wrong(format!("interface {at} is on edge switch {edge} of {edges}"));
        }
        let mut cables_of = vec![0_u32; self.nics.len()];
        for (at, cable) in self.cables.iter().enumerate() {
            for node in [cable.low, cable.high] {
                if !self.has(node) {
                    return wrong(format!("cable {at} names {node:?}, which does not exist"));
                }
            }
            if self.tier(cable.low) >= self.tier(cable.high) {
                return wrong(format!("cable {at} does not lead upwards"));
            }
            let Node::Nic(nic) = cable.low else { continue };
            cables_of[nic as usize] += 1;
            if cable.high != Node::Switch(self.nics[nic as usize].edge) {
                return wrong(format!("cable {at} leads interface {nic} to {:?}", cable.high));
            }
        }
        match cables_of.iter().position(|count| *count != 1) {
            Some(nic) => wrong(format!("interface {nic} has {} cables, not 1", cables_of[nic])),
            None => Ok(()),
        }
    }

    fn has(&self, node: Node) -> bool {
        match node {
            Node::Nic(nic) => (nic as usize) < self.nics.len(),
            Node::Switch(switch) => (switch as usize) < self.switches.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Ps, Rate};
    use crate::topology::LeafSpine;

    #[test]
    fn contradictions_are_found() {
        let good = LeafSpine::k_ary(4, Rate::from_gbps(1), Ps::ZERO).unwrap().build().unwrap();
        assert_eq!(good.check(), Ok(()));
        let error = |spoil: fn(&mut Topology)| {
            let mut topology = good.clone();
            spoil(&mut topology);
            topology.check().unwrap_err().to_string()
        };
        assert!(error(|plan| plan.switches.swap(0, 5)).contains("edge switch comes after"));
        assert!(
            error(|plan| plan.nics[3].edge = 4).contains("interface 3 is on edge switch 4 of 4")
        );
        assert!(error(|plan| plan.nics[3].edge = 0).contains("leads interface 3"));
        assert!(error(|plan| plan.cables[0].low = Node::Nic(8)).contains("does not exist"));
        assert!(error(|plan| plan.cables[9].low = Node::Switch(5)).contains("upwards"));
        assert!(
            error(|plan| plan.cables.retain(|cable| cable.low != Node::Nic(2)))
                .contains("0 cables")
        );
    }
}
