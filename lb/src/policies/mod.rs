//! The path policies: a file each, and a row each in the table below, which is all that names them.

mod adaptive;
mod dr;
mod ecmp;
mod min_rtt;
mod oblivious;
mod plb;
mod pro;
mod psn;
mod reps;
mod round_robin;
mod subflow;
mod two_choice;

use crate::LbPolicy;

/// Makes of each row a constant of [`LbPolicy`], and of all rows the list of those.
macro_rules! table {
    ($($(#[doc = $doc:expr])+ $constant:ident = $factory:expr;)+) => {
        impl LbPolicy {
            $($(#[doc = $doc])+ pub const $constant: LbPolicy = LbPolicy::custom(&$factory);)+

            /// Every policy of the table.
            pub const ALL: [LbPolicy; [$(stringify!($constant)),+].len()] = [$(LbPolicy::$constant),+];
        }
    };
}

table! {
    /// One path per queue pair, by hash: what a switch does with an ordinary connection.
    ECMP = ecmp::Factory;
    /// Four random paths per queue pair, one after the other.
    SUBFLOW = subflow::Factory;
    /// One path after the other, whichever queue pair of the path set sends.
    ROUND_ROBIN = round_robin::Factory;
    /// A random path for every batch.
    OBLIVIOUS = oblivious::Factory;
    /// Orchestrated round robin (PRO, Alg. 1, with its batch form): every queue pair goes round all paths,
    /// staggered against the others.
    PRO = pro::Factory;
    /// PRO's order, with a window for each path that falls behind the others.
    ADAPTIVE = adaptive::Factory;
    /// The path follows from the packet sequence number (Themis, Eq. 1).
    PSN = psn::Factory;
    /// Destination rotation in its host form (OFAN, section 6.1): one pointer per destination, from a random
    /// start.
    DR = dr::Factory;
    /// Recycled entropies: paths whose packets came back unmarked are used again (REPS).
    REPS = reps::Factory;
    /// One path per queue pair, exchanged when it stays congested (PLB, as in Linux).
    PLB = plb::Factory;
    /// The path with the lowest smoothed round-trip time that has window (MPTCP's default).
    MIN_RTT = min_rtt::Factory;
    /// The better of two random paths (UCCL).
    TWO_CHOICE = two_choice::Factory;
}
