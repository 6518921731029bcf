//! The states of the paths of a set.

use std::ops::{Index, IndexMut};

use braid_wire::PathId;

use crate::path::Path;
use crate::slots::index;

/// Sets up to this size allocate all states at once: 4 KB.
const FEW: usize = 64;

/// The state of each path. A path that was never used has the state [`Path::NEW`].
#[derive(Debug)]
pub(crate) struct States {
    count: usize,
    /// The states of all paths by number, so that a first use does not allocate; or those of the
    /// used paths, in the order of their first use.
    known: Vec<Path>,
    /// Whether `known` has the used paths only.
    grows: bool,
    /// The index in `known` plus 1 of each used path, and 0 for all others. Empty before the first
    /// use, and if `known` has all paths.
    places: Vec<u16>,
}

/// The state of a path that was never used.
static UNUSED: Path = Path::NEW;

impl States {
    /// Allocates the states of all paths at once.
    pub(crate) fn all(count: usize) -> Self {
        States { count, known: vec![Path::NEW; count], grows: false, places: Vec::new() }
    }

    /// Allocates the state of a path at its first use, unless the set is small.
    pub(crate) fn used(count: usize) -> Self {
        if count <= FEW {
            return Self::all(count);
        }
        States { count, known: Vec::new(), grows: true, places: Vec::new() }
    }

    /// Returns the number of paths.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the state of a path, if the path exists.
    #[inline]
    pub(crate) fn get(&self, path: PathId) -> Option<&Path> {
        (index(path) < self.count()).then(|| &self[path])
    }

    /// Visits the place in memory of a path's state, or where its first use will put it.
    #[inline]
    pub(crate) fn place(&self, path: PathId, mut visit: impl FnMut(*const u8, usize)) {
        let at = match self.grows {
            false => index(path),
            true => self.place_of_used(path).unwrap_or(self.known.len()),
        };
        visit(self.known.as_ptr().wrapping_add(at).cast(), size_of::<Path>());
    }

    /// Returns the index in `known` of a path that was used, if the set grows.
    #[inline]
    fn place_of_used(&self, path: PathId) -> Option<usize> {
        usize::from(*self.places.get(index(path))?).checked_sub(1)
    }

    /// Returns the states that may differ from the default, in no particular order.
    pub(crate) fn known(&self) -> &[Path] {
        &self.known
    }

    /// Returns mutable access to [`States::known`].
    pub(crate) fn known_mut(&mut self) -> &mut [Path] {
        &mut self.known
    }

    #[cold]
    fn find(&self, path: PathId) -> &Path {
        self.place_of_used(path).map_or(&UNUSED, |at| &self.known[at])
    }

    #[cold]
    fn find_or_make(&mut self, path: PathId) -> &mut Path {
        assert!(index(path) < self.count, "path {} of {}", path.get(), self.count);
        match self.place_of_used(path) {
            None => self.make(path),
            Some(at) => &mut self.known[at],
        }
    }

    #[inline(never)]
    fn make(&mut self, path: PathId) -> &mut Path {
        if self.places.is_empty() {
            self.places = vec![0; self.count];
        }
        self.known.push(Path::NEW);
        self.places[index(path)] = self.known.len() as u16;
        self.known.last_mut().expect("one was pushed")
    }
}

impl Index<PathId> for States {
    type Output = Path;

    #[inline]
    fn index(&self, path: PathId) -> &Path {
        if self.grows { self.find(path) } else { &self.known[index(path)] }
    }
}

impl IndexMut<PathId> for States {
    #[inline]
    fn index_mut(&mut self, path: PathId) -> &mut Path {
        if self.grows { self.find_or_make(path) } else { &mut self.known[index(path)] }
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

    #[test]
    fn a_path_is_visited_where_its_state_is_or_will_be() {
        let place = |states: &States, path| {
            let mut at = 0;
            states.place(path, |start, _| at = start.addr());
            at
        };
        let (mut states, of) = (States::used(100), PathId::new);
        states.known.reserve(3);
        for path in [of(7), of(99), of(8)] {
            let expected = place(&states, path);
            assert_eq!(std::ptr::from_mut(&mut states[path]).addr(), expected);
            assert_eq!(place(&states, path), expected);
        }
        let few = States::used(8);
        assert_eq!(std::ptr::from_ref(&few[of(3)]).addr(), place(&few, of(3)));
    }
}
