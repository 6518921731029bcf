//! Load imbalance of rails or NICs.

/// The mean square error of loads relative to their mean (RailS, equation 6) in two normalisations.
/// The paper says "normalised, 0 to 1" without the divisor. Even loads have 0 in both.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LoadMse {
    /// Divided by the square of the highest load: at most 1/4. One loaded NIC of eight has 0.109.
    pub of_max: f64,
    /// Divided by the square of the mean load: the squared coefficient of variation. One loaded NIC
    /// of eight has 7.
    pub of_mean: f64,
}

impl LoadMse {
    /// Computes the error of `loads`. The result is 0 if there is no load.
    pub fn of(loads: impl IntoIterator<Item = f64>) -> Self {
        let loads: Vec<f64> = loads.into_iter().collect();
        let highest = loads.iter().copied().fold(0., f64::max);
        if highest <= 0. {
            return LoadMse::default();
        }
        let count = loads.len() as f64;
        let mean = loads.iter().sum::<f64>() / count;
        let square = loads.iter().map(|load| (load - mean).powi(2)).sum::<f64>() / count;
        LoadMse { of_max: square / highest.powi(2), of_mean: square / mean.powi(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zero_for_even_loads_and_for_none() {
        let even = LoadMse { of_max: 0., of_mean: 0. };
        assert_eq!(LoadMse::of([7.; 8]), even);
        assert_eq!(LoadMse::of([0.; 8]), even);
        assert_eq!(LoadMse::of([]), even);
    }

    #[test]
    fn of_one_loaded_rail_of_eight() {
        let mse = LoadMse::of([8., 0., 0., 0., 0., 0., 0., 0.]);
        assert_eq!((mse.of_max, mse.of_mean), (7. / 64., 7.));
    }
}
