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

/// A round in flight. It proceeds without calls, also after its handle is closed.
pub struct braid_round {
    round: Round,
    _group: Child,
}

object!(braid_round, 13, "round");

/// A part of a memory region.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_range {
    /// Offset in bytes.
    pub offset: usize,
    /// Length in bytes, or 0 for no data.
    pub len: usize,
}

impl From<braid_range> for Range<usize> {
    /// An overflow saturates, so that the check of the region refuses it.
    fn from(range: braid_range) -> Self {
        range.offset..range.offset.saturating_add(range.len)
    }
}

/// Starts a round. Returns after copying this rank's data for itself. `sends` holds the part of
/// `send` for each of the `ranks` ranks. `receives` holds the part of `recv` for the data of each
/// rank, of the same length as that data. The parts of `recv` must not overlap. All ranks start the
/// same rounds in the same order. At most 8 rounds are in flight; another one fails with
/// BRAID_ERR_FULL.
///
/// The regions must belong to the group's protection domain (braid_group_pd), and `recv` must
/// permit BRAID_ACCESS_LOCAL_WRITE and BRAID_ACCESS_REMOTE_WRITE. During the round, the application
/// must not change the data to send nor use the memory to receive into. It must not close the
/// regions before the end of the round.
///
/// Threads: any; threads that start rounds of one group take turns.
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

/// Returns 1 if the round is complete, otherwise 0. A round is complete when this rank has received
/// all data and its data has arrived at all peers. BRAID_ERR_GROUP: the group has ended before, no
/// rank accesses the memory any more, and braid_group_query_end gives the reason.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_round_test(round: *const braid_round) -> c_int {
    enter(|| Ok(find(round)?.round.test()?.into()))
}

/// Waits for the end of the round. Errors are those of braid_round_test, and BRAID_ERR_TIMED_OUT
/// after `timeout_us`, with the missing ranks in the text. The round continues after the time-out,
/// and the caller can wait again.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_round_wait(round: *const braid_round, timeout_us: u64) -> c_int {
    enter(|| {
        find(round)?.round.wait(patience(timeout_us))?;
        Ok(0)
    })
}

/// Cancels and closes the round. If it is not complete, the group ends at all ranks with an error
/// that names this one.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_round_cancel(round: *mut braid_round) -> c_int {
    enter(|| {
        take(round)?.round.cancel();
        Ok(0)
    })
}

/// Closes the handle. The round continues.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_round_close(round: *mut braid_round) -> c_int {
    enter(|| take(round).map(|_| 0))
}

/// Returns the error code of a group error.
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
