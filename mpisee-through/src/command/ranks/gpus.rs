//! `ranks --by gpu`: the GPU of each rank, and where it is beside the rank's cores.

use super::{RanksArgs, SortKey};
use crate::output::Format;
use crate::placement::{self, Placed};
use crate::sheet::{self, Answer, Head, Sheet, Value};
use crate::view::ProfileView;
use anyhow::{Result, bail};
use std::collections::BTreeMap;

const HEADS: [Head; 14] = [
    sheet::number("rank", "RANK").or_none(),
    sheet::fixed("ranks", "RANKS"),
    sheet::fixed("host", "HOST").hidden_at(5),
    sheet::fixed("gpu", "GPU"),
    sheet::fixed("model", "MODEL").hidden_at(0),
    sheet::fixed("pci_address", "PCI").hidden_at(4),
    sheet::number("memory_bytes", "MEMORY").hidden_at(1),
    sheet::number("gpu_numa_node", "NUMA of GPU"),
    sheet::fixed("cpus_near", "CPUS NEAR").hidden_at(3),
    sheet::fixed("rank_numa_nodes", "of rank").or_none(),
    sheet::fixed("cpus_allowed", "CPUS of rank").hidden_at(3).or_none(),
    sheet::fixed("near", "NEAR").or_none(),
    sheet::fixed("nic", "NIC").hidden_at(2),
    sheet::fixed("nic_path", "PATH").hidden_at(2),
];

/// The rows, by rank.
pub fn answer(args: &RanksArgs, view: &ProfileView) -> Result<Answer> {
    if args.filter.is_on() || !matches!(args.sort, SortKey::Rank | SortKey::Time) {
        bail!("GPUs by rank (--by gpu) are without filters, and in the order of ranks");
    }
    let placed = placement::placed(view.profile(), view.processes())?;
    let has_ranks = !view.processes().ranks().is_empty();
    let mut rows = placed.iter().map(cells).collect();
    let none = "No rank used a GPU, as far as was seen: by CUDA's driver, which the program had loaded and initialised.";
    let closing = args.shown.cut(&args.output, &mut rows, none);
    let mut sheet = Sheet { name: "gpus", heads: HEADS.to_vec(), rows };
    if args.output.format() == Format::Table && !placed.is_empty() {
        sheet.keep_columns(|name, is_empty| !is_empty && (name != "ranks" || !has_ranks));
    }
    let mut answer = Answer::new(view.profile(), sheet, None);
    answer.lead = lead(&placed);
    answer.closing = closing;
    Ok(answer)
}

/// How many ranks are near their GPUs, in a sentence.
fn lead(placed: &[Placed<'_>]) -> String {
    let of_ranks: Vec<&Placed<'_>> = placed.iter().filter(|it| it.rank.is_some()).collect();
    if of_ranks.is_empty() {
        return String::new();
    }
    // A rank may have several GPUs, of which the farthest counts.
    let mut by_rank: BTreeMap<u32, Option<bool>> = BTreeMap::new();
    for of in &of_ranks {
        let Some(rank) = of.rank else { continue };
        let known = by_rank.entry(rank.rank).or_insert(of.is_near());
        *known = match (*known, of.is_near()) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (None, _) | (_, None) => None,
            (Some(true), Some(true)) => Some(true),
        };
    }
    let number = |near: Option<bool>| by_rank.values().filter(|&&it| it == near).count();
    format!(
        "Cores on the NUMA node of the GPU: of {} yes, of {} no, of {} unknown (cores of several nodes, or a node that the \
         kernel does not say).\n",
        number(Some(true)),
        number(Some(false)),
        number(None)
    )
}

fn cells(placed: &Placed<'_>) -> Vec<Value> {
    let text = |text: &str| if text.is_empty() { Value::Nothing } else { Value::Text(text.to_owned()) };
    let device = &placed.device;
    let rank = placed.rank;
    let (nic, path) = placed.nic.clone().unwrap_or_default();
    vec![
        rank.map_or(Value::Nothing, |rank| Value::Count(rank.rank.into())),
        text(&device.ranks.to_string()),
        text(&device.host),
        text(&device.uuid),
        text(&device.model),
        text(&device.pci_address),
        device.memory_bytes.map_or(Value::Nothing, Value::Bytes),
        device.numa_node.map_or(Value::Nothing, |node| Value::Count(node.into())),
        text(&device.cpus_near.to_string()),
        rank.map_or(Value::Nothing, |rank| text(&rank.numa_nodes)),
        rank.map_or(Value::Nothing, |rank| text(&rank.cpus_allowed.to_string())),
        match placed.is_near() {
            Some(true) => text("yes"),
            Some(false) => text("no"),
            None if rank.is_some() => text("unknown"),
            None => Value::Nothing,
        },
        text(&nic),
        text(&path),
    ]
}
