//! Pictures, as SVG with numbers that show on hovering, and as PNG with a font of the program's
//! own, so that no machine needs one.

mod bars;
mod font;
mod graph;
mod heat;
mod palette;
mod png;
mod source;
mod svg;

pub use bars::{Bar, Bars, Kinds, bars, share};
pub use font::{Face, width};
pub use graph::graph;
pub use heat::{Axis, Field, NANOSECONDS, Panel, drawn};
pub use palette::{CATEGORIES, Colour, INK, LINE, MUTED, OTHERS, Ramp};
pub use source::{SourceFile, SourceLine, source};

use anyhow::{Context, Result};
use std::path::PathBuf;
use std::str::FromStr;

use palette::Scale;

/// Where a text is beside its point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    #[default]
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// An element of a picture; lengths in points, from the upper left corner.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A filled rectangle; its title shows under the pointer, where there is one.
    Field { x: f64, y: f64, width: f64, height: f64, colour: Colour, title: String },
    /// The area within an outline; its title shows under the pointer, where there is one.
    Area { points: Vec<(f64, f64)>, colour: Colour, title: String },
    /// The outline of a rectangle.
    Frame { x: f64, y: f64, width: f64, height: f64, colour: Colour },
    /// A line of text on a base line.
    Text(Text),
}

impl Shape {
    /// The right end of the shape.
    fn right(&self) -> f64 {
        match self {
            Shape::Field { x, width, .. } | Shape::Frame { x, width, .. } => x + width,
            Shape::Area { points, .. } => points.iter().map(|(x, _)| *x).fold(0.0, f64::max),
            Shape::Text(Text { x, upright: true, .. }) => *x,
            Shape::Text(Text { x, size, anchor, face, text, .. }) => match anchor {
                Anchor::Start => x + face.width(text, *size),
                Anchor::Middle => x + face.width(text, *size) / 2.0,
                Anchor::End => *x,
            },
        }
    }
}

/// A line of text on a base line.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    pub x: f64,
    pub y: f64,
    pub size: f64,
    pub anchor: Anchor,
    pub colour: Colour,
    /// From below to above.
    pub upright: bool,
    pub face: Face,
    pub text: String,
    /// It shows under the pointer, where there is one.
    pub title: String,
}

impl Default for Text {
    fn default() -> Self {
        Text {
            x: 0.0,
            y: 0.0,
            size: 0.0,
            anchor: Anchor::Start,
            colour: INK,
            upright: false,
            face: Face::Sans,
            text: String::new(),
            title: String::new(),
        }
    }
}

/// A picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Picture {
    pub width: f64,
    pub height: f64,
    /// The title, one line.
    pub title: String,
    pub shapes: Vec<Shape>,
}

impl Picture {
    /// Adds a text.
    pub fn text(&mut self, x: f64, y: f64, size: f64, anchor: Anchor, text: &str) {
        let text = text.to_owned();
        self.shapes.push(Shape::Text(Text { x, y, size, anchor, text, ..Text::default() }));
    }
}

/// A file whose name says what picture it is.
#[derive(Clone, Debug)]
pub struct ImageFile {
    path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Png,
    Svg,
}

impl FromStr for ImageFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = PathBuf::from(text);
        let kind = match path.extension().and_then(|extension| extension.to_str()) {
            Some("png") => Kind::Png,
            Some("svg") => Kind::Svg,
            _ => return Err("a picture's name ends in .png or .svg".to_owned()),
        };
        Ok(ImageFile { path, kind })
    }
}

impl ImageFile {
    /// Writes the picture.
    pub fn write(&self, picture: &Picture) -> Result<()> {
        let bytes = match self.kind {
            Kind::Png => png::png(picture)?,
            Kind::Svg => svg::svg(picture)?.into_bytes(),
        };
        std::fs::write(&self.path, bytes).with_context(|| format!("cannot write '{}'", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_known_by_its_name() {
        assert!("a.png".parse::<ImageFile>().is_ok());
        assert!("a.jpg".parse::<ImageFile>().unwrap_err().contains(".svg"));
    }
}
