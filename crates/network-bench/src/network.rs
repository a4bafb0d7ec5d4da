//! The models of a `network.json` for people, and its points for programs.

use crate::output::{aligned, digits, size};
use mpisee_profile::network::{InterfaceScheme, LACKING_FROM, Network, PairModel, SizeRange};
use std::fmt::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The models as tables.
pub fn text(network: &Network, nodes: usize) -> String {
    let mut text = String::new();
    for pair in &network.pairs {
        text += &of_pair(pair, network.memory.as_deref());
    }
    for it in &network.interfaces {
        let scheme = match it.scheme {
            // As with one or two active ranks, or where all share one interface, or none.
            _ if it.error_median == it.error_other => {
                "which ranks share an interface does not show".to_owned()
            }
            InterfaceScheme::Packed => format!("{} ranks share each interface (packed)", it.number),
            InterfaceScheme::RoundRobin => format!("ranks go round {} interfaces (round-robin)", it.number),
        };
        let rates: Vec<String> = it.bytes_per_s.iter().map(|rate| digits(rate / 1e9)).collect();
        let _ = writeln!(
            text,
            "{} of {} with 1 to {} ranks of a node: {} GB/s\n  {scheme}, {} GB/s each; the model is off by {:.1} % \
             (median), the other scheme by {:.1} %",
            it.pattern,
            size(it.bytes),
            it.bytes_per_s.len(),
            rates.join(", "),
            digits(it.interface_bytes_per_s / 1e9),
            100.0 * it.error_median,
            100.0 * it.error_other
        );
    }
    text += &network.no_core.map_or_else(String::new, without_core_text);
    if nodes == 1 {
        text += "All ranks are on one node, so nothing was measured across nodes; ranks on two nodes show that.\n";
    }
    text
}

/// A sentence on the time in which a rank had no core; nothing if it is short.
pub fn without_core_text(share: f64) -> String {
    if share < LACKING_FROM {
        return String::new();
    }
    format!(
        "A rank had no core for {:.0} % of the time: the times are those of a machine that is shared, with other processes or with more \
         ranks than cores.\n",
        100.0 * share
    )
}

fn of_pair(pair: &PairModel, memory: Option<&str>) -> String {
    let memory = memory.map(|kind| format!(", {kind} memory")).unwrap_or_default();
    let eager = match pair.eager_limit_bytes {
        Some(limit) => format!("eager up to {limit} B"),
        None => "no eager limit found".to_owned(),
    };
    let mut text = format!(
        "\n{} (ranks {} and {}, {}{memory}): {eager}; gap {} µs, {} GB/s in a stream\n",
        capital(pair.class.text()),
        pair.ranks[0],
        pair.ranks[1],
        pair.backend,
        digits(pair.gap_s * 1e6),
        digits(1e-9 / pair.gap_per_byte_s),
    );
    let heads = ["  From", "to", "Latency µs", "GB/s"].map(str::to_owned);
    let row = |it: &SizeRange| {
        let rate = if it.per_byte_s > 0.0 { digits(1e-9 / it.per_byte_s) } else { "-".to_owned() };
        [format!("  {}", size(it.from_bytes)), size(it.to_bytes), digits(it.latency_s * 1e6), rate]
    };
    text += &aligned(&heads, pair.segments.iter().map(row), 0);
    if pair.segments.iter().any(|it| it.per_byte_s <= 0.0) {
        text += "  Where there is no bandwidth, the measured times do not grow with the size.\n";
    }
    let _ = writeln!(
        text,
        "  The model is off by {:.1} % (median over sizes), {:.1} % at the most.",
        100.0 * pair.error_median,
        100.0 * pair.error_max
    );
    let heads = ["  Size", "One way µs", "Min", "Spread %", "Model of min", "Stream GB/s"].map(str::to_owned);
    let rows = pair.points.iter().map(|point| {
        [
            format!("  {}", size(point.bytes)),
            digits(point.one_way_median_s * 1e6),
            digits(point.one_way_min_s * 1e6),
            format!("{:.1}", 100.0 * point.one_way_spread),
            pair.one_way_s(point.bytes).map_or_else(|| "-".to_owned(), |time_s| digits(time_s * 1e6)),
            digits(point.bytes as f64 / point.stream_min_s / 1e9),
        ]
    });
    text + &aligned(&heads, rows, 0)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Fails where the file cannot be written since its folder is missing: before anything is measured.
pub fn check_folder(output: &Path) -> Result<(), String> {
    match output.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        Some(folder) => Err(format!("there is no folder {} for {}", folder.display(), output.display())),
        None => Ok(()),
    }
}

/// The points of all pairs as CSV.
pub fn csv(network: &Network) -> String {
    let mut text =
        "class,rank,peer,backend,bytes,one_way_min_s,one_way_median_s,one_way_spread,model_s,stream_min_s,stream_median_s\n"
            .to_owned();
    for pair in &network.pairs {
        for point in &pair.points {
            let class = serde_json::to_value(pair.class).ok();
            let class = class.as_ref().and_then(|class| class.as_str()).unwrap_or_default();
            let [rank, peer] = pair.ranks;
            let _ = writeln!(
                text,
                "{class},{rank},{peer},{},{},{:.12},{:.12},{:.6},{:.12},{:.12},{:.12}",
                pair.backend,
                point.bytes,
                point.one_way_min_s,
                point.one_way_median_s,
                point.one_way_spread,
                pair.one_way_s(point.bytes).unwrap_or_default(),
                point.stream_min_s,
                point.stream_median_s
            );
        }
    }
    text
}

/// The time in UTC, as `2026-11-25T03:12:00Z`.
pub fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    mpisee_profile::run::rfc3339(since.as_nanos() as u64)
}
