//! Results of a standard run: a table for people, JSON for programs.

use std::path::Path;

use braid_lab::table::aligned;
use serde_json::{Value, json};

use super::checks::{Checks, Verdict};
use super::ratios::{Ratio, Results, Row};
use crate::{Failure, files};

pub(super) fn print(results: &Results) {
    let mut figures = vec![["WRITE", "median", "rounds [MB/s]"].map(str::to_owned).to_vec()];
    figures.extend(results.rows.iter().map(|row| {
        let mut rounds: Vec<String> = row.figures.iter().map(|f| format!("{f:.1}")).collect();
        rounds.extend(row.failures.iter().map(|_| "FAILED".to_owned()));
        vec![row.name.to_owned(), figure(row.median(), 1), rounds.join(" ")]
    }));
    let mut ratios = vec![["ratio of", "to", "is", "wanted", ""].map(str::to_owned).to_vec()];
    ratios.extend(results.ratios.iter().map(|ratio| {
        let Ratio { of, to, value, least } = ratio;
        let verdict = match value {
            None => "NOT MEASURED",
            Some(_) if ratio.is_short() => "SHORT",
            Some(_) => "",
        };
        let [value, least] = [*value, Some(*least)].map(|ratio| figure(ratio, 2));
        vec![(*of).to_owned(), (*to).to_owned(), value, least, verdict.to_owned()]
    }));
    for (rows, words) in [(figures, 1), (ratios, 2)] {
        println!("\n{}", aligned(&rows, words).join("\n"));
    }
}

/// A figure with so many digits, or a dash in its place.
fn figure(figure: Option<f64>, digits: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
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
    let figures = results.rows.iter().map(|row| {
        let Row { name, figures, failures, .. } = row;
        // The contestants whose names end with a unit are latencies.
        match name.ends_with("[us]") {
            true => json!({ "name": name, "us": figures, "median_us": row.median(),
                "failures": failures }),
            false => json!({ "name": name, "megabytes_s": figures,
                "median_megabytes_s": row.median(), "failures": failures }),
        }
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
        let row = |name, figures: &[f64]| Row {
            name,
            is_rivals: false,
            figures: figures.to_vec(),
            failures: Vec::new(),
        };
        let mut hung = row("z [us]", &[]);
        hung.failures.push("hung".into());
        let rows = vec![row("x", &[1.0, 3.0]), row("y", &[5.0]), hung];
        let ratio = |to, value| Ratio { of: "y", to, value, least: 2.0 };
        let ratios = vec![ratio("x", Some(2.5)), ratio("z [us]", None)];
        let value = to_json("6.1", &Checks::default(), &Results { rows, ratios });
        assert_eq!(value["figures"][0]["median_megabytes_s"], 2.0);
        assert_eq!(value["figures"][2]["median_us"], Value::Null);
        assert_eq!(value["figures"][2]["failures"][0], "hung");
        assert_eq!(value["ratios"][0]["ratio"], 2.5);
        assert_eq!(value["ratios"][1]["ratio"], Value::Null);
        assert_eq!(value["kernel"], "6.1");
    }
}
