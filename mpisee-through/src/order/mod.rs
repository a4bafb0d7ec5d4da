//! Reads the order of calls of a profile, and refuses what no recorder writes.

mod outline;
mod structures;
mod times;

use mpisee_order::Rules;
use mpisee_profile::rows::{OrderRow, OrderRuleRow, OrderStepRow, Row};
use mpisee_profile::site::OrderId;
use mpisee_profile::{Profile, ProfileError};
pub use outline::{Call, Outline, PerStep, Sizes, like_names};
use std::collections::HashMap;
use std::rc::Rc;
pub use structures::outlines;
pub use times::Line;

/// The order of one thread.
#[derive(Clone, Debug)]
pub struct ThreadOrder {
    /// Its row.
    pub row: OrderRow,
    /// The sequence of steps, by their numbers.
    pub rules: Rc<Rules>,
    /// The steps.
    pub steps: Rc<Vec<OrderStepRow>>,
    comms: Vec<String>,
}

impl ThreadOrder {
    /// The name of a step's communicator; empty where there is none.
    pub fn comm(&self, step: &OrderStepRow) -> &str {
        let place = step.comm.and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| self.comms.get(place)).map_or("", String::as_str)
    }
}

/// Returns whether a profile has the order of calls.
///
/// # Errors
/// Of a table that cannot be read.
pub fn is_kept(profile: &Profile) -> Result<bool, ProfileError> {
    Ok(profile.rows_if_any::<OrderRow>()?.next().transpose()?.is_some())
}

/// The orders of all threads, in the order of `order.csv`; none of a profile without them.
///
/// # Errors
/// Of a table that cannot be read, or is damaged.
pub fn read(profile: &Profile) -> Result<Vec<ThreadOrder>, ProfileError> {
    let mut rules: HashMap<OrderId, Rc<Rules>> = HashMap::new();
    for (row, line) in profile.rows_if_any::<OrderRuleRow>()?.zip(2..) {
        let OrderRuleRow { rules: id, symbols } = row?;
        let read = Rules::from_text(&symbols)
            .map_err(|why| malformed::<OrderRuleRow>(profile, line, format!("column 'symbols': {why}")))?;
        rules.insert(id, Rc::new(read));
    }
    let mut steps: HashMap<OrderId, Vec<OrderStepRow>> = HashMap::new();
    for (row, line) in profile.rows_if_any::<OrderStepRow>()?.zip(2..) {
        let row = row?;
        let known = steps.entry(row.alphabet).or_default();
        if row.step as usize != known.len() {
            let why = format!(
                "column 'step': step {} of {} comes after {} others",
                row.step,
                row.alphabet,
                known.len()
            );
            return Err(malformed::<OrderStepRow>(profile, line, why));
        }
        known.push(row);
    }
    let steps: HashMap<OrderId, Rc<Vec<OrderStepRow>>> =
        steps.into_iter().map(|(id, steps)| (id, Rc::new(steps))).collect();
    let mut orders = Vec::new();
    for (row, line) in profile.rows_if_any::<OrderRow>()?.zip(2..) {
        let row = row?;
        let refused = |why: &str| malformed::<OrderRow>(profile, line, why.to_owned());
        let Some(rules) = rules.get(&row.rules).cloned() else {
            return Err(refused("column 'rules': it is not in order-rules.csv"));
        };
        let steps = steps.get(&row.alphabet).cloned().unwrap_or_default();
        let fits = rules.terminals().keys().all(|&step| (step as usize) < steps.len());
        if !fits || rules.len() != row.steps {
            return Err(refused("the sequence has other steps than the row and the alphabet have"));
        }
        let comms = row.comms.split(' ').map(str::to_owned).collect();
        orders.push(ThreadOrder { row, rules, steps, comms });
    }
    Ok(orders)
}

fn malformed<R: Row>(profile: &Profile, line: u64, why: String) -> ProfileError {
    ProfileError::Malformed { path: profile.directory().join(R::FILE), line, why }
}
