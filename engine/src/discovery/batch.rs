//! Probes several paths at once, hop by hop, with all paths of a hop in flight together.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::config::{DiscoveryConfig, DiscoveryError};
use super::port::PathPort;
use super::trace::Trace;
use crate::clock::deadline;

/// The time to live of a probe that is to arrive, which is Linux's default.
const FAR: u8 = 64;
/// The number of consecutive silent hops behind which no router is expected.
const QUIET_HOPS: u32 = 2;
/// The shortest wait for answers, because even near routers take time to answer.
const LEAST_WAIT: Duration = Duration::from_millis(50);
/// Time in which Linux searches for a neighbour before it reports that there is none: three tries,
/// a second apart (`arp(7)`, mcast_solicit and retrans_time), and some more.
const NEIGHBOUR_SEARCH: Duration = Duration::from_millis(3500);

/// The state that batches to one destination share.
pub(super) struct Survey {
    pub(super) config: DiscoveryConfig,
    pub(super) local: SocketAddr,
    pub(super) to: SocketAddr,
    /// The interface. 0: the routing table's choice.
    interface: u32,
    /// The longest time that an answer took.
    longest: Option<Duration>,
    /// Whether the destination answers such probes.
    destination_answers: bool,
    /// Whether there was time enough for a report that the host does not exist.
    is_over: bool,
}

impl Survey {
    pub(super) fn new(config: DiscoveryConfig, local: SocketAddr, to: SocketAddr) -> Self {
        let (longest, destination_answers, is_over) = (None, false, false);
        Survey { config, local, to, interface: 0, longest, destination_answers, is_over }
    }

    /// Makes probes leave by this interface.
    pub(super) fn by_interface(self, interface: u32) -> Self {
        Survey { interface, ..self }
    }

    /// Time to wait for answers in flight.
    fn wait(&self) -> Duration {
        self.longest.map_or(self.config.timeout, |longest| {
            (longest * 4).max(LEAST_WAIT).min(self.config.timeout)
        })
    }
}

/// The paths with open ports.
pub(super) struct ProbeBatch<'a> {
    survey: &'a mut Survey,
    /// The ports and traces of the paths, by the same index.
    ports: Vec<PathPort>,
    traces: Vec<&'a mut Trace>,
    opened: Instant,
}

impl<'a> ProbeBatch<'a> {
    pub(super) fn open(
        survey: &'a mut Survey,
        traces: impl Iterator<Item = &'a mut Trace>,
    ) -> Result<Self, DiscoveryError> {
        let traces: Vec<&mut Trace> = traces.collect();
        let mut ports = Vec::with_capacity(traces.len());
        for trace in &traces {
            let path = trace.path;
            let port = PathPort::open(survey.local, (survey.to, survey.interface), path).map_err(
                |source| match source.raw_os_error() {
                    Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES) => {
                        DiscoveryError::NoRoute { to: survey.to, source }
                    }
                    _ => DiscoveryError::Port { path: path.get(), source },
                },
            )?;
            ports.push(port);
        }
        Ok(ProbeBatch { survey, ports, traces, opened: Instant::now() })
    }

    /// Follows all paths from hop to hop.
    ///
    /// A path is done when the destination has answered. All paths are done when two consecutive
    /// hops are silent and nothing is expected behind them. That is the case if the destination was
    /// reached on some path, or if it answers no probe with a sufficient time to live.
    pub(super) fn sweep(&mut self) -> Result<(), DiscoveryError> {
        self.greet()?;
        let mut quiet = 0;
        for ttl in 1..=self.survey.config.max_ttl {
            self.ask(ttl, 0..self.ports.len())?;
            let at = |trace: &Trace| trace.hops()[usize::from(ttl) - 1];
            let destination = self.survey.to.ip();
            let arrived = self.traces.iter().any(|t| at(t) == Some(destination));
            let done = |t: &&mut Trace| t.refused_by.is_some() || at(t) == Some(destination);
            if self.traces.iter().all(done) {
                break;
            }
            let a_router = |t: &&mut Trace| at(t).is_some_and(|hop| hop != destination);
            quiet = if self.traces.iter().any(a_router) { 0 } else { quiet + 1 };
            if quiet >= QUIET_HOPS && (arrived || !self.survey.destination_answers) {
                break;
            }
        }
        self.await_last_word()
    }

    /// Finds out whether the destination answers at all. Only one path asks, because more would use
    /// up the answers of a host that limits their rate.
    fn greet(&mut self) -> Result<(), DiscoveryError> {
        if !self.survey.destination_answers && !self.ports.is_empty() {
            self.ask(FAR, 0..1)?;
            self.survey.destination_answers = self.traces[0].reached;
        }
        Ok(())
    }

    /// Waits for late reports if the destination has not answered. Its last router or this machine
    /// may still be searching for it, and report in the end that it does not exist.
    fn await_last_word(&mut self) -> Result<(), DiscoveryError> {
        if self.survey.is_over || self.survey.destination_answers {
            return Ok(());
        }
        self.survey.is_over = true;
        let until = self.opened + NEIGHBOUR_SEARCH.min(self.survey.config.patience);
        while !self.traces.iter().any(|trace| trace.reached || trace.refused_by.is_some()) {
            if !self.listen_towards(until)? {
                break;
            }
        }
        Ok(())
    }

    /// Probes a hop of `paths` until all have answered or were asked often enough.
    fn ask(
        &mut self,
        ttl: u8,
        paths: impl Iterator<Item = usize> + Clone,
    ) -> Result<(), DiscoveryError> {
        for _ in 0..self.survey.config.tries {
            let open: Vec<(usize, u8)> = self.unsettled(paths.clone().map(|path| (path, ttl)));
            if open.is_empty() {
                break;
            }
            self.probe(&open)?;
        }
        Ok(())
    }

    fn unsettled(&self, probes: impl Iterator<Item = (usize, u8)>) -> Vec<(usize, u8)> {
        probes.filter(|&(path, ttl)| !self.traces[path].is_settled(ttl)).collect()
    }

    /// Sends probes, each given by path and time to live, and waits for the answers.
    pub(super) fn probe(&mut self, probes: &[(usize, u8)]) -> Result<(), DiscoveryError> {
        for &(path, ttl) in probes {
            let next = deadline(self.survey.config.spacing);
            self.ports[path]
                .ask(ttl)
                .map_err(|source| DiscoveryError::NoRoute { to: self.survey.to, source })?;
            self.listen_until(next)?;
        }
        let end = deadline(self.survey.wait());
        while !self.unsettled(probes.iter().copied()).is_empty() && self.listen_towards(end)? {}
        Ok(())
    }

    pub(super) fn listen_until(&mut self, end: Instant) -> Result<(), DiscoveryError> {
        while self.listen_towards(end)? {}
        Ok(())
    }

    /// Receives once, until `end` at most. Returns `false` if that time has passed. Answers that
    /// arrived by then are received in any case, because this thread may have been late.
    fn listen_towards(&mut self, end: Instant) -> Result<bool, DiscoveryError> {
        let left = end.saturating_duration_since(Instant::now());
        self.listen(left)?;
        Ok(!left.is_zero())
    }

    /// Sleeps up to `limit` until something arrives, and records it.
    fn listen(&mut self, limit: Duration) -> Result<(), DiscoveryError> {
        let ProbeBatch { survey, ports, traces, .. } = self;
        let destination: IpAddr = survey.to.ip();
        for index in ready(ports, limit) {
            let trace = &mut traces[index];
            let mut note = |answer: super::sent_probes::ProbeAnswer| {
                survey.longest = survey.longest.max(Some(answer.after));
                trace.record(answer.ttl, answer.answer, destination);
            };
            ports[index].receive(&mut note).map_err(|source| DiscoveryError::Port {
                path: traces[index].path.get(),
                source,
            })?;
        }
        Ok(())
    }
}

/// Waits up to `limit` until ports have received something, and returns their indices.
fn ready(ports: &[PathPort], limit: Duration) -> Vec<usize> {
    // Errors are always reported; datagrams of an answering engine have to be requested.
    let entry =
        |port: &PathPort| libc::pollfd { fd: port.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut polled: Vec<libc::pollfd> = ports.iter().map(entry).collect();
    let limit = libc::timespec {
        tv_sec: limit.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let count = polled.len() as libc::nfds_t;
    // SAFETY: `polled` has `count` entries, the time outlives the call, and no signal mask is
    // given.
    let got =
        unsafe { libc::ppoll(polled.as_mut_ptr(), count, &raw const limit, std::ptr::null()) };
    if got <= 0 {
        return Vec::new();
    }
    (0..polled.len()).filter(|&index| polled[index].revents != 0).collect()
}
