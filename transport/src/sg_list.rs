//! Pieces of local memory.

use std::fmt;
use std::ops::{Deref, DerefMut};

use smallvec::SmallVec;

use crate::Sge;

/// Pieces of local memory, in message order. Up to two need no allocation.
///
/// It is a slice of [`Sge`] to read and to change, and is made of an array, a slice or an iterator of them:
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
    /// No piece.
    #[inline]
    pub fn new() -> Self {
        SgList::default()
    }

    /// One piece.
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
        // Every work request has such a list, most of them of one piece.
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
