//! A table with an entry for each path of a stream.

use braid_wire::PathId;

/// Entries by rail and path number, up to the highest path that was used on each rail.
#[derive(Clone, Debug)]
pub(crate) struct PerPath<T> {
    rails: Vec<Vec<T>>,
}

impl<T> Default for PerPath<T> {
    fn default() -> Self {
        PerPath { rails: Vec::new() }
    }
}

impl<T: Clone + Default> PerPath<T> {
    #[inline]
    pub(crate) fn get_mut(&mut self, path: PathId) -> Option<&mut T> {
        self.rails.get_mut(path.rail().get())?.get_mut(usize::from(path.get()))
    }

    /// Returns the entry of a path, and creates missing entries up to it.
    #[inline]
    pub(crate) fn entry(&mut self, path: PathId) -> &mut T {
        let (rail, index) = (path.rail().get(), usize::from(path.get()));
        if self.rails.get(rail).is_none_or(|paths| index >= paths.len()) {
            self.make(rail, index);
        }
        &mut self.rails[rail][index]
    }

    #[cold]
    fn make(&mut self, rail: usize, index: usize) {
        if rail >= self.rails.len() {
            self.rails.resize(rail + 1, Vec::new());
        }
        self.rails[rail].resize(index + 1, T::default());
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.rails.iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rails.iter_mut().flatten()
    }
}
