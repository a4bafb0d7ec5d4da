//! The matrix of an aggregate profile: traffic by the distance between sender and receiver.

use super::traffic::{Of, Traffic};
use super::{Beside, MatrixArgs};
use crate::command::Outcome;
use crate::sheet::{self, Answer, Head, Sheet, Value};
use crate::units::{count, human_bytes};
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::rows::OffsetRow;
use std::collections::BTreeMap;

fn heads(of: Of, has_one_sided: bool) -> Vec<Head> {
    let mut heads = vec![
        sheet::number("offset_min", "FROM OFFSET"),
        sheet::number("offset_max", "TO"),
        sheet::number("pairs", "PAIRS"),
        sheet::number("messages", "MESSAGES"),
        sheet::number("bytes", "BYTES"),
        sheet::number("share", of.share()),
    ];
    if has_one_sided {
        heads.insert(5, sheet::number("one_sided_bytes", "ONE-SIDED").or_none());
    }
    heads
}

/// As [`super::run`].
pub fn run(args: &MatrixArgs, view: &ProfileView) -> Result<Outcome> {
    if args.image.is_some() || args.by == super::By::Node || args.fields.is_some() {
        return Err(view.unanswerable("who of two ranks sends to the other").into());
    }
    if args.collectives {
        return Err(view.unanswerable("what each rank had of a collective").into());
    }
    if args.filter.names_ranks() {
        return Err(view.unanswerable("single ranks apart").into());
    }
    // By communicator: gets send over the opposite offset, perhaps between pairs that have a row
    // there.
    let mut by_comm: BTreeMap<(String, i64, i64), (u64, Traffic)> = BTreeMap::new();
    for row in view.profile().rows::<OffsetRow>()? {
        let row = row?;
        let there = row.counts().one_sided_bytes_to_peer();
        if !view.processes().takes_comm(&args.filter, &row.comm) {
            continue;
        }
        let mut add = |first, last, traffic| {
            let (pairs, sum) = by_comm.entry((row.comm.clone(), first, last)).or_default();
            *pairs = row.pairs.max(*pairs);
            sum.add(traffic);
        };
        if row.sent_messages > 0 || there > 0 {
            let mut sent = Traffic::from_messages(row.sent_messages, row.sent_bytes);
            sent.add(Traffic::from_one_sided(there));
            add(row.offset_min, row.offset_max, sent);
        }
        if row.get_bytes > 0 {
            let (first, last) = (row.offset_max.saturating_neg(), row.offset_min.saturating_neg());
            add(first, last, Traffic::from_one_sided(row.get_bytes));
        }
    }
    let mut sums: BTreeMap<(i64, i64), (u64, Traffic)> = BTreeMap::new();
    for ((_, first, last), (more, traffic)) in by_comm {
        let (pairs, sum) = sums.entry((first, last)).or_default();
        *pairs = pairs.saturating_add(more);
        sum.add(traffic);
    }
    sums.retain(|_, (_, sum)| args.of == Of::Bytes || sum.messages > 0);
    let has_one_sided = sums.values().any(|(_, sum)| sum.one_sided_bytes > 0);
    let mut all = Traffic::default();
    sums.values().for_each(|(_, sum)| all.add(*sum));
    let mut sorted: Vec<((i64, i64), (u64, Traffic))> = sums.into_iter().collect();
    sorted.sort_by_key(|&(ends, (_, sum))| (std::cmp::Reverse(sum.amount(args.of)), ends));
    let mut rows = sorted
        .iter()
        .map(|&((first, last), (pairs, sum))| {
            let mut row = vec![
                Value::Text(format!("{first:+}")),
                Value::Text(format!("{last:+}")),
                Value::Count(pairs),
                Value::Count(sum.messages),
                Value::Bytes(sum.bytes),
                Value::Share(super::share(sum.amount(args.of), all.amount(args.of))),
            ];
            if has_one_sided {
                row.insert(5, Value::Bytes(sum.one_sided_bytes));
            }
            row
        })
        .collect();
    let closing = args.shown.cut(&args.output, &mut rows, "No messages.");
    let mut answer = Answer::new(
        view.profile(),
        Sheet { name: "offsets", heads: heads(args.of, has_one_sided), rows },
        None,
    );
    if !sorted.is_empty() {
        let what = args.of.unit();
        answer.lead = format!(
            "{} with {}{}, by how far the receiver is from the sender (its rank less the sender's), most {what} first.\n",
            count(all.messages, "message"),
            human_bytes(all.message_bytes()),
            match all.one_sided_bytes {
                0 => String::new(),
                bytes => format!(", and {} in one-sided operations", human_bytes(bytes)),
            }
        );
    }
    let beside = Beside::from_view(args, view, std::iter::once(all.bytes))?;
    answer.lead += &beside.sentence;
    answer.values = vec![("messages", Value::Count(all.messages)), ("bytes", Value::Bytes(all.bytes))];
    if has_one_sided {
        answer.values.push(("one_sided_bytes", Value::Bytes(all.one_sided_bytes)));
    }
    answer.values.push(("left_out_collective_bytes", Value::Bytes(beside.bytes)));
    answer.closing = closing;
    answer.caveats.extend(view.note_of_mpi_alone());
    answer.write(&args.output)
}
