//! Destinations whose hosts report a closed port, from the error queues of a link's sockets.

use std::net::SocketAddr;

use socket2::Socket;

use super::addresses::canonical;
use super::error_queue::{self, Complaint};
use crate::link::{PortRefused, Via};

/// The largest number of reports that are kept until they are taken.
const MOST: usize = 256;
/// The largest number of messages taken from one socket at a time, so that a flood of forged ones
/// cannot block the worker.
const MOST_AT_ONCE: usize = 64;

/// The reports of refused ports.
#[derive(Default)]
pub(super) struct RefusedList(Vec<PortRefused>);

impl RefusedList {
    /// Empties the error queue of the socket that sends by `via`. Returns whether the queue held
    /// anything. If so, an error of a send or receive call may concern an earlier datagram.
    pub(super) fn read(&mut self, socket: &Socket, via: Via) -> bool {
        // The quoted datagram is not needed.
        let mut quote = [0; 8];
        for count in 0..MOST_AT_ONCE {
            let Ok(Some(report)) = error_queue::next(socket, &mut quote) else { return count > 0 };
            if let (Some(to), Some((_, Complaint::PortUnreachable))) = (report.to, report.complaint)
            {
                self.add(to, via);
            }
        }
        true
    }

    /// Adds a report, unless it is listed.
    pub(super) fn add(&mut self, to: SocketAddr, via: Via) {
        let refused = PortRefused { to: canonical(to), via };
        if self.0.len() < MOST && !self.0.contains(&refused) {
            self.0.push(refused);
        }
    }

    pub(super) fn take(&mut self) -> Vec<PortRefused> {
        std::mem::take(&mut self.0)
    }
}
