//! The size of a rail fabric.

use std::str::FromStr;

/// The number of hosts, with a rank on each, and of rails between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) domains: usize,
    pub(crate) rails: usize,
}

impl FromStr for Shape {
    type Err = String;

    /// Parses `4x4`: domains, then rails. The fabric checks the numbers.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('x').map(|(domains, rails)| (domains.parse(), rails.parse()));
        match numbers {
            Some((Ok(domains), Ok(rails))) => Ok(Shape { domains, rails }),
            _ => Err(format!("`{text}` is not a fabric; give domains and rails, as in 4x4")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fabric_is_domains_and_rails() {
        assert_eq!("16x8".parse(), Ok(Shape { domains: 16, rails: 8 }));
        for wrong in ["", "4", "4x", "x4", "4x4x4", "-1x4"] {
            assert!(wrong.parse::<Shape>().unwrap_err().contains("4x4"), "{wrong}");
        }
    }
}
