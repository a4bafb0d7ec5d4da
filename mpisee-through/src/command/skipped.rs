//! Messages about segments that are skipped.

use crate::output::printable;
use crate::units::count;
use mpisee_collect::segments::Skipped;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Says of each file why it is passed over; where the same is wrong with several, once for all of them: another version of
/// the profiler may have left hundreds.
pub fn tell(skipped: &[Skipped]) {
    for sentence in sentences(skipped) {
        // Nobody is left to tell if stderr is closed too.
        let _ = writeln!(std::io::stderr(), "mpisee-through: {}", printable(&sentence));
    }
}

fn sentences(skipped: &[Skipped]) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (path, why) in skipped {
        by_reason.entry(why).or_default().push(path);
    }
    let mut sentences: Vec<(&Path, String)> = by_reason
        .into_iter()
        .map(|(why, paths)| match paths[..] {
            [path] => (path, format!("'{}' is skipped: {why}", path.display())),
            _ => {
                let files = count(paths.len() as u64, "segment");
                (paths[0], format!("{files} are skipped, the first of them '{}': {why}", paths[0].display()))
            }
        })
        .collect();
    sentences.sort();
    sentences.into_iter().map(|(_, sentence)| sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_the_same_fault_share_a_sentence() {
        let skipped = [("/s/1", "it is old"), ("/s/2", "it is cut off"), ("/s/3", "it is old")];
        let skipped = skipped.map(|(path, why)| (path.into(), why.to_owned()));
        assert_eq!(
            sentences(&skipped),
            [
                "2 segments are skipped, the first of them '/s/1': it is old",
                "'/s/2' is skipped: it is cut off"
            ]
        );
    }
}
