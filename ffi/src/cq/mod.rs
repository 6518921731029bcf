//! Completion queues.

mod turns;

use std::cell::RefCell;
use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};

use braid::Completion;

use self::turns::Turns;
use crate::arguments::{Out, Room, patience};
use crate::boundary::enter;
use crate::failure::Failure;
use crate::handle::{Child, Children, find, hand_out, object, take};
use crate::{braid_engine, braid_wc};

/// A completion queue, which receives the completions of work requests. Its queue pairs must not
/// have more outstanding work requests than its capacity.
pub struct braid_cq {
    turns: Turns,
    pub(crate) children: Children,
    _engine: Child,
}

object!(
    braid_cq,
    5,
    "completion queue",
    fn may_close(&self) -> Result<(), Failure> {
        self.children.none("completion queue")
    }
);

impl braid_cq {
    pub(crate) fn queue(&self) -> &braid::CompletionQueue {
        self.turns.queue()
    }
}

thread_local! {
    /// A buffer for the conversion of completions, which is kept so that polling does not allocate.
    static BATCH: RefCell<Vec<Completion>> = const { RefCell::new(Vec::new()) };
}

/// Passes the completions that `fill` adds to a vector on to C.
fn hand_over<T: From<Completion>>(
    room: &mut Room<T>,
    fill: impl FnOnce(&mut Vec<Completion>, usize) -> Result<(), Failure>,
) -> Result<c_int, Failure> {
    BATCH.with_borrow_mut(|batch| {
        batch.clear();
        let result = fill(batch, room.left().min(c_int::MAX as usize));
        room.extend(batch.drain(..).map(T::from));
        // An overrun is reported after the completions that fit the queue.
        if room.used() == 0 { result.map(|()| 0) } else { Ok(room.used()) }
    })
}

/// Creates a completion queue for `capacity` completions.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_cq_create(
    engine: *mut braid_engine,
    capacity: usize,
    cq: *mut *mut braid_cq,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(cq, "cq") }?;
        let engine = find(engine)?;
        let turns = Turns::new(engine.engine.create_cq(capacity)?);
        let children = Children::default();
        out.set(hand_out(braid_cq { turns, children, _engine: engine.children.add() })?);
        Ok(0)
    })
}

/// Closes a completion queue. Its queue pairs must be closed before.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_cq_close(cq: *mut braid_cq) -> c_int {
    enter(|| take(cq).map(|_| 0))
}

/// Takes up to `max` completions into the array `wcs` and returns their number. Does not wait. If
/// the application makes progress, a call with an empty queue runs the engine once.
///
/// BRAID_ERR_OVERRUN, after the completions that fit the queue: other completions are lost, and the
/// queue pairs are in ERR.
///
/// Threads: any; each completion goes to one of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_cq_poll(cq: *mut braid_cq, wcs: *mut braid_wc, max: usize) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { poll_queue(cq, wcs, max) })
}

/// # Safety
/// The caller's promise, for `wcs`.
pub(crate) unsafe fn poll_queue<T: From<Completion>>(
    cq: *mut braid_cq,
    wcs: *mut T,
    max: usize,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises.
    let mut room = unsafe { Room::new(wcs, max, "wcs") }?;
    let cq = find(cq)?;
    hand_over(&mut room, |batch, max| cq.turns.poll(batch, max))
}

/// Takes completions like braid_cq_poll, but waits up to `timeout_us` microseconds for the first
/// one. Returns 0 after the time-out. If the application makes progress, waiting runs the engine.
///
/// Threads: any; each completion goes to one of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_cq_wait(
    cq: *mut braid_cq,
    wcs: *mut braid_wc,
    max: usize,
    timeout_us: u64,
) -> c_int {
    // SAFETY: the caller's promise.
    enter(|| unsafe { wait_queue(cq, wcs, max, timeout_us) })
}

/// # Safety
/// The caller's promise, for `wcs`.
pub(crate) unsafe fn wait_queue<T: From<Completion>>(
    cq: *mut braid_cq,
    wcs: *mut T,
    max: usize,
    timeout_us: u64,
) -> Result<c_int, Failure> {
    // SAFETY: as the caller promises.
    let mut room = unsafe { Room::new(wcs, max, "wcs") }?;
    let (cq, limit) = (find(cq)?, patience(timeout_us));
    hand_over(&mut room, |batch, max| cq.turns.wait(batch, max, limit))
}

/// Returns the descriptor, an eventfd, that becomes readable when a completion arrives on an armed
/// queue; for poll, epoll and the like. The queue owns it: do not read or close it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_cq_fd(cq: *const braid_cq) -> c_int {
    enter(|| Ok(find(cq)?.queue().as_fd().as_raw_fd()))
}

/// Arms the queue. Its descriptor is cleared and becomes readable once, with the next completion.
/// If `solicited_only` is 1, it becomes readable with the next failed or solicited completion;
/// otherwise it is 0. Poll the queue after this call, because earlier completions do not make the
/// descriptor readable.
///
/// Threads: any; the last call counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_cq_arm(cq: *mut braid_cq, solicited_only: c_int) -> c_int {
    enter(|| {
        let solicited_only = crate::arguments::flag(solicited_only, "solicited_only")?;
        find(cq)?.queue().notify(solicited_only);
        Ok(0)
    })
}

/// Writes the capacity of the queue into `capacity`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_cq_capacity(cq: *const braid_cq, capacity: *mut usize) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(capacity, "capacity") }?;
        out.set(find(cq)?.queue().capacity());
        Ok(0)
    })
}
