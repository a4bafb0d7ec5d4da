//! Calls per step of two runs whose order of calls is known: one more `MPI_Allreduce` in each
//! iteration.

use crate::order::{self, Call, PerStep};
use crate::sheet::{self, Head, Sheet, Value};
use crate::sites::{SiteArgs, Sites};
use crate::view::ProfileView;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

const HEADS: [Head; 5] = [
    sheet::fixed("call", "CALL"),
    sheet::comms("comm", "COMM"),
    sheet::number("per_step_before", "Per step A"),
    sheet::number("per_step_after", "Per step B"),
    sheet::long("place", "PLACE IN B"),
];

/// Operations, on communicators of like names.
type Steps = BTreeMap<(String, String), PerStep>;

/// The calls whose number in an iteration has changed, of the structure that most threads have;
/// `None` if a run has no order of calls.
pub fn sheet(views: [&ProfileView; 2], args: &SiteArgs) -> Result<Option<Sheet>> {
    for view in views {
        if !order::is_kept(view.profile())? {
            return Ok(None);
        }
    }
    let [before, after] = [steps(views[0])?, steps(views[1])?];
    let mut sites = [Sites::from_view(views[0], args, &[])?, Sites::from_view(views[1], args, &[])?];
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let mut rows = Vec::new();
    for key in keys {
        let sides = [before.get(key), after.get(key)];
        let [calls_before, calls_after] = sides.map(|side| side.map_or(0, |step| step.calls));
        if calls_before == calls_after {
            continue;
        }
        let [known, mut places] = [0, 1].map(|run| places(&mut sites[run], sides[run]));
        // Where it has more, those that are new say why.
        if !places.is_subset(&known) {
            places.retain(|place| !known.contains(place));
        }
        rows.push(vec![
            key.0.as_str().into(),
            key.1.as_str().into(),
            Value::Count(calls_before),
            Value::Count(calls_after),
            Value::Text(Vec::from_iter(places).join(", ")),
        ]);
    }
    Ok(Some(Sheet { name: "steps", heads: HEADS.to_vec(), rows }))
}

fn steps(view: &ProfileView) -> Result<Steps> {
    let outlines = order::outlines(view, None)?;
    let key = |call: &Call| {
        let comm = call.comms.first().map_or("", String::as_str);
        (!call.name.is_empty()).then(|| (call.name.clone(), order::like_names(comm)))
    };
    Ok(outlines.first().map(|outline| outline.per_step(key)).unwrap_or_default())
}

fn places(sites: &mut Option<Sites>, step: Option<&PerStep>) -> BTreeSet<String> {
    let Some((sites, step)) = sites.as_mut().zip(step) else { return BTreeSet::new() };
    step.sites.iter().map(|&site| sites.place(site).short_text()).collect()
}
