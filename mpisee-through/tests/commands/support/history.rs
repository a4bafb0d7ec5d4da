//! Folders of entries, as a CI keeps them.

use super::runs::{add, run};
use super::{Builder, Written};

/// Entries of a history.
pub const ENTRIES: usize = 12;
/// The entry since which reductions take longer.
pub const SLOWER: usize = 7;
/// The entry since which exchanges have more calls.
pub const MORE_CALLS: usize = 10;

/// The label of an entry.
pub fn label(entry: usize) -> String {
    format!("c{:06x}", 0x00a1_b2c3 + 0x0001_3579 * entry)
}

/// The runs of an entry: reductions take 0.5 s, then 0.8 s; the differences between runs are the
/// same in each entry.
pub fn runs(entry: usize) -> Vec<Builder> {
    let reduce_s = if entry < SLOWER { 0.5 } else { 0.8 };
    let of = |number: usize| {
        let noise_s = 0.001 * ((7 * number + 3 * entry) % 11) as f64;
        let mut run = run(4, [3.0 + noise_s, reduce_s, 0.25]);
        run.run.start = format!("2026-06-{:02}T12:{number:02}:00Z", entry + 1);
        if entry >= MORE_CALLS {
            run.calls.iter_mut().filter(|row| row.call == "MPI_Alltoall").for_each(|row| row.calls += 4);
        }
        run
    };
    (1..=5).map(of).collect()
}

/// A folder `history` with sets of runs. Names are not in the order of starts.
pub fn history() -> Written {
    let home = Builder::new(2).write();
    std::fs::create_dir(home.beside().join("history")).unwrap();
    for entry in (0..ENTRIES).rev() {
        add(&home, &format!("history/{}.runs", label(entry)), &runs(entry));
    }
    home
}
