//! Queues and links over time, layer by layer, as CSV.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::probe::{Probe, Quantity};
use crate::scenario::place::layer_name;
use crate::time::Ps;
use crate::topology::{PortId, Topology};

/// The lines of the file.
pub(super) struct Series {
    every: Ps,
    layers: Vec<SampledLayer>,
    rows: RefCell<Vec<Row>>,
}

struct SampledLayer {
    name: String,
    ports: Vec<PortId>,
    /// Bytes that each link can carry in one interval.
    capacity: Vec<f64>,
}

/// One instant and layer.
struct Row {
    at: Ps,
    layer: usize,
    queued: [f64; 2],
    used: [f64; 2],
}

impl Series {
    /// Creates a series with a line per layer and interval.
    pub(super) fn new(topology: &Topology, every: Ps) -> Series {
        let mut layers: BTreeMap<String, Vec<PortId>> = BTreeMap::new();
        for port in topology.ports() {
            layers.entry(layer_name(topology.layer(port))).or_default().push(port);
        }
        let capacity =
            |port: &PortId| topology.rate(*port).bps() as f64 / 8.0 * every.as_secs_f64();
        let layer = |(name, ports): (String, Vec<PortId>)| SampledLayer {
            name,
            capacity: ports.iter().map(capacity).collect(),
            ports,
        };
        let layers = layers.into_iter().map(layer).collect();
        Series { every, layers, rows: RefCell::new(Vec::new()) }
    }

    /// Returns the probes, which are to look in this order.
    pub(super) fn probes(&self) -> [Probe<'_>; 2] {
        let groups = || self.layers.iter().map(|layer| layer.ports.clone()).collect();
        let queues = Probe::new(self.every, Quantity::Queued, groups(), |at, layer, bytes| {
            let queued = mean_and_most(bytes.iter().map(|bytes| *bytes as f64));
            self.rows.borrow_mut().push(Row { at, layer, queued, used: [0.0; 2] });
        });
        let links = Probe::new(self.every, Quantity::Carried, groups(), |at, layer, bytes| {
            let share = |(bytes, capacity): (&u64, &f64)| *bytes as f64 / capacity;
            let used = mean_and_most(bytes.iter().zip(&self.layers[layer].capacity).map(share));
            let mut rows = self.rows.borrow_mut();
            let row = rows.iter_mut().rev().find(|row| (row.at, row.layer) == (at, layer));
            row.expect("the probe of queues has looked").used = used;
        });
        [queues, links]
    }

    /// Returns the file.
    pub(super) fn into_csv(self) -> String {
        let mut text =
            String::from("time_us,layer,queue_bytes_mean,queue_bytes_max,use_mean,use_max\n");
        for row in self.rows.into_inner() {
            let Row { at, layer, queued: [mean, most], used: [use_mean, use_max] } = row;
            let (at, layer) = (at.as_micros_f64(), &self.layers[layer].name);
            writeln!(text, "{at},{layer},{mean:.0},{most},{use_mean:.4},{use_max:.4}")
                .expect("a string takes all that is written to it");
        }
        text
    }
}

/// Returns the mean and the maximum of a layer's ports.
fn mean_and_most(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (count, sum, most) = values.fold((0.0, 0.0, 0.0_f64), |(count, sum, most), value| {
        (count + 1.0, sum + value, most.max(value))
    });
    [super::measured::ratio(sum, count), most]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe;
    use crate::probe::tests::plan;
    use crate::simulation::Simulation;
    use crate::workload::{Groups, incast};

    /// Two senders at 100 Gb/s share the link to one receiver. All three links are full, and the
    /// queue grows by 12.5 bytes per nanosecond.
    #[test]
    fn queues_and_use_are_those_of_an_incast() {
        let groups = Groups::new(8, vec![vec![0, 2, 4]]).unwrap();
        let plan = plan(incast(&groups, 1_000_000).unwrap());
        let series = Series::new(&plan.topology, Ps::from_micros(10));
        let mut run = Simulation::new(plan);
        let mut probes = series.probes();
        probe::run(&mut run, &mut probes).unwrap();
        drop(probes);
        let text = series.into_csv();
        let lines: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split(',').collect()).collect();
        let at = |time: &str, layer: &str| {
            let line = lines.iter().find(|line| line[..2] == [time, layer]);
            line.unwrap()[2..].iter().map(|cell| cell.parse().unwrap()).collect::<Vec<f64>>()
        };
        let grown = at("40", "edge_to_host")[1] - at("20", "edge_to_host")[1];
        assert!((grown - 250_000.0).abs() < 5_000.0, "{grown}");
        assert!(at("40", "edge_to_host")[3] > 0.99);
        let senders = at("40", "host_to_edge");
        assert!(senders[3] > 0.99 && (0.24..0.27).contains(&senders[2]), "{senders:?}");
    }
}
