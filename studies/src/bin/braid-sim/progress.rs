//! Progress of the runs, on stderr if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Creates a bar that counts finished messages.
pub(crate) fn bar(name: &str, messages: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} messages {elapsed}")
        .expect("the template is well-formed");
    ProgressBar::new(messages).with_style(style).with_prefix(name.to_owned())
}
