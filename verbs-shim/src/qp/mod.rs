//! Queue pairs: creation, posting and destruction.

mod kind;
mod states;

use std::ptr::{self, NonNull};
use std::{fmt, io};

use crate::abi::*;
use crate::post::{ENOSYS, post};
use crate::{Cq, Pd, PostError, RecvWr, SendWr, Srq, VerbsError};

pub use kind::QpKind;
pub use states::{QpState, Rtr, Rts};

/// The parameters of a new queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QpInit<'a> {
    /// The service.
    pub kind: QpKind,
    /// The queue for completions of sends.
    pub send_cq: &'a Cq,
    /// The queue for completions of receives.
    pub recv_cq: &'a Cq,
    /// A shared receive queue instead of an own one.
    pub srq: Option<&'a Srq>,
    /// Maximum outstanding sends.
    pub max_send_wr: u32,
    /// Maximum outstanding receives; ignored with a shared receive queue.
    pub max_recv_wr: u32,
    /// Maximum scatter/gather entries of a send.
    pub max_send_sge: u32,
    /// Maximum scatter/gather entries of a receive.
    pub max_recv_sge: u32,
    /// Maximum bytes of an inline send.
    pub max_inline: u32,
}

/// A queue pair. It is destroyed on drop, and outstanding work requests then have no completion.
///
/// Several threads may post, but block each other. So do state changes, which may take the kernel
/// milliseconds.
#[derive(Debug)]
pub struct Qp {
    // Dropped after the queue pair itself, which `drop` destroys.
    pd: Pd,
    _send_cq: Cq,
    _recv_cq: Cq,
    _srq: Option<Srq>,
    raw: NonNull<ibv_qp>,
    kind: QpKind,
    max_inline: u32,
}

// SAFETY: libibverbs may be called from any thread and locks inside. The pointer stays valid until
// `drop`, and the only field read here, the number, is not written after creation.
unsafe impl Send for Qp {}
// SAFETY: as above.
unsafe impl Sync for Qp {}

impl Pd {
    /// Creates a queue pair in RESET.
    ///
    /// # Errors
    /// [`VerbsError::OtherContext`], [`VerbsError::Refused`].
    pub fn create_qp(&self, init: &QpInit<'_>) -> Result<Qp, VerbsError> {
        let context = self.context();
        context.require_same("the send completion queue", init.send_cq.context())?;
        context.require_same("the receive completion queue", init.recv_cq.context())?;
        if let Some(srq) = init.srq {
            context.require_same("the shared receive queue", srq.pd().context())?;
        }
        let mut attr = init.to_raw();
        // SAFETY: the domain and the queues are alive and of one context; `attr` receives the
        // actual sizes.
        let raw = unsafe { (context.symbols().ibv_create_qp)(self.raw(), &raw mut attr) };
        let raw = context.made("ibv_create_qp", || init.to_string(), raw)?;
        Ok(Qp {
            pd: self.clone(),
            _send_cq: init.send_cq.clone(),
            _recv_cq: init.recv_cq.clone(),
            _srq: init.srq.cloned(),
            raw,
            kind: init.kind,
            max_inline: attr.cap.max_inline_data,
        })
    }
}

impl Qp {
    /// Returns the number, 24 bits, by which peers address it.
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is alive.
        unsafe { (*self.raw()).qp_num }
    }

    /// Returns the service.
    pub fn kind(&self) -> QpKind {
        self.kind
    }

    /// Returns the maximum bytes of an inline send, at least as many as requested.
    pub fn max_inline(&self) -> u32 {
        self.max_inline
    }

    /// Returns the protection domain.
    pub fn pd(&self) -> &Pd {
        &self.pd
    }

    /// Posts work requests to the send queue in order, in chains of up to 32. Does not block or
    /// allocate.
    ///
    /// # Errors
    /// The first work request that was not posted. One for queue pairs of another kind is `EINVAL`.
    ///
    /// # Safety
    /// The following holds until a request's completion, or if it is unsignalled, until that of a
    /// later one on this queue pair. The memory of its entries stays registered and is not written
    /// (inline: until this call returns). Its address handle, of the same domain, stays alive.
    pub unsafe fn post_send(&self, wrs: &[SendWr<'_>]) -> Result<(), PostError> {
        let qp = self.raw();
        let is_ud = self.kind == QpKind::Ud;
        // SAFETY: the queue pair and its context are alive.
        let call = unsafe { (*(*qp).context).ops.post_send };
        post(
            wrs,
            |wr| wr.to_raw(is_ud),
            |first, bad| match call {
                // SAFETY: the queue pair is alive, the chain ends in null, and the caller
                // guarantees the memory.
                Some(post_send) => unsafe { post_send(qp, first, bad) },
                None => ENOSYS,
            },
        )
    }

    /// Posts work requests to the receive queue in order. Does not block or allocate.
    ///
    /// # Errors
    /// The first work request that was not posted; with a shared receive queue always the first.
    ///
    /// # Safety
    /// Until a request's completion, or until the queue pair is dropped, the memory of its entries
    /// stays registered, and no thread reads or writes it.
    pub unsafe fn post_recv(&self, wrs: &[RecvWr<'_>]) -> Result<(), PostError> {
        if self._srq.is_some() {
            // Some drivers then have no receive queue and do not check.
            let source = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(PostError { index: 0, source });
        }
        let qp = self.raw();
        // SAFETY: the queue pair and its context are alive.
        let call = unsafe { (*(*qp).context).ops.post_recv };
        post(
            wrs,
            |wr| wr.to_raw(),
            |first, bad| match call {
                // SAFETY: the queue pair is alive, the chain ends in null, and the caller
                // guarantees the memory.
                Some(post_recv) => unsafe { post_recv(qp, first, bad) },
                None => ENOSYS,
            },
        )
    }

    pub(crate) fn raw(&self) -> *mut ibv_qp {
        self.raw.as_ptr()
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: the queue pair came from `ibv_create_qp` and is destroyed once.
        let code = unsafe { (self.pd.context().symbols().ibv_destroy_qp)(self.raw()) };
        self.pd.context().unmade("ibv_destroy_qp", code);
    }
}

impl QpInit<'_> {
    fn to_raw(self) -> ibv_qp_init_attr {
        ibv_qp_init_attr {
            qp_context: ptr::null_mut(),
            send_cq: self.send_cq.raw(),
            recv_cq: self.recv_cq.raw(),
            srq: self.srq.map_or(ptr::null_mut(), Srq::raw),
            cap: ibv_qp_cap {
                max_send_wr: self.max_send_wr,
                max_recv_wr: self.max_recv_wr,
                max_send_sge: self.max_send_sge,
                max_recv_sge: self.max_recv_sge,
                max_inline_data: self.max_inline,
            },
            qp_type: self.kind.to_raw(),
            sq_sig_all: 0,
        }
    }
}

impl fmt::Display for QpInit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} sends of {} entries and {} bytes inline, {} receives of {} entries",
            self.kind,
            self.max_send_wr,
            self.max_send_sge,
            self.max_inline,
            self.max_recv_wr,
            self.max_recv_sge,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn the_device_may_give_more_inline_room() {
        let fake = fake::Device::new();
        assert_eq!(fake::queue_pair(&fake.open(), QpKind::Uc).max_inline(), 60);
    }

    #[test]
    fn receives_of_a_shared_queue_are_posted_there() {
        let fake = fake::Device::new();
        let context = fake.open();
        let (pd, cq) = (context.alloc_pd().expect("pd"), context.create_cq(4, None).expect("cq"));
        let srq = pd.create_srq(4, 1).expect("srq");
        let init = QpInit { srq: Some(&srq), ..fake::qp_init(QpKind::Rc, &cq) };
        let qp = pd.create_qp(&init).expect("qp");
        // SAFETY: the fake device does not touch memory.
        let error = unsafe { qp.post_recv(&[RecvWr { id: 1, sges: &[] }]) }.expect_err("shared");
        assert_eq!((error.index, fake.took("post_recv")), (0, 0));
    }

    #[test]
    fn parts_of_another_opening_are_refused() {
        let fake = fake::Device::new();
        let cq = fake.open().create_cq(4, None).expect("a queue");
        let pd = fake.open().alloc_pd().expect("a domain");
        let error = pd.create_qp(&fake::qp_init(QpKind::Uc, &cq)).expect_err("of another");
        assert!(matches!(error, VerbsError::OtherContext { .. }), "{error}");
    }

    /// Parents are destroyed after their children, in any order of dropping.
    #[test]
    fn any_order_of_dropping_is_right() {
        for first in 0..6 {
            let fake = fake::Device::new();
            let context = fake.open();
            let channel = context.create_channel().expect("channel");
            let cq = context.create_cq(4, Some(&channel)).expect("cq");
            let pd = context.alloc_pd().expect("pd");
            let srq = pd.create_srq(4, 1).expect("srq");
            let init = QpInit { srq: Some(&srq), ..fake::qp_init(QpKind::Rc, &cq) };
            let qp = pd.create_qp(&init).expect("qp");
            let mut owners: Vec<Box<dyn std::any::Any>> = vec![
                Box::new(context),
                Box::new(channel),
                Box::new(cq),
                Box::new(pd),
                Box::new(srq),
                Box::new(qp),
            ];
            owners.rotate_left(first);
            owners.into_iter().for_each(drop);
            assert_eq!(fake.alive(), Vec::<&str>::new());
            let calls = fake.calls();
            let at = |call| calls.iter().position(|c| *c == call).expect("it was unmade");
            for (child, parent) in [
                ("ibv_destroy_qp", "ibv_destroy_cq"),
                ("ibv_destroy_qp", "ibv_destroy_srq"),
                ("ibv_destroy_qp", "ibv_dealloc_pd"),
                ("ibv_destroy_srq", "ibv_dealloc_pd"),
                ("ibv_destroy_cq", "ibv_destroy_comp_channel"),
                ("ibv_destroy_comp_channel", "ibv_close_device"),
                ("ibv_dealloc_pd", "ibv_close_device"),
            ] {
                assert!(at(child) < at(parent), "{parent} before {child}: {calls:?}");
            }
        }
    }
}
