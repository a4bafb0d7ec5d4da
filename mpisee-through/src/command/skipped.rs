//! Messages about segments that were skipped: one for each, or one for many.

use crate::output::printable;
use crate::units::count;
use mpisee_collect::segments::Skipped;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Says of each file why it is passed over; where the same is wrong with several, once for all of
/// them: another version of the profiler may have left hundreds.
pub fn report(skipped: &[Skipped]) {
    for sentence in sentences(skipped, "skipped") {
        // Nobody is left to tell if stderr is closed too.
        let _ = writeln!(std::io::stderr(), "mpisee-through: {}", printable(&sentence));
    }
}

/// One sentence for files with the same reason: what became of them, and why.
pub fn sentences(files: &[Skipped], became: &str) -> Vec<String> {
    let mut by_reason: BTreeMap<String, Vec<(&Path, &str)>> = BTreeMap::new();
    for (path, why) in files {
        by_reason.entry(without_process(why)).or_default().push((path, why));
    }
    let mut sentences: Vec<(&Path, String)> = by_reason
        .into_values()
        .map(|files| {
            let (path, why) = files[0];
            let first = path.display();
            match files.len() {
                1 => (path, format!("'{first}' is {became}: {why}")),
                several => {
                    let segments = count(several as u64, "segment");
                    (path, format!("{segments} are {became}, the first of them '{first}': {why}"))
                }
            }
        })
        .collect();
    sentences.sort();
    sentences.into_iter().map(|(_, sentence)| sentence).collect()
}

/// The reason without the number of a process: each has left a file for the same reason.
fn without_process(why: &str) -> String {
    const BEFORE: &str = "process ";
    match why.split_once(BEFORE) {
        Some((begin, rest)) => {
            format!("{begin}{BEFORE}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_the_same_fault_share_a_sentence() {
        let skipped = [("/s/1", "it is old"), ("/s/2", "it is cut off"), ("/s/3", "it is old")];
        let skipped = skipped.map(|(path, why)| (path.into(), why.to_owned()));
        assert_eq!(
            sentences(&skipped, "skipped"),
            [
                "2 segments are skipped, the first of them '/s/1': it is old",
                "'/s/2' is skipped: it is cut off"
            ]
        );
        let empty =
            [("/s/1", "nothing is in it; process 17 ended"), ("/s/2", "nothing is in it; process 23 ended")];
        let empty = empty.map(|(path, why)| (path.into(), why.to_owned()));
        let said = "2 segments are removed, the first of them '/s/1': nothing is in it; process 17 ended";
        assert_eq!(sentences(&empty, "removed"), [said]);
    }
}
