//! The states of a reliable connected queue pair (IBTA vol. 1, 10.3.1).

use std::fmt;

/// State of a queue pair, which decides how it handles work requests and packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum QpState {
    /// Created. Accepts no work requests.
    Reset = 0,
    /// Accepts receives, but processes nothing.
    Init = 1,
    /// Ready to receive. A queue pair passes through this state while it connects.
    ReadyToReceive = 2,
    /// Ready to send and receive.
    ReadyToSend = 3,
    /// Send queue drained: receives, and finishes the sends that it has begun but starts no others.
    SendQueueDrained = 4,
    /// Flushes all outstanding and new work requests.
    Error = 5,
}

use QpState::*;

const STATES: [QpState; 6] = [Reset, Init, ReadyToReceive, ReadyToSend, SendQueueDrained, Error];

impl QpState {
    /// Returns the state with this number, the inverse of `as u8`.
    pub fn from_u8(value: u8) -> Option<Self> {
        STATES.into_iter().find(|state| *state as u8 == value)
    }

    /// Whether a send can be posted. In `Error` a posted send is flushed at once.
    pub fn accepts_send(self) -> bool {
        matches!(self, ReadyToSend | SendQueueDrained | Error)
    }

    /// Whether a receive can be posted. In `Error` a posted receive is flushed at once.
    pub fn accepts_recv(self) -> bool {
        self != Reset
    }

    /// Whether packets of the peer are accepted.
    pub fn receives(self) -> bool {
        matches!(self, ReadyToReceive | ReadyToSend | SendQueueDrained)
    }

    /// Whether the state machine has this transition. Every state can go to RESET, and every state
    /// except RESET to ERR.
    pub fn may_become(self, to: QpState) -> bool {
        match to {
            Reset => true,
            Error => self != Reset,
            Init => matches!(self, Reset | Init),
            ReadyToReceive => self == Init,
            ReadyToSend => matches!(self, ReadyToReceive | ReadyToSend | SendQueueDrained),
            SendQueueDrained => matches!(self, ReadyToSend | SendQueueDrained),
        }
    }

    pub(crate) fn successors(self) -> String {
        let names = STATES.into_iter().filter(|to| self.may_become(*to)).map(|to| to.to_string());
        names.collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for QpState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reset => "RESET",
            Init => "INIT",
            ReadyToReceive => "RTR",
            ReadyToSend => "RTS",
            SendQueueDrained => "SQD",
            Error => "ERR",
        })
    }
}
