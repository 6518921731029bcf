//! The reasons for which a connection ends.

use std::io;

/// The reason for which a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Closed {
    #[error("what arrived is not Braid's; does another program use this port?")]
    NotBraid,
    #[error(
        "the peer's framing has version {theirs} and this end's {ours}; run the same build on \
         both sides"
    )]
    Version { theirs: u16, ours: u16 },
    #[error("the peer names path {path}, which does not exist")]
    Path { path: u16 },
    #[error("another process uses the peer's address and is still connected")]
    OtherInstance,
    #[error("the peer sends a frame of {len} bytes; it may send {most}")]
    FrameLength { len: u32, most: usize },
    #[error("the peer has closed the connection")]
    End,
    #[error("the peer has closed the connection inside a frame")]
    EndInFrame,
    #[error("nothing arrived that tells what the peer is")]
    Silent,
    #[error("the peer stopped inside a frame")]
    StalledFrame,
    #[error("the peer takes nothing")]
    Stalled,
    #[error("this end has no use for the connection any more")]
    Unused,
    #[error("too many connections of strangers")]
    Crowded,
    #[error("{0}")]
    System(#[from] io::Error),
}

impl Closed {
    /// Whether the peer breaks the rules. The reason is then logged as a warning.
    pub(super) fn is_foul(&self) -> bool {
        match self {
            Closed::NotBraid
            | Closed::Version { .. }
            | Closed::Path { .. }
            | Closed::OtherInstance
            | Closed::FrameLength { .. }
            | Closed::EndInFrame
            | Closed::StalledFrame
            | Closed::Crowded => true,
            Closed::End | Closed::Silent | Closed::Stalled | Closed::Unused | Closed::System(_) => {
                false
            }
        }
    }
}
