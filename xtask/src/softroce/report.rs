//! What a standard run came to: a table for people, JSON for programs.

use std::path::Path;

use braid_lab::median;
use serde_json::{Value, json};

use super::checks::{Checks, Verdict};
use super::ratios::{Ratio, Results};
use crate::Failure;

pub(super) fn print(results: &Results) {
    println!("\n{:<24} {:>10}  rounds [MB/s]", "WRITE", "median");
    for (name, figures) in &results.figures {
        let rounds: Vec<String> = figures.iter().map(|figure| format!("{figure:.1}")).collect();
        println!("{name:<24} {:>10.1}  {}", median(figures), rounds.join(" "));
    }
    println!("\n{:<24} {:<24} {:>7} {:>7}", "ratio of", "to", "is", "wanted");
    for ratio in &results.ratios {
        let Ratio { of, to, value, least } = ratio;
        let verdict = if ratio.is_short() { "SHORT" } else { "" };
        println!("{of:<24} {to:<24} {value:>7.2} {least:>7.2}  {verdict}");
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
    use super::*;

    #[test]
    fn programs_get_medians_and_ratios() {
        let figures = vec![("x", vec![1.0, 3.0]), ("y", vec![5.0])];
        let ratios = vec![Ratio { of: "y", to: "x", value: 2.5, least: 2.0 }];
        let value = to_json("6.1", &Checks::default(), &Results { figures, ratios });
        assert_eq!(value["figures"][0]["median_megabytes_s"], 2.0);
        assert_eq!(value["ratios"][0]["ratio"], 2.5);
        assert_eq!(value["kernel"], "6.1");
    }
}
