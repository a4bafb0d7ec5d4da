//! Pictures of the tables of `gpu`: kernels, lines, objects and kinds of access as bars, each
//! divided into its parts.

use super::heat::short_ids;
use super::label::Label;
use super::mpi::Mpi;
use super::rows::Ends;
use super::sums::{self, Key, Sum, Sums};
use super::{By, Chosen, GpuArgs, Of, detail};
use crate::picture::{self, Bar, Bars, Kinds, Picture};
use crate::sheet::{self, Value};
use crate::units::{accesses, human_bytes};
use crate::view::ProfileView;
use anyhow::Result;

/// Bars in a list by default, without and with `--detail`; and at most.
const SHOWN: (usize, usize) = (24, 8);
const MOST_SHOWN: usize = 256;
/// Bars in a picture, from which on no further list is begun.
const MOST_BARS: usize = 512;

/// The parts of a bar.
pub fn kinds(of: Of) -> Kinds {
    match of {
        Of::Bytes => ["loaded", "stored", "by atomics"],
        Of::Accesses => ["loads", "stores", "atomics"],
    }
}

/// The quantity of a picture.
pub fn what(of: Of) -> &'static str {
    if of == Of::Bytes { "bytes that GPU kernels accessed" } else { "accesses of GPU kernels" }
}

/// All about a sum, in a line.
pub fn about(name: &str, sum: &Sum, is_sampled: bool) -> String {
    let [loaded, stored, atomic] = sum.bytes;
    let error = match is_sampled {
        true => format!(" with a standard error of {:.0}", sum.error()),
        false => String::new(),
    };
    let all = accesses(sum.accesses);
    format!("{name}: {all}{error}, {loaded} bytes loaded, {stored} stored, {atomic} by atomics")
}

/// The rows of a table as bars, and with `--detail` what is in each of them.
pub fn picture(view: &ProfileView, chosen: &Chosen, args: &GpuArgs) -> Result<Picture> {
    let found = Sums::from_rows(&chosen.rows, |row| sums::key(args.by(), row)).sorted(args.of);
    let mpi = if args.of == Of::Bytes { Mpi::beside(view.profile(), chosen, args.by())? } else { None };
    let drawing = Drawing { chosen, args, mpi };
    let most = args.shown.in_picture(if args.detail { SHOWN.1 } else { SHOWN.0 }, MOST_SHOWN);
    let mut lists = vec![drawing.list("", args.by(), args.by(), &found, most)];
    let mut left_out = 0;
    let shown = found[..most.min(found.len())].iter().map(|(key, _)| key);
    let mains = if args.detail { detail::mains(args.by(), shown) } else { Vec::new() };
    for main in &mains {
        if lists.iter().map(|list| list.bars.len()).sum::<usize>() > MOST_BARS {
            left_out += 1;
            continue;
        }
        for part in detail::parts(chosen, args.by()) {
            let sums = detail::sums_of(chosen, args.by(), main, part).sorted(args.of);
            lists.push(drawing.list(&drawing.name_of_main(main), args.by(), part, &sums, most));
        }
    }
    let mut notes = sheet::caveats(view.profile());
    notes.extend(chosen.problems.iter().cloned());
    if left_out > 0 {
        notes.push(format!("There is no room for what is in {left_out} more; --top N draws fewer of each."));
    }
    let what = what(args.of);
    let title = format!("{}: {what}, by {}", view.program(), noun(args.by(), chosen.ends, 1));
    Ok(picture::bars(&title, kinds(args.of), &lists, &notes))
}

struct Drawing<'d> {
    chosen: &'d Chosen,
    args: &'d GpuArgs,
    mpi: Option<Mpi>,
}

impl Drawing<'_> {
    /// The first of the sums as bars; `main` is what they are in, if it is not all.
    fn list(&self, main: &str, by: By, part: By, found: &[(Key, Sum)], most: usize) -> Bars {
        let of = self.args.of;
        let all = found.iter().fold(0u64, |all, (_, sum)| all.saturating_add(sum.amount(of)));
        let is_known = detail::knows_kernel(by, part);
        let (shown, rest) = found.split_at(most.min(found.len()));
        let number = found.len() as u64;
        let what = self.noun(part, number);
        let title = match main {
            "" => format!("{} in {number} {what}", self.amount(all)),
            _ => format!("{number} {what}"),
        };
        Bars {
            main: main.to_owned(),
            title,
            bars: shown.iter().map(|(key, sum)| self.bar(part, key, sum, is_known)).collect(),
            all,
            rest: self.rest(rest, all, part),
        }
    }

    fn bar(&self, by: By, key: &Key, sum: &Sum, is_kernel_known: bool) -> Bar {
        let (name, aside) = self.names(by, key);
        let aside = if is_kernel_known { String::new() } else { aside };
        let whole = if aside.is_empty() { name.clone() } else { format!("{name}, {aside}") };
        let mut title = about(&whole, sum, self.chosen.is_sampled);
        if let Some([Value::Bytes(sent), Value::Bytes(received)]) =
            self.mpi.as_ref().map(|mpi| mpi.cells(key))
        {
            title += &format!("; MPI sent {sent} bytes there, and received {received}");
        }
        let amount = sum.amount(self.args.of);
        Bar {
            name,
            aside,
            // The end of a path tells more than where all paths begin.
            keeps_end: matches!(by, By::Line | By::Launch),
            parts: sum.kinds(self.args.of),
            amount: if self.args.of == Of::Bytes { human_bytes(amount) } else { amount.to_string() },
            title,
        }
    }

    fn noun(&self, by: By, number: u64) -> &'static str {
        noun(by, self.chosen.ends, number)
    }

    /// The rows without a bar.
    fn rest(&self, rest: &[(Key, Sum)], all: u64, by: By) -> String {
        if rest.is_empty() {
            return String::new();
        }
        let amount = rest.iter().fold(0u64, |sum, (_, one)| sum.saturating_add(one.amount(self.args.of)));
        let share = picture::share(amount, all);
        let number = rest.len() as u64;
        let (has, what) = (if number == 1 { "has" } else { "have" }, self.noun(by, number));
        format!("{number} more {what} {has} {share}; --top N draws N, and {MOST_SHOWN} at most.")
    }

    /// So much, in words.
    fn amount(&self, amount: u64) -> String {
        if self.args.of == Of::Bytes { human_bytes(amount) } else { accesses(amount) }
    }

    /// The name of a bar, and what distinguishes it from others.
    fn names(&self, by: By, key: &[Label]) -> (String, String) {
        let kernel = |label: &Label| self.chosen.kernels.get(label.text()).to_owned();
        let end = |label: &Label| match label {
            Label::Number(rank) => format!("rank {rank}"),
            Label::Offset(..) => format!("rank {label}"),
            Label::Text(text) if by == By::Device => short_ids(std::slice::from_ref(text)).concat(),
            Label::Text(text) => text.clone(),
        };
        let memory = |label: &Label| format!("memory of {}", end(label));
        match (by, key) {
            (By::Rank | By::Device, [one, other]) => (end(one), memory(other)),
            (By::Rank | By::Device, [one]) => (memory(one), String::new()),
            (By::Kernel, [it]) => (kernel(it), String::new()),
            (By::Line | By::Launch, [line, it]) => (line.to_string(), kernel(it)),
            (By::Object, [object, owner]) => (object.to_string(), memory(owner)),
            (By::Access, [kind, Label::Number(0)]) => (format!("{kind}, bulk copies"), String::new()),
            (By::Access, [kind, width]) => (format!("{kind}, {width} bytes wide"), String::new()),
            _ => (key.iter().map(Label::to_string).collect::<Vec<_>>().join(", "), String::new()),
        }
    }

    fn name_of_main(&self, main: &[Label]) -> String {
        let by = self.args.by();
        match (by, main) {
            (By::Rank | By::Object, [Label::Number(rank)]) => format!("rank {rank}"),
            (By::Device, [Label::Text(device)]) if self.chosen.ends == Ends::Pairs => device.clone(),
            (By::Object, [object]) => object.to_string(),
            _ => {
                let (name, aside) = self.names(by, main);
                if aside.is_empty() { name } else { format!("{name}, {aside}") }
            }
        }
    }
}

/// The noun for the rows of a list.
fn noun(by: By, ends: Ends, number: u64) -> &'static str {
    let (one, many) = match by {
        By::Rank if ends == Ends::Distances => ("offset of the owner", "offsets of owners"),
        By::Rank => ("rank and owner", "pairs"),
        By::Device if ends == Ends::Distances => ("place of the memory", "places"),
        By::Device => ("device", "pairs"),
        By::Kernel => ("kernel", "kernels"),
        By::Line => ("line", "lines"),
        By::Launch => ("launch", "launches"),
        By::Object => ("object", "objects"),
        By::Access => ("kind of access", "kinds of access"),
        By::Address | By::Copy | By::Staging => ("address", "addresses"),
    };
    if number == 1 { one } else { many }
}
