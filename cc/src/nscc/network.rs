//! The network as NSCC sees it: the quantities that scale its constants (section 3.6.13.3).

use std::time::Duration;

use super::config::NsccConfig;

/// The network for which the constants are defined: the bandwidth-delay product of 100 Gb/s and 12
/// us in bytes, and this round trip in seconds.
const REFERENCE_PRODUCT: f64 = 150_000.0;
const REFERENCE_RTT: f64 = 12e-6;
/// `MaxWnd` in bandwidth-delay products.
const MAX_PRODUCTS: f64 = 1.5;
/// Target of the queueing delay in round trips, with and without trimming.
const TARGET_WITH_TRIMMING: f64 = 0.75;
const TARGET: f64 = 1.0;
/// Divisor of a given round trip: shorter samples are not believed. This crate's choice: the peer
/// subtracts its delay, and may be wrong about it.
const BELIEVED: u32 = 4;
/// Minimum of a measured round trip. This crate's choice: the hosts' own delays vary by tens of
/// microseconds, and the shortest sample says little about the others.
const LEAST_MEASURED: Duration = Duration::from_micros(50);

/// The scaled quantities, in bytes and seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Network {
    /// The base round trip of this subflow, from which delays count.
    pub(super) base_rtt: f64,
    /// `config_base_rtt`: the round trip of the network.
    pub(super) rtt: f64,
    /// `target_qdelay`.
    pub(super) target: f64,
    /// `MaxWnd`.
    pub(super) max_window: f64,
    /// `scaling_a`: the bandwidth-delay product in those of the reference.
    pub(super) size: f64,
    /// `scaling_b`: the target in round trips of the reference. At most 1, this crate's choice:
    /// the increase on longer networks would exceed the bandwidth-delay product.
    pub(super) length: f64,
}

impl Network {
    /// Returns the network, or `None` if no round trip is known. `shortest`: the shortest sample.
    /// `measured`: the measured delivery rate in bytes per second, or 0.
    pub(super) fn new(
        config: &NsccConfig,
        shortest: Option<Duration>,
        measured: f64,
    ) -> Option<Network> {
        let given = config.network_rtt;
        let base_rtt = match (given, shortest) {
            (Some(given), Some(shortest)) => shortest.clamp(given / BELIEVED, given),
            (given, shortest) => given.or(shortest)?,
        };
        let rtt = given.unwrap_or(base_rtt.max(LEAST_MEASURED));
        // A pair of hosts may be closer to each other than the network is long. A measured round
        // trip is not that exact.
        let window_rtt = if given.is_some() { base_rtt } else { rtt };
        let line = config.line_bits_per_second.map(|bits| bits as f64 / 8.0);
        let share = if config.trimming { TARGET_WITH_TRIMMING } else { TARGET };
        let target = config.target_delay.unwrap_or(rtt.mul_f64(share)).as_secs_f64();
        let most = config.max_window as f64;
        Some(Network {
            base_rtt: base_rtt.as_secs_f64(),
            rtt: rtt.as_secs_f64(),
            target,
            max_window: line
                .map_or(most, |line| most.min(MAX_PRODUCTS * line * window_rtt.as_secs_f64())),
            size: line.unwrap_or(measured) * rtt.as_secs_f64() / REFERENCE_PRODUCT,
            length: (target / REFERENCE_RTT).min(1.0),
        })
    }
}
