//! How large a fabric of rails is to be.

use std::str::FromStr;

/// Hosts, a rank on each, and the rails between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) domains: usize,
    pub(crate) rails: usize,
}

impl FromStr for Shape {
    type Err = String;

    /// `4x4`: domains, then rails. The fabric says which it can be.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('x').map(|(domains, rails)| (domains.parse(), rails.parse()));
        match numbers {
            Some((Ok(domains), Ok(rails))) => Ok(Shape { domains, rails }),
            _ => Err(format!("`{text}` is no fabric; name domains and rails, as in 4x4")),
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
