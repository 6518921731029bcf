//! The counters of an engine.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// Events since the engine was made, all workers together.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct EngineCounters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        /// The counters of one worker, which alone writes them.
        #[derive(Debug, Default)]
        pub(crate) struct WorkerCounters {
            $(pub(crate) $name: Counter,)+
        }

        impl EngineCounters {
            /// The name, the description and the value of each counter.
            #[cfg(feature = "metrics")]
            pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($doc),+).trim_ascii(), self.$name)),+].into_iter()
            }
        }

        impl WorkerCounters {
            pub(crate) fn add_to(&self, sum: &mut EngineCounters) {
                $(sum.$name += self.$name.get();)+
            }
        }
    };
}

counters! {
    /// Datagrams handed to the link.
    datagrams_sent,
    /// Batches handed to the link; over UDP, a system call each.
    batches_sent,
    /// Times that the link was full and a batch had to wait.
    link_full,
    /// Batches that the link failed to send, for reasons that the log names.
    send_errors,
    /// Datagrams received.
    datagrams_received,
    /// Received datagrams dropped because they are not Braid's, or contradict themselves.
    malformed,
    /// Received datagrams dropped because their version is not this build's.
    version,
    /// Received datagrams dropped because the header check failed: damaged on the way.
    header_check,
    /// Data packets dropped because the payload check failed: damaged on the way.
    payload_check,
    /// Packets dropped because no queue pair has that number.
    unknown_qp,
    /// Packets dropped because they have another token than the queue pair of that number: those of
    /// an earlier connection, or guesses.
    wrong_token,
    /// RoCEv2 datagrams dropped because they have another Q_Key than the queue pair of that number.
    wrong_q_key,
    /// Packets dropped because they have the number and token of a connection and come from another
    /// host than its peer.
    wrong_source,
    /// Packets dropped because the keys of their connection do not open them: forged, or changed on
    /// the way.
    forged,
    /// Packets of keyed connections dropped because their numbers had come before, or were too old
    /// to tell.
    replayed,
    /// Packets dropped because their connection is keyed and they are not protected, or are with
    /// the keys of another one.
    unprotected,
    /// Data packets that had arrived before.
    duplicates,
    /// Data packets refused: outside the window, no receive posted, no access, wrong state, no room
    /// for a copy to GPU memory, they close what there is not.
    refused,
    /// Intact packets of plain RoCEv2 received with a congestion mark (ECN CE).
    marks_received,
    /// Set-up packets dropped or turned down: wrong cookie, nobody listens, none asked for.
    setup_refused,
    /// Connection requests put off because the backlog, or the share of it that one host may hold,
    /// was full.
    setup_busy,
    /// Datagrams that arrived at this host and found the receive buffer full.
    overflowed,
    /// Datagrams that the system refused to send: no route, a firewall.
    unreachable,
    /// Datagrams that injected faults dropped or damaged.
    injected,
    /// Times that a peer was reached from the receiving port but not from the ports of paths,
    /// because of a NAT or a stateful firewall.
    paths_blocked,
    /// Times that path discovery for a peer has finished, with `discover` set.
    ways_learnt,
}

impl EngineCounters {
    /// Datagrams dropped because they were damaged. In a keyed connection, damaged and forged
    /// packets cannot be distinguished.
    pub fn damaged(&self) -> u64 {
        self.header_check + self.payload_check + self.forged
    }
}

/// A counter that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds with a plain load and store, because only the holder of the worker writes.
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
