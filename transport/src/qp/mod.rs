//! One queue pair: its state, receive queue, events and end, around the streams of its connection.
//!
//! [`queue_pair`] is the queue pair, [`streams`] the streams that it has once it is connected.
//! [`arrive`] takes packets in, [`acks`] acknowledgements; [`transmit`] lets packets out; [`fail`]
//! and [`disconnect`] end the connection.

mod recv_queue;
mod metrics;
mod streams;
mod queue_pair;
mod connected;
mod fail;
mod disconnect;
mod arrive;
mod acks;
mod transmit;
mod describe;

pub use self::arrive::{Admit, Landing};
pub use self::connected::ConnectedQp;
pub use self::metrics::{QpCounters, SubflowMetrics};
pub use self::queue_pair::{OfferTerms, QueuePair};
pub(crate) use self::transmit::{Outcome, Packet};
