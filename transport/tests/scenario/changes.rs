//! Memory that its owner changes while work requests use it, and which values each byte has had
//! meanwhile.

use std::collections::HashMap;

use braid_transport::SendOp;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::memory::{AreaId, HostMemory, Use};
use super::pattern::{Content, VERSIONS};
use super::queue::Queue;

/// Versions of contents under way.
pub(crate) struct Changes {
    rng: Pcg64Mcg,
    /// By content and byte: a bit for each version that it has had. A content that is not here has
    /// never changed.
    had: HashMap<u64, Vec<u8>>,
}

impl Changes {
    pub(crate) fn new(seed: u64) -> Self {
        let rng = Pcg64Mcg::seed_from_u64(seed ^ 0x6368_616E);
        Changes { rng, had: HashMap::new() }
    }

    /// The application of a host writes to memory that a work request under way sends, or that the
    /// peer reads.
    pub(crate) fn change(&mut self, memory: &mut HostMemory, own: &[Queue], peers: &[Queue]) {
        let mut used: Vec<(Vec<AreaId>, Content)> = Vec::new();
        for send in own.iter().flat_map(Queue::under_way) {
            if matches!(send.wr.op, SendOp::Send { .. } | SendOp::Write { .. }) {
                used.push((send.local.clone(), send.content));
            }
        }
        for send in peers.iter().flat_map(Queue::under_way) {
            let SendOp::Read { remote } = send.wr.op else { continue };
            let area = memory.area_at(remote.addr, send.len.into(), Use::Exposed);
            used.extend(area.map(|area| (vec![area], send.content)));
        }
        if !used.is_empty() {
            let (areas, content) = used.swap_remove(self.rng.random_range(0..used.len()));
            self.rewrite(memory, &areas, content);
        }
    }

    /// Some bytes of a content get another version.
    fn rewrite(&mut self, memory: &mut HostMemory, areas: &[AreaId], content: Content) {
        let len: u64 = areas.iter().map(|area| memory.len(*area)).sum();
        if len == 0 {
            return;
        }
        let had = self.had.entry(content.tag()).or_insert_with(|| vec![1; len as usize]);
        let version = self.rng.random_range(0..VERSIONS);
        let first = self.rng.random_range(0..len);
        let end = self.rng.random_range(first..len) + 1;
        let mut at = 0;
        for area in areas {
            let behind = at + memory.len(*area);
            let (from, to) = (first.clamp(at, behind), end.clamp(at, behind));
            let bytes = content.version(version).skip(from).bytes(to - from);
            memory.write_at(*area, from - at, bytes);
            at = behind;
        }
        had[first as usize..end as usize].iter_mut().for_each(|bits| *bits |= 1 << version);
    }

    /// The first byte that is nothing that it was while it was sent or read.
    pub(crate) fn first_wrong(&self, content: Content, found: &[u8]) -> Option<usize> {
        let had = self.had.get(&content.tag());
        let versions: Vec<Vec<u8>> = (0..if had.is_some() { VERSIONS } else { 1 })
            .map(|version| content.version(version).bytes(found.len() as u64).collect())
            .collect();
        let is_right = |at: usize| {
            let bits = had.map_or(1, |had| had[content.start() as usize + at]);
            let mut all = versions.iter().zip(0..);
            all.any(|(bytes, version)| bits >> version & 1 == 1 && bytes[at] == found[at])
        };
        (0..found.len()).find(|at| !is_right(*at))
    }
}
