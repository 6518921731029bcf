//! The groups of functions, each of which is one page.

use super::header::Item;
use crate::Failure;

/// A page, with the beginnings of the names that it describes. The longest beginning decides.
/// Constants belong to the page of their name in lower case.
struct Topic {
    page: &'static str,
    summary: &'static str,
    beginnings: &'static [&'static str],
}

const TOPICS: &[Topic] = &[
    Topic {
        page: "braid_error",
        summary: "versions, error texts and the log",
        beginnings: &[
            "braid_abi_version",
            "braid_version",
            "braid_strerror",
            "braid_last_error",
            "braid_ok",
            "braid_err_",
            "braid_log_",
            "braid_set_log_callback",
        ],
    },
    Topic {
        page: "braid_engine",
        summary: "engines, their configuration and counters",
        beginnings: &[
            "braid_engine",
            "braid_fabric",
            "braid_addr_len",
            "braid_default_port",
            "braid_max_paths",
            "braid_service_",
        ],
    },
    Topic {
        page: "braid_mr",
        summary: "protection domains, memory regions and their keys",
        beginnings: &["braid_mr", "braid_pd", "braid_remote", "braid_access_", "braid_sge"],
    },
    Topic {
        page: "braid_cq",
        summary: "completion queues and completions",
        beginnings: &["braid_cq", "braid_wc"],
    },
    Topic {
        page: "braid_qp",
        summary: "queue pairs, their options, state and counters",
        beginnings: &["braid_qp", "braid_peer_name_len", "braid_protocol_len"],
    },
    Topic {
        page: "braid_connect",
        summary: "connecting queue pairs",
        beginnings: &[
            "braid_qp_connect",
            "braid_qp_disconnect",
            "braid_connecting",
            "braid_roce",
            "braid_engine_roce",
            "braid_max_private_data",
        ],
    },
    Topic {
        page: "braid_roce_ud",
        summary: "datagrams over plain RoCEv2",
        beginnings: &[
            "braid_roce_ud",
            "braid_roce_address",
            "braid_roce_datagram",
            "braid_roce_wc",
            "braid_roce_header_len",
            "braid_cq_poll_datagrams",
            "braid_cq_wait_datagrams",
        ],
    },
    Topic {
        page: "braid_listener",
        summary: "listeners and connection requests",
        beginnings: &["braid_listener", "braid_request"],
    },
    Topic {
        page: "braid_post",
        summary: "work requests",
        beginnings: &[
            "braid_qp_post_",
            "braid_send_",
            "braid_recv_",
            "braid_wr_",
            "braid_max_sge",
            "braid_max_message",
        ],
    },
    Topic {
        page: "braid_event",
        summary: "asynchronous events, and the reasons why queue pairs end",
        beginnings: &[
            "braid_event",
            "braid_engine_event_fd",
            "braid_engine_wait_event",
            "braid_qp_query_error",
            "braid_qp_error",
            "braid_end_",
        ],
    },
    Topic {
        page: "braid_group",
        summary: "groups of processes and their all-to-all",
        beginnings: &[
            "braid_group",
            "braid_round",
            "braid_range",
            "braid_blame_",
            "braid_max_ranks",
            "braid_job_len",
        ],
    },
    Topic {
        page: "braid_paths",
        summary: "the state of every path",
        beginnings: &["braid_paths", "braid_path_", "braid_engine_query_paths"],
    },
    Topic {
        page: "braid_metrics",
        summary: "snapshots, degradations and reordering",
        beginnings: &[
            "braid_metrics",
            "braid_engine_query_metrics",
            "braid_engine_metrics",
            "braid_qp_metrics",
            "braid_subflow_",
            "braid_stream_",
            "braid_degradation",
            "braid_qp_get_degradation",
            "braid_qp_query_ooo",
            "braid_ooo",
        ],
    },
    Topic {
        page: "braid_discover",
        summary: "the routes of paths, found by probing",
        beginnings: &["braid_discover", "braid_path_map"],
    },
];

/// A page with its items.
pub(super) struct Page<'a> {
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) items: Vec<&'a Item>,
}

impl<'a> Page<'a> {
    /// The functions and types, all of which the page can be found by.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        let is_shown = |name: &&str| name.starts_with("braid_");
        self.items.iter().map(|item| item.name.as_str()).filter(is_shown)
    }

    pub(super) fn functions(&self) -> impl Iterator<Item = &'a Item> {
        self.items.iter().copied().filter(|item| item.is_function())
    }
}

/// Distributes the items of a header over the pages.
pub(super) fn pages(items: &[Item]) -> Result<Vec<Page<'_>>, Failure> {
    let mut pages: Vec<Page<'_>> = TOPICS
        .iter()
        .map(|topic| Page { name: topic.page, summary: topic.summary, items: Vec::new() })
        .collect();
    for item in items {
        pages[topic_of(&item.name)?].items.push(item);
    }
    Ok(pages)
}

/// The index of the group with the longest beginning of the name.
fn topic_of(name: &str) -> Result<usize, Failure> {
    let lower = name.to_lowercase();
    let longest = |topic: &Topic| {
        let of_name = topic.beginnings.iter().filter(|start| lower.starts_with(**start));
        of_name.map(|start| start.len()).max()
    };
    let found = TOPICS.iter().enumerate().filter_map(|(at, topic)| Some((longest(topic)?, at)));
    found.max().map(|(_, at)| at).ok_or_else(|| {
        Failure::new(format!("{name} of braid.h belongs to no man page"))
            .remedy("add it to a group in xtask/src/install/manual/pages.rs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(name: &str) -> &'static str {
        TOPICS[topic_of(name).unwrap()].page
    }

    #[test]
    fn the_longest_beginning_decides() {
        assert_eq!(page_of("braid_qp_create"), "braid_qp");
        assert_eq!(page_of("braid_qp_post_send"), "braid_post");
        assert_eq!(page_of("braid_engine_query_paths"), "braid_paths");
        assert_eq!(page_of("BRAID_WR_SEND"), "braid_post");
        assert_eq!(page_of("braid_path_map_way"), "braid_discover");
    }

    #[test]
    fn a_name_without_a_topic_is_an_error() {
        let why = topic_of("braid_unheard_of").unwrap_err().to_string();
        assert!(why.contains("braid_unheard_of"), "{why}");
    }
}
