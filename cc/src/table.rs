//! The table of congestion controls by name.

use std::str::FromStr;

use crate::row::Row;
use crate::{
    CcConfig, CubicConfig, UnknownPolicy, bbr, cubic, dcqcn, fixed_rate, fixed_window, mcc, mswift,
    nscc, rccc, swift, timely,
};

/// All congestion controls, in the order in which users see them.
static TABLE: &[Row] = &[
    fixed_window::ROW,
    cubic::ROW,
    fixed_rate::ROW,
    dcqcn::ROW,
    timely::ROW,
    swift::ROW,
    mswift::ROW,
    mcc::ROW,
    bbr::ROW,
    nscc::ROW,
    rccc::ROW,
];

/// Returns the names as users type them.
pub fn controller_names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.name)
}

/// Parses a comma-separated list of controllers.
///
/// Parameters contain commas as well, so a part that does not start with a controller's name
/// belongs to the previous part.
///
/// # Errors
/// If an entry is not a valid controller.
pub fn parse_controllers(text: &str) -> Result<Vec<CcConfig>, UnknownPolicy> {
    let is_name = |part: &str| {
        let name = part.split_once(':').map_or(part, |(name, _)| name);
        !name.contains('=')
    };
    let mut texts: Vec<String> = Vec::new();
    for part in text.split(',') {
        match texts.last_mut() {
            Some(last) if !is_name(part) => last.extend([",", part]),
            _ => texts.push(part.to_owned()),
        }
    }
    texts.iter().map(|text| text.parse()).collect()
}

/// Returns for each controller a text with the required parameters.
pub fn controller_examples() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|row| row.example)
}

/// Parses a name and its parameters: `fixed`, `fixed:512K`, `rate:100G`, `rate:100G,window=1M`,
/// `dcqcn:line=100G`, `dcqcn:line=100G,alpha=50us,dec=50us,inc=55us,loss=off`, `cubic`,
/// `timely:line=100G`, `swift`, `mswift`, `mcc`, `mcc:line=100G,ratio=2`, `bbr`, `nscc`,
/// `nscc:line=100G,rtt=12us,trim=on`, `rccc:line=100G`, `rccc:line=100G,rtt=12us`.
///
/// Windows use powers of 1024, rates use powers of 1000.
impl FromStr for CcConfig {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(n, rest)| (n, Some(rest)));
        let row = TABLE.iter().find(|row| row.name == name);
        let row = row.ok_or_else(|| unknown(name))?;
        (row.parse)(rest)
    }
}

fn unknown(name: &str) -> UnknownPolicy {
    let available = controller_names().collect::<Vec<_>>().join(", ");
    UnknownPolicy::Name { name: name.to_owned(), available }
}

/// CUBIC: the only controller here that neither congests a bottleneck with retransmissions nor
/// starves other flows on it.
impl Default for CcConfig {
    fn default() -> Self {
        CubicConfig::default().into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{DcqcnConfig, FixedRate, FixedWindow, Subflow};

    fn error_of(text: &str) -> String {
        text.parse::<CcConfig>().unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let names: Vec<_> = controller_names().collect();
        let error = format!("unknown congestion control `reno`; available: {}", names.join(", "));
        assert_eq!(error_of("reno"), error);
    }

    #[test]
    fn every_row_makes_a_controller_by_its_name_and_shows_itself_so() {
        for row in TABLE {
            let config: CcConfig = row.example.parse().unwrap();
            assert_eq!(config.to_string(), row.example);
            assert_eq!(row.example.split(':').next(), Some(row.name));
            let packet_bytes = 4158;
            let mut cc = config.build(&Subflow { packet_bytes, ..Subflow::default() });
            assert!(cc.window() >= packet_bytes, "{}: nothing can leave", row.name);
            let metrics = cc.metrics();
            let rate = cc.rate(braid_wire::Time::ZERO);
            assert_eq!((metrics.window, metrics.bits_per_second), (cc.window(), rate));
        }
    }

    #[test]
    fn names_differ() {
        let names: std::collections::HashSet<_> = controller_names().collect();
        assert_eq!(names.len(), TABLE.len());
    }

    #[test]
    fn every_name_leads_back_to_what_it_says() {
        let (bits_per_second, window) = (2_500_000_000, 512 << 10);
        let dcqcn = DcqcnConfig::new(100_000_000_000);
        let paper = DcqcnConfig {
            alpha_interval: Duration::from_micros(50),
            cut_interval: Duration::from_micros(50),
            increase_interval: Duration::from_micros(55),
            cut_on_loss: false,
            window,
            ..dcqcn
        };
        let usual = FixedWindow::default().window;
        for (text, config) in [
            ("fixed:1500", CcConfig::from(FixedWindow { window: 1500 })),
            ("fixed:2M", FixedWindow::default().into()),
            ("rate:2500M", FixedRate { bits_per_second, window: usual }.into()),
            ("rate:2500M,window=512K", FixedRate { bits_per_second, window }.into()),
            ("dcqcn:line=100G", dcqcn.into()),
            ("dcqcn:line=100G,window=512K,alpha=50us,dec=50us,inc=55us,loss=off", paper.into()),
        ] {
            assert_eq!(text.parse(), Ok(config.clone()));
            assert_eq!(config.to_string(), text);
        }
        assert_eq!("fixed".parse(), Ok(CcConfig::from(FixedWindow::default())));
        assert_eq!("cubic".parse(), Ok(CcConfig::default()));
    }

    #[test]
    fn a_bad_window_or_rate_is_named_with_the_accepted_form() {
        for bad in ["", "0", "K", "2G", "1.5M", "99999999999999999999"] {
            let error = error_of(&format!("fixed:{bad}"));
            assert!(error.contains(&format!("`{bad}`")) && error.contains("fixed:512K"), "{error}");
        }
        for bad in ["", "0", "99", "20000G", "1.5G", "fast"] {
            let error = error_of(&format!("rate:{bad}"));
            assert!(error.contains(&format!("`{bad}`")) && error.contains("rate:100G"), "{error}");
        }
    }

    #[test]
    fn what_is_missing_or_not_a_parameter_is_named() {
        assert_eq!(error_of("rate"), "rate needs a value; add it, for example rate:100G");
        for text in ["dcqcn", "dcqcn:", "dcqcn:loss=off"] {
            let error = "dcqcn needs the rate of the link; add it, for example dcqcn:line=100G";
            assert_eq!(error_of(text), error);
        }
        let error = error_of("dcqcn:line=1G,beta=2");
        assert!(
            error.starts_with("dcqcn has no parameter `beta`; valid parameters: line=RATE,"),
            "{error}"
        );
        for (text, part) in [("inc=0us", "`0us`"), ("inc=5", "`5`"), ("loss=no", "`no`")] {
            let error = error_of(&format!("dcqcn:line=1G,{text}"));
            assert!(error.contains(part), "{error}");
        }
    }
}
