//! `[[failure]]`: changes of cables during a run.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::place::{LayerName, NodeName};
use super::quantity::{Parsed, Share};
use crate::simulation::Change;
use crate::time::{Ps, Rate};
use crate::topology::Topology;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FailureKeys {
    cable: Option<[Parsed<NodeName>; 2]>,
    layers: Option<Vec<Parsed<LayerName>>>,
    share: Option<Parsed<Share>>,
    count: Option<u32>,
    at: Option<Parsed<Ps>>,
    until: Option<Parsed<Ps>>,
    convergence: Option<Parsed<Ps>>,
    rate: Option<Parsed<Rate>>,
}

impl FailureKeys {
    /// Returns the changes of one failure. `seed` draws the cables that are not named.
    pub(super) fn changes(
        &self,
        topology: &Topology,
        seed: u64,
    ) -> Result<Vec<(Ps, Change)>, String> {
        self.check()?;
        let at = self.at.map_or(Ps::ZERO, |Parsed(at)| at);
        let until = self.until.map(|Parsed(until)| until);
        let mut changes = Vec::new();
        for cable in self.cables(topology, seed)? {
            let usual = topology.cables[cable as usize].up;
            if self.rate.is_some_and(|Parsed(rate)| rate > usual) {
                let usual = usual.bps();
                return Err(format!(
                    "a failure cannot make a cable faster than {usual} b/s; lower `rate`"
                ));
            }
            let change = |works| self.change(topology, cable, works);
            changes.push((at, change(false)));
            changes.extend(until.map(|until| (until, change(true))));
        }
        if let Some(Parsed(wait)) = self.convergence {
            let times = [Some(at), until];
            changes.extend(times.into_iter().flatten().map(|time| (time + wait, Change::Converge)));
        }
        Ok(changes)
    }

    fn check(&self) -> Result<(), String> {
        let at = self.at.map_or(Ps::ZERO, |Parsed(at)| at);
        match self.until {
            Some(Parsed(until)) if until <= at => {
                return Err(format!(
                    "the failure ends at {until}, no later than it begins; raise `until`"
                ));
            }
            _ => {}
        }
        match (self.rate, self.convergence) {
            (Some(_), Some(_)) => {
                Err("a slower cable changes no route; leave out `convergence`".into())
            }
            _ => Ok(()),
        }
    }

    fn change(&self, topology: &Topology, cable: u32, works: bool) -> Change {
        match self.rate {
            None => Change::Cable { cable, up: works },
            Some(Parsed(rate)) => {
                let usual = topology.cables[cable as usize].up;
                Change::Speed { cable, rate: if works { usual } else { rate } }
            }
        }
    }

    fn cables(&self, topology: &Topology, seed: u64) -> Result<Vec<u32>, String> {
        match (&self.cable, &self.layers) {
            (Some(ends), None) if self.share.is_none() && self.count.is_none() => {
                between(topology, ends)
            }
            (None, Some(layers)) => {
                let mut rng = Pcg64Mcg::seed_from_u64(seed);
                let mut cables = Vec::new();
                for Parsed(layer) in layers {
                    cables.extend(self.draw(topology, *layer, &mut rng)?);
                }
                Ok(cables)
            }
            _ => Err(
                "a failure needs `cable` with its two ends, or `layers` with `share` or `count`"
                    .into(),
            ),
        }
    }

    /// Draws random cables of a layer.
    fn draw(
        &self,
        topology: &Topology,
        layer: LayerName,
        rng: &mut Pcg64Mcg,
    ) -> Result<Vec<u32>, String> {
        let cables = (0_u32..).zip(&topology.cables);
        let mut there: Vec<u32> = cables
            .filter(|(_, cable)| topology.tier(cable.low) == layer.low)
            .filter(|(_, cable)| topology.tier(cable.high) == layer.high)
            .map(|(index, _)| index)
            .collect();
        let all = there.len();
        let count = match (self.share, self.count) {
            (Some(Parsed(Share(share))), None) => ((share * all as f64).round() as usize).max(1),
            (None, Some(count)) => count as usize,
            _ => return Err("`layers` needs either `share` or `count`".into()),
        };
        if all == 0 || count > all {
            return Err(format!(
                "{count} cables cannot fail in a layer that has {all}; give fewer"
            ));
        }
        there.shuffle(rng);
        there.truncate(count);
        Ok(there)
    }
}

/// Returns all cables between two nodes.
fn between(topology: &Topology, ends: &[Parsed<NodeName>; 2]) -> Result<Vec<u32>, String> {
    let [a, b] = [ends[0].0.find(topology)?, ends[1].0.find(topology)?];
    let cables: Vec<u32> = (0_u32..)
        .zip(&topology.cables)
        .filter(|(_, cable)| [(a, b), (b, a)].contains(&(cable.low, cable.high)))
        .map(|(index, _)| index)
        .collect();
    match cables.is_empty() {
        true => Err("there is no cable between these two; name two neighbours".into()),
        false => Ok(cables),
    }
}
