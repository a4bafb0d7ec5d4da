//! Names that a misspelt one may stand for.

/// Jaro-Winkler similarity, from 0 to 1, of names that may have been mistaken for each other.
const SIMILAR: f64 = 0.75;

/// Those of the names that `given` may have been meant for, the likeliest first.
pub fn similar<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let given = given.to_lowercase();
    let similarity = |name: &&str| strsim::jaro_winkler(&given, &name.to_lowercase());
    let mut found: Vec<(f64, &str)> = names.into_iter().map(|name| (similarity(&name), name)).collect();
    found.retain(|&(similarity, _)| similarity > SIMILAR);
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_name_comes_first() {
        let commands = ["summary", "advise", "matrix", "ranks", "comms"];
        assert_eq!(similar("advice", commands), ["advise"]);
        assert_eq!(similar("RANK", commands), ["ranks"]);
        assert_eq!(similar("nonsense", commands), Vec::<&str>::new());
    }
}
