//! A time line for people: phases, and a chart in each row.

use super::phase_sheet;
use crate::output::{Page, printable};
use crate::sheet::{Sheet, Value, fixed, headed, number};
use crate::timeline::bins::{Bins, CallSeries, NodeSeries};
use crate::timeline::is_level;
use crate::timeline::load::TimeLine;
use crate::timeline::phases::{Phase, name_of};
use crate::units::{count, human_bytes, left_out, time};
use std::collections::BTreeMap;

/// Columns of a chart at most, and at least.
const WIDEST: usize = 60;
const NARROWEST: usize = 8;
/// Columns that the rest of a row takes.
const BESIDE_CHART: usize = 52;

/// The text.
pub fn text(line: &TimeLine, phases: &[Phase], limit: usize, page: Page) -> String {
    let room = page.width.map_or(WIDEST, |width| usize::from(width).saturating_sub(BESIDE_CHART));
    let bins = Bins::from_line(line, room.clamp(NARROWEST, WIDEST));
    let mut parts = vec![head(line, &bins, page)];
    let phases_left = phases.len().saturating_sub(limit);
    parts.push(
        phase_sheet(&phases[..phases.len() - phases_left]).table(page) + &left_out(phases_left, "phase"),
    );
    let calls_left = bins.calls.len().saturating_sub(limit);
    parts.push(call_sheet(&bins, limit).table(page) + &left_out(calls_left, "operation"));
    parts.push(node_sheet(&bins).table(page));
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

/// The job, and the remarks that a reader needs.
fn head(line: &TimeLine, bins: &Bins, page: Page) -> String {
    let notes = line.notes.iter().map(|note| headed("Note", &printable(note), page));
    let nodes = line.nodes.len() as u64;
    let of_job = match line.job.ranks.saturating_sub(line.ranks()) {
        0 => String::new(),
        _ => format!(" of {}", line.job.ranks),
    };
    let so_far = if line.nodes.iter().any(|node| node.ended.is_empty()) { " so far" } else { "" };
    let mut lines = vec![
        ("Command", printable(&line.job.command.join(" "))),
        ("Ranks", format!("{}{of_job} on {}", line.ranks(), count(nodes, "node"))),
        ("Start", line.job.start.clone()),
        (
            "Time",
            format!("{}{so_far}, {} in a column of the charts", time(line.end_s()), time(bins.length_s)),
        ),
    ];
    let uncounted_s: f64 = (0..bins.count).map(|bin| (1.0 - bins.counted[bin]) * bins.length_of(bin)).sum();
    // Any agent begins a moment after its job.
    if uncounted_s > 0.05 * line.end_s() {
        let text =
            format!("what they count is not known of {}, before their agents began", time(uncounted_s));
        lines.push(("Nodes", text));
    }
    let unrecorded_s: f64 = bins.unrecorded_s.iter().sum();
    if unrecorded_s > 0.0 {
        let share = unrecorded_s / (unrecorded_s + bins.rank_s.iter().sum::<f64>());
        lines.push((
            "Recording",
            format!("off for {:.1} % of the ranks' time; parts are of the rest", 100.0 * share),
        ));
    }
    let cost = |node: &crate::timeline::NodeFile| 100.0 * node.cpu_s / node.wall_s.max(1e-9);
    let ended: Vec<f64> = line.nodes.iter().filter(|node| node.wall_s > 0.0).map(cost).collect();
    if let Some(most) = ended.iter().copied().reduce(f64::max) {
        lines.push(("Agent", format!("at most {most:.3} % of a core of each node")));
    }
    let least = line.node_rates.iter().filter(|row| row.quantity == "available_bytes").map(|row| row.value);
    if let Some(least) = least.reduce(f64::min) {
        lines.push(("Memory", format!("{} and more available on each node", human_bytes(least as u64))));
    }
    lines.extend(gpus(line).map(|text| ("GPUs", text)));
    notes.chain(lines.iter().map(|(heading, text)| headed(heading, text, page))).collect()
}

/// How many GPUs of which kinds, and their memory; none if there are none.
fn gpus(line: &TimeLine) -> Option<String> {
    let mut models: BTreeMap<&str, u64> = BTreeMap::new();
    line.gpus
        .iter()
        .filter(|gpu| !gpu.device.contains('/'))
        .for_each(|gpu| *models.entry(&gpu.model).or_default() += 1);
    let kinds: Vec<String> = models.iter().map(|(model, count)| format!("{count} × {model}")).collect();
    let used = line.node_rates.iter().filter(|row| row.quantity == "used_bytes").map(|row| row.value);
    let used = used
        .reduce(f64::max)
        .map(|most| format!("; at most {} of memory used on one", human_bytes(most as u64)));
    (!kinds.is_empty()).then(|| printable(&kinds.join(", ")) + &used.unwrap_or_default())
}

fn call_sheet(bins: &Bins, limit: usize) -> Sheet {
    let row = |series: &CallSeries| {
        let shares = bins.shares(&series.time_s);
        let bytes: f64 = series.bytes.iter().sum();
        let calls: f64 = series.calls.iter().sum();
        let all_s = bins.begin_s(bins.count);
        vec![
            Value::Text(name_of(series)),
            Value::Text(chart(&shares)),
            Value::Share(bins.mean_share(&series.time_s)),
            Value::Share(most(&shares)),
            Value::BytesPerSecond(bytes / all_s),
            Value::Number((calls / all_s * 10.0).round() / 10.0),
        ]
    };
    Sheet {
        name: "operations",
        heads: vec![
            fixed("name", "TIME IN"),
            fixed("chart", "CHART"),
            number("mean_share", "Mean %"),
            number("peak_share", "Peak %"),
            number("bytes_per_s", "Volume/s").or_none(),
            number("calls_per_s", "Calls/s").or_none(),
        ],
        rows: bins.calls.iter().take(limit).map(row).collect(),
    }
}

fn node_sheet(bins: &Bins) -> Sheet {
    let row = |series: &NodeSeries| {
        let rates = bins.rates(&series.values);
        let value = |rate: f64| match series.quantity.as_str() {
            "busy_s" => Value::Share(rate / f64::from(series.nodes.max(1))),
            name if name.ends_with("_bytes") => Value::BytesPerSecond(rate),
            name if name.ends_with("_s") => Value::Seconds(rate),
            _ => Value::Number(rate.round()),
        };
        let link = series.link_bytes_per_s.filter(|_| series.quantity.ends_with("_bytes"));
        vec![
            Value::Text(words(series)),
            Value::Text(chart(&rates)),
            value(bins.mean_counted_rate(&series.values)),
            value(most(&rates)),
            link.map_or(Value::Nothing, |link| Value::Share(most(&rates) / link)),
        ]
    };
    let mut sheet = Sheet {
        name: "nodes",
        heads: vec![
            fixed("name", "ON THE NODES"),
            fixed("chart", "CHART"),
            number("mean_per_s", "Mean/s"),
            number("peak_per_s", "Peak/s"),
            number("peak_link_share", "% of link").or_none(),
        ],
        rows: bins.nodes.iter().filter(|series| !is_level(&series.quantity)).map(row).collect(),
    };
    sheet.keep_columns(|name, is_empty| name != "peak_link_share" || !is_empty);
    sheet
}

/// A device and what it did: `eth0 received`.
pub fn words(series: &NodeSeries) -> String {
    let what = match series.quantity.as_str() {
        "received_bytes" => "received",
        "sent_bytes" => "sent",
        "sent_wait_ticks" => "could not send (ticks)",
        "stalled_s" => "was short",
        "busy_s" => "busy (%)",
        other => other,
    };
    format!("{} {what}", series.device)
}

fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// A column for each value, as high as it is beside the largest; blank for none.
fn chart(values: &[f64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = most(values);
    // Less than that of the largest is noise of the clock.
    let nothing = largest * 1e-4;
    let column = |&value: &f64| match value {
        value if value <= nothing => ' ',
        value => HEIGHTS[((value / largest * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    values.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_fills_its_column_and_nothing_is_blank() {
        assert_eq!(chart(&[0.0, 1.0, 4.0, 8.0, 7.9, 0.001]), " ▁▄██▁");
        assert_eq!(chart(&[0.0, 0.0]), "  ");
    }
}
