//! A congestion control from outside the crate, with a parameter, on a simulated link.

use std::fmt;

use braid_cc::{CcConfig, Controller, ControllerFactory, Metrics, Subflow};
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::HostConfig;
use braid_sim::simulation::{Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::LeafSpine;
use braid_sim::workload::{Message, Start, Workload};

/// A constant window, in packets.
#[derive(Clone, Copy, Debug)]
struct Packets {
    packets: f64,
    window: u64,
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packets:{}", self.packets)
    }
}

impl ControllerFactory for Packets {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        let window = (self.packets * subflow.packet_bytes as f64) as u64;
        Box::new(Packets { window, ..*self })
    }
}

impl Controller for Packets {
    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window, bits_per_second: None }
    }
}

/// Returns the time of 64 packets between two hosts.
fn completion(packets: f64) -> Ps {
    let rate = Rate::from_gbps(100);
    let topology = LeafSpine {
        leaves: 2,
        hosts_per_leaf: 1,
        spines: 1,
        links_per_spine: 1,
        host_rate: rate,
        fabric_rate: rate,
        delay: Ps::from_micros(5),
    };
    let frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };
    let buffer = Buffer::PerPort { bytes: 1 << 40 };
    let plain = NetworkConfig::plain(frames, buffer, Policy::Source);
    let network = NetworkConfig { control_first: false, ..plain };
    let (src, dst, start) = (0, 1, Start::At(Ps::ZERO));
    let message = Message { src, dst, bytes: 64 * 4096, start, queue: 0, group: 0 };
    let cc = CcConfig::new(Packets { packets, window: 0 });
    let mut simulation = Simulation::new(Plan {
        topology: topology.build().unwrap(),
        network,
        host: HostConfig { cc, ..HostConfig::default() },
        workload: Workload::from(vec![message]),
        changes: Vec::new(),
        seed: 1,
        limit: Ps::from_micros(1_000_000),
    });
    simulation.run().unwrap();
    simulation.completion_time()
}

#[test]
fn the_simulator_runs_the_controller_that_it_was_given() {
    // The round trip is 40 us of links and some 1.4 us of frames. A window that does not fill it
    // takes 64 / window round trips.
    let one = completion(1.0).0 as f64;
    assert!((64.0 * 40e6..64.0 * 43e6).contains(&one), "{one} ps");
    for (packets, times) in [(4.0, 0.25), (0.5, 2.0)] {
        let took = completion(packets).0 as f64 / one;
        assert!((took / times - 1.0).abs() < 0.05, "{packets} packets: {took} times as long");
    }
}
