//! Accesses summed up by what they have in common.

use super::{By, Of};
use crate::names::Names;
use crate::sheet::{self, Head, Value};
use mpisee_profile::gpu::Access;
use mpisee_profile::rows::{GpuMemory, GpuRow};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// What is in a column of a key. Numbers come before texts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Label {
    /// A rank, or a width in bytes.
    Number(u32),
    /// All else.
    Text(String),
}

impl Label {
    /// The text; of a number there is none.
    pub fn text(&self) -> &str {
        if let Label::Text(text) = self { text } else { "" }
    }

    fn value(&self) -> Value {
        match self {
            Label::Number(number) => Value::Count(u64::from(*number)),
            Label::Text(text) => Value::from(text.as_str()),
        }
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Label::Text(text.to_owned())
    }
}

impl fmt::Display for Label {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Number(number) => write!(to, "{number}"),
            Label::Text(text) => to.write_str(text),
        }
    }
}

/// What the accesses of a sum have in common, one label per column.
pub type Key = Vec<Label>;

/// What is in a row.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    pub accesses: u64,
    /// Loaded, stored, and changed by atomics.
    pub bytes: [u64; 3],
    error: f64,
}

impl Sum {
    /// Adds a row of gpu.csv.
    pub fn add(&mut self, row: &GpuRow) {
        self.accesses = self.accesses.saturating_add(row.accesses);
        let bytes = &mut self.bytes[row.access as usize];
        *bytes = bytes.saturating_add(row.bytes);
        self.error = self.error.hypot(row.error);
    }

    /// Adds another sum.
    pub fn join(&mut self, other: &Sum) {
        self.accesses = self.accesses.saturating_add(other.accesses);
        for (bytes, more) in self.bytes.iter_mut().zip(other.bytes) {
            *bytes = bytes.saturating_add(more);
        }
        self.error = self.error.hypot(other.error);
    }

    /// How much it is.
    pub fn of(&self, of: Of) -> u64 {
        match of {
            Of::Bytes => self.bytes.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes)),
            Of::Accesses => self.accesses,
        }
    }

    /// The columns of [`heads`]; `all` is what shares are of.
    pub fn cells(&self, of: Of, all: u64, is_sampled: bool) -> Vec<Value> {
        let mut cells = vec![Value::Count(self.accesses)];
        cells.extend(self.bytes.map(Value::Bytes));
        cells.push(Value::Share(self.of(of) as f64 / all.max(1) as f64));
        if is_sampled {
            cells.push(Value::Number(self.error.round()));
        }
        cells
    }
}

/// The columns of a sum.
pub fn heads(is_sampled: bool) -> Vec<Head> {
    let mut heads = vec![
        sheet::number("accesses", "ACCESSES"),
        sheet::number("loaded_bytes", "LOADED"),
        sheet::number("stored_bytes", "STORED"),
        sheet::number("atomic_bytes", "ATOMIC"),
        sheet::number("share", "SHARE%"),
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
    pub fn of<'r>(rows: impl IntoIterator<Item = &'r GpuRow>, key: impl Fn(&GpuRow) -> Key) -> Self {
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
        sorted.sort_by_key(|(_, sum)| Reverse(sum.of(of)));
        sorted
    }

    /// The sum of all.
    pub fn all(&self, of: Of) -> u64 {
        self.0.values().fold(0, |all, sum| all.saturating_add(sum.of(of)))
    }
}

/// What rows of one sum have in common.
pub fn key(by: By, row: &GpuRow) -> Key {
    let text = |text: &str| Label::from(text);
    match by {
        By::Rank => vec![Label::Number(row.rank), owner(row)],
        By::Device => vec![text(&row.device), Label::Text(or_unknown(&row.peer_device))],
        By::Kernel => vec![text(&row.kernel)],
        By::Line => vec![text(&row.source), text(&row.kernel)],
        By::Launch => vec![launched(row), text(&row.kernel)],
        By::Object => vec![Label::Text(or_unknown(&row.object)), owner(row)],
        By::Access => vec![text(access(row.access)), Label::Number(row.width)],
        // Rows of gpu.csv have no addresses.
        By::Address => Vec::new(),
    }
}

/// The columns of [`key`].
pub fn key_heads(by: By) -> Vec<Head> {
    match by {
        By::Rank => vec![sheet::number("rank", "RANK"), sheet::number("owner", "OWNER")],
        By::Device => vec![sheet::fixed("device", "DEVICE"), sheet::fixed("peer_device", "MEMORY OF")],
        By::Kernel => vec![sheet::fixed("kernel", "KERNEL")],
        By::Line => vec![sheet::fixed("source", "LINE"), sheet::fixed("kernel", "KERNEL").or_none()],
        By::Launch => {
            vec![sheet::fixed("launched", "LAUNCHED BY"), sheet::fixed("kernel", "KERNEL").or_none()]
        }
        By::Object => vec![sheet::fixed("object", "OBJECT"), sheet::number("owner", "OWNER")],
        By::Access => vec![sheet::fixed("access", "ACCESS"), sheet::number("width", "WIDTH")],
        By::Address => Vec::new(),
    }
}

/// What a table shows of a key, with kernels as people write them.
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

/// The rank, or the kind of memory where that tells more.
pub fn owner(row: &GpuRow) -> Label {
    match (row.memory, row.peer_rank) {
        (GpuMemory::Pinned | GpuMemory::Registered, _) => Label::from("host"),
        (GpuMemory::Managed, _) => Label::from("managed"),
        (_, Some(rank)) => Label::Number(rank),
        (_, None) => Label::Text(or_unknown("")),
    }
}

/// The line of Python, or that there is none.
fn launched(row: &GpuRow) -> Label {
    Label::from(if row.launched.is_empty() { "(no Python)" } else { &row.launched })
}

/// The text, or what stands for none.
pub fn or_unknown(text: &str) -> String {
    if text.is_empty() { "(unknown)" } else { text }.to_owned()
}
