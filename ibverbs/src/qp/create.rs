//! `ibv_create_qp` and `ibv_destroy_qp`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU8};
use std::sync::{Arc, Mutex};

use braid::{CreateQpError, QpOptions};
use braid_verbs::abi::{
    IBV_QPS_RESET, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, ibv_pd, ibv_qp, ibv_qp_init_attr,
};

use super::attributes::Attributes;
use super::connection::QpConnection;
use super::failures::Failures;
use super::handle::Qp;
use super::limits::Limits;
use super::places::Places;
use super::queue_pair::QueuePair;
use super::queues::Queues;
use super::service::Service;
use crate::acknowledgements::Acknowledgements;
use crate::async_events::Element;
use crate::connect::inbox::ControlMessage;
use crate::cq::handle::Cq;
use crate::cq::shared::CompletionQueue;
use crate::datagram::datagrams::Datagrams;
use crate::domain::{Domain, Pd};
use crate::errno::{self, Errno};
use crate::routes::Route;
use crate::srq::Srq;
use crate::srq::shared::SharedReceives;
use crate::work_requests::extension::QpExtension;

/// Creates a queue pair. NULL with `errno`: `EINVAL` for queues of another device or limits beyond
/// the device's, `EOPNOTSUPP` for an unsupported type, `ENOMEM` if there are too many queue pairs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: by the caller's promise.
    errno::pointer(|| unsafe { create(pd, attr, QpExtension::none()) })
}

/// Creates a queue pair, for both forms of `ibv_create_qp`.
pub(crate) unsafe fn create(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
    extension: QpExtension,
) -> Result<*mut ibv_qp, Errno> {
    // SAFETY: by the caller's promise.
    let (pd, attr) = unsafe { (Pd::of(pd)?, attr.as_mut().ok_or(Errno::INVALID)?) };
    // SAFETY: as above.
    let shared = unsafe { make(pd, attr) }?;
    attr.cap = shared.queues.limits.to_c();
    // SAFETY: `make` has checked that the queue exists.
    let registry = unsafe { (*Cq::of(attr.send_cq)).registry.clone() };
    registry.enter(&shared);
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
    let reserved = [0; 12];
    let qp = Box::new(Qp { base, reserved, extension, shared, registry, acknowledgements });
    let qp = Box::into_raw(qp);
    // SAFETY: the object has just been made.
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
    let (cqs, signals_all) = ((&send_cq, &recv_cq), attr.sq_sig_all != 0);
    let queues = Queues::enter(engine.number(), cqs, srq.as_ref(), limits, signals_all);
    Ok(Arc::new(QueuePair {
        number,
        engine,
        datagrams,
        domain: pd.shared.clone(),
        queues: Arc::new(queues),
        service,
        places: Places::new(limits.send_wr),
        sends: AtomicU8::new(0),
        attributes: Mutex::new(Attributes::new()),
        connection: Mutex::new(QpConnection::default()),
        failures: Mutex::new(Failures::default()),
        handle: Mutex::default(),
        has_reported_last: AtomicBool::new(false),
        running,
    }))
}

/// Makes a queue pair of the engine, with the settings of the environment.
fn engine_qp(
    domain: &Domain,
    (send_cq, recv_cq, srq): (&CompletionQueue, &CompletionQueue, Option<&SharedReceives>),
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
    /// Makes a second queue pair of the engine, which receives what this one sends to itself.
    pub(super) fn make_twin(&self, new: &Attributes) -> Result<braid::QueuePair, Errno> {
        let Queues { send_cq, recv_cq, srq, .. } = &*self.queues;
        let queues = (&**send_cq, &**recv_cq, srq.as_deref());
        let twin = engine_qp(&self.domain, queues, self.queues.limits)?;
        twin.set_attributes(new.engine(self.service.is_reliable()));
        self.running.routes.set(twin.number(), Route::Own { number: self.number });
        Ok(twin)
    }
}

/// Makes the datagrams of a queue pair. It receives from the program's shared queue or, if there is
/// none, from a queue of its own.
fn datagrams(pd: &Pd, srq: Option<&SharedReceives>, limits: Limits) -> Result<Datagrams, Errno> {
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

/// Destroys a queue pair. Outstanding work gets no completions. Waits until all asynchronous events
/// of the queue pair are acknowledged.
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
        running.send_control(ControlMessage::Forget(shared.number));
        shared.forget_connection();
        shared.datagrams.iter().for_each(Datagrams::clear);
        shared.queues.leave();
        // SAFETY: as above: the domain outlives its queue pairs.
        unsafe { Pd::of(object.base.pd) }?.shared.leave();
        object.registry.leave(shared.number);
        // SAFETY: `ibv_create_qp` has made the object, and nothing leads to it any more.
        drop(unsafe { Box::from_raw(Qp::of(qp)) });
        Ok(())
    })
}
