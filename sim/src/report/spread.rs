//! Mean, minimum and maximum of JSON objects with the same keys.

use serde_json::{Map, Number, Value};

/// Returns the mean of each number, as an integer if it is one.
pub(super) fn mean(runs: &[Value]) -> Value {
    let count = runs.len() as f64;
    each_number(runs, &|numbers| match whole(numbers) {
        Some(numbers) if numbers.iter().sum::<u64>().is_multiple_of(runs.len() as u64) => {
            (numbers.iter().sum::<u64>() / runs.len() as u64).into()
        }
        _ => float(numbers.iter().filter_map(Number::as_f64).sum::<f64>() / count),
    })
}

/// Returns the minimum of each number.
pub(super) fn min(runs: &[Value]) -> Value {
    extreme(runs, |a, b| a < b)
}

/// Returns the maximum of each number.
pub(super) fn max(runs: &[Value]) -> Value {
    extreme(runs, |a, b| a > b)
}

fn extreme(runs: &[Value], better: impl Fn(f64, f64) -> bool) -> Value {
    each_number(runs, &|numbers| {
        let of = |number: &Number| number.as_f64().unwrap_or(f64::NAN);
        let best = numbers.iter().reduce(|a, b| if better(of(b), of(a)) { b } else { a });
        best.cloned().unwrap_or(0.into())
    })
}

/// Replaces each number by the result of `sum_up` over all runs. Runs that lack a number are
/// skipped. Values that are no numbers are taken from the first run.
fn each_number(runs: &[Value], sum_up: &dyn Fn(&[Number]) -> Number) -> Value {
    match runs.first() {
        Some(Value::Object(first)) => {
            let of_key = |key: &String| {
                let values = runs.iter().filter_map(|run| run.get(key)).cloned();
                each_number(&values.collect::<Vec<_>>(), sum_up)
            };
            Value::Object(first.keys().map(|key| (key.clone(), of_key(key))).collect::<Map<_, _>>())
        }
        Some(Value::Number(_)) => {
            let numbers = runs.iter().filter_map(|run| match run {
                Value::Number(number) => Some(number.clone()),
                _ => None,
            });
            Value::Number(sum_up(&numbers.collect::<Vec<_>>()))
        }
        Some(other) => other.clone(),
        None => Value::Null,
    }
}

fn whole(numbers: &[Number]) -> Option<Vec<u64>> {
    numbers.iter().map(Number::as_u64).collect()
}

fn float(value: f64) -> Number {
    Number::from_f64(value).unwrap_or(0.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_summed_up_in_their_places() {
        let runs = [
            json!({"us": 1.5, "packets": 3, "by": {"up": 4}, "name": "a"}),
            json!({"us": 2.5, "packets": 4, "by": {"up": 8}, "name": "b"}),
        ];
        let expected = json!({"us": 2.0, "packets": 3.5, "by": {"up": 6}, "name": "a"});
        assert_eq!(mean(&runs), expected);
        assert_eq!(min(&runs)["packets"], 3);
        assert_eq!(max(&runs)["by"]["up"], 8);
    }

    #[test]
    fn one_run_is_its_own_mean() {
        let run = json!({"us": 1.5, "packets": 3, "peak": null});
        assert_eq!(mean(std::slice::from_ref(&run)), run);
    }
}
