//! The patterns of `--mpi-t`, and those of them for which nothing is read.

use mpisee_profile::glob::Glob;

/// The patterns that choose variables.
pub struct Patterns(Vec<Pattern>);

struct Pattern {
    text: String,
    glob: Glob,
    found: Found,
}

/// The variables that MPI has for a pattern, as far as they were looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    /// Variables, none of which can be read.
    Unreadable,
    Readable,
}

impl Patterns {
    /// The patterns of an option, separated by commas.
    pub fn from_option(option: &str) -> Patterns {
        let texts = option.split(',').map(str::trim).filter(|text| !text.is_empty());
        let pattern =
            |text: &str| Pattern { text: text.to_owned(), glob: Glob::new(text), found: Found::Nothing };
        Patterns(texts.map(pattern).collect())
    }

    /// Returns whether one of them matches.
    pub fn choose(&self, name: &str) -> bool {
        self.0.iter().any(|pattern| pattern.glob.matches(name))
    }

    /// Notes that MPI has a variable of that name, which can be read or not.
    pub fn note(&mut self, name: &str, is_readable: bool) {
        for pattern in self.0.iter_mut().filter(|pattern| pattern.glob.matches(name)) {
            match is_readable {
                true => pattern.found = Found::Readable,
                false if pattern.found == Found::Nothing => pattern.found = Found::Unreadable,
                false => {}
            }
        }
    }

    /// Sentences on the patterns for which nothing is read of the `count` performance variables
    /// that MPI has.
    pub fn complaints(&self, count: i32) -> Vec<String> {
        let of = |found: Found| {
            let texts = self.0.iter().filter(|pattern| pattern.found == found).map(|it| it.text.as_str());
            Some(texts.collect::<Vec<_>>().join(",")).filter(|texts| !texts.is_empty())
        };
        let nothing = of(Found::Nothing).map(|texts| match count {
            0 => format!(
                "this MPI has no performance variable, so --mpi-t '{texts}' reads none: the profile has the control variables that are \
                 set, of those that `mpisee --mpi-t list` lists"
            ),
            _ => format!(
                "no performance variable that this MPI had after MPI_Init has a name that --mpi-t '{texts}' chooses; `mpisee --mpi-t list` \
                 lists the names, and what has to be switched on for some"
            ),
        });
        let unreadable = of(Found::Unreadable).map(|texts| {
            format!(
                "none of the performance variables that --mpi-t '{texts}' chooses can be read in this run, as where their component is not in \
                 use; `mpisee --mpi-t list` lists their components"
            )
        });
        nothing.into_iter().chain(unreadable).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_for_which_nothing_is_read_are_named() {
        let mut patterns = Patterns::from_option("pml_*, nosuch,coll_*,coll_x,,other?");
        for (name, is_readable) in [("pml_a", true), ("pml_b", false), ("coll_x", false), ("coll_y", true)] {
            assert!(patterns.choose(name), "{name}");
            patterns.note(name, is_readable);
        }
        assert!(!patterns.choose("osc_a"));
        let complaints = patterns.complaints(9);
        assert!(complaints[0].contains("--mpi-t 'nosuch,other?' chooses;"), "{complaints:?}");
        assert!(complaints[1].contains("--mpi-t 'coll_x' chooses can"), "{complaints:?}");
        assert_eq!(complaints.len(), 2);
    }

    #[test]
    fn an_mpi_without_variables_is_named_as_the_reason() {
        let complaints = Patterns::from_option("*").complaints(0);
        assert!(complaints[0].starts_with("this MPI has no performance variable, so --mpi-t '*'"));
        assert_eq!(complaints.len(), 1);
    }
}
