//! Counters of the traffic on each link, from the kernel.

use std::collections::BTreeMap;
use std::process::Command;

use serde::Deserialize;

use crate::layout::Layout;
use crate::{FabricError, Plan, process};

/// The traffic of a link in one direction since the fabric was made.
///
/// The kernel counts where it applies the rate of the link. A batch counts as the packets that it
/// would be on a wire, with headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes sent, Ethernet headers included.
    pub bytes: u64,
    /// Packets sent.
    pub packets: u64,
    /// Batches or packets that found the queue full.
    pub drops: u64,
}

/// The traffic of one link between a leaf and a spine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkCount {
    /// The leaf.
    pub leaf: usize,
    /// The spine.
    pub spine: usize,
    /// From the leaf to the spine.
    pub to_spine: Traffic,
    /// From the spine to the leaf.
    pub to_leaf: Traffic,
}

#[derive(Deserialize)]
struct Qdisc {
    kind: String,
    dev: String,
    bytes: u64,
    packets: u64,
    drops: u64,
}

/// Reads the counters of all links, leaf by leaf.
pub(crate) fn read(layout: &Layout, plan: &Plan) -> Result<Vec<LinkCount>, FabricError> {
    let leaves = sent(plan.leaves, |leaf| layout.leaf(leaf))?;
    let spines = sent(plan.spines, |spine| layout.spine(spine))?;
    let mut links = Vec::with_capacity(plan.leaves * plan.spines);
    for (leaf, by_leaf) in leaves.iter().enumerate() {
        for (spine, by_spine) in spines.iter().enumerate() {
            links.push(LinkCount {
                leaf,
                spine,
                to_spine: of(by_leaf, &layout.leaf(leaf), format!("s{spine}"))?,
                to_leaf: of(by_spine, &layout.spine(spine), format!("l{leaf}"))?,
            });
        }
    }
    Ok(links)
}

fn of(
    sent: &BTreeMap<String, Traffic>,
    namespace: &str,
    device: String,
) -> Result<Traffic, FabricError> {
    let gone = || FabricError::LinkGone { device: format!("{device} in {namespace}") };
    sent.get(&device).copied().ok_or_else(gone)
}

fn sent(
    number: usize,
    namespace: impl Fn(usize) -> String,
) -> Result<Vec<BTreeMap<String, Traffic>>, FabricError> {
    (0..number)
        .map(|index| {
            let namespace = namespace(index);
            let mut command = Command::new("tc");
            command.args(["-n", &namespace, "-j", "-s", "qdisc", "show"]);
            parse(&process::output(&mut command)?)
        })
        .collect()
}

fn parse(json: &str) -> Result<BTreeMap<String, Traffic>, FabricError> {
    let qdiscs: Vec<Qdisc> = serde_json::from_str(json)
        .map_err(|e| FabricError::Refused { command: "tc -j -s".into(), said: e.to_string() })?;
    let limited = qdiscs.into_iter().filter(|qdisc| qdisc.kind == "tbf");
    Ok(limited
        .map(|q| (q.dev, Traffic { bytes: q.bytes, packets: q.packets, drops: q.drops }))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tc_writes_is_read() {
        let json = r#"[{"kind":"noqueue","handle":"0:","dev":"h0","root":true,"refcnt":2,"options":{},
            "bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},
            {"kind":"tbf","handle":"1:","dev":"s0","root":true,"refcnt":3,
            "options":{"rate":25000000,"burst":73725,"lat":7536},"bytes":1514,"packets":1,"drops":2,
            "overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"#;
        let sent = parse(json).expect("it is tc's");
        assert_eq!(sent.len(), 1);
        assert_eq!(sent["s0"], Traffic { bytes: 1514, packets: 1, drops: 2 });
        assert!(parse("Error").is_err());
    }

    #[test]
    fn a_link_that_is_gone_is_named() {
        let failure = of(&BTreeMap::new(), "braid-fabric-lab-l0", "s2".into()).unwrap_err();
        assert!(failure.to_string().starts_with("s2 in braid-fabric-lab-l0 is gone"), "{failure}");
    }
}
