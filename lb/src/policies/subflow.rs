//! A few random paths per queue pair in turn (SUBFLOW of OFAN, section 4). Another random path
//! replaces one that dies. Assumes nothing about the fabric.

use braid_wire::PathId;

use crate::{Batch, PathPolicy, PathPolicyFactory, PathRng, Paths, PerStream, StreamId};

/// Number of paths per queue pair.
const SUBFLOWS: usize = 4;

pub(crate) struct SubflowFactory;

impl PathPolicyFactory for SubflowFactory {
    fn name(&self) -> &str {
        "subflow"
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(Subflow::default())
    }
}

#[derive(Debug, Default)]
struct Subflow {
    /// Drawn by a stream's first pick.
    flows: PerStream<Option<Subflows>>,
}

impl PathPolicy for Subflow {
    fn admit(&mut self, stream: StreamId, _: &mut PathRng) {
        self.flows.admit(stream, None);
    }

    fn pick(&mut self, stream: StreamId, _: Batch, paths: &Paths, rng: &mut PathRng) -> PathId {
        self.flows[stream].get_or_insert_with(|| Subflows::new(paths, rng)).pick(paths, rng)
    }
}

#[derive(Clone, Copy, Debug)]
struct Subflows {
    /// The first `len` entries are valid.
    paths: [PathId; SUBFLOWS],
    len: u8,
    next: u8,
}

impl Subflows {
    fn new(live: &Paths, rng: &mut PathRng) -> Self {
        let mut paths = [PathId::default(); SUBFLOWS];
        let mut len = 0;
        while len < SUBFLOWS {
            let Some(path) = live.random_beside(&paths[..len], rng) else { break };
            paths[len] = path;
            len += 1;
        }
        Subflows { paths, len: len as u8, next: 0 }
    }

    fn pick(&mut self, live: &Paths, rng: &mut PathRng) -> PathId {
        let len = usize::from(self.len);
        for _ in 0..len {
            let at = usize::from(self.next);
            self.next = ((at + 1) % len) as u8;
            if !live.is_live(self.paths[at]) {
                // Fewer paths are live than there are subflows.
                let Some(path) = live.random_beside(&self.paths[..len], rng) else { continue };
                self.paths[at] = path;
            }
            return self.paths[at];
        }
        live.random(rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_distinct_paths_one_after_the_other_and_the_dead_are_replaced() {
        let mut rng = PathRng::from_seed(1);
        let mut paths = Paths::all_live(16);
        let mut flows = Subflows::new(&paths, &mut rng);
        let mut round = |paths: &Paths| [(); 4].map(|()| flows.pick(paths, &mut rng));
        let first = round(&paths);
        let mut distinct = first.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 4);
        assert_eq!(round(&paths), first);

        paths.without(&[first[2].get()]);
        let second = round(&paths);
        assert_eq!([second[0], second[1], second[3]], [first[0], first[1], first[3]]);
        assert!(!first.contains(&second[2]));
    }

    #[test]
    fn fewer_live_paths_than_subflows_are_shared() {
        let mut rng = PathRng::from_seed(2);
        let mut paths = Paths::all_live(4);
        let mut flows = Subflows::new(&paths, &mut rng);
        paths.without(&[1, 3]);
        let taken: Vec<u16> = (0..6).map(|_| flows.pick(&paths, &mut rng).get()).collect();
        assert!(taken == [0, 2, 0, 2, 0, 2] || taken == [2, 0, 2, 0, 2, 0], "{taken:?}");
    }
}
