//! Serialisation and propagation times of frames.

use crate::events::{Events, Spans};
use crate::packet::Packet;
use crate::time::{Ps, Rate};

/// Cached times of frames, shared by all links of the same speed and delay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Speeds {
    known: Vec<Speed>,
}

/// The index of a [`Speed`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpeedId(u32);

#[derive(Clone, Debug)]
struct Speed {
    rate: Rate,
    delay: Ps,
    /// The frames sent last, one of control and one of data. Most frames have the length of the one
    /// before.
    recent: [Frame; 2],
}

/// The times of a frame of one length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    bytes: u32,
    /// The times until the next frame may follow and until the frame is at the far end.
    pub(crate) spans: Spans,
    /// The first of them.
    pub(crate) occupies: Ps,
}

impl Frame {
    /// A frame longer than any.
    const NONE: Frame = Frame { bytes: u32::MAX, spans: Spans::ZERO, occupies: Ps::ZERO };
}

impl Speeds {
    pub(crate) fn find(&mut self, rate: Rate, delay: Ps) -> SpeedId {
        let same = |speed: &Speed| speed.rate == rate && speed.delay == delay;
        let at = self.known.iter().position(same).unwrap_or_else(|| {
            self.known.push(Speed { rate, delay, recent: [Frame::NONE; 2] });
            self.known.len() - 1
        });
        SpeedId(at as u32)
    }

    /// Returns the times of a packet with a gap of `gap` bytes after it.
    #[inline(always)]
    pub(crate) fn frame(
        &mut self,
        id: SpeedId,
        packet: &Packet,
        gap: u32,
        events: &mut Events,
    ) -> &Frame {
        let class = usize::from(packet.is_data());
        if self.known[id.0 as usize].recent[class].bytes != packet.bytes {
            self.measure(id, packet, gap, events);
        }
        &self.known[id.0 as usize].recent[class]
    }

    #[cold]
    #[inline(never)]
    fn measure(&mut self, id: SpeedId, packet: &Packet, gap: u32, events: &mut Events) {
        let speed = &mut self.known[id.0 as usize];
        let wire = speed.rate.time_for(packet.bytes);
        let occupies = wire + speed.rate.time_for(gap);
        let spans = events.spans(occupies, wire + speed.delay);
        speed.recent[usize::from(packet.is_data())] =
            Frame { bytes: packet.bytes, spans, occupies };
    }
}
