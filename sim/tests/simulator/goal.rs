//! Traces in the GOAL format in virtual time.

use braid_lb::LbPolicy;
use braid_sim::fabric::{Buffer, NetworkConfig};
use braid_sim::frames::Frames;
use braid_sim::host::HostConfig;
use braid_sim::simulation::{Plan, Simulation};
use braid_sim::switch::Policy;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{LeafSpine, Topology};
use braid_sim::workload::goal::{Goal, Placement};
use braid_sim::workload::{Message, Start, Workload, bounds};

const FRAMES: Frames = Frames { payload: 4096, header: 62, ack: 64, gap: 20 };

fn topology(hosts: u32) -> Topology {
    let rate = Rate::from_gbps(100);
    let plan = LeafSpine {
        leaves: 1,
        hosts_per_leaf: hosts,
        spines: 1,
        links_per_spine: 1,
        host_rate: rate,
        fabric_rate: rate,
        delay: Ps::from_micros(1),
    };
    plan.build().unwrap()
}

fn run(workload: Workload, hosts: u32) -> Simulation {
    let room = Buffer::PerPort { bytes: 1 << 40 };
    let mut simulation = Simulation::new(Plan {
        topology: topology(hosts),
        network: NetworkConfig::plain(FRAMES, room, Policy::Ecmp),
        host: HostConfig { lb: LbPolicy::ECMP, ..HostConfig::default() },
        workload,
        changes: Vec::new(),
        seed: 1,
        limit: Ps::from_micros(10_000_000),
    });
    simulation.run().unwrap();
    simulation
}

fn trace(text: &str, ranks: u32) -> Simulation {
    let goal = Goal::parse(text.as_bytes()).unwrap();
    run(goal.workload(ranks, Placement { nics: 1, shuffle: None }).unwrap(), ranks)
}

/// Returns the delivery and the completion of one message that has the fabric to itself.
fn alone(bytes: u64) -> [Ps; 2] {
    let start = Start::At(Ps::ZERO);
    let message = Message { src: 0, dst: 1, bytes, start, queue: 0, group: 0 };
    let span = run(Workload::from(vec![message]), 2).spans()[0];
    [span.delivered, span.acknowledged]
}

/// A send is done with its acknowledgement, a receive with the delivery. Computations start then,
/// or at once if only the start is waited for.
#[test]
fn dependencies_are_met_in_virtual_time() {
    let run = trace(
        "num_ranks 2\nrank 0 {\nz: recv 1b from 1\ns: send 100000b to 1\na: calc 7000\na requires s\n\
         b: calc 5000 cpu 1\nb irequires s\n}\n\
         rank 1 {\nr: recv 100000b from 0\nc: calc 900\nc requires r\nt: send 1b to 0\n\
         t requires c\n}\n",
        2,
    );
    let [delivered, acknowledged] = alone(100_000);
    let ns = Ps::from_nanos;
    let [first, second] = [0, 1].map(|message| run.spans()[message]);
    assert_eq!((first.posted, first.delivered), (Ps::ZERO, delivered));
    assert_eq!(second.posted, delivered + ns(900));
    let spans: Vec<(Ps, Ps)> =
        (0..run.workload().steps.len() as u32).map(|step| run.step_span(step)).collect();
    let has = |start: Ps, took: u64| spans.contains(&(start, start + ns(took)));
    assert!(has(Ps::ZERO, 5000), "{spans:?}");
    assert!(has(acknowledged, 7000), "{acknowledged}: {spans:?}");
    assert!(has(delivered, 900), "{delivered}: {spans:?}");
    assert_eq!(run.completion_time(), second.acknowledged.max(acknowledged + ns(7000)));
}

#[test]
fn computations_of_a_cpu_take_turns() {
    let text = |cpu: u32| {
        format!(
            "num_ranks 2\nrank 0 {{\na: calc 30000\nb: calc 20000 cpu {cpu}\ns: send 1b to 1\n\
             s requires a\ns requires b\n}}\nrank 1 {{\nrecv 1b from 0\ncalc 10\n}}\n"
        )
    };
    let posted = |cpu| trace(&text(cpu), 2).spans()[0].posted;
    assert_eq!([posted(0), posted(1)], [50, 30].map(Ps::from_micros));
}

/// The last computation of a trace ends after its last message.
#[test]
fn a_run_ends_with_its_last_computation() {
    let run =
        trace("num_ranks 2\nrank 0 {\nsend 1b to 1\n}\nrank 1 {\nrecv 1b from 0\ncalc 90000\n}", 2);
    assert_eq!(run.completion_time(), Ps::from_micros(90));
}

/// A ring of ranks that sum up and forward what they receive. Every step is on the only path, so
/// the lower bound is exact.
#[test]
fn a_ring_takes_its_steps_one_after_the_other() {
    let (ranks, rounds) = (4, 5);
    let mut text = format!("num_ranks {ranks}\n");
    for rank in 0..ranks {
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        text += &format!("rank {rank} {{\n");
        for round in 0..rounds {
            text += &format!("s{round}: send 4000b to {next} tag {round}\n");
            text += &format!("r{round}: recv 4000b from {last} tag {round}\nc{round}: calc 700\n");
            text += &format!("c{round} requires r{round}\n");
            if round > 0 {
                text += &format!("s{round} requires c{}\n", round - 1);
            }
        }
        text += "}\n";
    }
    let run = trace(&text, ranks);
    let [delivered, acknowledged] = alone(4000);
    let step = delivered + Ps::from_nanos(700);
    assert_eq!(run.completion_time(), (step * rounds).max(step * (rounds - 1) + acknowledged));
    let bound = bounds::of_workload(&FRAMES, &run.fabric.topology, run.workload());
    assert!(bound <= run.completion_time() && bound >= step * (rounds - 1), "{bound}");
}

/// 100,000 operations: each of eight ranks answers each message of its neighbour.
#[test]
fn a_hundred_thousand_operations_are_run() {
    let (ranks, rounds) = (8, 6_250);
    let mut text = format!("num_ranks {ranks}\n");
    for rank in 0..ranks {
        let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
        text += &format!("rank {rank} {{\n");
        for round in 0..rounds {
            text += &format!("s{round}: send 64b to {next}\nr{round}: recv 64b from {last}\n");
            if round > 0 {
                text += &format!("s{round} requires r{}\n", round - 1);
            }
        }
        text += "}\n";
    }
    let run = trace(&text, ranks);
    let messages = run.workload().messages.len();
    assert_eq!(messages, 50_000);
    // Each message has a step for its receive, which the next message waits for.
    assert_eq!(run.workload().steps.len(), messages);
    assert!(run.completion_time() > alone(64)[0] * (rounds - 1));
    assert!(run.handled() < 30 * messages as u64, "{} events", run.handled());
}
