//! The largest datagram that reaches the peer: packetization layer path MTU discovery for datagram
//! transports (DPLPMTUD, RFC 8899). Set-up has proved [`BASE_DATAGRAM`]. More is believed only once
//! a probe of that size was answered; messages of the network (ICMP) are only hints which size to
//! try.
//!
//! The search asks in rounds: a probe of one size, then small ones, up to [`TRIES`] times; once a
//! small one was answered, the size again, up to [`TRIES`] times. The small probes tell a size that
//! does not pass from a path that does not, or from a peer that is slow, whose receive buffer more
//! long probes would only fill. The search halves the interval between what passes and what does
//! not. A time-out of a queue pair starts a round for the size in use, which begins with the small
//! ones: a peer that does not run is the likelier cause, and asking it costs two short packets. So
//! a path whose MTU has shrunk is found while small packets still pass (RFC 8899, section 4.3). A
//! retransmission of what was answered before starts a round, too: the time-out was the peer's, and
//! perhaps our answers do not pass.

use std::collections::VecDeque;
use std::time::Duration;

use braid_wire::{BASE_DATAGRAM, DATA_HEADER_LEN, Probe, ProbeKind, QpId, Time, Token};

use crate::EventKind;
use crate::endpoint::max_rtt::MaxRtt;

/// Probes of a size. RFC 8899 has three (MAX_PROBES). One more makes it unlikely that congestion,
/// which drops long packets first, passes for a smaller MTU.
const TRIES: u32 = 4;
/// Time that the first try of a round waits for an answer. The next waits twice as long, further
/// ones four times, and all of them for [`ROUND_TRIPS`]. Later answers also count.
const PATIENCE: Duration = Duration::from_millis(10);
const DOUBLINGS: u32 = 2;
/// Sizes closer together than this are not told apart.
const STEP: u16 = 16;
/// Time for which a size below what the first hop takes stays before more is tried. RFC 8899 has
/// ten minutes (PMTU_RAISE_TIMER), to spare routers of the Internet. Within a data centre a route
/// that was down is back in seconds, and the search costs some fifty packets.
const RAISE: Duration = Duration::from_secs(10);
/// Time after which a peer that has answered nothing is asked again; twice as long each further
/// time, up to [`RAISE`].
const SILENCE: Duration = Duration::from_millis(500);
/// Time that the small probes of a round that a time-out has started wait for an answer.
const HEARING: Duration = Duration::from_millis(150);
/// Round trips that a try waits for an answer: PROBE_TIMER is longer than one (RFC 8899, section
/// 5.1.1). Where many processes share few processors, a round trip takes seconds, and probes that
/// are repeated before the answer can arrive slow all of them down.
const ROUND_TRIPS: u32 = 2;
/// Number of probes whose departure is remembered, to measure their round trips.
const MEASURED: usize = 32;
/// For how long time-outs, ours and the peer's, do not ask for the size in use again.
const QUIET: Duration = Duration::from_millis(250);

/// By which local port a probe leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::endpoint) enum Way {
    /// That of some path, as data.
    Path,
    /// The receiving port: set-up has shown that it is open both ways.
    Port,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    size: u16,
    /// A time-out has started it.
    is_suspicion: bool,
    /// Number of probes, and number of those of the size itself.
    tries: u32,
    asked: u32,
    /// When it tried last, and when it tries again, or ends.
    tried_at: Time,
    until: Time,
    /// Small probes that were answered in this round, by how they left.
    base_by_path: bool,
    base_by_port: bool,
}

impl Round {
    /// The peer is there, and something gets through.
    fn is_heard(&self) -> bool {
        self.base_by_path || self.base_by_port
    }

    fn is_over(&self) -> bool {
        match self.is_heard() {
            true => self.asked >= TRIES,
            false => self.tries >= if self.is_suspicion { 1 } else { TRIES },
        }
    }
}

/// Sizes are those of packets, without what the driver adds to each.
///
/// Invariants: `base <= current < too_large`, and `current <= ceiling`, where there is something to
/// search; otherwise `current` is `u16::MAX`.
#[derive(Debug)]
pub(in crate::endpoint) struct PathMtu {
    /// Size that set-up has proved to pass.
    base: u16,
    /// Bytes that the driver adds to each packet.
    envelope: u16,
    /// Size of the largest segments agreed on.
    ceiling: u16,
    /// The largest datagram known to pass (RFC 8899: PLPMTU).
    pub(in crate::endpoint) current: u16,
    /// The smallest known not to; `ceiling` + 1: none is.
    too_large: u32,
    /// Size that the host's route is said to take; 0: not known.
    hint: u16,
    /// Path ports are blocked: everything leaves from the receiving port.
    pub(in crate::endpoint) port_only: bool,
    /// Queue pairs have heard of that.
    pub(in crate::endpoint) told_blocked: bool,
    /// The longest that ever passed, and what passed when the last search ended.
    most: u16,
    settled: u16,
    round: Option<Round>,
    /// When the next round begins.
    next_at: Time,
    quiet_until: Time,
    /// Recent round trips of probes, and of data where a search began.
    round_trips: MaxRtt,
    /// Number and departure of the latest probes.
    departures: VecDeque<(u32, Time)>,
    /// Rounds in a row without any answer.
    silent: u32,
    /// Number of probes that were sent. A probe's serial is twice that, plus 1 if it leaves from
    /// the receiving port.
    sent: u32,
    /// Answers to probes before this one are too old.
    oldest: u32,
    /// Probes that are to be sent now.
    pub(in crate::endpoint) due: Vec<(u16, Way)>,
    /// Events for queue pairs.
    pub(in crate::endpoint) news: VecDeque<EventKind>,
}

impl PathMtu {
    /// `searches`: the path MTU is not known. Otherwise the path carries whatever is agreed. The
    /// driver adds `envelope` bytes to each packet.
    pub(in crate::endpoint) fn new(searches: bool, envelope: u16) -> Self {
        let base = BASE_DATAGRAM as u16 - envelope;
        PathMtu {
            base,
            envelope,
            ceiling: base,
            current: if searches { base } else { u16::MAX },
            too_large: u32::from(base) + 1,
            hint: 0,
            port_only: false,
            told_blocked: false,
            most: 0,
            settled: 0,
            round: None,
            next_at: Time::FAR_FUTURE,
            quiet_until: Time::ZERO,
            round_trips: MaxRtt::default(),
            departures: VecDeque::new(),
            silent: 0,
            sent: 0,
            oldest: 0,
            due: Vec::new(),
            news: VecDeque::new(),
        }
    }

    /// A queue pair joins that could use segments of `payload` bytes.
    pub(in crate::endpoint) fn admit(&mut self, now: Time, payload: u16) {
        let longest = payload.saturating_add(DATA_HEADER_LEN as u16).max(self.base);
        if self.is_fixed() || longest <= self.ceiling && self.sent > 0 {
            return;
        }
        if self.too_large > self.ceiling.into() {
            self.too_large = u32::from(longest) + 1; // nothing larger was tried
        }
        self.ceiling = longest.max(self.ceiling);
        if self.round.is_none() {
            self.next_at = now;
        }
    }

    /// Bytes of the largest datagram known to pass, and what the driver adds is in them.
    pub(in crate::endpoint) fn datagram(&self) -> u16 {
        self.current.saturating_add(self.envelope)
    }

    /// A datagram of so many bytes is said to pass.
    pub(in crate::endpoint) fn hint_datagram(&mut self, datagram: u16) {
        self.hint = datagram.saturating_sub(self.envelope);
    }

    pub(in crate::endpoint) fn is_fixed(&self) -> bool {
        self.current == u16::MAX
    }

    /// The longest datagram that passes, and the longest one that passed before or that the host's
    /// route takes, where that is more.
    pub(in crate::endpoint) fn shortfall(&self) -> Option<(u16, u16)> {
        let expected = self.most.max(self.hint.min(self.ceiling));
        let is_short = self.settled > 0 && self.settled.saturating_add(STEP) < expected;
        is_short.then(|| (self.settled + self.envelope, expected + self.envelope))
    }

    /// Payload bytes of the longest segment, a multiple of 8: whole words stay whole in one
    /// segment.
    pub(in crate::endpoint) fn payload(&self) -> u16 {
        if self.is_fixed() { u16::MAX } else { (self.current - DATA_HEADER_LEN as u16) & !7 }
    }

    pub(in crate::endpoint) fn next_timeout(&self) -> Time {
        self.round.map_or(self.next_at, |round| round.until)
    }

    /// Doubts the path MTU because a queue pair, or the peer's, has timed out: segments may be too
    /// large by now, or paths blocked. `longest`: the longest recent round trip.
    pub(in crate::endpoint) fn suspect(&mut self, now: Time, longest: Duration) {
        if self.is_fixed() || self.round.is_some() || now < self.quiet_until {
            return;
        }
        self.quiet_until = now + QUIET;
        self.round_trips.on_sample(now, longest);
        self.begin_round(now, self.current, true);
    }

    /// Notes that the rail is in use, which was learnt from the peer's receiving port. Everything
    /// leaves from this end's receiving port until a probe from the port of a path, which leaves at
    /// once, is answered.
    pub(in crate::endpoint) fn suspect_paths(&mut self, now: Time) {
        if !self.is_fixed() && !self.port_only {
            self.port_only = true;
            self.begin(now, self.current);
        }
    }

    fn begin(&mut self, now: Time, size: u16) {
        self.begin_round(now, size, false);
    }

    fn begin_round(&mut self, now: Time, size: u16, is_suspicion: bool) {
        self.round = Some(Round {
            size,
            is_suspicion,
            tries: 0,
            asked: 0,
            tried_at: now,
            until: now,
            base_by_path: false,
            base_by_port: false,
        });
        self.advance(now);
    }

    /// Begins a round that is due, tries again, or ends it. `longest`: the longest recent round
    /// trip. Returns whether the longest payload has changed.
    pub(in crate::endpoint) fn on_timeout(&mut self, now: Time, longest: Duration) -> bool {
        match &mut self.round {
            Some(round) if now < round.until => false,
            Some(round) if round.is_over() => {
                self.round_trips.on_sample(now, longest);
                round.until = round.tried_at + ROUND_TRIPS * self.round_trips.get(now);
                let round = *round;
                now >= round.until && self.end(now, round)
            }
            Some(_) => {
                self.advance(now);
                false
            }
            None if now < self.next_at => false,
            None => {
                // What was too large may fit by now.
                self.too_large = u32::from(self.ceiling) + 1;
                self.oldest = self.sent;
                self.round_trips.on_sample(now, longest);
                self.begin(now, self.ceiling);
                false
            }
        }
    }

    fn advance(&mut self, now: Time) {
        let way = self.way();
        let Some(round) = &mut self.round else { return };
        self.due.clear();
        let is_first = round.tries == 0;
        if round.is_heard() || is_first && !round.is_suspicion {
            self.due.push((round.size, way));
            round.asked += 1;
        }
        if self.port_only {
            self.due.push((self.base, Way::Path)); // perhaps it passes by now
        }
        if !is_first || round.is_suspicion {
            if way == Way::Path && round.size > self.base {
                self.due.push((self.base, Way::Path));
            }
            self.due.push((self.base, Way::Port));
        }
        round.tried_at = now;
        let patience = match is_first && round.is_suspicion {
            true => HEARING,
            false => PATIENCE * (1 << round.tries.min(DOUBLINGS)),
        };
        round.until = now + patience.max(ROUND_TRIPS * self.round_trips.get(now));
        round.tries += 1;
    }

    fn way(&self) -> Way {
        if self.port_only { Way::Port } else { Way::Path }
    }

    /// Nobody has answered the size in question.
    fn end(&mut self, now: Time, round: Round) -> bool {
        self.round = None;
        let passes = if self.port_only { round.base_by_port } else { round.base_by_path };
        if passes && round.size > self.base {
            let before = self.current;
            self.too_large = self.too_large.min(round.size.into());
            if round.size <= self.current {
                self.current = self.base;
                self.oldest = self.sent;
            }
            self.plan(now);
            return self.told(before);
        }
        if round.base_by_port && !self.port_only {
            self.port_only = true;
            self.tell_blocked();
            self.begin(now, round.size);
        } else if self.current >= self.ceiling && !self.port_only {
            self.next_at = Time::FAR_FUTURE; // the next time-out asks again
        } else {
            self.next_at = now + (SILENCE * (1 << self.silent)).min(RAISE);
            self.silent = (self.silent + 1).min(8);
        }
        false
    }

    /// Plans the next round, now that one is over.
    fn plan(&mut self, now: Time) {
        let (low, high) = (self.current, self.too_large);
        let is_found = low >= self.ceiling || u32::from(low) + u32::from(STEP) >= high;
        if is_found && self.port_only {
            self.tell_blocked(); // each round has asked by a path, too
        }
        if is_found {
            (self.most, self.settled) = (self.most.max(low), low);
        }
        if low >= self.ceiling && !self.port_only {
            self.next_at = Time::FAR_FUTURE;
        } else if is_found {
            let raise = now + RAISE;
            self.next_at = if self.next_at > now { self.next_at.min(raise) } else { raise };
        } else {
            let inside = |size: u16| size > low && u32::from(size) < high;
            let middle = low + ((high - u32::from(low)) / 2) as u16;
            let size = if high > self.ceiling.into() { self.ceiling } else { middle };
            self.begin(now, if inside(self.hint) { self.hint } else { size });
        }
    }

    fn tell_blocked(&mut self) {
        if !std::mem::replace(&mut self.told_blocked, true) {
            self.news.push_back(EventKind::PathsBlocked);
        }
    }

    fn told(&mut self, before: u16) -> bool {
        let changed = self.current != before;
        if changed {
            self.news.push_back(EventKind::PathMtu(self.datagram()));
        }
        changed
    }

    /// A PROBED has come. Returns whether what segments may hold has changed.
    pub(in crate::endpoint) fn on_answer(&mut self, now: Time, probe: &Probe) -> bool {
        let is_ours = (self.oldest..self.sent).contains(&(probe.serial >> 1));
        if self.is_fixed() || !is_ours || probe.size > self.ceiling {
            return false;
        }
        self.silent = 0;
        self.measure(now, probe.serial >> 1);
        let way = if probe.serial & 1 == 0 { Way::Path } else { Way::Port };
        if probe.size == self.base
            && let Some(round) = &mut self.round
        {
            match way {
                Way::Path => round.base_by_path = true,
                Way::Port => round.base_by_port = true,
            }
            if round.is_suspicion && round.asked == 0 {
                self.advance(now); // it is there: now the size
            }
        }
        if way == Way::Path && self.port_only {
            self.port_only = false;
            if std::mem::take(&mut self.told_blocked) {
                self.news.push_back(EventKind::PathsOpen);
            }
        }
        let as_data = way == self.way();
        let answers_round = self.round.is_some_and(|round| round.size == probe.size);
        let before = self.current;
        if as_data && (answers_round || probe.size > before) {
            self.current = before.max(probe.size);
            if u32::from(probe.size) >= self.too_large {
                self.too_large = u32::from(self.ceiling) + 1;
            }
            (self.round, self.next_at) = (None, self.next_at.max(now));
            self.due.clear();
            self.plan(now);
        }
        self.told(before)
    }

    /// Measures the round trip of a probe, by its number.
    fn measure(&mut self, now: Time, number: u32) {
        let departure = self.departures.iter().find(|(departed, _)| *departed == number);
        if let Some((_, departed_at)) = departure {
            self.round_trips.on_sample(now, now - *departed_at);
        }
    }

    /// Returns the next probe to send.
    pub(in crate::endpoint) fn poll_due(&mut self, now: Time) -> Option<(Probe, Way)> {
        let (size, way) = self.due.pop()?;
        self.departures.truncate(MEASURED - 1);
        self.departures.push_front((self.sent, now));
        let serial = self.sent << 1 | u32::from(way == Way::Port);
        self.sent = (self.sent + 1) & u32::MAX >> 1;
        let (kind, qp, token) = (ProbeKind::Probe, QpId::default(), Token::default());
        Some((Probe { kind, qp, from: qp, token, size, serial }, way))
    }
}
