//! Rounds of a group.

use std::ffi::c_int;
use std::ops::Range;

use braid::{AllToAllV, GroupError, Round};

use super::braid_group;
use crate::arguments::{Array, Out, patience};
use crate::boundary::enter;
use crate::braid_mr;
use crate::failure::Failure;
use crate::handle::{Child, find, hand_out, object, take};

/// A round in flight. It goes on without being asked, and after it is closed.
pub struct braid_round {
    round: Round,
    _group: Child,
}

object!(braid_round, 13, "round");

/// A part of a memory region.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_range {
    /// Bytes before it.
    pub offset: usize,
    /// Its bytes; 0: nothing.
    pub len: usize,
}

impl From<braid_range> for Range<usize> {
    /// What is beyond all memory is refused where the region is known.
    fn from(range: braid_range) -> Self {
        range.offset..range.offset.saturating_add(range.len)
    }
}

/// Starts a round and returns at once, but for copying what this rank has for itself. `sends` are the parts of `send` for each of
/// the `ranks` ranks, `receives` where in `recv` what they send goes, as long as what they send here; these do not overlap. All
/// ranks start the same rounds in the same order; at most 8 are in flight, or this is BRAID_ERR_FULL.
///
/// The regions are of the group's protection domain (braid_group_pd), and `recv` allows BRAID_ACCESS_LOCAL_WRITE and
/// BRAID_ACCESS_REMOTE_WRITE. Until the round is over, what is sent must not change, and what is received belongs to the
/// peers; they are closed afterwards.
///
/// Threads: any; those that start rounds of one group take turns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_start(
    group: *mut braid_group,
    send: *const braid_mr,
    sends: *const braid_range,
    recv: *const braid_mr,
    receives: *const braid_range,
    ranks: usize,
    round: *mut *mut braid_round,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(round, "round") }?;
        let group = find(group)?;
        let size = group.group.size();
        if ranks != size {
            let (name, value, count) = ("ranks", ranks as u64, size as u64);
            return Err(Failure::Range { name, value, min: count, max: count });
        }
        // SAFETY: the caller's promise.
        let (sends, receives) = unsafe {
            (Array::new(sends, ranks, "sends")?, Array::new(receives, ranks, "receives")?)
        };
        let started = group.group.start(AllToAllV {
            send: find(send)?.mr.clone(),
            sends: sends.iter().map(Range::from).collect(),
            recv: find(recv)?.mr.clone(),
            receives: receives.iter().map(Range::from).collect(),
        })?;
        out.set(hand_out(braid_round { round: started, _group: group.children.add() })?);
        Ok(0)
    })
}

/// Returns 1 if the round is over, or else 0: all that this rank receives is here, and all that it sends is at its peers.
/// BRAID_ERR_GROUP: the group has ended before; then nobody touches the memory any more, and braid_group_query_end says why.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_round_test(round: *const braid_round) -> c_int {
    enter(|| Ok(find(round)?.round.test()?.into()))
}

/// Waits until the round is over. As braid_round_test on errors; BRAID_ERR_TIMED_OUT after `timeout_us`, with the ranks that are
/// waited for in the text: it goes on, and can be waited for again.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_round_wait(round: *const braid_round, timeout_us: u64) -> c_int {
    enter(|| {
        find(round)?.round.wait(patience(timeout_us))?;
        Ok(0)
    })
}

/// Gives the round up, and closes it: if it is not over, the group ends at all ranks with an error that names this one.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_round_cancel(round: *mut braid_round) -> c_int {
    enter(|| {
        take(round)?.round.cancel();
        Ok(0)
    })
}

/// Closes the handle; the round goes on.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_round_close(round: *mut braid_round) -> c_int {
    enter(|| take(round).map(|_| 0))
}

/// What C gets for it.
pub(crate) fn code(error: &GroupError) -> c_int {
    use crate::error::*;
    match error {
        GroupError::Unreachable { .. } | GroupError::NotConnected { .. } => BRAID_ERR_UNREACHABLE,
        GroupError::Refused(_) => BRAID_ERR_REJECTED,
        GroupError::Resources { .. } => BRAID_ERR_SYSTEM,
        GroupError::TooManyRounds { .. } => BRAID_ERR_FULL,
        GroupError::Failed { .. } => BRAID_ERR_GROUP,
        GroupError::Unfinished { .. } => BRAID_ERR_TIMED_OUT,
        _ => BRAID_ERR_INVALID,
    }
}
