//! Engines: what verbs call a context.

use std::ffi::{c_char, c_int};

use braid::{Engine, EngineCounters};

use crate::arguments::{Out, put_text};
use crate::boundary::enter;
use crate::braid_engine_config;
use crate::failure::Failure;
use crate::growing::{self, Growing};
use crate::handle::{Child, Children, find, hand_out, object, take};
use crate::log;

/// One user of the network: protection domains, completion queues and listeners are made with it.
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

/// Makes an engine, with its ports open and its threads running.
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

/// Ends an engine: when this returns 0, its threads have ended and its sockets are closed. What was
/// made with it is closed before.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_close(engine: *mut braid_engine) -> c_int {
    enter(|| take(engine).map(|_| 0))
}

/// Writes where the engine receives, the address to connect to, into `text` of `size` bytes;
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

/// Runs the engine once, where its configuration has no threads: sends what is posted, takes what has
/// arrived. Does not wait. Returns 1 if there was anything to do, or else 0.
///
/// Threads: any, one at a time; others return 0 at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_progress(engine: *mut braid_engine) -> c_int {
    enter(|| Ok(find(engine)?.engine.progress().into()))
}

/// Events since the engine was made.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_engine_counters {
    /// Set it to sizeof(braid_engine_counters).
    pub size: usize,
    /// Datagrams handed to the link.
    pub datagrams_sent: u64,
    /// Batches handed to the link; over UDP, a system call each.
    pub batches_sent: u64,
    /// Times that the link was full and a batch had to wait.
    pub link_full: u64,
    /// Batches that the link failed to send.
    pub send_errors: u64,
    /// Datagrams received.
    pub datagrams_received: u64,
    /// Received datagrams dropped because they are not Braid's, or contradict themselves.
    pub malformed: u64,
    /// Received datagrams dropped because their version is not this library's.
    pub version: u64,
    /// Received datagrams dropped because the header check failed: damaged on the way.
    pub header_check: u64,
    /// Data packets dropped because the payload check failed: damaged on the way.
    pub payload_check: u64,
    /// Packets dropped because no queue pair has that number.
    pub unknown_qp: u64,
    /// Data packets that had arrived before.
    pub duplicates: u64,
    /// Data packets refused: outside the window, no receive posted, no access, wrong state.
    pub refused: u64,
    /// Set-up packets dropped or turned down.
    pub setup_refused: u64,
    /// Datagrams that arrived at this host and found the receive buffer full.
    pub overflowed: u64,
    /// Datagrams that the system refused to send: no route, a firewall.
    pub unreachable: u64,
    /// Datagrams that injected faults dropped or damaged.
    pub injected: u64,
    /// Times that the ways to a peer were found out, where `discover` is set.
    pub ways_learnt: u64,
    /// Packets dropped because they have another token than the queue pair of that number: those of an earlier
    /// connection, or guesses.
    pub wrong_token: u64,
    /// Packets dropped because they have the number and token of a connection and come from another host than its peer.
    pub wrong_source: u64,
    /// Connection requests put off because the backlog, or the share of it that one host may hold, was full.
    pub setup_busy: u64,
    /// Times that what left from the ports of paths was found not to reach a peer, and what left from the receiving
    /// port to do so: a NAT or a stateful firewall.
    pub paths_blocked: u64,
    /// Packets dropped because the keys of their connection do not open them: forged, or changed on the way.
    pub forged: u64,
    /// Packets of keyed connections dropped because their numbers had come before, or were too old to tell.
    pub replayed: u64,
    /// Packets dropped because their connection is keyed and they are not protected, or are with the keys of another one.
    pub unprotected: u64,
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
        }
    }
}

/// Reads what the engine has seen.
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
