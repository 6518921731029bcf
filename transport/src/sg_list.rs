//! Scatter/gather lists: elements of local memory.

use std::fmt;
use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

/// A scatter/gather element: a piece of local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sge {
    /// Address of the first byte.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// Key of the memory region that contains the piece.
    pub lkey: u32,
}

/// Scatter/gather list: pieces of local memory in message order. Up to two need no allocation.
///
/// The list dereferences to a slice of [`Sge`], and is built from an array, a slice or an iterator:
///
/// ```
/// use braid_transport::{SgList, Sge};
///
/// let header = Sge { addr: 0x1000, len: 16, lkey: 7 };
/// let mut message = SgList::from([header]);
/// message.push(Sge { addr: 0x8000, len: 4096, ..header });
/// assert_eq!(message.iter().map(|piece| piece.len).sum::<u32>(), 4112);
/// ```
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SgList(SmallVec<[Sge; 2]>);

impl SgList {
    /// Creates an empty list.
    #[inline]
    pub fn new() -> Self {
        SgList::default()
    }

    /// Creates a list of one piece.
    #[inline]
    pub(crate) fn of(piece: Sge) -> Self {
        // Written without a loop, because every segment that leaves has such a list.
        SgList(SmallVec::from_buf_and_len([piece; 2], 1))
    }

    /// Appends a piece.
    #[inline]
    pub fn push(&mut self, piece: Sge) {
        self.0.push(piece);
    }
}

impl Deref for SgList {
    type Target = [Sge];

    #[inline]
    fn deref(&self) -> &[Sge] {
        &self.0
    }
}

impl DerefMut for SgList {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Sge] {
        &mut self.0
    }
}

impl<const N: usize> From<[Sge; N]> for SgList {
    #[inline]
    fn from(pieces: [Sge; N]) -> Self {
        SgList(SmallVec::from_slice(&pieces))
    }
}

impl From<&[Sge]> for SgList {
    #[inline]
    fn from(pieces: &[Sge]) -> Self {
        SgList(SmallVec::from_slice(pieces))
    }
}

impl FromIterator<Sge> for SgList {
    #[inline]
    fn from_iter<I: IntoIterator<Item = Sge>>(pieces: I) -> Self {
        let mut pieces = pieces.into_iter();
        // Every work request has such a list, and most lists have one piece.
        let mut list = pieces.next().map_or_else(SgList::new, SgList::of);
        pieces.for_each(|piece| list.push(piece));
        list
    }
}

impl Extend<Sge> for SgList {
    #[inline]
    fn extend<I: IntoIterator<Item = Sge>>(&mut self, pieces: I) {
        self.0.extend(pieces);
    }
}

impl<'a> IntoIterator for &'a SgList {
    type Item = &'a Sge;
    type IntoIter = std::slice::Iter<'a, Sge>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Debug for SgList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0).finish()
    }
}

/// Returns the total length of the pieces in bytes.
pub(crate) fn total_len(pieces: &[Sge]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.len)).sum()
}

/// Returns the pieces of `sges` that hold bytes `offset .. offset + len` of the message. `None`:
/// the message is shorter.
#[inline]
pub(crate) fn slice(sges: &[Sge], offset: u32, len: u32) -> Option<SgList> {
    match *sges {
        // Most messages are one piece.
        [sge] if len > 0 => {
            let inside = u64::from(offset) + u64::from(len) <= u64::from(sge.len);
            let addr = sge.addr.wrapping_add(offset.into());
            inside.then(|| SgList::of(Sge { addr, len, ..sge }))
        }
        _ => slice_pieces(sges, offset, len),
    }
}

#[inline(never)]
fn slice_pieces(sges: &[Sge], offset: u32, len: u32) -> Option<SgList> {
    let (mut skip, mut want) = (u64::from(offset), u64::from(len));
    let mut pieces = SgList::new();
    for sge in sges {
        let have = u64::from(sge.len);
        if skip >= have {
            skip -= have;
            continue;
        }
        if want == 0 {
            break;
        }
        let take = want.min(have - skip);
        pieces.push(Sge { addr: sge.addr.wrapping_add(skip), len: take as u32, lkey: sge.lkey });
        want -= take;
        skip = 0;
    }
    (want == 0).then_some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(sges: &[Sge]) -> Vec<u64> {
        sges.iter().flat_map(|s| s.addr..s.addr + u64::from(s.len)).collect()
    }

    proptest! {
        #[test]
        fn slices_match_the_bytes(lens in prop::collection::vec(0u32..20, 0..5), offset in 0u32..60, len in 0u32..60) {
            let sges: Vec<Sge> = lens.iter().enumerate()
                .map(|(i, &len)| Sge { addr: 1000 * i as u64, len, lkey: i as u32 }).collect();
            let all = bytes(&sges);
            let range = offset as usize..(offset + len) as usize;
            let sliced = slice(&sges, offset, len);
            match all.get(range) {
                Some(expected) => prop_assert_eq!(bytes(&sliced.unwrap()), expected),
                None => prop_assert!(len == 0 || sliced.is_none()),
            }
        }
    }
}
