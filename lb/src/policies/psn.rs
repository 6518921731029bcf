//! The path is a function of the packet sequence number: path = (PSN mod N + base) mod N (Themis,
//! Eq. 1). The batch index replaces the PSN, and each stream has a random base. A retransmission
//! takes the path of the first transmission. Assumes equivalent paths.

use braid_wire::PathId;

use crate::{Batch, PathPolicy, PathPolicyFactory, PathRng, Paths, PerStream, StreamId};

pub(crate) struct PsnFactory;

impl PathPolicyFactory for PsnFactory {
    fn name(&self) -> &str {
        "psn"
    }

    fn build(&self, _: &Paths, _: &mut PathRng) -> Box<dyn PathPolicy> {
        Box::new(BySequence::default())
    }
}

#[derive(Debug, Default)]
struct BySequence {
    bases: PerStream<u32>,
}

impl PathPolicy for BySequence {
    fn admit(&mut self, stream: StreamId, rng: &mut PathRng) {
        self.bases.admit(stream, rng.number());
    }

    fn pick(&mut self, stream: StreamId, batch: Batch, paths: &Paths, _: &mut PathRng) -> PathId {
        paths.at(slot(batch, self.bases[stream], paths.len()))
    }
}

fn slot(batch: Batch, base: u32, paths: usize) -> usize {
    ((batch.psn / batch.segments) as usize % paths + base as usize % paths) % paths
}

#[cfg(test)]
mod tests {
    use braid_wire::Time;

    use super::*;

    #[test]
    fn the_psn_decides_per_batch_and_wraps_quietly() {
        let slot = |psn, segments, base| slot(Batch { now: Time::ZERO, psn, segments }, base, 3);
        // Batches of 2: PSN 4 begins batch 2, (2 mod 3 + 7 mod 3) mod 3 = 0.
        assert_eq!(slot(4, 2, 7), 0);
        assert_eq!(slot(6, 2, 7), 1);
        assert_eq!(slot(5, 2, 7), slot(4, 2, 7));
        assert!(slot(0xFF_FFFF, 1, u32::MAX) < 3);
    }
}
