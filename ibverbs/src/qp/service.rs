//! Transport services of queue pairs.

/// The transport service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Service {
    /// RC, and UC, which is served as if it were RC.
    Connected { reliable: bool },
    /// UD.
    Datagrams,
}

impl Service {
    pub(crate) fn is_reliable(self) -> bool {
        self == Service::Connected { reliable: true }
    }
}
