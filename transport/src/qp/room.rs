//! What a stream is left to send, and why nothing can be sent.

/// What the peer and the endpoint leave a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Packets that the peer tracks beyond its ePSN.
    pub(crate) window: u16,
    /// Segments that it has receive buffers for.
    pub(crate) segments: u32,
    /// Bytes that the endpoint may still have in flight.
    pub(crate) budget: u64,
    /// Bytes of a whole train.
    pub(crate) train: u64,
}

/// Why nothing can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Block {
    /// There is nothing to send.
    Nothing,
    /// The peer: the packets that it tracks, its buffers, the pause that it has asked for, or its silence.
    Peer,
    /// The controller's window.
    Window,
    /// The endpoint's budget, which other queue pairs use up: so many bytes of it would do.
    Budget(u64),
    /// The controller's rate: nothing but time is wanting.
    Rate,
}
