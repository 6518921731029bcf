//! Queue pairs that use several interfaces of their hosts.

use braid_cc::{CcConfig, FixedWindow};
use braid_lb::{LbPolicy, RailScheme};
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::{DataPath, HostConfig, NvLink, Recovery};
use braid_sim::simulation::{Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::RailOptimised;
use braid_sim::workload::{Message, Start, Workload};

const HOSTS: u32 = 3;
const RAILS: u32 = 4;
const BYTES: u64 = 8 << 20;
const RATE: Rate = Rate::from_gbps(100);

fn run(data_path: DataPath, rail_scheme: RailScheme, nvlink: Option<NvLink>) -> Simulation {
    let fabric = RailOptimised {
        hosts: HOSTS,
        rails: RAILS,
        hosts_per_leaf: HOSTS,
        spines: 4,
        links_per_spine: 1,
        host_rate: RATE,
        fabric_rate: RATE,
        delay: Ps::from_micros(1),
    };
    // From the second interface of the first host to the third of the last.
    let message = Message {
        src: 1,
        dst: 2 * RAILS + 2,
        bytes: BYTES,
        start: Start::At(Ps::ZERO),
        queue: 0,
        group: 0,
    };
    let frames = Frames { payload: 4096, header: 62, ack: 64, gap: 0 };
    let mut simulation = Simulation::new(Plan {
        topology: fabric.build().unwrap(),
        network: NetworkConfig::plain(frames, Buffer::PerPort { bytes: 1 << 30 }, Policy::Source),
        host: HostConfig {
            lb: LbPolicy::ROUND_ROBIN,
            data_path,
            rail_scheme,
            nvlink,
            health: false,
            recovery: Recovery::Ideal,
            cc: CcConfig::new(FixedWindow { window: 1 << 18 }),
            ..HostConfig::default()
        },
        workload: Workload::from(vec![message]),
        changes: Vec::new(),
        seed: 1,
        limit: Ps::from_micros(100_000),
    });
    simulation.run().unwrap();
    simulation
}

/// Returns the bytes that the interfaces of a host have sent and received.
fn loads(simulation: &Simulation, host: u32) -> (Vec<u64>, Vec<u64>) {
    let of_host = simulation.hosts.nic_loads().skip((host * RAILS) as usize);
    of_host.take(RAILS as usize).map(|load| (load.sent, load.received)).unzip()
}

/// Returns the time that one interface would take over the measured time.
fn speedup(simulation: &Simulation) -> f64 {
    RATE.time_for_long(BYTES).0 as f64 / simulation.completion_time().0 as f64
}

#[test]
fn a_queue_pair_of_one_interface_takes_no_other() {
    let simulation = run(DataPath::Own, RailScheme::LPT, None);
    assert_eq!(loads(&simulation, 0).0, [0, BYTES, 0, 0]);
    assert_eq!(loads(&simulation, 2).1, [0, 0, BYTES, 0]);
}

#[test]
fn aligned_rails_add_up() {
    for scheme in [RailScheme::LPT, RailScheme::ROUND_ROBIN] {
        let simulation = run(DataPath::Aligned, scheme, None);
        for rail in loads(&simulation, 2).1 {
            assert!(rail.abs_diff(BYTES / 4) < BYTES / 32, "{scheme}: {rail} on a rail");
        }
        assert!(speedup(&simulation) > 3.5, "{scheme}: {}", speedup(&simulation));
    }
}

#[test]
fn all_interfaces_of_the_sender_may_end_at_one() {
    let simulation = run(DataPath::AnySender, RailScheme::ROUND_ROBIN, None);
    assert!(loads(&simulation, 0).0.iter().all(|sent| *sent > BYTES / 8));
    assert_eq!(loads(&simulation, 2).1, [0, 0, BYTES, 0]);
    assert!(speedup(&simulation) < 1.0);
}

#[test]
fn min_rtt_fills_the_rails_by_their_round_trip_times() {
    let simulation = run(DataPath::Aligned, RailScheme::MIN_RTT, None);
    assert!(loads(&simulation, 0).0.iter().all(|sent| *sent > 0));
    assert!(speedup(&simulation) > 3.0);
}

/// Three interfaces read from, or write to, the memory of another interface's GPU.
#[test]
fn nvlink_limits_what_takes_other_interfaces() {
    let of = |rate: u64| {
        let links = NvLink { rate: Rate::from_gbps(rate), gpus: vec![(1, 2 * RAILS + 2)] };
        speedup(&run(DataPath::Aligned, RailScheme::LPT, Some(links)))
    };
    let unlimited = speedup(&run(DataPath::Aligned, RailScheme::LPT, None));
    assert!(of(800) > 0.98 * unlimited);
    // The GPU's own interface sends at 100 Gb/s. The three others share 100 Gb/s, and LPT gives all
    // four the same load.
    let slow = of(100);
    assert!((1.1..2.1).contains(&slow), "{slow}");
}
