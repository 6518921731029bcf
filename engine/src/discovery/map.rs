//! The result of path discovery.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use braid_wire::PathId;

/// Paths that take the same route through the network.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Way {
    /// The routers from here on, by their own addresses. `None`: that router never answered. The
    /// last hop is the destination if it answered, otherwise the last router that did.
    pub hops: Vec<Option<IpAddr>>,
    /// The paths (each a source port) of this route, ascending.
    pub ports: Vec<PathId>,
}

/// The paths to a destination, sorted by the routes that they take.
///
/// ```no_run
/// use braid::{DiscoveryConfig, PathId, discover};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let paths = (0..64).map(PathId::new);
/// let (to, from) = ("192.0.2.7:4791".parse()?, "0.0.0.0".parse()?);
/// let map = discover(to, from, paths, DiscoveryConfig::default())?;
/// for way in &map.ways {
///     println!("{} source ports by {:?}", way.ports.len(), way.hops);
/// }
/// if let Some(even) = map.balanced(16) {
///     println!("as many of each way: {even:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathMap {
    /// The destination.
    pub to: SocketAddr,
    /// The routes, sorted by their hops.
    pub ways: Vec<Way>,
    /// The number of paths without a route: nothing was heard of them, or too little to tell routes
    /// apart, or a router refuses to forward them.
    pub unanswered: usize,
    /// The duration of the discovery.
    pub took: Duration,
}

impl PathMap {
    /// Paths that load all routes equally: the same number of each route, at most `count`,
    /// interleaved (one of route 0, one of route 1, ..., the next of route 0, ...).
    ///
    /// `None` if no or only one route is known, or if `count` is less than the number of routes.
    /// Plain paths are then as good.
    pub fn balanced(&self, count: usize) -> Option<Vec<PathId>> {
        if self.ways.len() < 2 {
            return None;
        }
        let fewest = self.ways.iter().map(|way| way.ports.len()).min()?;
        let each = fewest.min(count / self.ways.len());
        let rounds = (0..each).flat_map(|round| self.ways.iter().map(move |way| way.ports[round]));
        (each > 0).then(|| rounds.collect())
    }

    /// Whether every path has a route and every hop of the routes is known.
    pub fn is_complete(&self) -> bool {
        let known = self.ways.iter().all(|way| way.hops.iter().all(Option::is_some));
        self.unanswered == 0 && known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(ways: &[&[u16]]) -> PathMap {
        let way = |(index, paths): (usize, &&[u16])| Way {
            hops: vec![Some([10, 0, 0, index as u8].into())],
            ports: paths.iter().map(|&path| PathId::new(path)).collect(),
        };
        PathMap {
            to: "10.0.0.9:4791".parse().unwrap(),
            ways: ways.iter().enumerate().map(way).collect(),
            unanswered: 0,
            took: Duration::ZERO,
        }
    }

    fn balanced(ways: &[&[u16]], count: usize) -> Option<Vec<u16>> {
        map(ways).balanced(count).map(|paths| paths.iter().map(|path| path.get()).collect())
    }

    #[test]
    fn every_way_gives_as_many_in_turn() {
        let ways: [&[u16]; 3] = [&[0, 3, 4, 8], &[1, 5], &[2, 6, 7]];
        assert_eq!(balanced(&ways, 64), Some(vec![0, 1, 2, 3, 5, 6]));
        assert_eq!(balanced(&ways, 5), Some(vec![0, 1, 2]));
        assert_eq!(balanced(&ways, 3), Some(vec![0, 1, 2]));
    }

    #[test]
    fn nothing_to_balance() {
        assert_eq!(balanced(&[], 64), None);
        assert_eq!(balanced(&[&[0, 1, 2]], 64), None);
        assert_eq!(balanced(&[&[0], &[1], &[2]], 2), None);
        assert_eq!(balanced(&[&[0], &[1]], 0), None);
    }

    #[test]
    fn complete_is_without_gaps() {
        let whole = map(&[&[0], &[1]]);
        assert!(whole.is_complete());
        assert!(!PathMap { unanswered: 1, ..whole.clone() }.is_complete());
        let mut gap = whole;
        gap.ways[1].hops.insert(0, None);
        assert!(!gap.is_complete());
    }
}
