//! `braid-perf paths`: the route of each source port to a host.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr};

use braid::{DiscoveryConfig, PathId, PathMap, Way};
use serde::Serialize;

use crate::cli::PathsArgs;
use crate::failure::{Attempt, Failure};
use crate::json_file::JsonFile;
use crate::{progress, session, stdio};

/// The map in JSON.
#[derive(Serialize)]
struct PathReport {
    to: String,
    ways: Vec<FoundWay>,
    unanswered: usize,
    complete: bool,
    /// Paths that load all routes equally; absent if plain source ports are as good.
    #[serde(skip_serializing_if = "Option::is_none")]
    balanced: Option<Vec<u16>>,
    took_s: f64,
}

#[derive(Serialize)]
struct FoundWay {
    /// The hops. `null`: no answer.
    hops: Vec<Option<IpAddr>>,
    paths: Vec<u16>,
}

/// Probes the paths to a host and prints the map.
pub(crate) fn run(args: &PathsArgs) -> Result<(), Failure> {
    let json = JsonFile::asked(args.json.as_ref())?;
    let to = session::resolve(&args.host, args.port)?;
    let from = args.bind.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    let paths = (0..args.paths).map(PathId::new);
    let what = format!("probing {} paths to {}", args.paths, args.host);
    let discover = || braid::discover_any(&to, from, paths, DiscoveryConfig::default());
    let map = progress::during(&what, discover).attempt("paths")?;
    let balanced = map.balanced(args.paths.into());
    stdio::print(|out| print(out, &map, args.paths, balanced.as_deref()))?;
    json.map_or(Ok(()), |json| json.write(&found(&map, balanced.as_deref())))
}

fn print(
    out: &mut impl Write,
    map: &PathMap,
    asked: u16,
    balanced: Option<&[PathId]>,
) -> io::Result<()> {
    writeln!(
        out,
        " {}: {asked} paths, {} way(s), {} path(s) not assigned to one; {:.1} s",
        map.to,
        map.ways.len(),
        map.unanswered,
        map.took.as_secs_f64()
    )?;
    if !map.ways.is_empty() {
        writeln!(out, " {:>5} {:>6}  hops (*: no answer)", "#way", "#paths")?;
    }
    for (index, way) in map.ways.iter().enumerate() {
        writeln!(out, " {index:>5} {:>6}  {}", way.ports.len(), hops(way))?;
        writeln!(out, " {:>12}  paths {}", "", list(&way.ports))?;
    }
    let heard = |way: &Way| way.hops.last() == Some(&Some(map.to.ip()));
    if !map.ways.is_empty() && !map.ways.iter().any(heard) {
        writeln!(out, " the host itself did not answer")?;
    }
    writeln!(out, " {}", advice(map, balanced))
}

/// Returns the recommendation for this map.
fn advice(map: &PathMap, balanced: Option<&[PathId]>) -> String {
    if let Some(paths) = balanced {
        let each = paths.len() / map.ways.len();
        return format!(
            "balanced: {} paths, {each} of each way, in turn: {}",
            paths.len(),
            list(paths)
        );
    }
    let host = Some(map.to.ip());
    let a_router = |way: &Way| way.hops.iter().any(|hop| hop.is_some() && *hop != host);
    let next_door = |way: &Way| way.hops == [host];
    let why = match map.ways.as_slice() {
        [] => "no probe was answered".to_owned(),
        [way] if next_door(way) => "there is no router on the way".to_owned(),
        [way] if !a_router(way) => "no router answered".to_owned(),
        [_] if map.unanswered > 0 => "the paths that are known take the same way".to_owned(),
        [_] => "all paths take the same way as far as it shows".to_owned(),
        ways => format!("too few paths to take as many of each of {} ways", ways.len()),
    };
    format!("{why}: plain source ports are used")
}

fn hops(way: &Way) -> String {
    let hops = way.hops.iter().map(|hop| hop.map_or("*".to_owned(), |hop| hop.to_string()));
    hops.collect::<Vec<_>>().join(" > ")
}

fn list(paths: &[PathId]) -> String {
    paths.iter().map(|path| path.get().to_string()).collect::<Vec<_>>().join(" ")
}

fn numbers(paths: &[PathId]) -> Vec<u16> {
    paths.iter().map(|path| path.get()).collect()
}

fn found(map: &PathMap, balanced: Option<&[PathId]>) -> PathReport {
    let way = |way: &Way| FoundWay { hops: way.hops.clone(), paths: numbers(&way.ports) };
    PathReport {
        to: map.to.to_string(),
        ways: map.ways.iter().map(way).collect(),
        unanswered: map.unanswered,
        complete: map.is_complete(),
        balanced: balanced.map(numbers),
        took_s: map.took.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn map(ways: &[&[u16]], unanswered: usize) -> PathMap {
        let way = |(index, paths): (usize, &&[u16])| Way {
            hops: vec![None, Some(IpAddr::from([10, 0, 0, index as u8]))],
            ports: paths.iter().map(|&path| PathId::new(path)).collect(),
        };
        let ways = ways.iter().enumerate().map(way).collect();
        let to = "10.0.0.9:4791".parse().unwrap();
        PathMap { to, ways, unanswered, took: Duration::from_millis(1500) }
    }

    #[test]
    fn advice_fits_what_was_found() {
        let said = |ways: &[&[u16]], unanswered| {
            let map = map(ways, unanswered);
            advice(&map, map.balanced(4).as_deref())
        };
        assert_eq!(
            said(&[&[0, 2], &[1, 3, 4]], 0),
            "balanced: 4 paths, 2 of each way, in turn: 0 1 2 3"
        );
        assert!(said(&[], 4).starts_with("no probe was answered"));
        assert!(said(&[&[0, 1]], 0).starts_with("all paths take the same way"));
        assert!(said(&[&[0, 1]], 2).starts_with("the paths that are known"));
        assert!(said(&[&[0], &[1], &[2], &[3], &[4]], 0).contains("of each of 5 ways"));
        let mut direct = map(&[&[0, 1]], 0);
        direct.ways[0].hops = vec![Some(direct.to.ip())];
        assert!(advice(&direct, None).starts_with("there is no router"));
        direct.ways[0].hops.insert(0, None);
        assert!(advice(&direct, None).starts_with("no router answered"));
    }

    #[test]
    fn unknown_hops_are_shown_as_such() {
        let map = map(&[&[0]], 1);
        assert_eq!(hops(&map.ways[0]), "* > 10.0.0.0");
        let json = serde_json::to_value(found(&map, None)).unwrap();
        assert_eq!(json["ways"][0]["hops"], serde_json::json!([null, "10.0.0.0"]));
        assert_eq!(json["unanswered"], 1);
        assert!(json.get("balanced").is_none());
    }
}
