//! What is known of each path.

use std::ops::{Index, IndexMut};

use braid_wire::PathId;
use rustc_hash::FxHashMap;

use crate::path::Path;
use crate::slots::index;

/// So many paths have room from the beginning in any case: some 10 KB.
const FEW: usize = 64;

/// The state of each of a number of paths. One that was never used is as [`Path::default`] says.
#[derive(Debug)]
pub(crate) enum States {
    /// Room for all of them: a use allocates nothing.
    All(Vec<Path>),
    /// Room for those that have been used.
    Used(Box<Used>),
}

/// Invariant: `places` has the index in `known` of each path that was used, and of no other.
#[derive(Debug)]
pub(crate) struct Used {
    count: usize,
    places: FxHashMap<PathId, u32>,
    known: Vec<Path>,
    unused: Path,
}

impl States {
    /// Room for all paths from the beginning.
    pub(crate) fn all(count: usize) -> Self {
        States::All(vec![Path::default(); count])
    }

    /// Room for a path from its first use on, unless all of them take so little that looking for one costs more.
    pub(crate) fn used(count: usize) -> Self {
        if count <= FEW {
            return Self::all(count);
        }
        let (places, known) = (FxHashMap::default(), Vec::new());
        States::Used(Box::new(Used { count, places, known, unused: Path::default() }))
    }

    /// How many paths there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        match self {
            States::All(all) => all.len(),
            States::Used(used) => used.count,
        }
    }

    /// A path's state, if there is such a path.
    pub(crate) fn get(&self, path: PathId) -> Option<&Path> {
        (index(path) < self.count()).then(|| &self[path])
    }

    /// Those that may differ from one that was never used, in no order.
    pub(crate) fn known(&self) -> &[Path] {
        match self {
            States::All(all) => all,
            States::Used(used) => &used.known,
        }
    }

    /// See [`States::known`].
    pub(crate) fn known_mut(&mut self) -> &mut [Path] {
        match self {
            States::All(all) => all,
            States::Used(used) => &mut used.known,
        }
    }
}

impl Index<PathId> for States {
    type Output = Path;

    #[inline]
    fn index(&self, path: PathId) -> &Path {
        match self {
            States::All(all) => &all[index(path)],
            States::Used(used) => used.find(path),
        }
    }
}

impl IndexMut<PathId> for States {
    #[inline]
    fn index_mut(&mut self, path: PathId) -> &mut Path {
        match self {
            States::All(all) => &mut all[index(path)],
            States::Used(used) => used.find_or_make(path),
        }
    }
}

impl Used {
    fn find(&self, path: PathId) -> &Path {
        self.places.get(&path).map_or(&self.unused, |place| &self.known[*place as usize])
    }

    #[inline(never)]
    fn find_or_make(&mut self, path: PathId) -> &mut Path {
        assert!(index(path) < self.count, "path {} of {}", path.get(), self.count);
        let place = *self.places.entry(path).or_insert_with(|| {
            self.known.push(Path::default());
            self.known.len() as u32 - 1
        });
        &mut self.known[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_takes_room_from_its_first_use_on() {
        let mut states = States::used(4000);
        let (one, other) = (PathId::new(3999), PathId::new(7));
        assert_eq!((states.count(), states[one].in_flight), (4000, 0));
        assert!(states.known().is_empty() && states.get(PathId::new(4000)).is_none());
        states[one].on_sent(false);
        states[other].on_sent(false);
        states[one].on_sent(true);
        assert_eq!((states[one].in_flight, states[other].in_flight), (2, 1));
        assert_eq!(states.known().len(), 2);
        assert_eq!(states[PathId::new(0)].in_flight, 0);
        assert_eq!(states.known().len(), 2, "a look is no use");
    }
}
