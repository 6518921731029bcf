//! Probes: readings of queues and links at fixed intervals during a run.
//!
//! A run without probes is [`Simulation::run`]. With probes, each reads right after the first event
//! at or after the instant that is due. In a busy network that is nanoseconds later.

use crate::fabric::Fabric;
use crate::port::Port;
use crate::simulation::{RunError, Simulation};
use crate::time::Ps;
use crate::topology::PortId;

/// The quantity that a probe reads at a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantity {
    /// Bytes in its queue.
    Queued,
    /// Bytes of frames put on its link since the last reading.
    Carried,
    /// Packets put on its link since the last reading.
    Packets,
    /// Packets marked at its queue since the last reading.
    Marked,
}

impl Quantity {
    /// Returns the current value: the queue, or the sum since the start of the run.
    fn of(self, port: &Port) -> u64 {
        match self {
            Quantity::Queued => port.bytes,
            Quantity::Carried => port.sent.bytes,
            Quantity::Packets => port.sent.packets,
            Quantity::Marked => port.marked,
        }
    }
}

/// Receives a probe's readings: the instant, the number of the group, and a value per port of the
/// group.
pub type Reader<'a> = Box<dyn FnMut(Ps, usize, &[u64]) + 'a>;

/// Reads groups of ports at fixed intervals, for the first time after one interval.
pub struct Probe<'a> {
    every: Ps,
    due: Ps,
    quantity: Quantity,
    groups: Vec<Vec<PortId>>,
    /// The sum at the last reading, by group and port.
    before: Vec<Vec<u64>>,
    values: Vec<u64>,
    reader: Reader<'a>,
}

impl std::fmt::Debug for Probe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Probe({:?} of {} groups, every {})",
            self.quantity,
            self.groups.len(),
            self.every
        )
    }
}

impl<'a> Probe<'a> {
    /// Creates a probe that reads `quantity` of these ports once per interval.
    ///
    /// # Panics
    /// Panics if the interval is zero.
    pub fn new(
        every: Ps,
        quantity: Quantity,
        groups: Vec<Vec<PortId>>,
        reader: impl FnMut(Ps, usize, &[u64]) + 'a,
    ) -> Probe<'a> {
        assert!(every > Ps::ZERO, "a probe needs an interval");
        let before = groups.iter().map(|ports| vec![0; ports.len()]).collect();
        let (values, reader) = (Vec::new(), Box::new(reader));
        Probe { every, due: every, quantity, groups, before, values, reader }
    }

    pub(crate) fn look(&mut self, now: Ps, fabric: &Fabric) {
        while self.due <= now {
            for (group, ports) in self.groups.iter().enumerate() {
                self.values.clear();
                for (port, before) in ports.iter().zip(&mut self.before[group]) {
                    let value = self.quantity.of(&fabric.ports[port.index()]);
                    self.values.push(match self.quantity {
                        Quantity::Queued => value,
                        _ => value - std::mem::replace(before, value),
                    });
                }
                (self.reader)(self.due, group, &self.values);
            }
            self.due += self.every;
        }
    }
}

/// Runs to the end with probes.
///
/// # Errors
/// As [`Simulation::run`].
///
/// # Panics
/// As [`Simulation::run`].
pub fn run(simulation: &mut Simulation, probes: &mut [Probe<'_>]) -> Result<(), RunError> {
    while !simulation.is_done() {
        simulation.step()?;
        let now = simulation.events.now();
        probes.iter_mut().for_each(|probe| probe.look(now, &simulation.fabric));
    }
    simulation.run()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::fabric::{Buffer, Marking, NetworkConfig, When};
    use crate::frames::Frames;
    use crate::host::HostConfig;
    use crate::simulation::Plan;
    use crate::switch::Policy;
    use crate::time::Rate;
    use crate::topology::{LeafSpine, Node};
    use crate::workload::{Groups, incast, ring};

    /// Returns a plan of four switches and eight hosts, without marks and losses.
    pub(crate) fn plan(workload: crate::workload::Workload) -> Plan {
        let (rate, delay) = (Rate::from_gbps(100), Ps::from_micros(1));
        let frames = Frames { payload: 1000, header: 0, ack: 64, gap: 0 };
        Plan {
            topology: LeafSpine::k_ary(4, rate, delay).unwrap().build().unwrap(),
            network: NetworkConfig::plain(
                frames,
                Buffer::PerPort { bytes: 1 << 30 },
                Policy::Source,
            ),
            host: HostConfig::default(),
            workload,
            changes: Vec::new(),
            seed: 1,
            limit: Ps::from_micros(10_000),
        }
    }

    fn last_hop(simulation: &Simulation, nic: u32) -> PortId {
        simulation.fabric.topology.ports_of(Node::Nic(nic)).next().unwrap().reverse()
    }

    /// Two senders share one link at 100 Gb/s: the queue grows by 12.5 bytes per nanosecond.
    #[test]
    fn a_queue_is_read_as_it_grows() {
        let mut simulation = Simulation::new(plan(
            incast(&Groups::new(8, vec![vec![0, 2, 4]]).unwrap(), 1_000_000).unwrap(),
        ));
        let port = last_hop(&simulation, 0);
        let mut readings = Vec::new();
        let probe =
            Probe::new(Ps::from_micros(10), Quantity::Queued, vec![vec![port]], |at, _, queued| {
                readings.push((at, queued[0]));
            });
        run(&mut simulation, &mut [probe]).unwrap();
        assert_eq!(readings[0].0, Ps::from_micros(10));
        let grown = readings[3].1 as f64 - readings[1].1 as f64;
        assert!((grown - 250_000.0).abs() < 5_000.0, "{readings:?}");
        let most = readings.iter().map(|(_, queued)| *queued).max().unwrap();
        assert!(most > 800_000 && readings.last().unwrap().1 < 125_000, "{readings:?}");
    }

    /// The last hop marks those packets of two senders that find more than 100 KB there.
    #[test]
    fn packets_and_marks_are_read_link_by_link() {
        let groups = Groups::new(8, vec![vec![0, 2, 4]]).unwrap();
        let mut plan = plan(incast(&groups, 1_000_000).unwrap());
        plan.network.marking =
            Some(Marking { low: 100_000, high: 100_000, most: 1.0, when: When::Leaving, of: None });
        let mut simulation = Simulation::new(plan);
        let ports = vec![vec![last_hop(&simulation, 0)], vec![last_hop(&simulation, 3)]];
        let every = Ps::from_micros(10);
        let mut sums = [[0; 2]; 2];
        let [packets, marked] = &mut sums;
        let mut probes = [
            Probe::new(every, Quantity::Packets, ports.clone(), |_, link, new| {
                packets[link] += new[0]
            }),
            Probe::new(every, Quantity::Marked, ports, |_, link, new| marked[link] += new[0]),
        ];
        run(&mut simulation, &mut probes).unwrap();
        drop(probes);
        let [packets, marked] = sums;
        assert_eq!((packets[1], marked[1]), (0, 0), "nobody sends to interface 3");
        // A queue of 1 MB builds up and drains. Among 2000 packets, 200 leave before it is long and
        // 100 after.
        assert!(
            packets[0] > 1_900 && (1_600..1_900).contains(&marked[0]),
            "{packets:?} {marked:?}"
        );
    }

    #[test]
    fn carried_bytes_add_up() {
        let workload = ring(&Groups::all(8).unwrap(), 1_000_000).unwrap();
        let mut simulation = Simulation::new(plan(workload));
        let port = last_hop(&simulation, 3);
        let mut carried = 0;
        let probe =
            Probe::new(Ps::from_micros(1), Quantity::Carried, vec![vec![port]], |_, _, bytes| {
                carried += bytes[0];
            });
        run(&mut simulation, &mut [probe]).unwrap();
        let all = simulation.fabric.ports[port.index()].sent.bytes;
        assert!(all - carried <= 64 * 200, "{carried} of {all}");
        assert!(carried >= 1_000_000);
    }
}
