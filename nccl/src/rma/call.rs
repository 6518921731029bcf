//! The collective calls of a group.

/// The collective calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Call {
    Connect = 1,
    CreateContext = 2,
    ContextReady = 3,
    Register = 4,
}

impl Call {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        let all = [Call::Connect, Call::CreateContext, Call::ContextReady, Call::Register];
        all.into_iter().find(|call| *call as u8 == byte)
    }

    /// Returns the name of the member.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::Connect => "connect",
            Call::CreateContext | Call::ContextReady => "createContext",
            Call::Register => "regMrSym",
        }
    }
}
