//! NCCL's double binary tree.

/// A binary tree of ranks.
pub(super) struct Tree {
    /// The parent of each rank; the root has none.
    parent: Vec<Option<usize>>,
    /// All ranks, parents before their children.
    downwards: Vec<usize>,
}

impl Tree {
    /// Returns NCCL's two trees of `n` ranks (`src/graph/trees.cc`). Even ranks are the leaves of
    /// the first tree. The second tree is its mirror image if `n` is even, and shifted by one
    /// otherwise.
    pub(super) fn double(n: usize) -> [Tree; 2] {
        let second = |rank: usize| match n.is_multiple_of(2) {
            true => parent_of(n - 1 - rank, n).map(|up| n - 1 - up),
            false => parent_of((rank + n - 1) % n, n).map(|up| (up + 1) % n),
        };
        [
            Tree::new((0..n).map(|rank| parent_of(rank, n)).collect()),
            Tree::new((0..n).map(second).collect()),
        ]
    }

    fn new(parent: Vec<Option<usize>>) -> Tree {
        let depth = |rank: usize| std::iter::successors(parent[rank], |up| parent[*up]).count();
        let mut downwards: Vec<usize> = (0..parent.len()).collect();
        downwards.sort_by_cached_key(|rank| depth(*rank));
        Tree { parent, downwards }
    }

    pub(super) fn ranks(&self) -> usize {
        self.parent.len()
    }

    /// Returns the rank without a parent.
    pub(super) fn root(&self) -> usize {
        self.downwards[0]
    }

    pub(super) fn parent(&self, rank: usize) -> Option<usize> {
        self.parent[rank]
    }

    /// Returns the children of a rank, at most two.
    pub(super) fn children(&self, rank: usize) -> impl Iterator<Item = usize> {
        (0..self.ranks()).filter(move |child| self.parent[*child] == Some(rank))
    }

    /// Returns pairs of parent and child, from the root down.
    pub(super) fn links(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.downwards.iter().filter_map(|child| Some((self.parent[*child]?, *child)))
    }
}

/// Returns the parent in a tree in which the level of a rank is the number of its trailing ones. A
/// parent beyond the last rank is skipped in favour of its own parent.
fn parent_of(rank: usize, n: usize) -> Option<usize> {
    let level = rank.trailing_ones();
    if n < 1 << (level + 1) {
        return None;
    }
    let (mut up, mut level) = (rank, level);
    loop {
        up = (up + (1 << level)) & !(1 << (level + 1));
        level += 1;
        if up < n {
            return Some(up);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn children(tree: &Tree) -> Vec<usize> {
        let mut counts = vec![0; tree.parent.len()];
        tree.links().for_each(|(parent, _)| counts[parent] += 1);
        counts
    }

    /// The trees drawn in NCCL's source.
    #[test]
    fn ten_and_eleven_ranks_look_as_in_nccl() {
        let some = |parents: &[i32]| -> Vec<Option<usize>> {
            parents.iter().map(|parent| usize::try_from(*parent).ok()).collect()
        };
        let [first, mirrored] = Tree::double(10);
        assert_eq!(first.parent, some(&[1, 3, 1, 7, 5, 3, 5, -1, 9, 7]));
        assert_eq!(mirrored.parent, some(&[2, 0, -1, 4, 6, 4, 2, 8, 6, 8]));
        let [first, shifted] = Tree::double(11);
        assert_eq!(first.parent, some(&[1, 3, 1, 7, 5, 3, 5, -1, 9, 7, 9]));
        assert_eq!(shifted.parent, some(&[10, 2, 4, 2, 8, 6, 4, 6, -1, 10, 8]));
    }

    #[test]
    fn a_rank_with_children_in_one_tree_is_a_leaf_of_the_other() {
        for n in 2..300 {
            let trees = Tree::double(n);
            for tree in &trees {
                assert_eq!(tree.links().count(), n - 1, "{n} ranks");
                assert!(children(tree).iter().all(|count| *count <= 2), "{n} ranks");
            }
            let [first, second] = trees.each_ref().map(children);
            assert!(first.iter().zip(&second).all(|(a, b)| a * b == 0), "{n} ranks");
        }
    }
}
