//! `ibv_create_qp`, `ibv_destroy_qp`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Arc, Mutex};

use braid::{CreateQpError, QpOptions};
use braid_verbs::abi::{
    IBV_QPS_RESET, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_init_attr,
};

use super::{Attributes, Failures, Link, Places, Qp, QueuePair, Service};
use crate::acknowledgements::Acknowledgements;
use crate::async_events::Element;
use crate::connect::Message;
use crate::cq::{CompletionQueue, Cq};
use crate::datagram::Datagrams;
use crate::errno::{self, Errno};
use crate::limits::{MAX_INLINE, MAX_SGE, MAX_WR};
use crate::memory::{Domain, Pd};
use crate::routes::Route;
use crate::srq::{self, Srq};
use crate::work_requests::Extension;

/// Sends that every queue pair may have outstanding: programs that ask for one count on the handful that NICs grant, and post the next when
/// they have its answer, not its completion.
const LEAST_SEND_WR: u32 = 64;

/// Inline data is rounded up to whole pieces of a send queue, as by NIC drivers: programs that ask
/// for none send a few bytes inline all the same.
const INLINE_STEP: u32 = 64;
const _: () = assert!(MAX_INLINE.is_multiple_of(INLINE_STEP));

/// What its queues hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) send_wr: u32,
    pub(crate) recv_wr: u32,
    pub(crate) sge: u32,
    pub(crate) inline: u32,
}

impl Limits {
    /// At least what was asked for.
    fn granted(asked: &ibv_qp_cap) -> Result<Self, Errno> {
        let sge = asked.max_send_sge.max(asked.max_recv_sge);
        let wr = asked.max_send_wr.max(asked.max_recv_wr);
        if wr > MAX_WR || sge > MAX_SGE || asked.max_inline_data > MAX_INLINE {
            return Err(Errno::INVALID);
        }
        Ok(Limits {
            send_wr: asked.max_send_wr.max(LEAST_SEND_WR),
            recv_wr: asked.max_recv_wr.max(1),
            sge: sge.max(1),
            inline: asked.max_inline_data.max(1).next_multiple_of(INLINE_STEP),
        })
    }

    pub(super) fn to_c(self) -> ibv_qp_cap {
        ibv_qp_cap {
            max_send_wr: self.send_wr,
            max_recv_wr: self.recv_wr,
            max_send_sge: self.sge,
            max_recv_sge: self.sge,
            max_inline_data: self.inline,
        }
    }
}

/// NULL with `errno`: `EINVAL` for queues of another device or limits beyond the device's, `EOPNOTSUPP` for a type that there
/// is not, `ENOMEM` where there are too many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: by the caller's promise.
    errno::pointer(|| unsafe { create(pd, attr, Extension::none()) })
}

/// Makes a queue pair; both forms of `ibv_create_qp` come here.
pub(crate) unsafe fn create(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
    extension: Extension,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: by the caller's promise.
    let (pd, attr) = unsafe { (Pd::of(pd)?, attr.as_mut().ok_or(Errno::INVALID)?) };
    // SAFETY: as above.
    let shared = unsafe { make(pd, attr) }?;
    attr.cap = shared.limits.to_c();
    let base = ibv_qp {
        context: pd.base.context,
        qp_context: attr.qp_context,
        pd: std::ptr::from_ref(pd).cast_mut().cast(),
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        handle: 0,
        qp_num: shared.number,
        state: IBV_QPS_RESET,
        qp_type: attr.qp_type,
    };
    let acknowledgements = Acknowledgements::default();
    pd.shared.enter();
    let qp = Box::new(Qp { base, reserved: [0; 12], extension, shared, acknowledgements });
    let qp = Box::into_raw(qp);
    // SAFETY: it has just been made.
    unsafe { *(*qp).shared.handle() = Some(Element::Qp(qp.cast())) };
    Ok(qp.cast())
}

unsafe fn make(pd: &Pd, attr: &ibv_qp_init_attr) -> Result<Arc<QueuePair>, Errno> {
    let service = match attr.qp_type {
        IBV_QPT_RC => Service::Connected { reliable: true },
        IBV_QPT_UC => Service::Connected { reliable: false },
        IBV_QPT_UD => Service::Datagrams,
        _ => return Err(Errno::UNSUPPORTED),
    };
    let limits = Limits::granted(&attr.cap)?;
    // SAFETY: by the caller's promise.
    let (send_cq, recv_cq) = unsafe { (Cq::shared(attr.send_cq)?, Cq::shared(attr.recv_cq)?) };
    // SAFETY: as above.
    let srq = unsafe { Srq::shared(attr.srq) };
    let running = pd.shared.running.clone();
    let queues = (&*send_cq, &*recv_cq, srq.as_deref());
    let engine = engine_qp(&pd.shared, queues, limits)?;
    let datagrams = match service {
        Service::Datagrams => Some(datagrams(pd, srq.as_deref(), limits)?),
        Service::Connected { .. } => None,
    };
    let number = running.take_number().ok_or(Errno::NO_MEMORY)?;
    running.routes.set(engine.number(), Route::Own { number });
    let shared = Arc::new(QueuePair {
        number,
        engine,
        datagrams,
        domain: pd.shared.clone(),
        send_cq: send_cq.enter(),
        recv_cq: recv_cq.enter(),
        srq: srq.map(|srq| srq.enter()),
        service,
        limits,
        places: Places::new(limits.send_wr),
        signals_all: attr.sq_sig_all != 0,
        sends: AtomicU8::new(0),
        attributes: Mutex::new(Attributes::new()),
        link: Mutex::new(Link::default()),
        failures: Mutex::new(Failures::default()),
        handle: Mutex::default(),
        has_left: AtomicBool::new(false),
        has_told_last: AtomicBool::new(false),
        running,
    });
    shared.running.enter(&shared);
    Ok(shared)
}

/// The engine's queue pair, with what the environment says.
fn engine_qp(
    domain: &Domain,
    (send_cq, recv_cq, srq): (&CompletionQueue, &CompletionQueue, Option<&srq::Shared>),
    limits: Limits,
) -> Result<braid::QueuePair, Errno> {
    let settings = &domain.running.settings;
    let mut options = QpOptions::new(&send_cq.engine, &recv_cq.engine);
    (options.max_sge, options.max_inline) = (limits.sge as usize, limits.inline as usize);
    options = options.queues(limits.send_wr, limits.recv_wr);
    options.srq = srq.map(|srq| srq.engine.clone());
    settings.apply(&mut options.config);
    domain.engine.create_qp(options).map_err(|error| match error {
        CreateQpError::OtherEngine
        | CreateQpError::OtherDomain
        | CreateQpError::Option { .. }
        | CreateQpError::Timer(_) => Errno::INVALID,
        _ => Errno::NO_MEMORY,
    })
}

impl QueuePair {
    /// A queue pair of the engine's like its own.
    pub(super) fn make_twin(&self, new: &Attributes) -> Result<braid::QueuePair, Errno> {
        let queues = (&*self.send_cq, &*self.recv_cq, self.srq.as_deref());
        let twin = engine_qp(&self.domain, queues, self.limits)?;
        twin.set_attributes(new.engine(self.service.is_reliable()));
        self.running.routes.set(twin.number(), Route::Own { number: self.number });
        Ok(twin)
    }
}

/// A shared queue of the program's, or one that only this queue pair has.
fn datagrams(pd: &Pd, srq: Option<&srq::Shared>, limits: Limits) -> Result<Datagrams, Errno> {
    let domain = pd.shared.clone();
    let receives = match srq {
        Some(srq) => srq.engine.clone(),
        None => {
            let own = domain.engine.create_srq(limits.recv_wr, limits.sge as usize);
            own.map_err(|_| Errno::INVALID)?
        }
    };
    Ok(Datagrams::new(domain, receives, srq.is_none()))
}

/// Waits until all asynchronous events about it are acknowledged. What is outstanding has no completions any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    errno::code(|| {
        // SAFETY: by the caller's promise.
        let object = unsafe { Qp::of(qp).as_ref() }.ok_or(Errno::INVALID)?;
        let shared = &object.shared;
        *shared.handle() = None;
        let running = shared.running.clone();
        running.events.forget(Element::Qp(qp));
        object.acknowledgements.wait();
        running.tell(Message::Forget(shared.number));
        shared.forget_link();
        shared.datagrams.iter().for_each(Datagrams::clear);
        shared.leave_queues();
        // SAFETY: as above: the domain outlives its queue pairs.
        unsafe { Pd::of(object.base.pd) }?.shared.leave();
        // SAFETY: it was made by `ibv_create_qp`, and nothing leads to it any more.
        drop(unsafe { Box::from_raw(Qp::of(qp)) });
        Ok(())
    })
}
