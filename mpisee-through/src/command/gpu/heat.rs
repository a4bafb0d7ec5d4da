//! Heat maps of data moved between ranks or devices: by kernels, and by MPI beside it.

use super::label::{Label, or_unknown};
use super::mpi::Mpi;
use super::rows::Accessed;
use super::{By, Chosen, GpuArgs, Of};
use crate::picture::{Axis, Field, Panel, Picture, drawn, graph};
use crate::units::{accesses, count, human_bytes};
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::gpu::Access;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Fields in a row at most.
const MOST_FIELDS: usize = 512;
/// Nodes of a graph at most.
const MOST_NODES: usize = 64;

/// Data that moved from one to another, by who asked for it.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Stores and atomics of the one that it comes from.
    pushed: [u64; 2],
    /// Loads of the one that it goes to.
    pulled: [u64; 2],
}

impl Flow {
    fn amount(&self, of: Of) -> u64 {
        self.pushed[of as usize].saturating_add(self.pulled[of as usize])
    }
}

/// A heat map of the kernels' traffic, and where bytes are compared, one of MPI's.
pub fn picture(view: &ProfileView, chosen: &Chosen, args: &GpuArgs) -> Result<Picture> {
    let mut flows: BTreeMap<(Label, Label), Flow> = BTreeMap::new();
    for row in &chosen.rows {
        let Some((kernels, memory)) = ends(args.by(), row) else { continue };
        let (from, to, pulls) = match row.access {
            Access::Load => (memory, kernels, true),
            Access::Store | Access::Atomic => (kernels, memory, false),
        };
        let flow = flows.entry((from, to)).or_default();
        let sums = if pulls { &mut flow.pulled } else { &mut flow.pushed };
        for (sum, more) in sums.iter_mut().zip([row.bytes, row.accesses]) {
            *sum = sum.saturating_add(more);
        }
    }
    let most = if args.graph { MOST_NODES } else { MOST_FIELDS };
    let axes = FieldAxes::from_ends(flows.keys().flat_map(|(from, to)| [from, to]), most);
    let mut panels = vec![kernels_panel(&flows, &axes, args)];
    if let (Of::Bytes, Some(mpi)) = (args.of, Mpi::beside(view.profile(), chosen, args.by())?) {
        panels.push(mpi_panel(&mpi, &axes, args.by()));
    }
    let (what, unit) = match args.of {
        Of::Bytes => ("bytes that moved", "bytes"),
        Of::Accesses => ("accesses of GPU kernels that moved data", "accesses"),
    };
    let title = format!("{}: {what} between {}", view.program(), plural(args.by()));
    let draw = if args.graph { graph } else { drawn };
    Ok(draw(&title, &panels, unit))
}

/// Who runs the kernel, and whose memory it is.
fn ends(by: By, row: &Accessed) -> Option<(Label, Label)> {
    let (rank, device) = row.rank.as_ref()?;
    Some(match by {
        By::Device => (Label::from(device.as_str()), Label::Text(or_unknown(&row.peer_device))),
        _ => (Label::Number(*rank), row.owner.clone()),
    })
}

fn plural(by: By) -> &'static str {
    if by == By::Device { "devices" } else { "ranks" }
}

/// The axes: ranks by number, then all else by name; several to a field where they are many.
struct FieldAxes {
    fields: HashMap<Label, u32>,
    names: Vec<String>,
}

impl FieldAxes {
    fn from_ends<'e>(ends: impl Iterator<Item = &'e Label>, most: usize) -> Self {
        let key = |end: &'e Label| (is_place(end.text()), end);
        let ends: Vec<&Label> =
            ends.map(key).collect::<BTreeSet<_>>().into_iter().map(|(_, end)| end).collect();
        let block = ends.len().div_ceil(most).max(1);
        let name = |chunk: &[String]| match chunk {
            [only] => only.clone(),
            _ => format!("{}-{}", chunk[0], chunk[chunk.len() - 1]),
        };
        let texts: Vec<String> = ends.iter().map(|end| end.to_string()).collect();
        let names = short_ids(&texts).chunks(block).map(name).collect();
        let fields = ends.into_iter().cloned().zip(0..).map(|(end, at)| (end, at / block as u32)).collect();
        FieldAxes { fields, names }
    }

    fn axis(&self, caption: &str) -> Axis {
        Axis { caption: caption.to_owned(), names: self.names.clone() }
    }
}

/// Devices by the first part of their UUIDs, and where that is not all, by their last digits too.
pub fn short_ids(ends: &[String]) -> Vec<String> {
    let is_device = |end: &&String| end.starts_with("GPU-") || end.starts_with("MIG-");
    let short = |end: &String| end.get(..12).filter(|_| is_device(&end)).map(str::to_owned);
    let all: Vec<Option<String>> = ends.iter().map(short).collect();
    let is_one = |name: &String| all.iter().flatten().filter(|other| *other == name).count() == 1;
    let name = |(end, short): (&String, &Option<String>)| match short {
        Some(short) if is_one(short) => short.clone(),
        Some(short) if end.len() > 20 => {
            let last: String = end.chars().skip(end.chars().count() - 4).collect();
            format!("{short}…{last}")
        }
        _ => end.clone(),
    };
    ends.iter().zip(&all).map(name).collect()
}

/// Returns whether it is neither rank nor device, which come first.
fn is_place(end: &str) -> bool {
    ["host", "managed", "(unknown)"].contains(&end)
}

fn kernels_panel(flows: &BTreeMap<(Label, Label), Flow>, axes: &FieldAxes, args: &GpuArgs) -> Panel {
    let with_unit = |amount: u64, of_bytes: fn(u64) -> String| match args.of {
        Of::Bytes => of_bytes(amount),
        Of::Accesses => accesses(amount),
    };
    let exact = |amount| with_unit(amount, |bytes| count(bytes, "byte"));
    let mut fields: BTreeMap<(u32, u32), Flow> = BTreeMap::new();
    for ((from, to), flow) in flows {
        let sum = fields.entry((axes.fields[from], axes.fields[to])).or_default();
        for of in [0, 1] {
            sum.pushed[of] = sum.pushed[of].saturating_add(flow.pushed[of]);
            sum.pulled[of] = sum.pulled[of].saturating_add(flow.pulled[of]);
        }
    }
    let all = fields.values().fold(0u64, |all, flow| all.saturating_add(flow.amount(args.of)));
    let field = |(&(row, column), flow): (&(u32, u32), &Flow)| {
        let (from, to) = (&axes.names[row as usize], &axes.names[column as usize]);
        let [pushed, pulled] = [flow.pushed, flow.pulled].map(|sums| exact(sums[args.of as usize]));
        let title =
            format!("{from} to {to}: {pushed} stored by kernels of {from}, {pulled} loaded by those of {to}");
        Field { row, column, amount: flow.amount(args.of), title }
    };
    Panel {
        title: format!("By GPU kernels: {}", with_unit(all, human_bytes)),
        down: axes.axis("from"),
        across: axes.axis("to"),
        fields: fields.iter().map(field).collect(),
        row_height: None,
    }
}

fn mpi_panel(mpi: &Mpi, axes: &FieldAxes, by: By) -> Panel {
    let mut sent: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for (from, to, bytes) in mpi.sent() {
        if let (Some(&from), Some(&to)) = (axes.fields.get(from), axes.fields.get(to)) {
            let sum = sent.entry((from, to)).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    let all = sent.values().fold(0u64, |all, bytes| all.saturating_add(*bytes));
    let field = |(&(row, column), &amount): (&(u32, u32), &u64)| {
        let (from, to) = (&axes.names[row as usize], &axes.names[column as usize]);
        Field { row, column, amount, title: format!("{from} to {to}: {} sent", count(amount, "byte")) }
    };
    let whose = if by == By::Device { ", ranks by their device" } else { "" };
    Panel {
        title: format!("By MPI, point-to-point{whose}: {}", human_bytes(all)),
        down: axes.axis("from"),
        across: axes.axis("to"),
        fields: sent.iter().map(field).collect(),
        row_height: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_by_number_and_before_all_else() {
        let mut names = ["host", "(unknown)", "managed"].map(Label::from).to_vec();
        names.extend([10, 9].map(Label::Number));
        assert_eq!(
            FieldAxes::from_ends(names.iter(), MOST_FIELDS).names,
            ["9", "10", "(unknown)", "host", "managed"]
        );
        let names = ["host", "GPU-b", "GPU-a"].map(Label::from);
        assert_eq!(FieldAxes::from_ends(names.iter(), MOST_FIELDS).names, ["GPU-a", "GPU-b", "host"]);
    }

    #[test]
    fn devices_are_named_by_as_much_as_they_need() {
        let names =
            ["GPU-8f6ad5c8-1111-2222-333344445555", "GPU-8f6ad5c8-1111-2222-333344446666", "GPU-a", "host"];
        let short = short_ids(&names.map(str::to_owned));
        assert_eq!(short, ["GPU-8f6ad5c8…5555", "GPU-8f6ad5c8…6666", "GPU-a", "host"]);
        assert_eq!(short_ids(&[names[0].to_owned()]), ["GPU-8f6ad5c8"]);
    }

    #[test]
    fn many_ranks_share_fields() {
        let names: Vec<Label> = (0..1025).map(Label::Number).collect();
        let axes = FieldAxes::from_ends(names.iter(), MOST_FIELDS);
        assert_eq!(
            (axes.names.len(), axes.names[1].as_str(), axes.fields[&Label::Number(1024)]),
            (342, "3-5", 341)
        );
    }
}
