//! The ordered list of live paths.

use braid_wire::PathId;

use crate::PathRng;

/// The paths in use in the configured order, without those that are down. The list is never empty.
#[derive(Debug)]
pub(crate) struct Slots {
    /// Number of all paths.
    count: usize,
    /// `None` if all paths are in use, live and in the order of their numbers.
    listed: Option<Box<Listed>>,
}

#[derive(Debug)]
struct Listed {
    /// The paths in use, live or down.
    order: Vec<PathId>,
    live: Vec<PathId>,
    /// Indexed by path.
    is_live: Vec<bool>,
}

impl Slots {
    /// Creates a list of paths 0 to `count - 1`, all live.
    pub(crate) fn new(count: usize) -> Self {
        Slots { count, listed: None }
    }

    /// Sets the paths in use and their order. The caller must then call [`Slots::relist`].
    pub(crate) fn reorder(&mut self, order: &[PathId]) {
        self.list().order = order.to_vec();
    }

    /// Rebuilds the list if a path is out of use. The caller guarantees that at least one path is
    /// not.
    pub(crate) fn relist(&mut self, any_out: bool, is_out: impl Fn(PathId) -> bool) {
        if self.listed.is_none() && !any_out {
            return;
        }
        let listed = self.list();
        listed.live.clear();
        listed.live.extend(listed.order.iter().copied().filter(|path| !is_out(*path)));
        listed.is_live.fill(false);
        for path in &listed.live {
            listed.is_live[index(*path)] = true;
        }
    }

    fn list(&mut self) -> &mut Listed {
        let count = self.count;
        self.listed.get_or_insert_with(|| {
            let order: Vec<PathId> = (0..count as u16).map(PathId::new).collect();
            Box::new(Listed { live: order.clone(), order, is_live: vec![true; count] })
        })
    }

    /// Returns the number of paths in use, live or down.
    pub(crate) fn in_use(&self) -> usize {
        self.listed.as_ref().map_or(self.count, |listed| listed.order.len())
    }

    /// Returns the number of live paths.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.listed.as_ref().map_or(self.count, |listed| listed.live.len())
    }

    #[inline]
    pub(crate) fn is_live(&self, path: PathId) -> bool {
        match &self.listed {
            None => index(path) < self.count,
            Some(listed) => listed.is_live.get(index(path)).copied().unwrap_or(false),
        }
    }

    /// Returns the live path in a slot, modulo the number of live paths.
    #[inline]
    pub(crate) fn at(&self, slot: usize) -> PathId {
        match &self.listed {
            None => PathId::new((slot % self.count) as u16),
            Some(listed) => listed.live[slot % listed.live.len()],
        }
    }

    pub(crate) fn random(&self, rng: &mut PathRng) -> PathId {
        self.at(rng.below(self.len()))
    }

    /// Returns a random live path that is not among the (few) `taken` ones, if there is one.
    pub(crate) fn random_beside(&self, taken: &[PathId], rng: &mut PathRng) -> Option<PathId> {
        if self.len() <= taken.len() && (0..self.len()).all(|slot| taken.contains(&self.at(slot))) {
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

/// Returns the index of a path in lists by path.
pub(crate) fn index(path: PathId) -> usize {
    usize::from(path.get())
}
