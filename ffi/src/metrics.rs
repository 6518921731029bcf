//! Snapshots of an engine with its queue pairs and their subflows.

use std::ffi::{c_char, c_int};

use braid::{EngineMetrics, QpMetrics, Stream, SubflowMetrics};

use crate::address::{BRAID_ADDR_LEN, NO_ADDRESS, to_text};
use crate::arguments::{Out, element};
use crate::boundary::enter;
use crate::growing::{self, Growing};
use crate::handle::{find, hand_out, object, take};
use crate::qp_error::braid_qp_error;
use crate::{braid_degradation, braid_engine, braid_engine_counters, braid_qp_counters};

/// A snapshot of an engine. To compute a rate, divide the difference of a counter in two snapshots
/// by that of `uptime_ns`.
pub struct braid_metrics {
    metrics: EngineMetrics,
}

object!(braid_metrics, 15, "metrics");

/// The stream of requests: SENDs, WRITEs, READs and atomics.
pub const BRAID_STREAM_REQUESTS: c_int = 0;
/// The stream of responses to the peer's READs and atomics.
pub const BRAID_STREAM_RESPONSES: c_int = 1;

/// The state of an engine.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_engine_metrics {
    /// Set it to sizeof(braid_engine_metrics).
    pub size: usize,
    /// The receiving address.
    pub local_addr: [c_char; BRAID_ADDR_LEN],
    /// Time since the creation of the engine in nanoseconds.
    pub uptime_ns: u64,
    /// Number of queue pairs.
    pub queue_pairs: u64,
}

// SAFETY: `repr(C)`, `size` first, numbers and an array of them only.
unsafe impl Growing for braid_engine_metrics {
    const NAME: &'static str = "braid_engine_metrics";
}

/// The state of a queue pair.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_qp_metrics {
    /// Set it to sizeof(braid_qp_metrics).
    pub size: usize,
    /// The queue pair number, 24 bits.
    pub qp_num: u32,
    /// The state: BRAID_QP_RESET and so on.
    pub state: c_int,
    /// The cause of BRAID_QP_ERR: BRAID_END_PEER and so on, otherwise BRAID_END_NONE.
    pub cause: c_int,
    /// The status, as in braid_qp_error.
    pub status: c_int,
    /// Number of posted sends that have not ended.
    pub outstanding_sends: u32,
    /// Number of posted receives that have not ended.
    pub outstanding_recvs: u32,
    /// Payload of a full packet in bytes, or 0 if the queue pair is not connected.
    pub packet_payload: u32,
    /// Number of subflows, see braid_metrics_get_subflow.
    pub subflows: u32,
    /// The receiving address of the peer, or empty if the queue pair is not connected.
    pub peer: [c_char; BRAID_ADDR_LEN],
    /// Number of degradations of the connection, see braid_metrics_get_degradation.
    pub degradations: u32,
}

// SAFETY: `repr(C)`, `size` first, numbers and an array of them only.
unsafe impl Growing for braid_qp_metrics {
    const NAME: &'static str = "braid_qp_metrics";
}

/// The state of a subflow: the part of one stream of a queue pair that uses one rail.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_subflow_metrics {
    /// Set it to sizeof(braid_subflow_metrics).
    pub size: usize,
    /// BRAID_STREAM_REQUESTS or BRAID_STREAM_RESPONSES.
    pub stream: c_int,
    /// The rail, from 0.
    pub rail: u32,
    /// Smoothed round-trip time in nanoseconds, or 0 before the first sample.
    pub rtt_ns: u64,
    /// Congestion window in bytes, including headers.
    pub window: u64,
    /// Pacing rate in bits per second, or 0 without pacing.
    pub bits_per_second: u64,
    /// Bytes in flight, including headers.
    pub in_flight: u64,
    /// Retransmission time-out in nanoseconds, without backoff.
    pub rto_ns: u64,
}

// SAFETY: `repr(C)`, `size` first, numbers only.
unsafe impl Growing for braid_subflow_metrics {
    const NAME: &'static str = "braid_subflow_metrics";
}

impl From<&EngineMetrics> for braid_engine_metrics {
    fn from(from: &EngineMetrics) -> Self {
        braid_engine_metrics {
            size: size_of::<Self>(),
            local_addr: to_text(from.local_addr),
            uptime_ns: from.uptime.as_nanos() as u64,
            queue_pairs: from.queue_pairs.len() as u64,
        }
    }
}

impl From<&QpMetrics> for braid_qp_metrics {
    fn from(from: &QpMetrics) -> Self {
        let braid_qp_error { cause, status, .. } = from.error.into();
        braid_qp_metrics {
            size: size_of::<Self>(),
            qp_num: from.number.get(),
            state: from.state as c_int,
            cause,
            status,
            outstanding_sends: from.outstanding_sends,
            outstanding_recvs: from.outstanding_recvs,
            packet_payload: from.packet_payload.map_or(0, u32::from),
            subflows: from.subflows.len() as u32,
            peer: from.peer.map_or(NO_ADDRESS, to_text),
            degradations: from.degradations.len() as u32,
        }
    }
}

impl From<&SubflowMetrics> for braid_subflow_metrics {
    fn from(from: &SubflowMetrics) -> Self {
        braid_subflow_metrics {
            size: size_of::<Self>(),
            stream: match from.stream {
                Stream::Requests => BRAID_STREAM_REQUESTS,
                Stream::Responses => BRAID_STREAM_RESPONSES,
            },
            rail: from.rail.get() as u32,
            rtt_ns: from.rtt.map_or(0, |rtt| rtt.as_nanos() as u64),
            window: from.window,
            bits_per_second: from.bits_per_second.unwrap_or(0),
            in_flight: from.in_flight,
            rto_ns: from.rto.as_nanos() as u64,
        }
    }
}

/// Takes a snapshot of an engine, of each thread between two iterations. The caller must close it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_query_metrics(
    engine: *const braid_engine,
    metrics: *mut *mut braid_metrics,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(metrics, "metrics") }?;
        let metrics = find(engine)?.engine.metrics();
        out.set(hand_out(braid_metrics { metrics })?);
        Ok(0)
    })
}

/// Closes a snapshot.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_metrics_close(metrics: *mut braid_metrics) -> c_int {
    enter(|| take(metrics).map(|_| 0))
}

/// Reads the state of the engine, including its number of queue pairs.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_metrics_get_engine(
    metrics: *const braid_metrics,
    engine: *mut braid_engine_metrics,
) -> c_int {
    enter(|| {
        let found = find(metrics)?;
        // SAFETY: the caller's promise.
        unsafe { growing::write(engine, (&found.metrics).into()) }.map(|()| 0)
    })
}

/// Reads the counters of the engine.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_metrics_get_counters(
    metrics: *const braid_metrics,
    counters: *mut braid_engine_counters,
) -> c_int {
    enter(|| {
        let found = find(metrics)?;
        // SAFETY: the caller's promise.
        unsafe { growing::write(counters, found.metrics.counters.into()) }.map(|()| 0)
    })
}

/// Reads the queue pair at `index`, from 0, of the snapshot.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_metrics_get_qp(
    metrics: *const braid_metrics,
    index: usize,
    qp: *mut braid_qp_metrics,
) -> c_int {
    enter(|| {
        let metrics = find(metrics)?;
        let found = element(&metrics.metrics.queue_pairs, index, "index")?;
        // SAFETY: the caller's promise.
        unsafe { growing::write(qp, found.into()) }.map(|()| 0)
    })
}

/// Reads the counters of the queue pair at `index` of the snapshot.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_metrics_get_qp_counters(
    metrics: *const braid_metrics,
    index: usize,
    counters: *mut braid_qp_counters,
) -> c_int {
    enter(|| {
        let metrics = find(metrics)?;
        let found = element(&metrics.metrics.queue_pairs, index, "index")?;
        // SAFETY: the caller's promise.
        unsafe { growing::write(counters, found.counters.into()) }.map(|()| 0)
    })
}

/// Reads the subflow at `subflow_index`, from 0, of the queue pair at `index` of the snapshot.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_metrics_get_subflow(
    metrics: *const braid_metrics,
    index: usize,
    subflow_index: usize,
    subflow: *mut braid_subflow_metrics,
) -> c_int {
    enter(|| {
        let metrics = find(metrics)?;
        let qp = element(&metrics.metrics.queue_pairs, index, "index")?;
        let found = element(&qp.subflows, subflow_index, "subflow_index")?;
        // SAFETY: the caller's promise.
        unsafe { growing::write(subflow, found.into()) }.map(|()| 0)
    })
}

/// Reads the degradation at `degradation_index`, from 0, of the queue pair at `index` of the
/// snapshot.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_metrics_get_degradation(
    metrics: *const braid_metrics,
    index: usize,
    degradation_index: usize,
    degradation: *mut braid_degradation,
) -> c_int {
    enter(|| {
        let metrics = find(metrics)?;
        let qp = element(&metrics.metrics.queue_pairs, index, "index")?;
        let found = element(&qp.degradations, degradation_index, "degradation_index")?;
        // SAFETY: the caller's promise.
        unsafe { growing::write(degradation, found.into()) }.map(|()| 0)
    })
}
