//! Figures: what is measured against what, and its picture as an SVG file.
#![forbid(unsafe_code)]

mod draw;
mod figure;

pub use draw::{DrawError, draw, draw_all};
pub use figure::{Axis, Figure, Kind, Point, Series, Spread};
