//! Cuts a batch into its datagrams.

use crate::link::{DatagramBatch, Slice};

/// An iterator over the datagrams of a batch.
pub(crate) struct Cutter<'a> {
    batch: &'a DatagramBatch<'a>,
    /// The slice in which the next datagram begins, and the offset in it.
    slice: usize,
    offset: usize,
}

impl<'a> Cutter<'a> {
    /// Starts at the first datagram.
    pub(crate) fn new(batch: &'a DatagramBatch<'a>) -> Self {
        Cutter { batch, slice: 0, offset: 0 }
    }

    /// Hands the slices of the next datagram to `sink`. Returns its bytes. 0: the batch is at its
    /// end.
    pub(crate) fn next_datagram(&mut self, mut sink: impl FnMut(Slice<'a>)) -> usize {
        let mut len = 0;
        while let Some(more) = self.take(self.batch.segment_len - len) {
            sink(more);
            len += more.len();
        }
        len
    }

    /// Takes up to `len` contiguous bytes. `None`: `len` is 0 or the batch is at its end.
    fn take(&mut self, len: usize) -> Option<Slice<'a>> {
        while let Some(slice) = self.batch.slices.get(self.slice) {
            let rest = slice.part(self.offset..slice.len());
            if len > 0 && !rest.is_empty() {
                let taken = rest.part(0..len.min(rest.len()));
                self.offset += taken.len();
                if self.offset == slice.len() {
                    (self.slice, self.offset) = (self.slice + 1, 0);
                }
                return Some(taken);
            }
            if len == 0 {
                return None;
            }
            (self.slice, self.offset) = (self.slice + 1, 0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::link::Via;

    fn cut(slices: &[&[u8]], segment_len: usize) -> Vec<Vec<u8>> {
        let slices: Vec<Slice<'_>> = slices.iter().map(|s| Slice::new(s)).collect();
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        let batch = DatagramBatch {
            to: to.into(),
            via: Via::Port,
            segment_len,
            ecn: true,
            slices: &slices,
        };
        let (mut cutter, mut datagrams) = (Cutter::new(&batch), Vec::new());
        loop {
            let mut datagram = Vec::new();
            if cutter.next_datagram(|slice| slice.append_to(&mut datagram)) == 0 {
                return datagrams;
            }
            datagrams.push(datagram);
        }
    }

    #[test]
    fn slices_and_datagrams_are_cut_independently() {
        let text: Vec<u8> = (0..23).collect();
        let whole: Vec<Vec<u8>> = text.chunks(5).map(<[u8]>::to_vec).collect();
        for a in 0..=text.len() {
            for b in a..=text.len() {
                let slices = [&text[..a], &text[a..b], &[], &text[b..]];
                assert_eq!(cut(&slices, 5), whole, "cut at {a} and {b}");
            }
        }
    }

    #[test]
    fn nothing_has_no_datagrams() {
        assert!(cut(&[], 5).is_empty());
        assert!(cut(&[&[], &[]], 5).is_empty());
        assert!(cut(&[b"abc"], 0).is_empty());
    }
}
