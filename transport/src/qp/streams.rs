//! The streams of a connection.
//!
//! The request streams exist from the start. The first READ or atomic makes the response streams:
//! few queue pairs ever see one, and the others save the memory and the look at each packet.

use braid_lb::{RailSet, Rails, StreamId};
use braid_wire::{Psn, Stream, Time, Token};

use crate::stream::per_rail::RailPayloads;
use crate::stream::recv::recv_stream::{RecvStream, check_window};
use crate::stream::send::direct::Direct;
use crate::stream::send::next_segment::NextSegment;
use crate::stream::send::quantum::BatchLimit;
use crate::stream::send::responses::Responses;
use crate::stream::send::run::Run;
use crate::stream::send::segment::Segment;
use crate::stream::send::send_stream::SendStream;
use crate::stream::send::skipped_segments::SkipSchedule;
use crate::{EndpointConfig, QpConfig, Remote};

#[derive(Debug)]
pub(super) struct Streams {
    pub(super) remote: Remote,
    /// Payload bytes of the longest segment that the paths carry.
    pub(super) path_mtu: RailPayloads,
    pub(super) batches: BatchLimit,
    pub(super) requests: SendStream,
    pub(super) from_requests: RecvStream,
    pub(super) answers: Option<Box<Answers>>,
    pub(super) from_responses: Option<Box<RecvStream>>,
    /// Which stream has its turn to send.
    pub(super) turn: Stream,
    /// Segments of that stream that are decided on and not handed out yet.
    pub(super) run: Run,
    /// The driver takes no segments.
    pub(super) is_paused: bool,
    /// Parameters of the response stream until it is made: its name in the path set, its skipped
    /// segments, ...
    answer_stream: StreamId,
    answer_schedule: SkipSchedule,
    /// ... how many bytes the peer can hold on each rail ...
    peer_bytes: u64,
    /// ... how many rails there are ...
    rails: usize,
    /// ... and on which of them congestion marks say nothing.
    unheeded: RailSet,
}

/// The responses that the peer waits for, and the stream that carries them.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) stream: SendStream,
    pub(super) owed: Responses,
}

impl Answers {
    /// Retires responses until fewer than `granted` remain. A new request implicitly acknowledges
    /// the oldest response, because the peer may have only `granted` requests open. Returns false
    /// if that response has not left: then the peer has more requests open than it was granted.
    pub(super) fn make_room(&mut self, now: Time, granted: usize) -> bool {
        while self.owed.len() >= granted {
            let Some(last) = self.owed.oldest_sent() else { return false };
            if !self.stream.on_implied_ack(now, last) {
                return false;
            }
            self.owed.retire(self.stream.window.una());
        }
        true
    }
}

impl Streams {
    pub(super) fn new(
        remote: Remote,
        token: Token,
        config: &QpConfig,
        endpoint: &EndpointConfig,
        rails: &mut Rails,
    ) -> Self {
        let segments = u64::from(remote.segments) * Segment::wire_len(remote.mtu);
        let peer_bytes = endpoint.peer_receive_buffer.min(segments);
        let mut requests =
            SendStream::new(config, &remote, rails.admit(), peer_bytes, rails.count());
        requests.direct = endpoint.direct.map(Direct::new);
        let schedule =
            |stream| SkipSchedule::new(endpoint, config.recovery, token, remote.send_psn, stream);
        requests.skips = schedule(Stream::Requests);
        Streams {
            // The longest there are: later ones may be shorter, see `Direct`.
            batches: BatchLimit::new(endpoint, requests.write_mtu(Time::ZERO, remote.mtu)),
            requests,
            from_requests: RecvStream::new(Stream::Requests, &remote, config),
            answers: None,
            from_responses: None,
            path_mtu: RailPayloads::ANY,
            turn: Stream::Requests,
            run: Run::default(),
            is_paused: false,
            answer_stream: rails.admit(),
            answer_schedule: schedule(Stream::Responses),
            peer_bytes,
            rails: rails.count(),
            unheeded: RailSet::default(),
            remote,
        }
    }

    /// The paths carry segments with so many payload bytes.
    pub(super) fn use_path_mtu(&mut self, payloads: RailPayloads, endpoint: &EndpointConfig) {
        self.path_mtu = payloads;
        self.all_outgoing_mut().for_each(|outgoing| outgoing.next_segment = NextSegment::Unknown);
        let longest = self.requests.write_mtu(Time::ZERO, self.remote.mtu);
        let longest = longest.min(payloads.longest());
        self.batches = BatchLimit::new(endpoint, longest);
    }

    /// Congestion marks on these rails say nothing from now on.
    pub(super) fn leave_marks_unheeded(&mut self, rails: RailSet) {
        self.unheeded = rails;
        for outgoing in self.all_outgoing_mut() {
            outgoing.marks.leave_unheeded(rails);
            outgoing.subflows.watch_marks_anew();
        }
    }

    /// Payload bytes of a full segment, on the rail in use that carries most.
    pub(super) fn mtu(&self) -> u16 {
        self.remote.mtu.min(self.path_mtu.longest())
    }

    /// An outgoing stream; `None`: nothing was ever to be sent on it.
    pub(super) fn outgoing(&mut self, stream: Stream) -> Option<&mut SendStream> {
        match stream {
            Stream::Requests => Some(&mut self.requests),
            Stream::Responses => self.answers.as_mut().map(|answers| &mut answers.stream),
        }
    }

    /// Those that there are.
    pub(super) fn all_outgoing(&self) -> impl Iterator<Item = &SendStream> {
        std::iter::once(&self.requests).chain(self.answers.iter().map(|answers| &answers.stream))
    }

    pub(super) fn all_outgoing_mut(&mut self) -> impl Iterator<Item = &mut SendStream> {
        let answers = self.answers.iter_mut().map(|answers| &mut answers.stream);
        std::iter::once(&mut self.requests).chain(answers)
    }

    /// An incoming stream; `None`: nothing has ever come on it.
    pub(super) fn incoming(&mut self, stream: Stream) -> Option<&mut RecvStream> {
        match stream {
            Stream::Requests => Some(&mut self.from_requests),
            Stream::Responses => self.from_responses.as_deref_mut(),
        }
    }

    /// Whether a packet of the peer's was refused for good.
    #[inline]
    pub(super) fn has_refused(&self) -> bool {
        let of_responses = self.from_responses.as_ref();
        self.from_requests.has_refused() || of_responses.is_some_and(|stream| stream.has_refused())
    }

    /// The stream that has its turn after this one; the same if there is no other.
    #[inline]
    pub(super) fn after(&self, stream: Stream) -> Stream {
        match stream {
            Stream::Requests if self.answers.is_some() => Stream::Responses,
            _ => Stream::Requests,
        }
    }

    /// The first stream of which an acknowledgement is owed. It is asked for every packet.
    #[inline]
    pub(super) fn owing(&self, owes: impl Fn(&RecvStream) -> bool) -> Option<Stream> {
        if owes(&self.from_requests) {
            return Some(Stream::Requests);
        }
        self.from_responses.as_ref().filter(|responses| owes(responses)).map(|_| Stream::Responses)
    }

    /// Those that there are.
    pub(super) fn all_incoming(&self) -> impl Iterator<Item = &RecvStream> {
        std::iter::once(&self.from_requests).chain(self.from_responses.as_deref())
    }

    pub(super) fn all_incoming_mut(&mut self) -> impl Iterator<Item = &mut RecvStream> {
        std::iter::once(&mut self.from_requests).chain(self.from_responses.as_deref_mut())
    }

    /// The stream of a packet that has come.
    pub(super) fn arriving(&mut self, stream: Stream, config: &QpConfig) -> &mut RecvStream {
        let remote = &self.remote;
        let made = || Box::new(RecvStream::new(stream, remote, config));
        match stream {
            Stream::Requests => &mut self.from_requests,
            Stream::Responses => self.from_responses.get_or_insert_with(made),
        }
    }

    /// Whether the peer may send this PSN (24 bits) now, on either stream, with a window of
    /// `window` packets.
    pub(super) fn is_within_window(&self, psn: u32, window: u16) -> bool {
        let mut expected = self.expected().into_iter();
        expected.any(|epsn| check_window(Psn::expand(psn, epsn), epsn, window).is_ok())
    }

    /// The PSNs that are expected next of the peer's requests and of its responses.
    pub(super) fn expected(&self) -> [Psn; 2] {
        let first = Psn(self.remote.recv_psn.into());
        let responses = self.from_responses.as_deref().map_or(first, RecvStream::epsn);
        [self.from_requests.epsn(), responses]
    }

    /// The answers to requests that have come.
    pub(super) fn answering(&mut self, config: &QpConfig) -> &mut Answers {
        let Streams { remote, answer_stream, answer_schedule, peer_bytes, rails, unheeded, .. } =
            self;
        self.answers.get_or_insert_with(|| {
            let mut stream = SendStream::new(config, remote, *answer_stream, *peer_bytes, *rails);
            stream.skips = std::mem::take(answer_schedule);
            stream.marks.leave_unheeded(*unheeded);
            Box::new(Answers { stream, owed: Responses::default() })
        })
    }

    /// Responses have been sent, which acknowledge their requests.
    pub(super) fn on_response(&mut self, now: Time) {
        let newest = self.answers.as_ref().and_then(|answers| answers.owed.newest_sent());
        newest.into_iter().for_each(|request| self.from_requests.on_response(now, request));
    }

    /// Number of the peer's requests without a response, or with one that is not acknowledged.
    pub(super) fn owed(&self) -> usize {
        self.answers.as_ref().map_or(0, |answers| answers.owed.len())
    }

    /// Gives back room that is not needed while nothing is under way.
    pub(super) fn trim(&mut self) {
        self.all_outgoing_mut().for_each(SendStream::trim);
        self.all_incoming_mut().for_each(RecvStream::trim);
        if let Some(answers) = &mut self.answers {
            answers.owed.trim();
        }
    }

    /// Gives up everything that goes out.
    pub(super) fn clear(&mut self) {
        self.all_outgoing_mut().for_each(SendStream::clear);
        if let Some(answers) = &mut self.answers {
            answers.owed.clear();
        }
    }

    /// Its queue pair leaves the endpoint.
    pub(super) fn dismiss(&mut self, now: Time, rails: &mut Rails) {
        self.requests.dismiss(now, rails);
        match &mut self.answers {
            Some(answers) => answers.stream.dismiss(now, rails),
            None => rails.dismiss(self.answer_stream),
        }
    }
}
