//! Engines, which correspond to verbs contexts.

use std::ffi::{c_char, c_int};

use braid::{Engine, EngineCounters};

use crate::arguments::{Out, put_text};
use crate::boundary::enter;
use crate::braid_engine_config;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{Child, Children, find, hand_out, object, take};
use crate::log;

/// An engine: owns protection domains, completion queues and listeners.
pub struct braid_engine {
    pub(crate) engine: Engine,
    pub(crate) children: Children,
    _fabric: Option<Child>,
}

object!(
    braid_engine,
    2,
    "engine",
    fn may_close(&self) -> Result<(), Failure> {
        self.children.none("engine")
    }
);

/// Creates an engine, opens its ports and starts its threads.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_create(
    config: *const braid_engine_config,
    engine: *mut *mut braid_engine,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let (out, config) =
            unsafe { (Out::new(engine, "engine")?, braid_engine_config::read(config)?) };
        let (config, fabric) = config;
        log::begin()?;
        let (engine, children) = (Engine::new(config)?, Children::default());
        out.set(hand_out(braid_engine { engine, children, _fabric: fabric })?);
        Ok(0)
    })
}

/// Closes an engine. When this returns 0, its threads have ended and its sockets are closed. All
/// objects of the engine must be closed before.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_close(engine: *mut braid_engine) -> c_int {
    enter(|| take(engine).map(|_| 0))
}

/// Writes the receiving address of the engine, to which peers connect, into `text` of `size` bytes;
/// BRAID_ADDR_LEN suffice.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_local_addr(
    engine: *const braid_engine,
    text: *mut c_char,
    size: usize,
) -> c_int {
    enter(|| {
        let addr = find(engine)?.engine.local_addr().to_string();
        // SAFETY: the caller's promise.
        unsafe { put_text(&addr, text, size, "text") }.map(|()| 0)
    })
}

/// Runs an engine without threads once: sends posted work and processes arrivals. Does not wait.
/// Returns 1 if there was work, otherwise 0.
///
/// Threads: any, one at a time; others return 0 at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_progress(engine: *mut braid_engine) -> c_int {
    enter(|| Ok(find(engine)?.engine.progress().into()))
}

/// Counters since the creation of the engine.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_engine_counters {
    /// Set it to sizeof(braid_engine_counters).
    pub size: usize,
    /// Datagrams passed to the link.
    pub datagrams_sent: u64,
    /// Batches passed to the link; over UDP, one system call each.
    pub batches_sent: u64,
    /// Number of times that a batch waited because the link was full.
    pub link_full: u64,
    /// Batches that the link failed to send.
    pub send_errors: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Received datagrams dropped because they are not Braid's or inconsistent.
    pub malformed: u64,
    /// Received datagrams dropped because of another format version.
    pub version: u64,
    /// Received datagrams dropped because of a wrong header CRC.
    pub header_check: u64,
    /// Data packets dropped because of a wrong payload CRC.
    pub payload_check: u64,
    /// Packets dropped because the queue pair does not exist.
    pub unknown_qp: u64,
    /// Duplicate data packets.
    pub duplicates: u64,
    /// Data packets refused: outside the window, no receive posted, no access, or wrong state.
    pub refused: u64,
    /// Set-up packets dropped or rejected.
    pub setup_refused: u64,
    /// Datagrams lost because the receive buffer was full.
    pub overflowed: u64,
    /// Datagrams that the system refused to send, for example because of a missing route or a
    /// firewall.
    pub unreachable: u64,
    /// Datagrams dropped or damaged by injected faults.
    pub injected: u64,
    /// Number of route discoveries, if `discover` is set.
    pub ways_learnt: u64,
    /// Packets dropped because of a wrong token: packets of an earlier connection, or guesses.
    pub wrong_token: u64,
    /// Packets dropped because they carry the number and token of a connection but do not come from
    /// its peer's host.
    pub wrong_source: u64,
    /// Connection requests postponed because the backlog, or the share of one host in it, was full.
    pub setup_busy: u64,
    /// Number of times that the ports of paths were found to be blocked, while the receiving port
    /// was not: by a NAT or a stateful firewall.
    pub paths_blocked: u64,
    /// Packets dropped because they could not be authenticated: forged, or changed in transit.
    pub forged: u64,
    /// Packets of keyed connections dropped because they were replayed or too old.
    pub replayed: u64,
    /// Packets dropped because they were unprotected on a keyed connection, or protected with the
    /// keys of another connection.
    pub unprotected: u64,
    /// Intact RoCEv2 packets received with a congestion mark (ECN CE).
    pub marks_received: u64,
    /// RoCEv2 datagrams dropped because they had another Q_Key than the queue pair of that number.
    pub wrong_q_key: u64,
}

// SAFETY: `repr(C)`, `size` first, numbers only.
unsafe impl Growing for braid_engine_counters {
    const NAME: &'static str = "braid_engine_counters";
}

impl From<EngineCounters> for braid_engine_counters {
    fn from(from: EngineCounters) -> Self {
        braid_engine_counters {
            size: size_of::<Self>(),
            datagrams_sent: from.datagrams_sent,
            batches_sent: from.batches_sent,
            link_full: from.link_full,
            send_errors: from.send_errors,
            datagrams_received: from.datagrams_received,
            malformed: from.malformed,
            version: from.version,
            header_check: from.header_check,
            payload_check: from.payload_check,
            unknown_qp: from.unknown_qp,
            duplicates: from.duplicates,
            refused: from.refused,
            setup_refused: from.setup_refused,
            overflowed: from.overflowed,
            unreachable: from.unreachable,
            injected: from.injected,
            ways_learnt: from.ways_learnt,
            wrong_token: from.wrong_token,
            wrong_source: from.wrong_source,
            setup_busy: from.setup_busy,
            paths_blocked: from.paths_blocked,
            forged: from.forged,
            replayed: from.replayed,
            unprotected: from.unprotected,
            marks_received: from.marks_received,
            wrong_q_key: from.wrong_q_key,
        }
    }
}

/// Reads the counters of the engine.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_query_counters(
    engine: *const braid_engine,
    counters: *mut braid_engine_counters,
) -> c_int {
    enter(|| {
        let seen = find(engine)?.engine.counters();
        // SAFETY: the caller's promise.
        unsafe { growing::write(counters, seen.into()) }.map(|()| 0)
    })
}
