//! Degradations in the words of `braid-perf`.

use serde_json::Value;

use crate::Failure;
use crate::e2e::peers::Said;

/// The results of a client that was called with `--json -`.
pub(super) fn results(said: &Said) -> Result<Value, Failure> {
    let lines =
        said.client.lines().filter_map(|line| line.trim_start().strip_prefix("client out: "));
    let text = lines.collect::<Vec<_>>().join("\n");
    serde_json::from_str(&text)
        .map_err(|why| Failure::new(format!("no JSON from the client: {why}\n{}", said.client)))
}

/// Both sides name exactly these degradations, each with its side: in the results, and in a warning
/// of the log.
pub(super) fn expect(
    said: &Said,
    results: &Value,
    expected: &[(&str, &str)],
) -> Result<(), Failure> {
    let none = Vec::new();
    let listed = results["degradations"].as_array().unwrap_or(&none);
    let mut found: Vec<(&str, &str)> = listed
        .iter()
        .filter_map(|one| Some((one["side"].as_str()?, one["name"].as_str()?)))
        .collect();
    found.sort_unstable();
    if found != expected {
        let both = format!("{}\n{}", said.server, said.client);
        return Err(Failure::new(format!("degraded: {found:?}, expected: {expected:?}\n{both}")));
    }
    for (side, name) in expected {
        let says = if *side == "client" { &said.client } else { &said.server };
        let warns = |line: &str| {
            line.contains(" WARN braid::worker::degradations: degraded ") && line.contains(name)
        };
        if !says.lines().any(warns) {
            return Err(Failure::new(format!("the {side} does not warn of {name}\n{says}")));
        }
    }
    Ok(())
}
