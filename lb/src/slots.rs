//! The live paths in their order.

use braid_wire::PathId;

use crate::PathRng;

/// The paths in use, in the order that was asked for, without those that are down; there is always at least one.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The paths in use, whether down or not.
    order: Vec<PathId>,
    live: Vec<PathId>,
    /// By path.
    is_live: Vec<bool>,
}

impl Slots {
    /// Paths 0 to `count - 1`, all live.
    pub(crate) fn new(count: usize) -> Self {
        let order: Vec<PathId> = (0..count as u16).map(PathId::new).collect();
        Slots { live: order.clone(), order, is_live: vec![true; count] }
    }

    /// Other paths, or another order; [`Slots::relist`] must follow.
    pub(crate) fn reorder(&mut self, order: &[PathId]) {
        self.order = order.to_vec();
    }

    /// Makes the list again from what is down. The caller sees to it that something is left.
    pub(crate) fn relist(&mut self, is_down: impl Fn(PathId) -> bool) {
        self.live.clear();
        self.live.extend(self.order.iter().copied().filter(|path| !is_down(*path)));
        self.is_live.fill(false);
        for path in &self.live {
            self.is_live[index(*path)] = true;
        }
    }

    /// The paths in use, live or down.
    pub(crate) fn order(&self) -> &[PathId] {
        &self.order
    }

    /// How many are live.
    pub(crate) fn len(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn is_live(&self, path: PathId) -> bool {
        self.is_live.get(index(path)).copied().unwrap_or(false)
    }

    /// The path in a slot, counted round the list.
    pub(crate) fn at(&self, slot: usize) -> PathId {
        self.live[slot % self.live.len()]
    }

    pub(crate) fn random(&self, rng: &mut PathRng) -> PathId {
        self.live[rng.below(self.live.len())]
    }

    /// A random live path that is none of the `taken` (a handful), if there is one.
    pub(crate) fn random_beside(&self, taken: &[PathId], rng: &mut PathRng) -> Option<PathId> {
        if self.live.len() <= taken.len() && self.live.iter().all(|path| taken.contains(path)) {
            return None;
        }
        loop {
            let path = self.random(rng);
            if !taken.contains(&path) {
                return Some(path);
            }
        }
    }
}

/// Where a path stands in lists by path.
pub(crate) fn index(path: PathId) -> usize {
    usize::from(path.get())
}
