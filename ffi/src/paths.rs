//! Reports of an engine's paths.

use std::ffi::{c_char, c_int};
use std::net::IpAddr;

use braid::{PathReport, PathsTo};

use crate::address::{BRAID_ADDR_LEN, to_text};
use crate::arguments::{Out, element};
use crate::boundary::enter;
use crate::braid_engine;
use crate::growing::{self, Growing};
use crate::handle::{find, hand_out, object, take};

/// A report of all paths of an engine at its creation.
pub struct braid_paths {
    destinations: Vec<Destination>,
    /// The paths of all destinations, each with the index of its destination.
    reports: Vec<(usize, PathReport)>,
}

object!(braid_paths, 10, "path report");

/// One destination on one rail, as one thread of the engine sees it.
#[derive(Clone, Copy)]
struct Destination {
    ip: IpAddr,
    rail: usize,
    in_use: usize,
    /// The index of its first path, and the number of its paths.
    first: usize,
    paths: usize,
    /// Whether all packets leave from the receiving port.
    is_blocked: bool,
}

impl Destination {
    fn of(to: &PathsTo, first: usize) -> Self {
        // Blocked paths are not live, but the receiving port is a path.
        let is_blocked = to.in_use > 0 && to.paths.iter().all(|path| !path.live);
        let PathsTo { ip, rail, in_use, ref paths, .. } = *to;
        Destination { ip, rail, in_use, first, paths: paths.len(), is_blocked }
    }

    /// The state of one of its paths.
    fn state(&self, is_live: bool) -> c_int {
        match (self.is_blocked, is_live) {
            (true, _) => BRAID_PATH_BLOCKED,
            (false, true) => BRAID_PATH_UP,
            (false, false) => BRAID_PATH_DOWN,
        }
    }
}

/// The path policy may use the path.
pub const BRAID_PATH_UP: c_int = 1;
/// The path loses everything. Probes find out when it works again.
pub const BRAID_PATH_DOWN: c_int = 2;
/// A NAT or firewall drops packets from the source ports of the paths. All packets to the
/// destination leave from the receiving port, on one path.
pub const BRAID_PATH_BLOCKED: c_int = 3;

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
    /// The state: BRAID_PATH_UP and so on. 0: the library is older than this field.
    pub state: c_int,
    /// Source port of the packets of the path over UDP and AF_XDP. Other datapaths have their own
    /// way to select a route.
    pub source_port: u32,
}

// SAFETY: `repr(C)`, `size` first, numbers and an array of them only.
unsafe impl Growing for braid_path_report {
    const NAME: &'static str = "braid_path_report";
}

/// One destination on one rail, as one thread of the engine sees it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct braid_path_destination {
    /// Set it to sizeof(braid_path_destination).
    pub size: usize,
    /// The IP address of the destination.
    pub to: [c_char; BRAID_ADDR_LEN],
    /// The rail, from 0.
    pub rail: u32,
    /// Number of paths in use: 1 if a NAT or firewall blocks the source ports of the paths.
    pub in_use: u32,
    /// Index of its first path in the report. Its other paths follow.
    pub first: usize,
    /// Number of its paths.
    pub paths: usize,
}

// SAFETY: `repr(C)`, `size` first, numbers and an array of them only.
unsafe impl Growing for braid_path_destination {
    const NAME: &'static str = "braid_path_destination";
}

impl From<&Destination> for braid_path_destination {
    fn from(from: &Destination) -> Self {
        braid_path_destination {
            size: size_of::<Self>(),
            to: to_text(from.ip),
            rail: from.rail as u32,
            in_use: from.in_use as u32,
            first: from.first,
            paths: from.paths,
        }
    }
}

impl From<(&Destination, &PathReport)> for braid_path_report {
    fn from((to, report): (&Destination, &PathReport)) -> Self {
        let counters = report.counters;
        let rtt_ns =
            counters.rtt.map_or(0, |rtt| u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX));
        braid_path_report {
            size: size_of::<Self>(),
            to: to_text(to.ip),
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
            state: to.state(report.live),
            source_port: report.path.source_port().into(),
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
        let (mut destinations, mut reports) = (Vec::new(), Vec::new());
        for to in find(engine)?.engine.paths() {
            let index = destinations.len();
            destinations.push(Destination::of(&to, reports.len()));
            reports.extend(to.paths.into_iter().map(|report| (index, report)));
        }
        out.set(hand_out(braid_paths { destinations, reports })?);
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
        let (to, found) = element(&paths.reports, index, "index")?;
        let found = (&paths.destinations[*to], found);
        // SAFETY: the caller's promise.
        unsafe { growing::write(report, found.into()) }.map(|()| 0)
    })
}

/// Writes the number of destinations in the report into `count`. A destination counts once for each
/// rail and for each engine thread that sends to it.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_paths_count_destinations(
    paths: *const braid_paths,
    count: *mut usize,
) -> c_int {
    enter(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(count, "count") }?;
        out.set(find(paths)?.destinations.len());
        Ok(0)
    })
}

/// Reads the destination at `index`, from 0, of the report.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_paths_get_destination(
    paths: *const braid_paths,
    index: usize,
    destination: *mut braid_path_destination,
) -> c_int {
    enter(|| {
        let paths = find(paths)?;
        let found = element(&paths.destinations, index, "index")?;
        // SAFETY: the caller's promise.
        unsafe { growing::write(destination, found.into()) }.map(|()| 0)
    })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn blocked_ports_differ_from_dead_paths() {
        let ip = Ipv4Addr::LOCALHOST.into();
        let of = |in_use, is_blocked| Destination {
            ip,
            rail: 0,
            in_use,
            first: 0,
            paths: 1,
            is_blocked,
        };
        assert_eq!(of(1, false).state(true), BRAID_PATH_UP);
        assert_eq!(of(1, false).state(false), BRAID_PATH_DOWN);
        assert_eq!(of(1, true).state(false), BRAID_PATH_BLOCKED);
        assert_eq!(of(0, false).state(false), BRAID_PATH_DOWN);
    }
}
