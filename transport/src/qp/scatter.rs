//! Which local memory a part of a message is.

use crate::{SgList, Sge};

/// The pieces of `sges` that bytes `offset .. offset + len` of the message occupy.
/// `None` if the message is shorter than that.
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
        fn slices_are_what_the_bytes_say(lens in prop::collection::vec(0u32..20, 0..5), offset in 0u32..60, len in 0u32..60) {
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
