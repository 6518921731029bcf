//! Connections of plain RoCEv2 by messages of the communication manager (CM; IBTA vol. 1, chapter
//! 12), as `rdma_cm` of the kernel makes them: REQ, REP, RTU; DREQ, DREP at the end.
//!
//! Datagrams need no connection: a lookup (SIDR_REQ, SIDR_REP) finds the queue pair of a service.
//!
//! A [`CmManager`] keeps the state of all connections of one port. A driver feeds it the MADs that
//! arrive at queue pair 1, sends those that it hands out, and acts on its events. The queue pairs
//! belong to the driver.
//!
//! Messages get lost, arrive twice and overtake each other. Each message that needs an answer is
//! repeated. A repeated message is answered as before, and causes no second event.
//!
//! Anybody can send messages, with a false source too. An answer is as long as the message that
//! caused it. A reply is repeated a limited number of times. Requests that nobody has answered are
//! limited in number and time.

mod conversation;
mod lookups;
mod connections;

pub use self::connections::CmManager;
pub use self::conversation::{CmEvent, CmEventKind, CmId};
