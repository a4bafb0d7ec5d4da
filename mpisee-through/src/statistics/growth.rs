//! How a number grows with another, such as time with ranks: simple models, fitted, and what a few
//! points say of them.
//!
//! Each model is `a + b f(p)` with `a` and `b` not negative. Deviations are taken by the size of
//! the number, so that the small numbers on few ranks count as the large ones do; but numbers below
//! a twentieth of the largest do not count more for being smaller. So intervals are factors: half
//! as much and twice as much are as far.

use super::{CONFIDENCE, fisher, student};
use std::fmt;

/// A model: how `f` grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    Constant,
    Log,
    Linear,
    LinearLog,
    Square,
}

/// The models, the simplest first.
pub const MODELS: [Model; 5] = [Model::Constant, Model::Log, Model::Linear, Model::LinearLog, Model::Square];

impl Model {
    fn at(self, p: f64) -> f64 {
        match self {
            Model::Constant => 0.0,
            Model::Log => p.log2(),
            Model::Linear => p,
            Model::LinearLog => p * p.log2(),
            Model::Square => p * p,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Model::Constant => "constant",
            Model::Log => "log p",
            Model::Linear => "p",
            Model::LinearLog => "p log p",
            Model::Square => "p^2",
        })
    }
}

/// A measured point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub p: f64,
    pub y: f64,
    /// The standard error of `y`, where runs were repeated.
    pub error: Option<f64>,
}

/// A model with its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub model: Model,
    /// The part that does not grow.
    pub base: f64,
    /// The factor of `f`.
    pub slope: f64,
    /// The sum of squared deviations, as logarithms of factors.
    squares: f64,
    /// The uncertainty of `base` and `slope`, without that of the points: variances, and the
    /// covariance.
    uncertain: [f64; 3],
}

/// A predicted number, and the interval that contains it with [`CONFIDENCE`] if the model is right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// The part of the largest number below which deviations are taken by that part.
const FLOOR: f64 = 0.05;
/// A constant whose points are farther away, by its value, is no description of them.
const NEAR: f64 = 0.25;
/// The relative error left by rounding.
const ROUNDING: f64 = 1e-9;

/// The scale on which a deviation of `y` is taken.
fn scale(y: f64, largest: f64) -> f64 {
    y.max(FLOOR * largest)
}

fn largest(points: &[Point]) -> f64 {
    points.iter().map(|point| point.y).fold(0.0, f64::max)
}

/// Weighted sums over points, from which a straight line over `f` follows.
struct Weighted {
    ones: f64,
    f: f64,
    f_f: f64,
    y: f64,
    f_y: f64,
}

impl Weighted {
    /// With deviations taken by these scales.
    fn for_model(model: Model, points: &[Point], scales: &[f64]) -> Self {
        let mut sums = Weighted { ones: 0.0, f: 0.0, f_f: 0.0, y: 0.0, f_y: 0.0 };
        for (point, scale) in points.iter().zip(scales) {
            let (weight, f) = (scale.powi(-2), model.at(point.p));
            sums.ones += weight;
            sums.f += weight * f;
            sums.f_f += weight * f * f;
            sums.y += weight * point.y;
            sums.f_y += weight * f * point.y;
        }
        sums
    }

    /// The nearest line whose numbers are not negative.
    fn fit(&self, model: Model) -> Fit {
        let Weighted { ones, f, f_f, y, f_y } = *self;
        let constant = || (y / ones, 0.0, [1.0 / ones, 0.0, 0.0]);
        let (base, slope, uncertain) = if model == Model::Constant {
            constant()
        } else {
            let determinant = ones * f_f - f * f;
            let slope = (ones * f_y - f * y) / determinant;
            let base = (y - slope * f) / ones;
            match () {
                () if slope <= 0.0 => constant(),
                () if base < 0.0 => (0.0, f_y / f_f, [0.0, 1.0 / f_f, 0.0]),
                () => (base, slope, [f_f, ones, -f].map(|part| part / determinant)),
            }
        };
        Fit { model, base, slope, squares: 0.0, uncertain }
    }
}

/// Steps until weights and fit agree.
const STEPS: usize = 20;

impl Fit {
    /// The model that is nearest to the points; none if the best is not to grow. Deviations are
    /// taken by what the model has, so that a constant is the mean: taken by the points, it would
    /// be near the smallest.
    fn for_model(model: Model, points: &[Point]) -> Option<Self> {
        let most = largest(points);
        let mut scales: Vec<f64> = points.iter().map(|point| scale(point.y, most)).collect();
        let mut fit = Weighted::for_model(model, points, &scales).fit(model);
        for _ in 0..STEPS {
            scales = points.iter().map(|point| scale(fit.at(point.p), most)).collect();
            fit = Weighted::for_model(model, points, &scales).fit(model);
        }
        // In logarithms too much counts as too little does.
        let off = |point: &Point| (scale(point.y, most) / scale(fit.at(point.p), most)).ln().powi(2);
        let fit = Fit { squares: points.iter().map(off).sum(), ..fit };
        let last = points.last().map_or(0.0, |point| fit.slope * model.at(point.p));
        let grows = model == Model::Constant || last > ROUNDING * most;
        (grows && fit.squares.is_finite()).then_some(fit)
    }

    /// The number that the model has at `p`.
    pub fn at(&self, p: f64) -> f64 {
        self.base + self.slope * self.model.at(p)
    }
}

/// How a number grows, as far as points say.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// The model that fits best; a constant, where nothing says that the number grows.
    pub best: Fit,
    /// The models that the points cannot tell from the best.
    pub others: Vec<Fit>,
    /// The typical deviation of a point from the best, by its value.
    pub deviation: f64,
    /// The prediction of the points before the last for the last; of four points or more.
    pub held_out: Option<f64>,
    /// The variance of a point.
    variance: f64,
    points: Vec<Point>,
}

/// The natural logarithm of the widest factor of an interval; beyond it there is nothing to say.
const MOST_WIDTH: f64 = 20.0;

/// The fewest points: with two, every model that grows fits.
pub const FEWEST: usize = 3;

impl Growth {
    /// Of points in the order of `p`; none of fewer than [`FEWEST`] different `p`, or if all
    /// numbers are 0.
    pub fn from_points(points: &[Point]) -> Option<Self> {
        let mut different: Vec<f64> = points.iter().map(|point| point.p).collect();
        different.dedup();
        if different.len() < FEWEST || largest(points) <= 0.0 {
            return None;
        }
        let fits: Vec<Fit> = MODELS.into_iter().filter_map(|model| Fit::for_model(model, points)).collect();
        let noise = noise(points);
        let least = fits.iter().map(|fit| fit.squares).fold(f64::INFINITY, f64::min).max(noise);
        let mut left: Vec<Fit> = compatible(&fits, least, points);
        let freedom = (points.len() - 2) as f64;
        let is_near = |fit: &Fit| (fit.squares / freedom).sqrt() <= NEAR;
        // The simplest, where it cannot be told from others and describes the points; else the
        // nearest.
        let constant = left.iter().position(|fit| fit.model == Model::Constant && is_near(fit));
        let nearest =
            (0..left.len()).min_by(|&one, &other| left[one].squares.total_cmp(&left[other].squares))?;
        let best = left.remove(constant.unwrap_or(nearest));
        let variance = best.squares.max(noise) / freedom;
        let held_out = points.split_last().and_then(|(last, before)| {
            // Where nothing was before the last, nothing is predicted for it.
            let is_nothing = before.len() >= FEWEST && largest(before) == 0.0;
            Growth::from_points(before).map(|growth| growth.best.at(last.p)).or(is_nothing.then_some(0.0))
        });
        let deviation = (best.squares / freedom).sqrt();
        Some(Growth { best, others: left, deviation, held_out, variance, points: points.to_vec() })
    }

    /// How far the prediction for the last point from those before it is off, by the number itself.
    pub fn off(&self) -> Option<f64> {
        let last = self.points.last().filter(|last| last.y > 0.0)?;
        self.held_out.map(|predicted| (predicted - last.y) / last.y)
    }

    /// The number at `p` by the best model, and the interval over all models that were not told
    /// apart.
    pub fn at(&self, p: f64) -> Prediction {
        let of = |fit: &Fit| self.by(fit, p);
        let mut prediction = of(&self.best);
        for other in self.others.iter().map(of) {
            prediction.low = prediction.low.min(other.low);
            prediction.high = prediction.high.max(other.high);
        }
        prediction
    }

    fn by(&self, fit: &Fit, p: f64) -> Prediction {
        let (value, f) = (fit.at(p), fit.model.at(p));
        let [of_base, of_slope, both] = fit.uncertain;
        let of_model = (of_base + f * f * of_slope + 2.0 * f * both).max(0.0);
        let of_point = scale(value, largest(&self.points)).powi(2);
        let freedom = (self.points.len() - 2) as f64;
        let relative = (self.variance * (1.0 + of_model / of_point)).sqrt();
        let factor = (student(0.5 + CONFIDENCE / 2.0, freedom) * relative).min(MOST_WIDTH).exp();
        Prediction { value, low: value / factor, high: value * factor }
    }

    /// Returns whether the points leave every model.
    pub fn is_unclear(&self) -> bool {
        self.others.len() + 1 == MODELS.len()
    }

    /// The best model, and those that may be it as well: `p log p, or p`; `unclear` where it may be
    /// any.
    pub fn text(&self) -> String {
        let others: Vec<String> = self.others.iter().map(|fit| fit.model.to_string()).collect();
        match others.is_empty() {
            _ if self.is_unclear() => "unclear".to_owned(),
            true => self.best.model.to_string(),
            false => format!("{}, or {}", self.best.model, others.join(", ")),
        }
    }
}

/// The least sum of squared deviations that chance leaves: by repeated runs, else by rounding.
fn noise(points: &[Point]) -> f64 {
    let most = largest(points);
    let of = |point: &Point| (point.error.unwrap_or(0.0) / scale(point.y, most)).powi(2);
    let count = points.len() as f64;
    let measured = points.iter().map(of).sum::<f64>() * (count - 2.0) / count;
    measured.max(count * ROUNDING * ROUNDING)
}

/// The models that points do not exclude, where `least` are the squares of the nearest, or what
/// chance leaves.
///
/// A model is excluded if its squares exceed those of the nearest by more than two independent sets
/// of points of the same model would; the constant, which has a number less, if another explains
/// more than a further number does by chance.
fn compatible(fits: &[Fit], least: f64, points: &[Point]) -> Vec<Fit> {
    let freedom = (points.len() - 2) as f64;
    // The others are four chances to explain more.
    let tried = (MODELS.len() - 1) as f64;
    let for_others = fisher(freedom, freedom, CONFIDENCE);
    let for_constant = fisher(1.0, freedom, 1.0 - (1.0 - CONFIDENCE) / tried);
    let fits_too = |fit: &&Fit| match fit.model {
        Model::Constant => fit.squares - least <= for_constant * least / freedom,
        _ => fit.squares <= for_others * least,
    };
    fits.iter().filter(fits_too).copied().collect()
}
