//! The states of the paths of a set.

use std::ops::{Index, IndexMut};

use braid_wire::PathId;
use rustc_hash::FxHashMap;

use crate::path::Path;
use crate::slots::index;

/// Sets up to this size allocate all states at once: about 10 KB.
const FEW: usize = 64;

/// The state of each path. A path that was never used has the state [`Path::default`].
#[derive(Debug)]
pub(crate) struct States {
    /// The states of all paths, so that a first use does not allocate. Empty if `used` is present.
    all: Vec<Path>,
    used: Option<Box<Used>>,
}

/// The states of the paths that were used.
///
/// Invariant: `places` maps exactly the used paths to their indices in `known`.
#[derive(Debug)]
pub(crate) struct Used {
    count: usize,
    places: FxHashMap<PathId, u32>,
    known: Vec<Path>,
    unused: Path,
}

impl States {
    /// Allocates the states of all paths at once.
    pub(crate) fn all(count: usize) -> Self {
        States { all: vec![Path::default(); count], used: None }
    }

    /// Allocates the state of a path at its first use, unless the set is small.
    pub(crate) fn used(count: usize) -> Self {
        if count <= FEW {
            return Self::all(count);
        }
        let (places, known) = (FxHashMap::default(), Vec::new());
        let used = Used { count, places, known, unused: Path::default() };
        States { all: Vec::new(), used: Some(Box::new(used)) }
    }

    /// Returns the number of paths.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.used.as_ref().map_or(self.all.len(), |used| used.count)
    }

    /// Returns the state of a path, if the path exists.
    #[inline]
    pub(crate) fn get(&self, path: PathId) -> Option<&Path> {
        (index(path) < self.count()).then(|| &self[path])
    }

    /// Returns the states that may differ from the default, in no particular order.
    pub(crate) fn known(&self) -> &[Path] {
        self.used.as_ref().map_or(&self.all, |used| &used.known)
    }

    /// Returns mutable access to [`States::known`].
    pub(crate) fn known_mut(&mut self) -> &mut [Path] {
        self.used.as_mut().map_or(&mut self.all, |used| &mut used.known)
    }

    #[cold]
    fn find(&self, path: PathId) -> &Path {
        self.used.as_ref().expect("an existing path").find(path)
    }

    #[cold]
    fn find_or_make(&mut self, path: PathId) -> &mut Path {
        self.used.as_mut().expect("an existing path").find_or_make(path)
    }
}

impl Index<PathId> for States {
    type Output = Path;

    #[inline]
    fn index(&self, path: PathId) -> &Path {
        match self.all.get(index(path)) {
            Some(state) => state,
            None => self.find(path),
        }
    }
}

impl IndexMut<PathId> for States {
    #[inline]
    fn index_mut(&mut self, path: PathId) -> &mut Path {
        // The length is checked first, because a borrow that one branch returns would extend over
        // the other branch.
        if index(path) < self.all.len() {
            return &mut self.all[index(path)];
        }
        self.find_or_make(path)
    }
}

impl Used {
    fn find(&self, path: PathId) -> &Path {
        self.places.get(&path).map_or(&self.unused, |place| &self.known[*place as usize])
    }

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
        states[one].on_sent(1, false);
        states[other].on_sent(1, false);
        states[one].on_sent(1, true);
        assert_eq!((states[one].in_flight, states[other].in_flight), (2, 1));
        assert_eq!(states.known().len(), 2);
        assert_eq!(states[PathId::new(0)].in_flight, 0);
        assert_eq!(states.known().len(), 2, "a look is no use");
    }
}
