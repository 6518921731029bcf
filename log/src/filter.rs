//! The choice of events that are shown.

use std::ffi::OsString;
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::Targets;

/// The environment variable with the filter.
pub const VARIABLE: &str = "BRAID_LOG";

/// The crates that have events. The targets of all events begin with these names. docs/logs.md
/// lists the events, and `xtask/tests/logs.rs` compares both.
pub const CRATES: [&str; 6] =
    ["braid", "braid_ibverbs", "braid_sim", "braid_verbs", "nccl_net_braid", "plugin_BRAID"];

/// A filter of events: directives with commas between them, each a level or `TARGET=LEVEL`, as in
/// the crate `tracing-subscriber`. The directive with the longest matching target decides. A target
/// alone shows all events whose targets begin with it. A target begins with one of [`CRATES`]; the
/// modules behind it are not checked.
#[derive(Clone, Debug)]
pub struct Filter(Targets);

/// A text that is not a filter.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{name} is `{text}`, which is no filter for the log: {why}; write a level (off, error, warn, info, debug, trace), or TARGET=LEVEL, with commas between them, such as info,braid::verbs=debug"
)]
pub struct FilterError {
    /// The variable or argument with this value.
    name: &'static str,
    text: String,
    why: String,
}

impl Filter {
    /// The filter in [`VARIABLE`], as `read` finds it; `None`: it is not set, or empty. Libraries
    /// in other programs read by `braid::environment::variable`, which finds nothing in programs
    /// with more rights than their user.
    ///
    /// # Errors
    /// The value is not a filter.
    pub fn from_environment(
        read: impl FnOnce(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, FilterError> {
        match read(VARIABLE) {
            Some(text) if !text.is_empty() => {
                let named = |error: FilterError| FilterError { name: VARIABLE, ..error };
                text.to_string_lossy().parse().map(Some).map_err(named)
            }
            _ => Ok(None),
        }
    }

    /// The default filter: warnings. The end of a queue pair is not among them, because its
    /// completions tell the application.
    pub(crate) fn unasked() -> Self {
        let announced = ("braid::worker::announce", LevelFilter::ERROR);
        Filter(Targets::new().with_default(Level::WARN).with_targets([announced]))
    }

    /// All events of this level and above.
    pub fn level(level: Level) -> Self {
        Filter(Targets::new().with_default(level))
    }

    pub(crate) fn shows(&self, event: &Metadata<'_>) -> bool {
        self.0.would_enable(event.target(), event.level())
    }

    pub(crate) fn most(&self) -> LevelFilter {
        let levels = self.0.iter().map(|(_, level)| level);
        levels.chain(self.0.default_level()).max().unwrap_or(LevelFilter::OFF)
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let refused = |why: String| FilterError { name: "the filter", text: text.to_owned(), why };
        // The parser takes an empty directive for `error`.
        if text.split(',').any(|directive| directive.trim().is_empty()) {
            return Err(refused("a directive is empty".to_owned()));
        }
        let targets: Targets = text.parse().map_err(|why| refused(format!("{why}")))?;
        match targets.iter().find(|(target, _)| !is_ours(target)) {
            Some((target, _)) => Err(refused(format!(
                "`{target}` is neither a level nor a part of Braid: targets are modules of {}",
                CRATES.join(", ")
            ))),
            None => Ok(Filter(targets)),
        }
    }
}

/// Whether a target is one of the crates, or a module inside one.
fn is_ours(target: &str) -> bool {
    CRATES.iter().any(|name| match target.strip_prefix(name) {
        Some(inside) => inside.is_empty() || inside.starts_with("::"),
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn most(text: &str) -> LevelFilter {
        text.parse::<Filter>().unwrap_or_else(|error| panic!("{error}")).most()
    }

    #[test]
    fn levels_and_targets_are_understood() {
        assert_eq!(most("warn"), LevelFilter::WARN);
        assert_eq!(most("off"), LevelFilter::OFF);
        assert_eq!(most("info,braid::verbs=debug"), LevelFilter::DEBUG);
        assert_eq!(most("nccl_net_braid=error,braid_verbs=off"), LevelFilter::ERROR);
        assert_eq!(most("braid::worker"), LevelFilter::TRACE);
        assert_eq!(most("braid_ibverbs::connect=info"), LevelFilter::INFO);
    }

    #[test]
    fn what_shows_nothing_by_mistake_is_refused_in_one_line() {
        for text in ["verbose", "info,tokio=debug", "braid=loud", "braid=debug=info", "=", "info,,"]
        {
            let error = text.parse::<Filter>().expect_err(text).to_string();
            assert!(error.contains(&format!("`{text}`")) && error.contains("such as"), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_target_is_a_crate_that_has_events_or_inside_one() {
        for text in ["braidxyz=info", "braid_keys=info", "braid:verbs=info", "nccl_net_braids"] {
            let error = text.parse::<Filter>().expect_err(text).to_string();
            assert!(CRATES.iter().all(|name| error.contains(name)), "{error}");
        }
        for name in CRATES {
            assert_eq!(most(&format!("{name}=info,{name}::inside=debug")), LevelFilter::DEBUG);
        }
    }
}
