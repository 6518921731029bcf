//! The probes of one path, and the matching of answers to them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::probe::{Answer, Probe};
use crate::link::udp::error_queue::{Complaint, Report};

/// An answer to one of a path's probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProbeAnswer {
    /// The time to live of the probe.
    pub(super) ttl: u8,
    pub(super) answer: Answer,
    /// Time between probe and answer.
    pub(super) after: Duration,
}

/// The probes of one path. No message is trusted until it matches one of them.
pub(super) struct SentProbes {
    to: SocketAddr,
    sent: Vec<Probe>,
}

impl SentProbes {
    /// No probes yet, to the destination `to`.
    pub(super) fn new(to: SocketAddr) -> Self {
        SentProbes { to, sent: Vec::new() }
    }

    pub(super) fn push(&mut self, probe: Probe) {
        self.sent.push(probe);
    }

    /// The probe that an ICMP message is about, if any. `quote` is the quoted payload.
    pub(super) fn match_report(&self, report: &Report, quote: &[u8]) -> Option<ProbeAnswer> {
        let (by, complaint) = report.complaint?;
        report.to.filter(|to| self.is_destination(*to))?;
        self.match_up(self.answer(by, complaint), |probe| probe.is_quoted_in(quote))
    }

    /// The probe that a datagram of the destination answers, if any.
    pub(super) fn match_datagram(&self, datagram: &[u8]) -> Option<ProbeAnswer> {
        self.match_up(Answer::Destination, |probe| probe.is_answered_by(datagram))
    }

    fn is_destination(&self, quoted: SocketAddr) -> bool {
        (quoted.ip().to_canonical(), quoted.port()) == (self.to.ip(), self.to.port())
    }

    fn answer(&self, by: IpAddr, complaint: Complaint) -> Answer {
        match complaint {
            _ if by == self.to.ip() => Answer::Destination,
            Complaint::Expired => Answer::Router(by),
            Complaint::Unreachable | Complaint::PortUnreachable => Answer::Refusal(by),
        }
    }

    fn match_up(&self, answer: Answer, belongs: impl Fn(&Probe) -> bool) -> Option<ProbeAnswer> {
        let probe = self.sent.iter().rev().find(|probe| belongs(probe))?;
        Some(ProbeAnswer { ttl: probe.ttl, answer, after: probe.sent.elapsed() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 9, 9));
    const TO: SocketAddr = SocketAddr::new(HOST, 4791);
    const ROUTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    /// The matches of a report about each of three probes with a time to live of 1 to 3.
    fn answer(to: SocketAddr, by: IpAddr, complaint: Complaint) -> [Option<(u8, Answer)>; 3] {
        let probes = [1, 2, 3].map(Probe::new);
        let quotes = probes.each_ref().map(|probe| probe.bytes().to_vec());
        let mut asked = SentProbes::new(TO);
        probes.into_iter().for_each(|probe| asked.push(probe));
        let report = Report { to: Some(to), complaint: Some((by, complaint)), quoted: 0 };
        quotes.map(|quote| asked.match_report(&report, &quote).map(|h| (h.ttl, h.answer)))
    }

    #[test]
    fn a_report_is_of_the_probe_that_it_quotes() {
        let router = answer(TO, ROUTER, Complaint::Expired);
        assert_eq!(router, [1, 2, 3].map(|ttl| Some((ttl, Answer::Router(ROUTER)))));
        let refusal = answer(TO, ROUTER, Complaint::Unreachable);
        assert_eq!(refusal, [1, 2, 3].map(|ttl| Some((ttl, Answer::Refusal(ROUTER)))));
    }

    #[test]
    fn whatever_the_destination_says_it_is_there() {
        for complaint in [Complaint::Expired, Complaint::Unreachable] {
            let answers = answer(TO, HOST, complaint);
            assert_eq!(answers, [1, 2, 3].map(|ttl| Some((ttl, Answer::Destination))));
        }
    }

    #[test]
    fn a_report_about_another_destination_is_nothing() {
        for to in [SocketAddr::new(ROUTER, 4791), SocketAddr::new(HOST, 4792)] {
            assert_eq!(answer(to, ROUTER, Complaint::Expired), [None; 3]);
        }
    }
}
