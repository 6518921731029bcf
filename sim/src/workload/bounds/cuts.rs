//! Bounds by cuts: all traffic that leaves or enters an edge switch or a pod shares its cables.

use std::collections::BTreeMap;

use super::super::message::Message;
use super::journey::{Journey, Load};
use crate::frames::Frames;
use crate::simulation::Change;
use crate::time::{Ps, Rate};
use crate::topology::{Node, Tier, Topology};

/// A part of the fabric: a switch or pod with everything below it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    Edge(u32),
    Pod(u32),
}

/// The cables around a part, and their load.
#[derive(Clone, Default)]
struct Cut {
    out: Capacity,
    into: Capacity,
}

/// One direction of the cables of a cut.
#[derive(Clone, Default)]
struct Capacity {
    bits_per_second: u64,
    links: u32,
    load: Load,
}

/// All cuts of a topology.
pub(super) struct Cuts<'a> {
    topology: &'a Topology,
    cuts: BTreeMap<Part, Cut>,
}

impl<'a> Cuts<'a> {
    pub(super) fn new(topology: &'a Topology) -> Cuts<'a> {
        let mut cuts: BTreeMap<Part, Cut> = BTreeMap::new();
        for port in topology.ports() {
            let (Node::Switch(from), Node::Switch(to)) = topology.ends(port) else { continue };
            let rate = topology.rate(port);
            let (left, entered) = (parts(topology, from), parts(topology, to));
            for part in left.into_iter().flatten().filter(|part| !entered.contains(&Some(*part))) {
                cuts.entry(part).or_default().out.add_link(rate);
            }
            for part in entered.into_iter().flatten().filter(|part| !left.contains(&Some(*part))) {
                cuts.entry(part).or_default().into.add_link(rate);
            }
        }
        Cuts { topology, cuts }
    }

    /// Adds the packets of a message from `src` to `dst`, all of the same `bytes` but the last.
    pub(super) fn carry(&mut self, src: u32, dst: u32, journey: &Journey, sent: Sent) {
        let edge = |nic: u32| self.topology.nics[nic as usize].edge;
        let (from, to) = (edge(src), edge(dst));
        let pod = |edge: u32| self.topology.switches[edge as usize].pod;
        let meeting = self.topology.meeting_tier(src, dst);
        let hops = journey.hops;
        if meeting >= Tier::Agg {
            self.cross(Part::Edge(from), Part::Edge(to), [2, hops - 1], journey, sent);
        }
        if meeting == Tier::Core {
            self.cross(Part::Pod(pod(from)), Part::Pod(pod(to)), [3, hops - 2], journey, sent);
        }
    }

    fn cross(&mut self, from: Part, to: Part, links: [u32; 2], journey: &Journey, sent: Sent) {
        if let Some(cut) = self.cuts.get_mut(&from) {
            cut.out.carry(journey.on_link(links[0]), sent);
        }
        if let Some(cut) = self.cuts.get_mut(&to) {
            cut.into.carry(journey.on_link(links[1]), sent);
        }
    }

    pub(super) fn least(self, frames: &Frames) -> Ps {
        let both = self.cuts.into_values().flat_map(|cut| [cut.out, cut.into]);
        both.map(|capacity| capacity.least(frames)).max().unwrap_or(Ps::ZERO)
    }
}

/// Packets, and their bytes including the gaps between them.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Sent {
    pub(super) fn data(frames: &Frames, message: &Message) -> Sent {
        let packets = frames.packets(message.bytes);
        let header = u64::from(frames.header + frames.gap);
        Sent { packets, bytes: message.bytes + packets * header }
    }

    pub(super) fn acks(frames: &Frames, message: &Message) -> Sent {
        let packets = frames.packets(message.bytes);
        Sent { packets, bytes: packets * u64::from(frames.ack + frames.gap) }
    }
}

impl Capacity {
    fn add_link(&mut self, rate: Rate) {
        self.bits_per_second += rate.bps();
        self.links += 1;
    }

    fn carry(&mut self, (from, then): (Ps, Ps), sent: Sent) {
        let takes = Rate::from_bps(self.bits_per_second).time_for_long(sent.bytes);
        // A link may take half a picosecond less for each packet, because times are rounded.
        self.load.add(from, takes.since(Ps(sent.packets)), then);
    }

    /// Leaves out the gap after the last packet of each link.
    fn least(self, frames: &Frames) -> Ps {
        let gaps = u64::from(frames.gap) * u64::from(self.links);
        self.load.least(Rate::from_bps(self.bits_per_second).time_for_long(gaps))
    }
}

/// Returns the parts that a switch belongs to.
fn parts(topology: &Topology, switch: u32) -> [Option<Part>; 2] {
    let spec = topology.switches[switch as usize];
    let edge = (spec.tier == Tier::Edge).then_some(Part::Edge(switch));
    let pod = (spec.pod != u32::MAX).then_some(Part::Pod(spec.pod));
    [edge, pod]
}

/// Returns the topology with each cable at its highest speed under these changes. A cable that is
/// slow or cut from the start to the end counts so; one that never works counts as 1 b/s.
pub fn at_best(topology: &Topology, changes: &[(Ps, Change)]) -> Topology {
    let mut best = topology.clone();
    for port in topology.ports() {
        let speeds = changes.iter().filter_map(|(at, change)| match *change {
            Change::Speed { port: changed, rate } if changed == port => Some((*at, rate)),
            _ => None,
        });
        if let Some(fastest) = speeds.clone().map(|(_, rate)| rate).max() {
            let ever_usual = speeds.clone().all(|(at, _)| at > Ps::ZERO);
            let usual = topology.rate(port);
            best.set_port_rate(port, if ever_usual { usual.max(fastest) } else { fastest });
        }
    }
    for (index, cable) in (0_u32..).zip(&mut best.cables) {
        let cuts = changes.iter().filter_map(|(at, change)| match *change {
            Change::Cable { cable, up } if cable == index => Some((*at, up)),
            _ => None,
        });
        if cuts.clone().any(|cut| cut == (Ps::ZERO, false)) && !cuts.clone().any(|(_, up)| up) {
            (cable.up, cable.down) = (Rate::from_bps(1), Rate::from_bps(1));
        }
    }
    best
}
