//! Pairs as a graph instead of a heat map: nodes on a circle, and edges that are wider and darker
//! the more data they stand for.

use super::heat::{LETTERS, MARGIN, TITLE, WIDTH, key, scale};
use super::{Anchor, MUTED, Panel, Picture, Scale, Shape, width};
use std::f64::consts::TAU;

/// The radius of a node.
const NODE: f64 = 5.0;
/// How wide the largest is where it ends.
const WIDEST: f64 = 14.0;
/// And the smallest.
const NARROWEST: f64 = 1.5;
/// An edge begins with this part of the width with which it ends, so that its direction is seen.
const TAPER: f64 = 0.25;
/// Pieces that a curve is made of.
const PIECES: usize = 24;

type Point = (f64, f64);

/// The panels side by side; what is in their rows and columns are the same nodes.
pub fn graph(title: &str, panels: &[Panel], unit: &str) -> Picture {
    let scale = scale(panels, unit);
    let mut picture = Picture { title: title.to_owned(), ..Picture::default() };
    picture.text(MARGIN, MARGIN + TITLE, TITLE, Anchor::Start, title);
    let top = MARGIN + 2.0 * TITLE;
    // One alone does not need all the width.
    let side = (WIDTH - MARGIN) / panels.len().max(2) as f64 - MARGIN;
    for (number, panel) in panels.iter().enumerate() {
        let x = MARGIN + number as f64 * (side + MARGIN);
        picture.text(x, top + LETTERS, LETTERS, Anchor::Start, &panel.title);
        add(&mut picture, panel, (x + side / 2.0, top + 2.0 * LETTERS + side / 2.0), side, &scale);
    }
    let bottom = top + 2.0 * LETTERS + side;
    key(&mut picture, bottom + MARGIN, &scale, unit);
    let more = "An edge is widest where the data arrives.";
    picture.text(WIDTH / 2.0, bottom + MARGIN + LETTERS, LETTERS, Anchor::Start, more);
    picture.width = WIDTH.max(width(title, TITLE) + 2.0 * MARGIN);
    picture.height = bottom + 3.5 * MARGIN;
    picture
}

fn add(picture: &mut Picture, panel: &Panel, centre: Point, side: f64, scale: &Scale) {
    let names = &panel.down.names;
    let longest = names.iter().map(|name| width(name, LETTERS)).fold(0.0, f64::max);
    let radius = side / 2.0 - (longest + 12.0).min(side / 4.0);
    let at = |node: u32| {
        let angle = TAU * (f64::from(node) / names.len().max(1) as f64 - 0.25);
        (centre.0 + radius * angle.cos(), centre.1 + radius * angle.sin())
    };
    // The largest lie on top.
    let mut fields: Vec<_> = panel.fields.iter().filter(|field| field.amount > 0).collect();
    fields.sort_by_key(|field| field.amount);
    for field in fields {
        let wide = NARROWEST + (WIDEST - NARROWEST) * field.amount as f64 / scale.most().max(1.0);
        let curve = if field.row == field.column {
            loop_at(at(field.row), centre, radius)
        } else {
            bow(at(field.row), at(field.column), centre)
        };
        let colour = scale.colour(field.amount);
        picture.shapes.push(Shape::Area { points: edge(curve, wide), colour, title: field.title.clone() });
    }
    for (node, name) in names.iter().enumerate() {
        let (x, y) = at(node as u32);
        let points = (0..24).map(|it| TAU * f64::from(it) / 24.0);
        let points = points.map(|angle| (x + NODE * angle.cos(), y + NODE * angle.sin())).collect();
        picture.shapes.push(Shape::Area { points, colour: MUTED, title: name.clone() });
        let (away_x, away_y) = ((x - centre.0) / radius, (y - centre.1) / radius);
        let anchor = match away_x {
            right if right > 0.2 => Anchor::Start,
            left if left < -0.2 => Anchor::End,
            _ => Anchor::Middle,
        };
        let place = (x + away_x * 12.0, y + away_y * 16.0 + LETTERS * 0.35);
        picture.text(place.0, place.1, LETTERS, anchor, name);
    }
}

/// The four points of a curve between two nodes, which is to the right of the straight way: those
/// of both directions lie apart.
fn bow(from: Point, to: Point, centre: Point) -> [Point; 4] {
    let aside = 0.12;
    let (x, y) = (to.0 - from.0, to.1 - from.1);
    let near = |(at, pull): (Point, f64)| (at.0 + pull * x - aside * y, at.1 + pull * y + aside * x);
    let inwards =
        |point: Point| (point.0 + 0.25 * (centre.0 - point.0), point.1 + 0.25 * (centre.1 - point.1));
    [from, inwards(near((from, 0.3))), inwards(near((to, -0.3))), to]
}

/// A curve from a node to itself, outside of the circle.
fn loop_at(node: Point, centre: Point, radius: f64) -> [Point; 4] {
    let (x, y) = ((node.0 - centre.0) / radius, (node.1 - centre.1) / radius);
    let size = 45.0;
    let out = |aside: f64| (node.0 + size * (x - aside * y), node.1 + size * (y + aside * x));
    [node, out(-0.9), out(0.9), node]
}

/// The outline of what goes along a curve, ever wider.
fn edge(curve: [Point; 4], wide: f64) -> Vec<Point> {
    let steps = (0..=PIECES).map(|piece| piece as f64 / PIECES as f64);
    let sides = steps.map(|step| {
        let (at, (x, y)) = (on(curve, step), direction(curve, step));
        let half = wide / 2.0 * (TAPER + (1.0 - TAPER) * step);
        ((at.0 - y * half, at.1 + x * half), (at.0 + y * half, at.1 - x * half))
    });
    let (one, other): (Vec<Point>, Vec<Point>) = sides.unzip();
    one.into_iter().chain(other.into_iter().rev()).collect()
}

/// A point of a cubic Bézier curve.
fn on([a, b, c, d]: [Point; 4], step: f64) -> Point {
    let rest = 1.0 - step;
    let of = |a: f64, b: f64, c: f64, d: f64| {
        rest.powi(3) * a + 3.0 * rest * rest * step * b + 3.0 * rest * step * step * c + step.powi(3) * d
    };
    (of(a.0, b.0, c.0, d.0), of(a.1, b.1, c.1, d.1))
}

/// Where it goes there, of length 1.
fn direction(curve: [Point; 4], step: f64) -> Point {
    let (before, after) = (on(curve, (step - 0.01).max(0.0)), on(curve, (step + 0.01).min(1.0)));
    let (x, y) = (after.0 - before.0, after.1 - before.1);
    let length = x.hypot(y).max(1e-9);
    (x / length, y / length)
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Field};
    use super::*;

    fn panel(nodes: usize, edges: &[(u32, u32, u64)]) -> Panel {
        let axis = Axis { caption: String::new(), names: (0..nodes).map(|it| it.to_string()).collect() };
        let field = |&(row, column, amount): &(u32, u32, u64)| Field {
            row,
            column,
            amount,
            title: format!("{row} to {column}"),
        };
        Panel {
            title: "GPU".to_owned(),
            down: axis.clone(),
            across: axis,
            fields: edges.iter().map(field).collect(),
            row_height: None,
        }
    }

    fn areas(picture: &Picture) -> Vec<(&str, &Vec<Point>)> {
        let mut areas = Vec::new();
        for shape in &picture.shapes {
            if let Shape::Area { points, title, .. } = shape {
                areas.push((title.as_str(), points));
            }
        }
        areas
    }

    #[test]
    fn the_largest_is_widest_on_top_and_all_is_inside() {
        let edges = [(0, 1, 100), (1, 0, 10), (2, 2, 50), (3, 4, 0)];
        let picture = graph("all", &[panel(5, &edges), panel(5, &[])], "bytes");
        let areas = areas(&picture);
        let titles: Vec<&str> = areas.iter().take(3).map(|(title, _)| *title).collect();
        assert_eq!(titles, ["1 to 0", "2 to 2", "0 to 1"]);
        assert_eq!(areas.len(), 3 + 2 * 5, "edges with something, and nodes");
        let wide = |points: &Vec<Point>| {
            let (one, other) = (points[PIECES], points[PIECES + 1]);
            (one.0 - other.0).hypot(one.1 - other.1)
        };
        assert!((wide(areas[2].1) - WIDEST).abs() < 1e-6 && wide(areas[0].1) < wide(areas[1].1));
        let inside =
            |&(x, y): &Point| (0.0..picture.width).contains(&x) && (0.0..picture.height).contains(&y);
        assert!(areas.iter().all(|(_, points)| points.iter().all(inside)));
    }

    #[test]
    fn both_directions_lie_apart() {
        let (one, other, centre) = ((0.0, 0.0), (100.0, 0.0), (50.0, 100.0));
        let (there, back) = (on(bow(one, other, centre), 0.5), on(bow(other, one, centre), 0.5));
        assert!((there.0 - back.0).hypot(there.1 - back.1) > 5.0, "{there:?} {back:?}");
    }
}
