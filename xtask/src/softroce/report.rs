//! Results of a standard run: a table for people, JSON for programs.

use std::path::Path;

use braid_lab::median;
use braid_lab::table::aligned;
use serde_json::{Value, json};

use super::checks::{Checks, Verdict};
use super::ratios::{Ratio, Results};
use crate::{Failure, files};

pub(super) fn print(results: &Results) {
    let mut figures = vec![["WRITE", "median", "rounds [MB/s]"].map(str::to_owned).to_vec()];
    figures.extend(results.figures.iter().map(|(name, figures)| {
        let rounds: Vec<String> = figures.iter().map(|figure| format!("{figure:.1}")).collect();
        vec![(*name).to_owned(), format!("{:.1}", median(figures)), rounds.join(" ")]
    }));
    let mut ratios = vec![["ratio of", "to", "is", "wanted", ""].map(str::to_owned).to_vec()];
    ratios.extend(results.ratios.iter().map(|ratio| {
        let Ratio { of, to, value, least } = ratio;
        let verdict = if ratio.is_short() { "SHORT" } else { "" };
        let figures = [value, least].map(|figure| format!("{figure:.2}"));
        let [value, least] = figures;
        vec![(*of).to_owned(), (*to).to_owned(), value, least, verdict.to_owned()]
    }));
    for (rows, words) in [(figures, 1), (ratios, 2)] {
        println!("\n{}", aligned(&rows, words).join("\n"));
    }
}

pub(super) fn write(
    path: &Path,
    kernel: &str,
    checks: &Checks,
    results: &Results,
) -> Result<(), Failure> {
    let text = format!("{:#}\n", to_json(kernel, checks, results));
    files::write(path, text)
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
