//! Equal-cost multipath, as in switches: one path per queue pair, by hash. Assumes nothing about
//! the fabric and cannot avoid collisions: two queue pairs with the same hash share a path while
//! others are idle.

use braid_wire::PathId;

use crate::{Batch, PathPolicy, PathPolicyFactory, PathRng, Paths, PerStream, StreamId};

pub(crate) struct EcmpFactory;

impl PathPolicyFactory for EcmpFactory {
    fn name(&self) -> &str {
        "ecmp"
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(Ecmp::default())
    }
}

#[derive(Debug, Default)]
struct Ecmp {
    flows: PerStream<HashedFlow>,
}

impl PathPolicy for Ecmp {
    fn admit(&mut self, stream: StreamId, rng: &mut PathRng) {
        self.flows.admit(stream, HashedFlow { hash: rng.number(), at: None });
    }

    fn pick(&mut self, stream: StreamId, _: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
        self.flows[stream].pick(paths)
    }
}

#[derive(Clone, Copy, Debug)]
struct HashedFlow {
    hash: u32,
    at: Option<PathId>,
}

impl HashedFlow {
    /// Returns the current path. The flow moves only when this path dies, not when others do
    /// (resilient hashing).
    fn pick(&mut self, paths: &Paths) -> PathId {
        match self.at {
            Some(path) if paths.is_live(path) => path,
            _ => *self.at.insert(paths.at(self.hash as usize)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_only_when_its_own_path_dies() {
        let mut paths = Paths::all_live(8);
        let mut flow = HashedFlow { hash: 13, at: None }; // 13 mod 8 = 5
        assert_eq!(flow.pick(&paths), PathId::new(5));
        paths.without(&[0, 6]);
        assert_eq!(flow.pick(&paths), PathId::new(5));
        paths.without(&[5]); // 13 mod 7 = 6: slot 6 of 0 1 2 3 4 6 7
        assert_eq!(flow.pick(&paths), PathId::new(7));
        paths.without(&[]);
        assert_eq!(flow.pick(&paths), PathId::new(7));
    }
}
