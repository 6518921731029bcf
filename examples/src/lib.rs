//! The example programs are beside this file, one `[[example]]` each.
