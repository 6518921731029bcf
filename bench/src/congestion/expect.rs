//! Limits that every controller must meet. With `--quick` a run fails otherwise.

use super::metric::Metric;
use super::record::ControllerRecord;
use crate::failure::Failure;

/// Minimum share of the capacity without competing traffic. A window that grows by a packet per
/// round trip needs longer than a short run to fill a long network, but a flow that stands still is
/// broken. Beside TCP's full queue, a controller that keeps queues short rightly gets next to
/// nothing.
/// to nothing, and is right.
const LEAST_GOODPUT: f64 = 0.02;
/// Minimum share of the bottleneck for TCP beside one flow: a quarter of a fair share.
const LEAST_TCP_SHARE: f64 = 0.125;

/// Checks the limits of all records.
///
/// # Errors
/// A limit is not met. The error lists every breach.
pub(super) fn check(records: &[ControllerRecord]) -> Result<(), Failure> {
    let breaches: Vec<String> = records.iter().filter_map(breach).collect();
    match breaches.is_empty() {
        true => Ok(()),
        false => Err(Failure::Trial(breaches.join("\n"))),
    }
}

fn breach(record: &ControllerRecord) -> Option<String> {
    let least = |metric: Metric, limit: f64| {
        let figure = *record.medians.get(&metric)?;
        let ControllerRecord { scenario, case, congestion_control, .. } = record;
        let heading = metric.heading();
        let text = format!(
            "{scenario}: {case}, {congestion_control}: {heading} is {figure:.3}, less than {limit}"
        );
        (figure < limit).then_some(text)
    };
    let beside_tcp = record.medians.contains_key(&Metric::TcpShare);
    match beside_tcp {
        true => least(Metric::TcpShare, LEAST_TCP_SHARE).filter(|_| record.heeds_congestion),
        false => least(Metric::GoodputOverCapacity, LEAST_GOODPUT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::metric::Measured;
    use crate::congestion::scenario::CongestionScenario;

    fn record(controller: &str, figures: &[(Metric, f64)]) -> ControllerRecord {
        let mut record = ControllerRecord::new(
            &CongestionScenario::BesideTcp.cases(true)[0],
            &controller.parse().unwrap(),
        );
        record.add(&figures.iter().copied().collect::<Measured>(), Vec::new());
        record
    }

    #[test]
    fn a_controller_that_stands_still_or_starves_tcp_is_named() {
        let goodput = Metric::GoodputOverCapacity;
        let good = [(goodput, 0.5), (Metric::TcpShare, 0.4)];
        check(&[record("swift", &good)]).expect("all is well");
        let still = check(&[record("swift", &good), record("mcc", &[(goodput, 0.01)])]);
        assert!(still.unwrap_err().to_string().contains("mcc: goodput/capacity is 0.010"));
        let modest = [(goodput, 0.01), (Metric::TcpShare, 0.9)];
        check(&[record("swift", &modest)]).expect("TCP fills the queue");
        let greedy = [(goodput, 0.9), (Metric::TcpShare, 0.05)];
        check(&[record("swift", &greedy)]).expect_err("TCP starves");
        check(&[record("fixed", &greedy)]).expect("a fixed window heeds nothing");
    }
}
