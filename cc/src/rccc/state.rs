//! The controller of RCCC for one subflow.

use std::time::Duration;

use super::config::RcccConfig;
use crate::base_rtt::BaseRtt;
use crate::{AckSample, Controller, CreditTerms, Metrics, Subflow};

/// Bytes in flight at most, in bandwidth-delay products. Credit that comes while a queue delays
/// acknowledgements can be used, and a queue elsewhere than at the receiver's link stays bounded.
const MAX_PRODUCTS: f64 = 1.5;
/// Bandwidth-delay product at least, and before the first round trip is known, in packets
/// (RFC 6928). With fewer, the hosts' own delays would leave a slow link idle.
const LEAST_PACKETS: f64 = 10.0;
/// Minimum of a measured round trip, because the hosts' own delays vary by tens of microseconds.
const LEAST_MEASURED: Duration = Duration::from_micros(50);

/// Bytes of a packet on the link that the transport does not count: headers of UDP, IPv4 and
/// Ethernet, and the gap between frames.
const BELOW: u64 = 66;

/// The state of one subflow.
#[derive(Clone, Debug)]
pub struct Rccc {
    config: RcccConfig,
    packet: f64,
    base_rtt: BaseRtt,
}

impl Rccc {
    /// Creates a controller.
    pub fn new(config: RcccConfig, subflow: &Subflow) -> Self {
        Rccc {
            config,
            packet: subflow.packet_bytes.max(1) as f64,
            base_rtt: BaseRtt::new(config.network_rtt),
        }
    }

    /// The bandwidth-delay product in bytes.
    fn product(&self) -> f64 {
        let least = self.packet * LEAST_PACKETS;
        let Some(rtt) = self.base_rtt.get() else { return least };
        let rtt = self.config.network_rtt.unwrap_or(rtt.max(LEAST_MEASURED));
        (self.config.line_bits_per_second as f64 / 8.0 * rtt.as_secs_f64()).max(least)
    }
}

/// Losses change nothing: the receiver's grants limit the rate, and a lost packet needs new credit.
impl Controller for Rccc {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(sample) = ack.rtt {
            self.base_rtt.on_sample(ack.now, sample.sent_at, sample.rtt);
        }
    }

    fn window(&self) -> u64 {
        let products = if self.base_rtt.is_probing() { self.packet } else { self.product() };
        (products * MAX_PRODUCTS) as u64
    }

    fn credit_terms(&self) -> Option<CreditTerms> {
        let packet = u128::from(self.packet as u64);
        let bits = u128::from(self.config.line_bits_per_second) * packet;
        let bits_per_second = (bits / (packet + u128::from(BELOW))) as u64;
        Some(CreditTerms { bits_per_second, unsolicited: self.product() as u64 })
    }

    fn metrics(&self) -> Metrics {
        Metrics { window: self.window(), bits_per_second: None }
    }
}
