//! Whether it is worth while to wait for an answer.

use std::io;

use braid_transport::AddrPair;

use crate::datapath::{PathInfo, Reach};

/// Short HELLOs without an answer, the last of which goes from a second socket as well: 300 ms
/// after the first HELLO of all. So long a far responder may take, and a firewall may turn away
/// what comes from another port than the engine's.
const PATIENCE: u32 = 3;

/// What is known of a responder.
pub(crate) enum Reachability {
    /// So many short HELLOs have had no answer.
    Silent(u32),
    /// They go from a second socket as well.
    Asked(Reach),
    /// None of those can have arrived. That ends the attempt if there is no answer until the next
    /// is due.
    Refused(io::Error),
    /// It has answered, and nobody else is listened to any more; or nobody knows.
    Settled,
}

impl Default for Reachability {
    fn default() -> Self {
        Reachability::Silent(0)
    }
}

impl Reachability {
    /// A short HELLO is due. Returns why it is in vain, if it is.
    pub(crate) fn on_hello(
        &mut self,
        datapath: &dyn PathInfo,
        to: AddrPair,
        hello: &[u8],
    ) -> Option<io::Error> {
        match std::mem::replace(self, Reachability::Settled) {
            Reachability::Silent(count) if count + 1 < PATIENCE => {
                *self = Reachability::Silent(count + 1);
            }
            Reachability::Silent(_) => {
                if let Some(reach) = datapath.reach(to) {
                    self.ask(reach, hello);
                }
            }
            Reachability::Asked(reach) => self.ask(reach, hello),
            Reachability::Refused(why) => return Some(why),
            Reachability::Settled => {}
        }
        None
    }

    fn ask(&mut self, reach: Reach, hello: &[u8]) {
        *self = match reach.ask(hello) {
            Some(why) => Reachability::Refused(why),
            None => Reachability::Asked(reach),
        };
    }
}
