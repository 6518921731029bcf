//! `[[failure]]`: changes of cables during a run.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64Mcg;
use serde::Deserialize;

use super::place::{LayerName, NodeName};
use super::quantity::{Parsed, Share, Text, by_name};
use crate::simulation::Change;
use crate::time::{Ps, Rate};
use crate::topology::{PortId, Topology};

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
    loss: Option<Parsed<Share>>,
    direction: Option<Parsed<Direction>>,
}

/// The direction of a cable that is slowed or loses packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    /// Away from the hosts.
    Up,
    /// Towards the hosts.
    Down,
}

impl Text for Direction {
    const WHAT: &'static str = "direction";
    const EXAMPLE: &'static str = "up";

    fn from_text(text: &str) -> Result<Self, String> {
        by_name("direction", text, &[("up", Direction::Up), ("down", Direction::Down)])
    }
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
            let change = |works| self.changes_of(topology, cable, works);
            changes.extend(change(false).into_iter().map(|change| (at, change)));
            let ended = until
                .into_iter()
                .flat_map(|until| change(true).into_iter().map(move |change| (until, change)));
            changes.extend(ended);
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
        match (self.is_cut(), self.convergence) {
            (false, Some(_)) => Err("a slow or lossy cable changes no route; leave out \
                                     `convergence`"
                .into()),
            (true, _) if self.direction.is_some() => {
                Err("a cut takes both directions; remove `direction`, or give `loss = \"100 %\"`"
                    .into())
            }
            _ => Ok(()),
        }
    }

    fn is_cut(&self) -> bool {
        self.rate.is_none() && self.loss.is_none()
    }

    /// Returns the changes of one cable when the failure begins, or when it `works` again.
    fn changes_of(&self, topology: &Topology, cable: u32, works: bool) -> Vec<Change> {
        if self.is_cut() {
            return vec![Change::Cable { cable, up: works }];
        }
        let [up, down] = PortId::of_cable(cable);
        let ports = match self.direction {
            None => vec![up, down],
            Some(Parsed(Direction::Up)) => vec![up],
            Some(Parsed(Direction::Down)) => vec![down],
        };
        let of_port = |port: PortId| {
            let rate = self.rate.map(|Parsed(rate)| if works { topology.rate(port) } else { rate });
            let share =
                self.loss.map(|Parsed(Share(share))| if works { 0.0 } else { share as f32 });
            let rate = rate.map(|rate| Change::Speed { port, rate });
            rate.into_iter().chain(share.map(|share| Change::Loss { port, share }))
        };
        ports.into_iter().flat_map(of_port).collect()
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
