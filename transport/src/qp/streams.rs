//! The streams of a connection.
//!
//! The request streams exist from the start. The first READ or atomic creates the response streams.
//! Few queue pairs ever see one; all others save the memory and a check per packet.

use braid_lb::{RailSet, Rails, StreamId};
use braid_wire::{Psn, Stream, Time, Token};

use crate::places::visit_value;
use crate::stream::per_rail::RailPayloads;
use crate::stream::recv::grants::Grants;
use crate::stream::recv::recv_stream::{RecvStream, check_window};
use crate::stream::send::direct::Direct;
use crate::stream::send::next_segment::NextSegment;
use crate::stream::send::quantum::BatchLimit;
use crate::stream::send::response_queue::ResponseQueue;
use crate::stream::send::segment::Segment;
use crate::stream::send::send_limits::Block;
use crate::stream::send::send_queue::SendQueue;
use crate::stream::send::send_stream::SendStream;
use crate::stream::send::skipped_segments::SkipSchedule;
use crate::stream::send::source::Source;
use crate::stream::send::transmit::{Departure, PollContext};
use crate::{EndpointConfig, QpConfig, Remote};

#[derive(Debug)]
pub(super) struct Streams {
    pub(super) remote: Remote,
    /// Payload bytes of the longest segment that the paths of each rail carry.
    pub(super) path_mtu: RailPayloads,
    pub(super) batches: BatchLimit,
    pub(super) requests: Outgoing<SendQueue>,
    pub(super) from_requests: RecvStream,
    pub(super) responses: Option<Box<Outgoing<ResponseQueue>>>,
    pub(super) from_responses: Option<Box<RecvStream>>,
    /// The outgoing stream whose turn it is.
    pub(super) turn: Stream,
    /// Whether the driver currently accepts no segments.
    pub(super) is_paused: bool,
    /// Credit that is granted to the peer; `None`: it has requested none.
    pub(super) grants: Option<Box<Grants>>,
    /// Parameters of the response stream.
    template: ResponseTemplate,
}

/// A queue of messages for the peer, and the stream that carries them.
#[derive(Debug)]
pub(super) struct Outgoing<Q> {
    pub(super) queue: Q,
    pub(super) stream: SendStream,
}

/// Parameters with which the first READ or atomic creates the response stream.
#[derive(Debug)]
struct ResponseTemplate {
    /// Identifier of the stream in the path set.
    stream: StreamId,
    skips: SkipSchedule,
    /// Bytes that the peer can buffer on each rail.
    peer_bytes: u64,
    /// Number of rails.
    rails: usize,
    /// Rails on which congestion marks are ignored.
    ignored_marks: RailSet,
}

impl<Q: Source> Outgoing<Q> {
    pub(super) fn poll(&mut self, context: &mut PollContext<'_>) -> Result<Departure, Block> {
        self.stream.poll_segment(&mut self.queue, context)
    }

    /// See [`SendStream::look_again`].
    pub(super) fn look_again(&mut self) {
        self.stream.look_again(&self.queue);
    }
}

impl Outgoing<ResponseQueue> {
    /// Retires responses until fewer than `granted` remain. A new request implicitly acknowledges
    /// the oldest response, because the peer may have only `granted` requests open. Returns false
    /// if that response was not sent completely: the peer has more requests open than it was
    /// granted.
    pub(super) fn make_room(&mut self, now: Time, granted: usize) -> bool {
        while self.queue.len() >= granted {
            let Some(last) = self.queue.oldest_sent() else { return false };
            if !self.stream.on_implied_ack(now, last) {
                return false;
            }
            self.queue.retire(self.stream.window.una());
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
        rails: usize,
        [requests, responses]: [StreamId; 2],
    ) -> Self {
        let segments = u64::from(remote.segments) * Segment::wire_len(remote.mtu);
        let peer_bytes = endpoint.peer_receive_buffer.min(segments);
        let mut stream = SendStream::new(config, &remote, requests, peer_bytes, rails);
        stream.direct = endpoint.direct.map(Direct::new);
        let schedule =
            |stream| SkipSchedule::new(endpoint, config.recovery, token, remote.send_psn, stream);
        stream.skips = schedule(Stream::Requests);
        Streams {
            // Sized for the longest segments. Later segments may be shorter, see `Direct`.
            batches: BatchLimit::new(endpoint, stream.write_mtu(Time::ZERO, remote.mtu)),
            requests: Outgoing { queue: SendQueue::default(), stream },
            from_requests: RecvStream::new(Stream::Requests, &remote, config),
            responses: None,
            from_responses: None,
            path_mtu: RailPayloads::ANY,
            turn: Stream::Requests,
            is_paused: false,
            grants: None,
            template: ResponseTemplate {
                stream: responses,
                skips: schedule(Stream::Responses),
                peer_bytes,
                rails,
                ignored_marks: RailSet::default(),
            },
            remote,
        }
    }

    /// Visits the places in memory of what a sender or a receiver of messages needs.
    #[inline]
    pub(super) fn parts(&self, sends: bool, mut visit: impl FnMut(*const u8, usize)) {
        if sends {
            visit_value(&self.requests, &mut visit);
            self.from_requests.parts_of_idle(&mut visit);
        } else {
            self.requests.stream.parts_of_idle(&mut visit);
            visit_value(&self.requests.queue, &mut visit);
            visit_value(&self.from_requests, &mut visit);
        }
        visit_value(&self.remote, &mut visit);
        visit_value(&self.batches, &mut visit);
        visit_value(&self.is_paused, &mut visit);
    }

    /// Sets the payload bytes that the paths of each rail carry.
    pub(super) fn use_path_mtu(&mut self, payloads: RailPayloads, endpoint: &EndpointConfig) {
        self.path_mtu = payloads;
        self.all_outgoing_mut().for_each(|outgoing| outgoing.next_segment = NextSegment::Unknown);
        let longest = self.requests.stream.write_mtu(Time::ZERO, self.remote.mtu);
        let longest = longest.min(payloads.longest());
        self.batches = BatchLimit::new(endpoint, longest);
    }

    /// Ignores congestion marks on these rails from now on.
    pub(super) fn ignore_marks(&mut self, rails: RailSet) {
        self.template.ignored_marks = rails;
        for outgoing in self.all_outgoing_mut() {
            outgoing.marks.ignore(rails);
            outgoing.subflows.watch_marks_anew();
        }
    }

    /// Payload bytes of a full segment on the rail in use with the largest path MTU.
    pub(super) fn mtu(&self) -> u16 {
        self.remote.mtu.min(self.path_mtu.longest())
    }

    /// Returns an outgoing stream; `None`: it was not needed so far.
    pub(super) fn outgoing(&mut self, stream: Stream) -> Option<&mut SendStream> {
        match stream {
            Stream::Requests => Some(&mut self.requests.stream),
            Stream::Responses => self.responses.as_mut().map(|responses| &mut responses.stream),
        }
    }

    /// Returns the outgoing streams that exist.
    pub(super) fn all_outgoing(&self) -> impl Iterator<Item = &SendStream> {
        let responses = self.responses.iter().map(|responses| &responses.stream);
        std::iter::once(&self.requests.stream).chain(responses)
    }

    /// Returns the outgoing streams that exist.
    pub(super) fn all_outgoing_mut(&mut self) -> impl Iterator<Item = &mut SendStream> {
        let responses = self.responses.iter_mut().map(|responses| &mut responses.stream);
        std::iter::once(&mut self.requests.stream).chain(responses)
    }

    /// Returns an incoming stream; `None`: nothing has arrived on it so far.
    pub(super) fn incoming(&mut self, stream: Stream) -> Option<&mut RecvStream> {
        match stream {
            Stream::Requests => Some(&mut self.from_requests),
            Stream::Responses => self.from_responses.as_deref_mut(),
        }
    }

    /// Whether no outgoing stream can send a segment before the next event.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.all_outgoing().all(|outgoing| outgoing.is_blocked())
    }

    /// Whether a packet from the peer was refused for good.
    #[inline]
    pub(super) fn has_refused(&self) -> bool {
        let of_responses = self.from_responses.as_ref();
        self.from_requests.has_refused() || of_responses.is_some_and(|stream| stream.has_refused())
    }

    /// Returns the outgoing stream whose turn is next after `stream`, or `stream` itself if it is
    /// the only one.
    #[inline]
    pub(super) fn after(&self, stream: Stream) -> Stream {
        following(stream, self.responses.is_some())
    }

    /// Returns the first incoming stream for which `is_due` is true. Called for each packet.
    #[inline]
    pub(super) fn with_due_ack(&self, is_due: impl Fn(&RecvStream) -> bool) -> Option<Stream> {
        if is_due(&self.from_requests) {
            return Some(Stream::Requests);
        }
        self.from_responses
            .as_ref()
            .filter(|responses| is_due(responses))
            .map(|_| Stream::Responses)
    }

    /// Returns the incoming streams that exist.
    pub(super) fn all_incoming(&self) -> impl Iterator<Item = &RecvStream> {
        std::iter::once(&self.from_requests).chain(self.from_responses.as_deref())
    }

    pub(super) fn all_incoming_mut(&mut self) -> impl Iterator<Item = &mut RecvStream> {
        std::iter::once(&mut self.from_requests).chain(self.from_responses.as_deref_mut())
    }

    /// Returns the incoming stream of a packet that has arrived. Creates the response stream if
    /// necessary.
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
        expected.any(|epsn| check_window(Psn::expand(psn, epsn).into(), epsn, window).is_ok())
    }

    /// Returns the expected PSNs (ePSN) of the peer's requests and of its responses.
    pub(super) fn expected(&self) -> [Psn; 2] {
        let first = Psn(self.remote.recv_psn.into());
        let responses = self.from_responses.as_deref().map_or(first, RecvStream::epsn);
        [self.from_requests.epsn(), responses]
    }

    /// Returns the responses to the peer's requests. Creates their stream if necessary.
    pub(super) fn responding(&mut self, config: &QpConfig) -> &mut Outgoing<ResponseQueue> {
        let Streams { remote, template, responses, .. } = self;
        responses.get_or_insert_with(|| {
            let ResponseTemplate { stream, peer_bytes, rails, ignored_marks, skips } = template;
            let mut stream = SendStream::new(config, remote, *stream, *peer_bytes, *rails);
            stream.skips = std::mem::take(skips);
            stream.marks.ignore(*ignored_marks);
            Box::new(Outgoing { stream, queue: ResponseQueue::default() })
        })
    }

    /// Handles responses that leave: they acknowledge their requests.
    pub(super) fn on_responses_sent(&mut self, now: Time) {
        let responses = self.responses.as_ref();
        let newest = responses.and_then(|responses| responses.queue.newest_sent());
        newest.into_iter().for_each(|request| self.from_requests.on_response_sent(now, request));
    }

    /// Number of responses to the peer that are not sent or not acknowledged.
    pub(super) fn pending_responses(&self) -> usize {
        self.responses.as_ref().map_or(0, |responses| responses.queue.len())
    }

    /// Releases unused memory while nothing is in flight.
    pub(super) fn trim(&mut self) {
        self.all_outgoing_mut().for_each(SendStream::trim);
        self.all_incoming_mut().for_each(RecvStream::trim);
        self.requests.queue.trim();
        if let Some(responses) = &mut self.responses {
            responses.queue.trim();
        }
    }

    /// Discards all segments to send, in flight or not, and all responses.
    pub(super) fn clear(&mut self) {
        self.all_outgoing_mut().for_each(SendStream::clear);
        if let Some(responses) = &mut self.responses {
            responses.queue.clear();
        }
    }

    /// Ends the streams when the queue pair leaves its endpoint.
    pub(super) fn dismiss(&mut self, now: Time, rails: &mut Rails) {
        self.requests.stream.dismiss(now, rails);
        match &mut self.responses {
            Some(responses) => responses.stream.dismiss(now, rails),
            None => rails.dismiss(self.template.stream),
        }
    }
}

/// Returns the outgoing stream whose turn comes after this one, the same if there is no other.
#[inline]
pub(super) fn following(stream: Stream, has_responses: bool) -> Stream {
    match stream {
        Stream::Requests if has_responses => Stream::Responses,
        _ => Stream::Requests,
    }
}
