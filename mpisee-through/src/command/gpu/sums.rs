//! Sums of accesses by the columns that a table groups by.

use super::label::{Label, or_unknown};
use super::rows::{Accessed, Ends};
use super::{By, Of};
use crate::sheet::{self, Head, Value};
use crate::short_names::Names;
use mpisee_profile::gpu::Access;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The key of a sum, one label per column.
pub type Key = Vec<Label>;

/// Accesses, bytes and errors of a row.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    pub accesses: u64,
    /// Loaded, stored, and changed by atomics.
    pub bytes: [u64; 3],
    /// Loads, stores and atomics; all of them are `accesses`.
    pub counts: [u64; 3],
    error: f64,
}

impl Sum {
    /// Adds a row.
    pub fn add(&mut self, row: &Accessed) {
        self.accesses = self.accesses.saturating_add(row.accesses);
        let kind = row.access as usize;
        self.bytes[kind] = self.bytes[kind].saturating_add(row.bytes);
        self.counts[kind] = self.counts[kind].saturating_add(row.accesses);
        self.error = self.error.hypot(row.error);
    }

    /// Adds another sum.
    pub fn join(&mut self, other: &Sum) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        let sums = self.bytes.iter_mut().chain(&mut self.counts);
        for (sum, more) in sums.zip(other.bytes.into_iter().chain(other.counts)) {
            *sum = sum.saturating_add(more);
        }
        self.error = self.error.hypot(other.error);
    }

    /// How much it is.
    pub fn amount(&self, of: Of) -> u64 {
        match of {
            Of::Bytes => self.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            Of::Accesses => self.accesses,
        }
    }

    /// The standard error of its accesses.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// The same of loads, stores and atomics.
    pub fn kinds(&self, of: Of) -> [u64; 3] {
        if of == Of::Bytes { self.bytes } else { self.counts }
    }

    /// The columns of [`heads`]; `all` is what shares are of.
    pub fn cells(&self, of: Of, all: u64, is_sampled: bool) -> Vec<Value> {
        let mut cells = vec![Value::Count(self.accesses)];
        cells.extend(self.bytes.map(Value::Bytes));
        cells.push(Value::Share(self.amount(of) as f64 / all.max(1) as f64));
        if is_sampled {
            cells.push(Value::Number(self.error.round()));
        }
        cells
    }
}

/// The columns of a sum; `share` is the heading of shares, which says what they are of.
pub fn heads(share: &'static str, is_sampled: bool) -> Vec<Head> {
    let mut heads = vec![
        sheet::number("accesses", "ACCESSES"),
        sheet::number("loaded_bytes", "LOADED"),
        sheet::number("stored_bytes", "STORED"),
        sheet::number("atomic_bytes", "ATOMIC"),
        sheet::number("share", share),
    ];
    if is_sampled {
        heads.push(sheet::number("accesses_error", "ERROR"));
    }
    heads
}

/// Sums by key.
#[derive(Debug, Default)]
pub struct Sums(BTreeMap<Key, Sum>);

impl Sums {
    /// The sums of the rows.
    pub fn from_rows<'r>(
        rows: impl IntoIterator<Item = &'r Accessed>,
        key: impl Fn(&Accessed) -> Key,
    ) -> Self {
        let mut sums = Sums::default();
        for row in rows {
            sums.0.entry(key(row)).or_default().add(row);
        }
        sums
    }

    /// The largest first.
    pub fn sorted(&self, of: Of) -> Vec<(Key, Sum)> {
        let mut sorted: Vec<(Key, Sum)> =
            self.0.iter().map(|(key, sum)| (key.clone(), sum.clone())).collect();
        sorted.sort_by_key(|(_, sum)| Reverse(sum.amount(of)));
        sorted
    }

    /// The sum of all.
    pub fn all(&self, of: Of) -> u64 {
        self.0.values().fold(0, |all, sum| all.saturating_add(sum.amount(of)))
    }
}

/// The key of a row. In sums over ranks the rank of the kernels is unknown.
pub fn key(by: By, row: &Accessed) -> Key {
    let text = |text: &str| Label::from(text);
    match by {
        By::Rank => {
            let rank = row.rank.iter().map(|(rank, _)| Label::Number(*rank));
            rank.chain([row.owner.clone()]).collect()
        }
        By::Device => {
            let device = row.rank.iter().map(|(_, device)| text(device));
            device.chain([Label::Text(or_unknown(&row.peer_device))]).collect()
        }
        By::Kernel => vec![text(&row.kernel)],
        By::Line => vec![text(&row.source), text(&row.kernel)],
        By::Launch => vec![launched(row), text(&row.kernel)],
        By::Object => vec![Label::Text(or_unknown(&row.object)), row.owner.clone()],
        By::Access => vec![text(access(row.access)), Label::Number(row.width)],
        // Rows of gpu.csv have no addresses.
        By::Address | By::Copy | By::Staging => Vec::new(),
    }
}

/// The columns of [`key`].
pub fn key_heads(by: By, ends: Ends) -> Vec<Head> {
    let owner = match ends {
        Ends::Distances => sheet::number("owner_offset", "OWNER AT"),
        Ends::Pairs => sheet::number("owner", "OWNER"),
    };
    let peer_device = sheet::fixed("peer_device", "MEMORY OF");
    match by {
        By::Rank if ends == Ends::Distances => vec![owner],
        By::Rank => vec![sheet::number("rank", "RANK"), owner],
        By::Device if ends == Ends::Distances => vec![peer_device],
        By::Device => vec![sheet::fixed("device", "DEVICE"), peer_device],
        By::Kernel => vec![sheet::fixed("kernel", "KERNEL")],
        By::Line => vec![sheet::fixed("source", "LINE"), sheet::fixed("kernel", "KERNEL").or_none()],
        By::Launch => {
            vec![sheet::fixed("launched", "LAUNCHED BY"), sheet::fixed("kernel", "KERNEL").or_none()]
        }
        By::Object => vec![sheet::fixed("object", "OBJECT"), owner],
        By::Access => vec![sheet::fixed("access", "ACCESS"), sheet::number("width", "WIDTH")],
        By::Address | By::Copy | By::Staging => Vec::new(),
    }
}

/// The cells of a key, with kernels as people write them.
pub fn key_cells(by: By, key: &[Label], kernels: &Names) -> Vec<Value> {
    let kernel = |kernel: &Label| Value::from(kernels.get(kernel.text()));
    match (by, key) {
        (By::Kernel, [it]) => vec![kernel(it)],
        (By::Line | By::Launch, [line, it]) => vec![line.value(), kernel(it)],
        _ => key.iter().map(Label::value).collect(),
    }
}

fn access(access: Access) -> &'static str {
    match access {
        Access::Load => "load",
        Access::Store => "store",
        Access::Atomic => "atomic",
    }
}

/// The line of Python, or that there is none.
fn launched(row: &Accessed) -> Label {
    Label::from(if row.launched.is_empty() { "(no Python)" } else { &row.launched })
}
