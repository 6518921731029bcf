//! Reports of an engine's paths.

use std::ffi::{c_char, c_int};
use std::net::IpAddr;

use braid::PathReport;

use crate::address::{BRAID_ADDR_LEN, to_text};
use crate::arguments::{Out, element};
use crate::boundary::enter;
use crate::braid_engine;
use crate::growing::{self, Growing};
use crate::handle::{find, hand_out, object, take};

/// A report of all paths of an engine at its creation.
pub struct braid_paths {
    reports: Vec<(IpAddr, PathReport)>,
}

object!(braid_paths, 10, "path report");

/// One path to one destination, as one thread of the engine sees it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_path_report {
    /// Set it to sizeof(braid_path_report).
    pub size: usize,
    /// The IP address of the destination. It appears once for each engine thread that sends there.
    pub to: [c_char; BRAID_ADDR_LEN],
    /// The number of the path.
    pub path: u32,
    /// 1: the path policy may use the path. 0: the path is down, because it loses everything.
    pub live: c_int,
    /// Segments and probes sent.
    pub sent: u64,
    /// Retransmissions among them.
    pub retransmitted: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Packets acknowledged.
    pub arrived: u64,
    /// Acknowledged packets whose feedback carried a congestion mark.
    pub congested: u64,
    /// Smoothed round-trip time in nanoseconds, or 0 before the first sample since the path came
    /// up.
    pub rtt_ns: u64,
    /// Number of times that the path went down.
    pub downs: u64,
    /// Probes sent.
    pub probes: u64,
}

// SAFETY: `repr(C)`, `size` first, numbers and an array of them only.
unsafe impl Growing for braid_path_report {
    const NAME: &'static str = "braid_path_report";
}

impl From<&(IpAddr, PathReport)> for braid_path_report {
    fn from((ip, report): &(IpAddr, PathReport)) -> Self {
        let counters = report.counters;
        let rtt_ns =
            counters.rtt.map_or(0, |rtt| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
        braid_path_report {
            size: size_of::<Self>(),
            to: to_text(ip),
            path: report.path.get().into(),
            live: report.live.into(),
            sent: counters.sent,
            retransmitted: counters.retransmitted,
            lost: counters.lost,
            arrived: counters.arrived,
            congested: counters.congested,
            rtt_ns,
            downs: counters.downs,
            probes: counters.probes,
        }
    }
}

/// Creates a report of the paths to all destinations with queue pairs. The caller must close it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_engine_query_paths(
    engine: *const braid_engine,
    paths: *mut *mut braid_paths,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(paths, "paths") }?;
        let destinations = find(engine)?.engine.paths().into_iter();
        let reports = destinations
            .flat_map(|to| to.paths.into_iter().map(move |report| (to.ip, report)))
            .collect();
        out.set(hand_out(braid_paths { reports })?);
        Ok(0)
    })
}

/// Closes a report.
///
/// Threads: any; BRAID_ERR_BUSY while another thread is inside a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_paths_close(paths: *mut braid_paths) -> c_int {
    enter(|| take(paths).map(|_| 0))
}

/// Writes the number of paths in the report into `count`.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_paths_count(paths: *const braid_paths, count: *mut usize) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(count, "count") }?;
        out.set(find(paths)?.reports.len());
        Ok(0)
    })
}

/// Reads the path at `index`, from 0, of the report.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_paths_get(
    paths: *const braid_paths,
    index: usize,
    report: *mut braid_path_report,
) -> c_int {
    enter(|| {
        let paths = find(paths)?;
        let found = element(&paths.reports, index, "index")?;
        // SAFETY: the caller's promise.
        unsafe { growing::write(report, found.into()) }.map(|()| 0)
    })
}
