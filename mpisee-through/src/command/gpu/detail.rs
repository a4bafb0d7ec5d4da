//! `gpu --detail`: each row divided by kind of access, object, line and device.

use super::label::Label;
use super::rows::{Accessed, Ends};
use super::sums::{self, Key, Sums};
use super::{By, Chosen, GpuArgs};
use crate::sheet::Sheet;
use std::collections::HashSet;

/// One table for each of what a row may be divided by; shares are of the row.
pub fn sheets<'k>(chosen: &Chosen, args: &GpuArgs, shown: impl Iterator<Item = &'k Key>) -> Vec<Sheet> {
    let mains = mains(args.by(), shown);
    parts(chosen, args.by()).map(|part| sheet(chosen, args, &mains, part)).collect()
}

/// The rows in detail: the parts of keys that say what a row is of.
pub fn mains<'k>(by: By, shown: impl Iterator<Item = &'k Key>) -> Vec<Key> {
    let mut seen = HashSet::new();
    let main = |key: &Key| key[..columns(by).min(key.len())].to_vec();
    shown.map(main).filter(|it| seen.insert(it.clone())).collect()
}

/// The divisions of a row: by lines of Python if any launched a kernel.
pub fn parts(chosen: &Chosen, by: By) -> impl Iterator<Item = By> {
    let is_of_python = chosen.rows.iter().any(|row| !row.launched.is_empty());
    let parts = [By::Access, By::Object, By::Line, By::Launch, By::Device].into_iter();
    parts.filter(move |part| *part != by && (*part != By::Launch || is_of_python))
}

/// The sums of one division.
pub fn sums_of(chosen: &Chosen, by: By, main: &[Label], part: By) -> Sums {
    let is_of = |row: &&Accessed| sums::key(by, row)[..main.len()] == *main;
    Sums::from_rows(chosen.rows.iter().filter(is_of), |row| sums::key(part, row))
}

/// How many of a key's columns say what a row is of: not, whose memory it accesses.
fn columns(by: By) -> usize {
    match by {
        By::Line | By::Launch | By::Access | By::Address => 2,
        By::Rank | By::Device | By::Kernel | By::Object | By::Copy | By::Staging => 1,
    }
}

/// Returns whether the kernel is known where this is divided by that: of a kernel, and of its
/// lines.
pub fn knows_kernel(by: By, part: By) -> bool {
    let has_kernel = |by: By| matches!(by, By::Kernel | By::Line | By::Launch);
    by != part && has_kernel(by) && has_kernel(part)
}

fn sheet(chosen: &Chosen, args: &GpuArgs, mains: &[Key], part: By) -> Sheet {
    let name = match part {
        By::Access => "accesses",
        By::Object => "objects",
        By::Line => "lines",
        By::Launch => "launches",
        _ => "devices",
    };
    let most = args.shown.limit(&args.output);
    let of_part = if knows_kernel(args.by(), part) { 1 } else { 2 };
    let mut rows = Vec::new();
    for main in mains {
        let sums = sums_of(chosen, args.by(), main, part);
        let all = sums.all(args.of);
        for (key, sum) in sums.sorted(args.of).into_iter().take(most) {
            let mut row = sums::key_cells(args.by(), &padded(main, args.by(), chosen.ends), &chosen.kernels);
            row.truncate(main.len());
            row.extend(sums::key_cells(part, &key, &chosen.kernels).into_iter().take(of_part));
            row.extend(sum.cells(args.of, all, chosen.is_sampled));
            rows.push(row);
        }
    }
    let mut heads = sums::key_heads(args.by(), chosen.ends);
    heads.truncate(columns(args.by()));
    heads.extend(sums::key_heads(part, chosen.ends).into_iter().take(of_part));
    heads.extend(sums::heads(share_heading(args.by()), chosen.is_sampled));
    Sheet { name, heads, rows }
}

/// The heading of shares of a row in detail.
fn share_heading(by: By) -> &'static str {
    match by {
        By::Rank => "% of rank",
        By::Device => "% of device",
        By::Kernel => "% of kernel",
        By::Line => "% of line",
        By::Launch => "% of launch",
        By::Object => "% of object",
        By::Access | By::Address | By::Copy | By::Staging => "% of kind",
    }
}

/// The key with a label in each column.
fn padded(main: &[Label], by: By, ends: Ends) -> Key {
    let mut key = main.to_vec();
    key.resize(sums::key_heads(by, ends).len(), Label::from(""));
    key
}
