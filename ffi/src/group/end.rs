//! The causes for which groups end, and the responsible ranks.

use std::ffi::{c_char, c_int};

use braid::{Blame, GroupError};

use super::braid_group;
use crate::boundary::enter;
use crate::growing::{self, Growing};
use crate::handle::find;

/// The group has not ended.
pub const BRAID_BLAME_NONE: c_int = 0;
/// A rank has died or cannot be reached any more.
pub const BRAID_BLAME_DEAD: c_int = 1;
/// Two ranks disagree on the number of bytes that one sends to the other.
pub const BRAID_BLAME_COUNTS: c_int = 2;
/// A rank sent an invalid message.
pub const BRAID_BLAME_MALFORMED: c_int = 3;
/// A rank has cancelled a round, or closed its group during a round.
pub const BRAID_BLAME_CANCELLED: c_int = 4;
/// A rank has left the group while others had more rounds.
pub const BRAID_BLAME_LEFT: c_int = 5;
/// The memory of a rank does not belong to the group's protection domain, or does not permit the
/// access.
pub const BRAID_BLAME_MEMORY: c_int = 6;
/// A cause without a number in this version of the C API; see the text.
pub const BRAID_BLAME_OTHER: c_int = 7;

/// The reason why a group has ended.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_group_end {
    /// Set it to sizeof(braid_group_end).
    pub size: usize,
    /// The cause: BRAID_BLAME_NONE and so on.
    pub blame: c_int,
    /// The responsible rank, or -1. With BRAID_BLAME_COUNTS, the sending rank.
    pub rank: i32,
    /// The receiving rank with BRAID_BLAME_COUNTS, otherwise -1.
    pub receiver: i32,
    /// The rank that detected the cause, or -1 for this one.
    pub told_by: i32,
    /// The round, with BRAID_BLAME_COUNTS and BRAID_BLAME_CANCELLED.
    pub round: u64,
    /// Number of bytes by the sending rank, with BRAID_BLAME_COUNTS.
    pub sent: u64,
    /// Number of bytes by the receiving rank, with BRAID_BLAME_COUNTS.
    pub expected: u64,
}

// SAFETY: `repr(C)`, `size` first, numbers only.
unsafe impl Growing for braid_group_end {
    const NAME: &'static str = "braid_group_end";
}

impl From<Option<GroupError>> for braid_group_end {
    fn from(end: Option<GroupError>) -> Self {
        let none = braid_group_end {
            size: size_of::<Self>(),
            blame: BRAID_BLAME_NONE,
            rank: -1,
            receiver: -1,
            told_by: -1,
            round: 0,
            sent: 0,
            expected: 0,
        };
        let Some(GroupError::Failed { blame, told_by }) = end else { return none };
        let number = |rank: usize| i32::try_from(rank).unwrap_or(-1);
        let told_by = told_by.map_or(-1, number);
        let ended = braid_group_end { rank: number(blame.rank()), told_by, ..none };
        let by = |blame| braid_group_end { blame, ..ended };
        match blame {
            Blame::Dead { .. } => by(BRAID_BLAME_DEAD),
            Blame::Counts { round, receiver, sent, expected, .. } => braid_group_end {
                receiver: number(receiver),
                round,
                sent,
                expected,
                ..by(BRAID_BLAME_COUNTS)
            },
            Blame::Malformed { .. } => by(BRAID_BLAME_MALFORMED),
            Blame::Cancelled { round, .. } => {
                braid_group_end { round, ..by(BRAID_BLAME_CANCELLED) }
            }
            Blame::Left { .. } => by(BRAID_BLAME_LEFT),
            Blame::Memory { .. } => by(BRAID_BLAME_MEMORY),
            _ => by(BRAID_BLAME_OTHER),
        }
    }
}

/// Reads the reason why the group has ended, and the responsible rank.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_group_query_end(
    group: *const braid_group,
    end: *mut braid_group_end,
) -> c_int {
    enter(|| {
        let why = find(group)?.group.end();
        // SAFETY: the caller's promise.
        unsafe { growing::write(end, why.into()) }.map(|()| 0)
    })
}

/// Returns the text of a `blame`; never NULL.
///
/// Threads: any. The text is constant.
#[unsafe(no_mangle)]
pub extern "C" fn braid_blame_str(blame: c_int) -> *const c_char {
    let text = match blame {
        BRAID_BLAME_NONE => c"the group has not ended",
        BRAID_BLAME_DEAD => c"the rank has died or cannot be reached",
        BRAID_BLAME_COUNTS => c"two ranks do not agree on how many bytes one sends to the other",
        BRAID_BLAME_MALFORMED => c"the rank sent what no rank of a group sends",
        BRAID_BLAME_CANCELLED => c"the rank has cancelled a round",
        BRAID_BLAME_LEFT => c"the rank has left the group",
        BRAID_BLAME_MEMORY => c"the memory of the rank cannot be used",
        _ => c"unknown",
    };
    text.as_ptr()
}
