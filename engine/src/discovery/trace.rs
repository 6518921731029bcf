//! The trace of one path.

use std::net::IpAddr;

use braid_wire::PathId;

use super::probe::Answer;

/// The hops of one path, as far as they have answered.
///
/// Every hop is the destination from the smallest time to live on that reached it. So a destination
/// that answered only a probe with a larger time to live agrees with one that answered earlier.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub(super) path: PathId,
    /// The router at hop `ttl - 1`, for the largest number of hops.
    hops: Vec<Option<IpAddr>>,
    /// Whether the destination has answered, possibly a probe that does not show its distance.
    pub(super) reached: bool,
    /// The router that reported the destination as unreachable.
    pub(super) refused_by: Option<IpAddr>,
}

impl Trace {
    pub(super) fn new(path: PathId, max_ttl: u8) -> Self {
        let hops = vec![None; max_ttl.into()];
        Trace { path, hops, reached: false, refused_by: None }
    }

    pub(super) fn hops(&self) -> &[Option<IpAddr>] {
        &self.hops
    }

    /// Records an answer. The first answer stands: a route that changes meanwhile is ignored.
    pub(super) fn record(&mut self, ttl: u8, answer: Answer, destination: IpAddr) {
        let from = usize::from(ttl).saturating_sub(1);
        match answer {
            Answer::Router(router) => {
                if let Some(hop) = self.hops.get_mut(from) {
                    hop.get_or_insert(router);
                }
            }
            Answer::Destination => {
                self.reached = true;
                for hop in self.hops.iter_mut().skip(from) {
                    hop.get_or_insert(destination);
                }
            }
            Answer::Refusal(by) => {
                self.refused_by.get_or_insert(by);
            }
        }
    }

    /// Whether another probe with this time to live is useless.
    pub(super) fn is_settled(&self, ttl: u8) -> bool {
        let hop = self.hops.get(usize::from(ttl).saturating_sub(1));
        self.refused_by.is_some() || hop.map_or(self.reached, Option::is_some)
    }

    /// Whether no probe was answered.
    pub(super) fn is_silent(&self) -> bool {
        !self.reached && self.refused_by.is_none() && self.hops.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 9, 9));

    fn router(n: u8) -> IpAddr {
        [10, 0, 0, n].into()
    }

    #[test]
    fn the_destination_fills_the_rest() {
        let mut trace = Trace::new(PathId::new(0), 5);
        trace.record(1, Answer::Router(router(1)), HOST);
        trace.record(4, Answer::Destination, HOST);
        assert_eq!(trace.hops(), [Some(router(1)), None, None, Some(HOST), Some(HOST)]);
        assert_eq!(
            [1, 2, 3, 4, 5].map(|ttl| trace.is_settled(ttl)),
            [true, false, false, true, true]
        );
        trace.record(3, Answer::Destination, HOST);
        assert_eq!(trace.hops()[1..], [None, Some(HOST), Some(HOST), Some(HOST)]);
    }

    #[test]
    fn the_first_answer_stands() {
        let mut trace = Trace::new(PathId::new(0), 3);
        trace.record(2, Answer::Router(router(1)), HOST);
        trace.record(2, Answer::Router(router(2)), HOST);
        assert_eq!(trace.hops()[1], Some(router(1)));
    }

    #[test]
    fn reached_from_afar_says_nothing_of_the_way() {
        let mut trace = Trace::new(PathId::new(0), 3);
        assert!(trace.is_silent());
        trace.record(64, Answer::Destination, HOST);
        assert!(trace.hops().iter().all(Option::is_none));
        assert!(trace.is_settled(64) && !trace.is_settled(3) && !trace.is_silent());
    }

    #[test]
    fn a_refusal_settles_everything() {
        let mut trace = Trace::new(PathId::new(0), 3);
        trace.record(2, Answer::Refusal(router(7)), HOST);
        assert!((1..=3).all(|ttl| trace.is_settled(ttl)));
        assert_eq!(trace.refused_by, Some(router(7)));
    }
}
