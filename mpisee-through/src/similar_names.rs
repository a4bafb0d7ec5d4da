//! Finds the names that a misspelt one may stand for.

use std::collections::BTreeMap;

/// Jaro-Winkler similarity, from 0 to 1, of names that may have been mistaken for each other.
const SIMILAR: f64 = 0.75;

const PREFIX: &str = "MPI_";

/// The names that `given` may have been meant for, the likeliest first.
pub fn similar<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let given = given.to_lowercase();
    let similarity = |name: &&str| strsim::jaro_winkler(&given, &name.to_lowercase());
    let mut found: Vec<(f64, &str)> = names.into_iter().map(|name| (similarity(&name), name)).collect();
    found.retain(|&(similarity, _)| similarity > SIMILAR);
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.into_iter().map(|(_, name)| name).collect()
}

/// The MPI functions that `given`, with or without `MPI_`, may have been meant for, the likeliest
/// first.
pub fn similar_calls<'n>(given: &str, calls: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    // The prefix that all names share would make all of them similar.
    fn short(name: &str) -> &str {
        let prefix = name.get(..PREFIX.len()).filter(|start| start.eq_ignore_ascii_case(PREFIX));
        &name[prefix.map_or(0, str::len)..]
    }
    let calls: BTreeMap<&str, &str> = calls.into_iter().map(|call| (short(call), call)).collect();
    similar(short(given), calls.keys().copied()).into_iter().map(|name| calls[name]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_name_comes_first() {
        let commands = ["summary", "advise", "matrix", "ranks", "comms"];
        assert_eq!(similar("advice", commands), ["advise"]);
        assert_eq!(similar("RANK", commands), ["ranks"]);
        let calls = ["MPI_Allreduce", "MPI_Gather", "MPI_Bcast"];
        assert_eq!(similar_calls("mpi_allredcue", calls), ["MPI_Allreduce"]);
        assert_eq!(similar_calls("nothing", calls), Vec::<&str>::new());
        assert_eq!(similar("nonsense", commands), Vec::<&str>::new());
    }
}
