//! The states of a reliable connected queue pair (IBTA vol. 1, 10.3.1).

use std::fmt;

/// State of a queue pair, which decides what it does with work requests and packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum QpState {
    /// Created: takes nothing.
    Reset = 0,
    /// Takes receives, processes nothing.
    Init = 1,
    /// Receives. A queue pair passes through it while it connects.
    ReadyToReceive = 2,
    /// Sends and receives.
    ReadyToSend = 3,
    /// Receives; finishes the sends it has begun and holds back the others.
    SendQueueDrained = 4,
    /// Every outstanding and every new work request is flushed.
    Error = 5,
}

use QpState::*;

const STATES: [QpState; 6] = [Reset, Init, ReadyToReceive, ReadyToSend, SendQueueDrained, Error];

impl QpState {
    /// The state of a number, as `as u8` gives it.
    pub fn from_u8(value: u8) -> Option<Self> {
        STATES.into_iter().find(|state| *state as u8 == value)
    }

    /// Whether a send can be posted. In `Error` it is flushed at once.
    pub fn accepts_send(self) -> bool {
        matches!(self, ReadyToSend | SendQueueDrained | Error)
    }

    /// Whether a receive can be posted. In `Error` it is flushed at once.
    pub fn accepts_recv(self) -> bool {
        self != Reset
    }

    /// Whether packets of the peer are taken.
    pub fn receives(self) -> bool {
        matches!(self, ReadyToReceive | ReadyToSend | SendQueueDrained)
    }

    /// Whether there is such a transition. Every state can go to RESET and, but for RESET, to ERR.
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
