//! A congestion controller of the application.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::pair::{Pair, configs};
use braid::congestion::{AckSample, CcConfig, Controller, ControllerFactory, Metrics, Subflow};
use braid::{EngineConfig, wr};

/// A window of a constant number of packets, which records the bytes in flight.
#[derive(Clone, Debug)]
struct Packets {
    packets: u64,
    /// The window in bytes.
    window: u64,
    most_in_flight: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
}

impl Packets {
    fn new(packets: u64) -> Self {
        Packets { packets, window: 0, most_in_flight: Arc::default(), acknowledged: Arc::default() }
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "packets:{}", self.packets)
    }
}

impl ControllerFactory for Packets {
    fn build(&self, subflow: &Subflow) -> Box<dyn Controller> {
        Box::new(Packets { window: self.packets * subflow.packet_bytes, ..self.clone() })
    }
}

impl Controller for Packets {
    fn on_ack(&mut self, ack: &AckSample) {
        let packets = ack.in_flight.div_ceil(self.window / self.packets);
        self.most_in_flight.fetch_max(packets, Relaxed);
        self.acknowledged.fetch_add(ack.bytes, Relaxed);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window, bits_per_second: None }
    }
}

/// The largest number of packets in flight, and the bytes acknowledged, for a WRITE of 1 MiB.
fn transfer(config: &EngineConfig, own: &Packets) -> (u64, u64) {
    let p = Pair::with(config, |options| options.config.cc = CcConfig::new(own.clone()));
    let data: Vec<u8> = (0..1 << 20).map(|i: u32| (i % 251) as u8).collect();
    p.a.memory.write_at(0, &data).unwrap();
    let piece = p.a.memory.slice(0..1 << 20).unwrap();
    p.a.qp.post_send(wr::write(1, [piece], p.remote.at(0))).unwrap();
    p.successes(&p.a, 1);
    assert!(p.b.bytes(0..1 << 20) == data);
    (own.most_in_flight.load(Relaxed), own.acknowledged.load(Relaxed))
}

#[test]
fn an_engine_runs_the_controller_that_it_was_given() {
    for (name, config) in configs() {
        for packets in [1, 4] {
            let (most, acknowledged) = transfer(&config, &Packets::new(packets));
            assert_eq!(most, packets, "{name}: its window bounds what is in flight, and is used");
            assert!(acknowledged > 1 << 20, "{name}: {acknowledged} bytes with headers");
        }
    }
}

#[test]
fn it_shows_itself_and_is_not_one_of_the_table() {
    let own = CcConfig::new(Packets::new(4));
    assert_eq!(own.to_string(), "packets:4");
    assert_eq!(own, CcConfig::new(Packets::new(4)));
    assert_ne!(own, CcConfig::new(Packets::new(5)));
    assert!("packets:4".parse::<CcConfig>().is_err());
}
