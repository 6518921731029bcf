//! Programs live beside this file, one `[[example]]` each.
