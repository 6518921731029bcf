//! The path policies: one file each, and one row each in the table below.

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

/// Defines a constant of [`LbPolicy`] for each row, and the list of all constants.
macro_rules! table {
    ($($(#[doc = $doc:expr])+ $constant:ident = $factory:expr;)+) => {
        impl LbPolicy {
            $($(#[doc = $doc])+ pub const $constant: LbPolicy = LbPolicy::custom(&$factory);)+

            /// All policies of the table.
            pub const ALL: [LbPolicy; [$(stringify!($constant)),+].len()] = [$(LbPolicy::$constant),+];
        }
    };
}

table! {
    /// One path per queue pair, by hash, as a switch assigns an ordinary connection.
    ECMP = ecmp::EcmpFactory;
    /// Four random paths per queue pair in turn.
    SUBFLOW = subflow::SubflowFactory;
    /// Round robin over the paths, common to all queue pairs of the path set.
    ROUND_ROBIN = round_robin::RoundRobinFactory;
    /// A random path for every batch.
    OBLIVIOUS = oblivious::ObliviousFactory;
    /// Orchestrated round robin (PRO, Alg. 1, per batch): every queue pair visits all paths,
    /// staggered against the others, from a random start.
    PRO = pro::ProFactory;
    /// PRO's order, with a window for each path that falls behind the others.
    ADAPTIVE = adaptive::AdaptiveFactory;
    /// The path is a function of the packet sequence number (Themis, Eq. 1).
    PSN = psn::PsnFactory;
    /// Destination rotation in its host form (OFAN, section 6.1): one pointer per destination with
    /// a random start.
    DR = dr::DrFactory;
    /// Recycled entropies: paths whose packets returned unmarked are used again (REPS).
    REPS = reps::RepsFactory;
    /// One path per queue pair, replaced when it stays congested (PLB, as in Linux).
    PLB = plb::PlbFactory;
    /// The path with the lowest smoothed round-trip time that has space in its window (MPTCP's
    /// default).
    MIN_RTT = min_rtt::MinRttFactory;
    /// The better of two random paths (UCCL).
    TWO_CHOICE = two_choice::TwoChoiceFactory;
}
