//! The service of a queue pair.

use std::fmt;

use crate::abi::*;

/// The service of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpKind {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

impl QpKind {
    pub(super) fn to_raw(self) -> u32 {
        match self {
            QpKind::Rc => IBV_QPT_RC,
            QpKind::Uc => IBV_QPT_UC,
            QpKind::Ud => IBV_QPT_UD,
        }
    }
}

impl fmt::Display for QpKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            QpKind::Rc => "RC",
            QpKind::Uc => "UC",
            QpKind::Ud => "UD",
        })
    }
}
