//! The receiver of events. A process has one at a time, and may replace it.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Event, Metadata, Subscriber};

use crate::{Filter, Record};

/// The program has a `tracing` subscriber of its own, which has all events already.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the log of this process goes to a `tracing` subscriber of the program already; set the filter there"
)]
pub struct Taken;

struct Shown {
    filter: Filter,
    to: Box<dyn Fn(&Record) + Send + Sync>,
}

static SHOWN: ArcSwapOption<Shown> = ArcSwapOption::const_empty();

/// Hands the events that pass the filter to `to` from now on, instead of any earlier receiver. Each
/// thread calls `to` itself, perhaps with locks of an engine held, so `to` must not use Braid or
/// block.
///
/// # Errors
/// See [`Taken`].
pub fn show(filter: Filter, to: impl Fn(&Record) + Send + Sync + 'static) -> Result<(), Taken> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    if !INSTALLED.get_or_init(|| tracing::subscriber::set_global_default(Show).is_ok()) {
        return Err(Taken);
    }
    replace(Some(Arc::new(Shown { filter, to: Box::new(to) })));
    Ok(())
}

/// Shows no more events. A thread may still be inside `to`.
pub fn silence() {
    replace(None);
}

fn replace(shown: Option<Arc<Shown>>) {
    SHOWN.store(shown);
    // Call sites keep the answer to the question whether an event is shown.
    tracing::callsite::rebuild_interest_cache();
}

struct Show;

impl Subscriber for Show {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        SHOWN.load().as_ref().is_some_and(|shown| shown.filter.shows(metadata))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let shown = SHOWN.load();
        Some(shown.as_ref().map_or(LevelFilter::OFF, |shown| shown.filter.most()))
    }

    fn event(&self, event: &Event<'_>) {
        if let Some(shown) = SHOWN.load_full() {
            (shown.to)(&event.into());
        }
    }

    // Braid has no spans.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use tracing::Level;

    use super::*;

    static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn heard() -> Vec<String> {
        std::mem::take(&mut HEARD.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hear(record: &Record) {
        let line = format!("{} {}: {}", record.level, record.target, record.text);
        HEARD.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn speak() {
        tracing::warn!(target: "braid::loud", peer = "x", number = 3, "it has ended");
        tracing::debug!(target: "braid::quiet", "nothing of note");
    }

    #[test]
    fn the_filter_holds_from_when_it_is_set_until_the_next() {
        speak();
        show(Filter::level(Level::INFO), hear).unwrap();
        speak();
        assert_eq!(heard(), ["WARN braid::loud: it has ended peer=\"x\" number=3"]);
        show("braid::quiet=debug".parse().unwrap(), hear).unwrap();
        speak();
        assert_eq!(heard(), ["DEBUG braid::quiet: nothing of note"]);
        silence();
        speak();
        assert_eq!(heard(), [""; 0]);
    }
}
