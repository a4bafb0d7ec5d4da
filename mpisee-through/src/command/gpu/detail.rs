//! What is in the rows of a table: kinds of access, objects, lines, devices.

use super::sums::{self, Key, Label, Sums};
use super::{By, Chosen, GpuArgs};
use crate::sheet::Sheet;
use mpisee_profile::rows::GpuRow;
use std::collections::HashSet;

/// One table for each of what a row may be divided by; shares are of the row.
pub fn sheets<'k>(chosen: &Chosen, args: &GpuArgs, shown: impl Iterator<Item = &'k Key>) -> Vec<Sheet> {
    let mut seen = HashSet::new();
    let main = |key: &Key| key[..columns(args.by)].to_vec();
    let mains: Vec<Key> = shown.map(main).filter(|it| seen.insert(it.clone())).collect();
    let parts = [
        (By::Access, "accesses"),
        (By::Object, "objects"),
        (By::Line, "lines"),
        (By::Launch, "launches"),
        (By::Device, "devices"),
    ];
    let is_of_python = chosen.rows.iter().any(|row| !row.launched.is_empty());
    let is_shown = |part: By| part != args.by && (part != By::Launch || is_of_python);
    let parts = parts.into_iter().filter(|(part, _)| is_shown(*part));
    parts.map(|(part, name)| sheet(chosen, args, &mains, part, name)).collect()
}

/// How many of a key's columns say what a row is of: not, whose memory it accesses.
fn columns(by: By) -> usize {
    match by {
        By::Line | By::Launch | By::Access | By::Address => 2,
        By::Rank | By::Device | By::Kernel | By::Object => 1,
    }
}

fn sheet(chosen: &Chosen, args: &GpuArgs, mains: &[Key], part: By, name: &'static str) -> Sheet {
    let most = args.shown.limit(&args.output);
    // Of a kernel, and of its lines, the kernel is known.
    let has_kernel = |by: By| matches!(by, By::Kernel | By::Line | By::Launch);
    let of_part = if has_kernel(args.by) && has_kernel(part) { 1 } else { 2 };
    let mut rows = Vec::new();
    for main in mains {
        let is_of = |row: &&GpuRow| sums::key(args.by, row)[..main.len()] == main[..];
        let sums = Sums::of(chosen.rows.iter().filter(is_of), |row| sums::key(part, row));
        let all = sums.all(args.of);
        for (key, sum) in sums.sorted(args.of).into_iter().take(most) {
            let mut row = sums::key_cells(args.by, &padded(main, args.by), &chosen.kernels);
            row.truncate(main.len());
            row.extend(sums::key_cells(part, &key, &chosen.kernels).into_iter().take(of_part));
            row.extend(sum.cells(args.of, all, chosen.is_sampled));
            rows.push(row);
        }
    }
    let mut heads = sums::key_heads(args.by);
    heads.truncate(columns(args.by));
    heads.extend(sums::key_heads(part).into_iter().take(of_part));
    heads.extend(sums::heads(chosen.is_sampled));
    Sheet { name, heads, rows }
}

/// The key with a label in each column.
fn padded(main: &[Label], by: By) -> Key {
    let mut key = main.to_vec();
    key.resize(sums::key_heads(by).len(), Label::from(""));
    key
}
