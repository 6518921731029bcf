//! Queue pairs: state, receive queue, events, and the streams of a connection.
//!
//! [`queue_pair`] is the queue pair itself, [`connected`] adds the [`streams`] of its connection.
//! [`arrive`] handles incoming data packets, [`ahead`] those that are still arriving, [`acks`]
//! incoming acknowledgements, [`credit`] requests and grants of credit. [`transmit`] chooses the
//! next outgoing packet, [`describe`] fills in its header. [`fail`] and [`disconnect`] end the
//! connection.

mod recv_queue;
mod metrics;
mod streams;
mod queue_pair;
mod connected;
mod fail;
mod disconnect;
mod arrive;
mod ahead;
mod acks;
mod credit;
mod transmit;
mod describe;

pub use self::arrive::{Admit, Landing};
pub use self::connected::ConnectedQp;
pub(crate) use self::credit::CreditNews;
pub use self::metrics::{QpCounters, SubflowMetrics};
pub use self::queue_pair::QueuePair;
pub(crate) use self::transmit::{Outcome, Packet};
