//! The smallest of many keys that change one at a time.

/// A tournament tree over `count` keys: changing one costs O(log count), and stops early where nothing
/// changes above; the smallest is at the root.
#[derive(Clone, Debug)]
pub(crate) struct Lowest {
    /// `keys[1]` is the root, the children of `keys[i]` are `2i` and `2i + 1`, the second half are leaves.
    keys: Vec<u64>,
}

impl Lowest {
    /// The key of what takes no part.
    const ABSENT: u64 = u64::MAX;

    /// Nothing takes part yet.
    pub(crate) fn new(count: usize) -> Self {
        Lowest { keys: vec![Self::ABSENT; 2 * count.next_power_of_two()] }
    }

    /// Gives `index` a key below `u64::MAX`.
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

    /// `index` takes no part any more.
    pub(crate) fn clear(&mut self, index: usize) {
        self.set(index, Self::ABSENT);
    }

    /// The smallest key.
    pub(crate) fn key(&self) -> Option<u64> {
        (self.keys[1] != Self::ABSENT).then_some(self.keys[1])
    }

    /// Whose key is the smallest; the lowest index among equals.
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
