//! What a standard run came to: a table for people, JSON for programs.

use std::path::Path;

use serde_json::{Value, json};

use super::checks::{Checks, Verdict};
use super::ratios::{Results, median};
use crate::Failure;

pub(super) fn print(results: &Results) {
    println!("\n{:<24} {:>10}  rounds [MB/s]", "WRITE", "median");
    for (name, figures) in &results.figures {
        let rounds: Vec<String> = figures.iter().map(|figure| format!("{figure:.1}")).collect();
        match median(figures) {
            Some(median) => println!("{name:<24} {median:>10.1}  {}", rounds.join(" ")),
            None => println!("{name:<24} {:>10}", "not built"),
        }
    }
    println!("\n{:<24} {:<24} {:>7} {:>7}", "ratio of", "to", "is", "wanted");
    for ratio in &results.ratios {
        let value = ratio.value.map_or("-".into(), |value| format!("{value:.2}"));
        let verdict = match ratio.value {
            None => "not built yet",
            Some(_) if ratio.is_short() => "SHORT",
            Some(_) => "",
        };
        println!("{:<24} {:<24} {value:>7} {:>7.2}  {verdict}", ratio.of, ratio.to, ratio.least);
    }
}

pub(super) fn write(
    path: &Path,
    kernel: &str,
    checks: &Checks,
    results: &Results,
) -> Result<(), Failure> {
    let text = format!("{:#}\n", to_json(kernel, checks, results));
    std::fs::write(path, text)
        .map_err(|e| Failure::new(format!("cannot write {}: {e}", path.display())))
}

fn to_json(kernel: &str, checks: &Checks, results: &Results) -> Value {
    let check = |check: &super::checks::Check| {
        let (verdict, said) = match &check.verdict {
            Verdict::Passed(figure) => ("passed", figure.as_str()),
            Verdict::Failed(why) => ("failed", why.as_str()),
            Verdict::NotBuilt => ("not built", ""),
        };
        let seconds = check.took.as_secs_f64();
        json!({ "name": check.name, "verdict": verdict, "said": said, "seconds": seconds })
    };
    let figures = results.figures.iter().map(|(name, figures)| {
        json!({ "name": name, "megabytes_s": figures, "median_megabytes_s": median(figures) })
    });
    let ratios = results.ratios.iter().map(|ratio| {
        json!({ "of": ratio.of, "to": ratio.to, "ratio": ratio.value, "wanted": ratio.least })
    });
    json!({
        "kernel": kernel,
        "checks": checks.done.iter().map(check).collect::<Vec<_>>(),
        "figures": figures.collect::<Vec<_>>(),
        "ratios": ratios.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::ratios::Ratio;
    use super::*;

    #[test]
    fn what_is_not_built_is_null_for_programs() {
        let figures = vec![("x", vec![1.0, 3.0]), ("y", vec![])];
        let ratios = vec![Ratio { of: "y", to: "x", value: None, least: 2.0 }];
        let value = to_json("6.1", &Checks::default(), &Results { figures, ratios });
        assert_eq!(value["figures"][0]["median_megabytes_s"], 2.0);
        assert_eq!(value["figures"][1]["median_megabytes_s"], Value::Null);
        assert_eq!(value["ratios"][0]["ratio"], Value::Null);
        assert_eq!(value["kernel"], "6.1");
    }
}
