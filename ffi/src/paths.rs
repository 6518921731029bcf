//! The paths of an engine: which are in use, and what each has carried.

use std::ffi::{c_char, c_int};
use std::net::IpAddr;

use braid::PathReport;

use crate::address::{BRAID_ADDR_LEN, to_text};
use crate::arguments::{Out, element};
use crate::boundary::enter;
use crate::braid_engine;
use crate::growing::{self, Growing};
use crate::handle::{find, hand_out, object, take};

/// A report of all paths of an engine, as they were when it was made.
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
    /// The IP address of the destination. With several threads it appears once for each that sends there.
    pub to: [c_char; BRAID_ADDR_LEN],
    /// The number of the path.
    pub path: u32,
    /// 1: the path policy may pick it; 0: it is out of use, because it loses everything.
    pub live: c_int,
    /// Segments that left on it, and probes.
    pub sent: u64,
    /// Those of them that were retransmissions.
    pub retransmitted: u64,
    /// Packets found lost on it.
    pub lost: u64,
    /// Packets acknowledged.
    pub arrived: u64,
    /// Those of them whose feedback carried a congestion mark.
    pub congested: u64,
    /// Round-trip time, smoothed, in nanoseconds; 0: not measured since it came into use.
    pub rtt_ns: u64,
    /// How often it was taken out of use.
    pub downs: u64,
    /// Probes sent on it.
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

/// Makes a report of the paths to all destinations that have queue pairs. Close it in the end.
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

/// Writes how many paths the report has into `count`.
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

/// Reads the path at `index`, from 0 on, of the report.
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
