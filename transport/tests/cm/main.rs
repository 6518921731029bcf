//! The communication manager in virtual time: loss, duplicates, reordering, and hostile messages.

mod hostile;
mod lookups;
mod world;

use std::time::Duration;

use braid_transport::CmEventKind;
use braid_wire::CmRejectReason;

use world::{Faults, Plan, World};

const NONE: Faults = Faults { loss: 0.0, duplicates: 0.0, jitter: Duration::ZERO };
const BAD: Faults = Faults { loss: 0.3, duplicates: 0.3, jitter: Duration::from_millis(600) };

/// The kinds of events that an end has had, in short.
fn kinds(events: &[CmEventKind]) -> Vec<&'static str> {
    let name = |kind: &CmEventKind| match kind {
        CmEventKind::Requested(_) => "requested",
        CmEventKind::Replied(_) => "replied",
        CmEventKind::Established => "established",
        CmEventKind::Rejected(..) => "rejected",
        CmEventKind::Unreachable => "unreachable",
        CmEventKind::Disconnected => "disconnected",
        CmEventKind::LookedUp(_) => "looked up",
        CmEventKind::Found(_) => "found",
    };
    events.iter().map(name).collect()
}

#[test]
fn a_connection_is_made_and_ended_by_the_events_of_rdma_cm() {
    for disconnecting in [0, 1] {
        let mut world = World::new(1, NONE);
        world.run(Plan { disconnecting, ..Plan::default() });
        assert_eq!(kinds(&world.events[0]), ["replied", "disconnected"]);
        assert_eq!(kinds(&world.events[1]), ["requested", "established", "disconnected"]);
        assert!(world.is_quiet(), "both ends forget the connection");
    }
}

#[test]
fn the_parameters_and_private_data_of_both_ends_arrive() {
    let mut world = World::new(2, NONE);
    world.run(Plan::default());
    let CmEventKind::Requested(request) = &world.events[1][0] else { panic!("a request") };
    assert_eq!((request.queue_pair, request.counts), (world::QPS[0], world::COUNTS));
    assert_eq!(request.private_data, world::request(0).private_data);
    let CmEventKind::Replied(reply) = &world.events[0][0] else { panic!("a reply") };
    assert_eq!(reply.queue_pair, world::QPS[1]);
    assert_eq!(reply.private_data[..5], *b"reply");
}

#[test]
fn refusals_have_their_reasons_and_private_data() {
    let mut world = World::new(3, NONE);
    world.run(Plan { refuses: true, ..Plan::default() });
    let [CmEventKind::Rejected(reason, data)] = &world.events[0][..] else {
        panic!("{:?}", world.events[0])
    };
    assert_eq!((*reason, &data[..4]), (CmRejectReason::CONSUMER, &b"busy"[..]));
    let mut world = World::new(4, NONE);
    world.run(Plan { port: 9, ..Plan::default() });
    let [CmEventKind::Rejected(reason, _)] = &world.events[0][..] else {
        panic!("{:?}", world.events[0])
    };
    assert_eq!(*reason, CmRejectReason::INVALID_SERVICE);
    assert!(world.events[1].is_empty(), "the program is not asked");
}

#[test]
fn every_connection_ends_once_over_a_network_that_loses_repeats_and_reorders() {
    for seed in 0..2000 {
        let mut world = World::new(seed, BAD);
        let plan = Plan {
            disconnecting: (seed % 2) as usize,
            refuses: seed % 7 == 0,
            thinks: Duration::from_millis(seed % 5 * 700),
            ..Plan::default()
        };
        world.run(plan);
        assert!(world.is_quiet(), "seed {seed}: something is left");
        let [asking, asked] = [kinds(&world.events[0]), kinds(&world.events[1])];
        let is_allowed: &[&[&str]] = match plan.refuses {
            true => &[&["rejected"], &["unreachable"]],
            // All repetitions of a message may be lost.
            false => &[&["replied"], &["replied", "disconnected"], &["unreachable"]],
        };
        assert!(is_allowed.contains(&&asking[..]), "seed {seed}: {asking:?}");
        let is_allowed: &[&[&str]] = &[
            &[],
            &["requested"],
            &["requested", "established"],
            &["requested", "established", "disconnected"],
            &["requested", "disconnected"],
            &["requested", "rejected"],
            &["requested", "unreachable"],
        ];
        assert!(is_allowed.contains(&&asked[..]), "seed {seed}: {asked:?}");
        if plan.refuses {
            assert!(!asked.contains(&"established"), "seed {seed}: {asked:?}");
        }
    }
}

#[test]
fn most_connections_are_made_with_a_tenth_of_the_messages_lost() {
    let made = (0..500).filter(|seed| {
        let mut world = World::new(*seed, Faults { loss: 0.1, ..NONE });
        world.run(Plan::default());
        kinds(&world.events[1]) == ["requested", "established", "disconnected"]
    });
    assert!(made.count() >= 495);
}

#[test]
fn a_host_that_does_not_answer_is_given_up() {
    let mut world = World::new(5, Faults { loss: 1.0, ..NONE });
    world.run(Plan::default());
    assert_eq!(kinds(&world.events[0]), ["unreachable"]);
    // The connecting end remembers its attempt for another minute.
    let over = world.now.as_nanos() / 1_000_000_000;
    assert!((70..100).contains(&over), "over after {over} s");
    assert!(world.is_quiet());
}

#[test]
fn a_program_that_thinks_long_is_waited_for() {
    let mut world = World::new(6, NONE);
    world.run(Plan { thinks: Duration::from_secs(40), ..Plan::default() });
    assert_eq!(kinds(&world.events[0]), ["replied", "disconnected"]);
    let mut world = World::new(7, NONE);
    world.run(Plan { thinks: Duration::from_secs(90), ..Plan::default() });
    // Both ends give up at about the same time.
    let asking = kinds(&world.events[0]);
    assert!(asking == ["rejected"] || asking == ["unreachable"], "{asking:?}");
    assert!(!kinds(&world.events[1]).contains(&"established"));
}

#[test]
fn an_end_that_forgets_a_connection_tells_the_other() {
    for (forgetting, asking, asked) in [
        (0, &["replied"][..], &["requested", "established", "disconnected"][..]),
        (1, &["replied", "disconnected"], &["requested", "established"]),
    ] {
        let mut world = World::new(8, NONE);
        world.run(Plan { forgets: true, disconnecting: forgetting, ..Plan::default() });
        assert_eq!(kinds(&world.events[0]), asking);
        assert_eq!(kinds(&world.events[1]), asked);
        assert!(world.is_quiet());
    }
}
