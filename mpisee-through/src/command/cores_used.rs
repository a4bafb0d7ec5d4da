//! The column of how many cores threads used, where they used several.

use crate::core_share::TOLERANCE;
use crate::sheet::Value;

/// The column of the mean number of cores that a rank ran on, which tables have where threads used
/// several.
pub const CORES_USED: &str = "cores_used";

/// The mean number of cores on which threads ran.
pub fn cores_used(cpu_s: Option<f64>, wall_s: f64) -> Value {
    cpu_s.filter(|_| wall_s > 0.0).map_or(Value::Nothing, |cpu_s| Value::Number(cpu_s / wall_s))
}

/// Returns whether ranks used more cores than one each.
pub fn is_several(cpu_s: Option<f64>, wall_s: f64) -> bool {
    cpu_s.is_some_and(|cpu_s| cpu_s > TOLERANCE * wall_s)
}
