//! Detects responders that cannot answer.

use std::io;

use braid_transport::AddrPair;

use crate::datapath::{PathInfo, Reach};

/// The number of short HELLOs without an answer after which a second socket sends too: 300 ms after
/// the first HELLO. A far responder may take this long. A firewall may also drop packets from other
/// ports than the engine's.
const PATIENCE: u32 = 3;
/// The same where another carrier takes over: 60 ms after the first HELLO.
const LITTLE_PATIENCE: u32 = 1;

/// The knowledge about a responder.
pub(crate) enum Reachability {
    /// The number of short HELLOs without an answer.
    Silent(u32),
    /// A second socket sends the HELLOs too.
    Asked(Reach),
    /// None of the HELLOs can have arrived. The attempt ends unless an answer comes before the next
    /// one.
    Refused(io::Error),
    /// The responder has answered, or the system does not know.
    Settled,
}

impl Default for Reachability {
    fn default() -> Self {
        Reachability::Silent(0)
    }
}

impl Reachability {
    /// Handles a short HELLO that is due. Returns the reason if it cannot arrive.
    pub(crate) fn on_hello(
        &mut self,
        datapath: &dyn PathInfo,
        to: AddrPair,
        hello: &[u8],
        is_replaceable: bool,
    ) -> Option<io::Error> {
        let patience = if is_replaceable { LITTLE_PATIENCE } else { PATIENCE };
        match std::mem::replace(self, Reachability::Settled) {
            Reachability::Silent(count) if count + 1 < patience => {
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

    /// The reason why none of the HELLOs so far can have arrived.
    pub(crate) fn refusal(&self) -> Option<&io::Error> {
        if let Reachability::Refused(why) = self { Some(why) } else { None }
    }

    fn ask(&mut self, reach: Reach, hello: &[u8]) {
        *self = match reach.ask(hello) {
            Some(why) => Reachability::Refused(why),
            None => Reachability::Asked(reach),
        };
    }
}
