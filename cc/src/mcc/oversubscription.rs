//! The oversubscription of the network at its worst point, which decides the steps of the window
//! (section 4).
//!
//! The paper takes it from the topology that collective communication detects. A controller sees no
//! topology, so the ratio comes from the first of these that is there:
//!
//! 1. The parameter `ratio`.
//! 2. The driver, [`Subflow::oversubscription`]: a destination group, or the simulator's topology.
//! 3. A measurement under global congestion: the rate of the link over what is then delivered.
//!
//! The third is this crate's choice. If the rate of the link is measured, too, it is a lower bound,
//! because the stream may never have been alone. So the ratio is then at least the paper's example.
//!
//! [`Subflow::oversubscription`]: crate::Subflow::oversubscription

/// The ratio before the first measurement: the paper's example (section 4).
pub(super) const EXAMPLE: u32 = 8;
/// Limit of measured ratios. This crate's choice.
const MOST: f64 = 64.0;
/// Weight of a measurement, as of a round-trip time in RFC 6298.
const WEIGHT: f64 = 1.0 / 8.0;

/// The ratio of a subflow, at least 1.
#[derive(Clone, Debug)]
pub(super) struct Oversubscription {
    known: Option<u32>,
    measured: Option<f64>,
}

impl Oversubscription {
    pub(super) fn new(known: Option<u32>) -> Self {
        Oversubscription { known: known.map(|ratio| ratio.max(1)), measured: None }
    }

    pub(super) fn ratio(&self) -> f64 {
        self.known.map_or(self.measured.unwrap_or(EXAMPLE.into()), f64::from)
    }

    /// Records a round trip of global congestion, in which `share` bytes per second were delivered.
    /// `link`: the rate of the link, or a lower bound if `is_bound`.
    pub(super) fn on_congestion(&mut self, link: f64, is_bound: bool, share: f64) {
        if share < 1.0 {
            return;
        }
        let least = if is_bound { f64::from(EXAMPLE) } else { 1.0 };
        let sample = (link / share).clamp(least, MOST);
        let before = self.measured.unwrap_or(sample);
        self.measured = Some(before + WEIGHT * (sample - before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_ratio_is_not_measured() {
        let mut known = Oversubscription::new(Some(4));
        known.on_congestion(100.0, false, 10.0);
        assert_eq!(known.ratio(), 4.0);
    }

    #[test]
    fn the_ratio_is_that_of_the_link_and_what_congestion_leaves() {
        let mut measured = Oversubscription::new(None);
        assert_eq!(measured.ratio(), 8.0);
        measured.on_congestion(100.0, false, 50.0);
        assert_eq!(measured.ratio(), 2.0);
        measured.on_congestion(100.0, false, 10.0);
        assert_eq!(measured.ratio(), 3.0, "an eighth of the way to 10");
        measured.on_congestion(100.0, false, 0.0);
        assert_eq!(measured.ratio(), 3.0, "nothing was delivered");
    }

    /// A stream that never was alone has not seen the rate of its link.
    #[test]
    fn a_measured_rate_of_the_link_only_raises_the_ratio() {
        let mut measured = Oversubscription::new(None);
        measured.on_congestion(100.0, true, 100.0);
        assert_eq!(measured.ratio(), 8.0);
        measured.on_congestion(100.0, true, 6.25);
        assert_eq!(measured.ratio(), 9.0);
        (0..1000).for_each(|_| measured.on_congestion(100.0, true, 1.0));
        assert!((63.0..=64.0).contains(&measured.ratio()));
    }
}
