//! The measurements of a run.

use braid_lb::LoadMse;
use braid_sim::simulation::Simulation;
use braid_sim::time::{Ps, Rate};
use braid_sim::topology::{Layer, Tier};

use super::load::{Flow, RAILS};
use super::setup::{FRAMES, RATE_GBPS, RailsSetup};

/// The measurements of a run.
#[derive(Clone, Debug)]
pub(super) struct RailsOutcome {
    /// Delivery times of the flows in microseconds, ascending.
    pub(super) flows_us: Vec<f64>,
    /// T*: the load of the busiest domain, sent or received, including headers, over N R2.
    pub(super) bound_us: f64,
    /// Bytes of all flows per GPU.
    pub(super) gpu_bytes: f64,
    pub(super) domains: usize,
    /// Bytes by domain and interface.
    pub(super) sent: Vec<Vec<u64>>,
    pub(super) received: Vec<Vec<u64>>,
    /// Bytes on each link from a leaf to a spine.
    pub(super) uplinks: Vec<u64>,
    pub(super) lost: u64,
}

impl RailsOutcome {
    /// Returns the time until the last flow is delivered.
    pub(super) fn total_us(&self) -> f64 {
        self.flows_us.last().copied().unwrap_or(0.0)
    }

    pub(super) fn mean_us(&self) -> f64 {
        self.flows_us.iter().sum::<f64>() / self.flows_us.len() as f64
    }

    /// Returns the time until `percent` of the flows are delivered.
    pub(super) fn percentile_us(&self, percent: f64) -> f64 {
        let nth = (percent / 100.0 * self.flows_us.len() as f64).ceil() as usize;
        self.flows_us[nth.clamp(1, self.flows_us.len()) - 1]
    }

    pub(super) fn over_bound(&self) -> f64 {
        self.total_us() / self.bound_us
    }

    /// Returns the bus bandwidth in Gb/s per GPU: (bytes / T) (M - 1) / M.
    pub(super) fn bus_gbps(&self) -> f64 {
        let domains = self.domains as f64;
        self.gpu_bytes * 8.0 / (self.total_us() * 1e3) * (domains - 1.0) / domains
    }

    /// Returns the highest load of an interface over the mean of its domain, sent or received.
    pub(super) fn nic_disparity(&self) -> f64 {
        let domains = self.sent.iter().chain(&self.received);
        domains.map(|loads| disparity(loads)).fold(1.0, f64::max)
    }

    /// Returns the highest load of a link from a leaf to a spine over the mean of all.
    pub(super) fn uplink_disparity(&self) -> f64 {
        disparity(&self.uplinks)
    }

    /// Returns the load error of the domain that sends most.
    pub(super) fn send_mse(&self) -> LoadMse {
        mse(busiest(&self.sent))
    }

    /// Returns the load error of the domain that receives most.
    pub(super) fn receive_mse(&self) -> LoadMse {
        mse(busiest(&self.received))
    }
}

fn mse(loads: &[u64]) -> LoadMse {
    LoadMse::of(loads.iter().map(|load| *load as f64))
}

pub(super) fn busiest(domains: &[Vec<u64>]) -> &[u64] {
    let most = domains.iter().max_by_key(|loads| loads.iter().sum::<u64>());
    most.expect("there is a domain")
}

/// Runs the set-up.
///
/// # Panics
/// Panics if the run fails.
pub(super) fn measure(setup: &RailsSetup, seed: u64) -> RailsOutcome {
    let flows = setup.flows();
    let mut run = Simulation::new(setup.plan(&flows, seed));
    run.run().unwrap_or_else(|error| panic!("{setup:?}, seed {seed}: {error}"));
    let mut ends = vec![Ps::ZERO; flows.len()];
    for (message, span) in run.workload().messages.iter().zip(run.spans()) {
        let end = &mut ends[message.group as usize];
        *end = span.delivered.max(*end);
    }
    let mut flows_us: Vec<f64> = ends.into_iter().map(Ps::as_micros_f64).collect();
    flows_us.sort_by(f64::total_cmp);
    let loads: Vec<_> = run.hosts.nic_loads().collect();
    let by_domain = |of: fn(&braid_sim::host::NicLoad) -> u64| -> Vec<Vec<u64>> {
        loads.chunks(RAILS).map(|domain| domain.iter().map(of).collect()).collect()
    };
    let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
    RailsOutcome {
        flows_us,
        bound_us: bound(&flows, setup.domains).as_micros_f64(),
        gpu_bytes: bytes as f64 / (setup.domains * RAILS) as f64,
        domains: setup.domains,
        sent: by_domain(|load| load.sent),
        received: by_domain(|load| load.received),
        uplinks: uplinks(&run),
        lost: run.fabric.ledger.losses(),
    }
}

fn uplinks(run: &Simulation) -> Vec<u64> {
    let topology = &run.fabric.topology;
    let up = Layer { from: Tier::Edge, to: Tier::Agg };
    let ports = topology.ports().filter(|port| topology.layer(*port) == up);
    ports.map(|port| run.fabric.ports[port.index()].sent.bytes).collect()
}

/// Returns the highest load over the mean; 1 if nothing was carried.
fn disparity(loads: &[u64]) -> f64 {
    let (most, sum) = (loads.iter().max().copied().unwrap_or(0), loads.iter().sum::<u64>());
    if sum == 0 { 1.0 } else { most as f64 * loads.len() as f64 / sum as f64 }
}

fn bound(flows: &[Flow], domains: usize) -> Ps {
    let (mut rows, mut columns) = (vec![0; domains], vec![0; domains]);
    for flow in flows {
        let wire = flow.bytes + FRAMES.packets(flow.bytes) * u64::from(FRAMES.header);
        rows[flow.source()] += wire;
        columns[flow.destination()] += wire;
    }
    let most = rows.into_iter().chain(columns).max().unwrap_or(0);
    Rate::from_gbps(RATE_GBPS * RAILS as u64).time_for_long(most)
}

#[cfg(test)]
mod tests {
    use super::super::load::Load;
    use super::super::scheme::RailsScheme;
    use super::*;

    #[test]
    fn nothing_is_faster_than_the_bound_and_everything_is_counted() {
        for scheme in [RailsScheme::ECMP, RailsScheme::MIN_RTT, RailsScheme::RAILS] {
            let outcome =
                measure(&RailsSetup::new(scheme, Load::skewed_receivers(1.2), 200_000), 1);
            assert!(outcome.over_bound() >= 1.0, "{}: {}", scheme.name, outcome.over_bound());
            let sum = |loads: &[Vec<u64>]| loads.iter().flatten().sum::<u64>() as f64;
            assert_eq!(sum(&outcome.sent), outcome.gpu_bytes * 64.0);
            assert_eq!(sum(&outcome.received), outcome.gpu_bytes * 64.0);
            assert_eq!(outcome.lost, 0);
            assert_eq!(outcome.percentile_us(100.0), outcome.total_us());
            assert!(outcome.percentile_us(50.0) <= outcome.percentile_us(80.0));
        }
    }
}
