//! The events of connections with ends that are not Braid, as programs get them.

use braid_transport::CmEventKind;

use super::super::events::EventKind;
use super::super::id::IdShared;
use super::gsi::ConnectionEvents;
use super::messages::rejection;

impl ConnectionEvents for IdShared {
    fn on_event(&self, kind: CmEventKind) {
        match kind {
            CmEventKind::Established => self.report(EventKind::Established, 0, None),
            CmEventKind::Disconnected => self.report(EventKind::Disconnected, 0, None),
            CmEventKind::Unreachable => self.report(EventKind::Unreachable, -libc::ETIMEDOUT, None),
            CmEventKind::Rejected(reason, data) => {
                let (status, message) = rejection(reason, &data);
                self.report(EventKind::Rejected, status, Some(message.into()));
            }
            // Attempts and listeners take these.
            CmEventKind::Requested(_)
            | CmEventKind::Replied(_)
            | CmEventKind::LookedUp(_)
            | CmEventKind::Found(_) => {}
        }
    }
}
