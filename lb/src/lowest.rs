//! The minimum of many keys that change one at a time.

/// A tournament tree over `count` keys with the smallest key at the root. A change costs O(log
/// count) and stops at the first node that keeps its value.
#[derive(Clone, Debug)]
pub(crate) struct Lowest {
    /// `keys[1]` is the root. The children of `keys[i]` are `2i` and `2i + 1`. The second half are
    /// leaves.
    keys: Vec<u64>,
}

impl Lowest {
    /// The key of an absent index.
    const ABSENT: u64 = u64::MAX;

    /// Creates a tree without keys.
    pub(crate) fn new(count: usize) -> Self {
        Lowest { keys: vec![Self::ABSENT; 2 * count.next_power_of_two()] }
    }

    /// Sets the key of `index`, which must be below `u64::MAX`.
    pub(crate) fn set(&mut self, index: usize, key: u64) {
        let mut at = self.keys.len() / 2 + index;
        self.keys[at] = key;
        while at > 1 {
            at /= 2;
            let smaller = self.keys[2 * at].min(self.keys[2 * at + 1]);
            if self.keys[at] == smaller {
                return;
            }
            self.keys[at] = smaller;
        }
    }

    /// Removes the key of `index`.
    pub(crate) fn clear(&mut self, index: usize) {
        self.set(index, Self::ABSENT);
    }

    /// Returns the smallest key.
    pub(crate) fn key(&self) -> Option<u64> {
        (self.keys[1] != Self::ABSENT).then_some(self.keys[1])
    }

    /// Returns the lowest index with the smallest key.
    pub(crate) fn index(&self) -> Option<usize> {
        let key = self.key()?;
        let leaves = self.keys.len() / 2;
        let mut at = 1;
        while at < leaves {
            at = if self.keys[2 * at] == key { 2 * at } else { 2 * at + 1 };
        }
        Some(at - leaves)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_search(
            count in 1_usize..40,
            changes in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0_u64..50)), 1..200),
        ) {
            let mut tree = Lowest::new(count);
            let mut model = vec![None; count];
            for (index, key) in changes {
                let index = index.index(count);
                model[index] = key;
                match key {
                    Some(key) => tree.set(index, key),
                    None => tree.clear(index),
                }
                let smallest = model.iter().flatten().min().copied();
                prop_assert_eq!(tree.key(), smallest);
                prop_assert_eq!(tree.index(), smallest.and_then(|_| model.iter().position(|key| *key == smallest)));
            }
        }
    }
}
