//! Figures, drawn as SVG files.

mod draw;
mod figure;

pub use draw::{DrawError, draw, draw_all};
pub use figure::{Axis, Figure, Kind, Point, Series, Spread};
