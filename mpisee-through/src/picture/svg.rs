//! A picture as SVG.

use super::{Anchor, Colour, Face, INK, Picture, Shape, Text};
use crate::output::printable;
use std::fmt::{Error, Write};

/// The text of the file.
pub fn svg(picture: &Picture) -> Result<String, Error> {
    let Picture { width, height, title, shapes } = picture;
    let mut text = String::new();
    let family = Face::Sans.family();
    writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"{family}\" fill=\"{}\">\n<title>{}</title>\n\
         <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"white\"/>",
        hexadecimal(INK),
        escaped(title)
    )?;
    for shape in shapes {
        add(&mut text, shape)?;
    }
    text.push_str("</svg>\n");
    Ok(text)
}

fn add(text: &mut String, shape: &Shape) -> Result<(), Error> {
    match shape {
        Shape::Field { x, y, width, height, colour, title } => {
            write!(
                text,
                "<rect x=\"{x:.3}\" y=\"{y:.3}\" width=\"{width:.3}\" height=\"{height:.3}\" fill=\"{}\" \
                 shape-rendering=\"crispEdges\"",
                hexadecimal(*colour)
            )?;
            end(text, "rect", title)
        }
        Shape::Area { points, colour, title } => {
            text.push_str("<polygon points=\"");
            for (x, y) in points {
                write!(text, "{x:.1},{y:.1} ")?;
            }
            write!(text, "\" fill=\"{}\"", hexadecimal(*colour))?;
            end(text, "polygon", title)
        }
        Shape::Frame { x, y, width, height, colour } => writeln!(
            text,
            "<rect x=\"{x:.3}\" y=\"{y:.3}\" width=\"{width:.3}\" height=\"{height:.3}\" fill=\"none\" \
             stroke=\"{}\"/>",
            hexadecimal(*colour)
        ),
        Shape::Text(words) => add_text(text, words),
    }
}

fn add_text(text: &mut String, words: &Text) -> Result<(), Error> {
    let Text { x, y, size, anchor, colour, upright, face, text: letters, title } = words;
    let anchor = match anchor {
        Anchor::Start => "",
        Anchor::Middle => " text-anchor=\"middle\"",
        Anchor::End => " text-anchor=\"end\"",
    };
    let turned = if *upright { format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"") } else { String::new() };
    let fill = if *colour == INK { String::new() } else { format!(" fill=\"{}\"", hexadecimal(*colour)) };
    // In source blanks are kept.
    let family = match face {
        Face::Sans => String::new(),
        Face::Mono => format!(" font-family=\"{}\" xml:space=\"preserve\"", face.family()),
    };
    let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(title)) };
    writeln!(
        text,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\"{anchor}{fill}{family}{turned}>{title}{}</text>",
        escaped(letters)
    )
}

/// Ends an element, with a title where there is one.
fn end(text: &mut String, element: &str, title: &str) -> Result<(), Error> {
    match title {
        "" => writeln!(text, "/>"),
        title => writeln!(text, "><title>{}</title></{element}>", escaped(title)),
    }
}

fn hexadecimal([red, green, blue]: Colour) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Text for XML, which has no way to write most control characters, nor what is no character.
fn escaped(text: &str) -> String {
    printable(text)
        .replace(['\u{fffe}', '\u{ffff}'], " ")
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_do_not_end_the_text() {
        let mut picture = Picture { width: 10.0, height: 20.0, ..Picture::default() };
        picture.text(1.0, 2.0, 9.0, Anchor::End, "vector<T&>\u{1b}</svg>");
        let text = svg(&picture).unwrap();
        assert!(
            text.contains("text-anchor=\"end\">vector&lt;T&amp;&gt;\\u{1b}&lt;/svg&gt;</text>"),
            "{text}"
        );
        assert!(text.contains("viewBox=\"0 0 10 20\"") && text.ends_with("</text>\n</svg>\n"), "{text}");
    }
}
