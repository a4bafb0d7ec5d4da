//! Names of communicators: one grammar for all that writes and reads them.
//!
//! ```text
//! name    = root { "_" step } [ "@" size ]      W_a1_b1.0; a family of like communicators over ranks: W_s1.*@64
//! root    = "W" | "S" | "P" | "F" made | "N" made
//! step    = letter made                         the creating call
//! made    = "+"                                 the shared row of communicators whose members change
//!         | n [ "+" ] [ "." part ] [ "-" digest ]
//! part    = rank | "*"
//! ```
//!
//! docs/explanation/communicators.md explains the names to users.

use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

/// The name of a communicator, which spells its ancestry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommName {
    root: Root,
    steps: SmallVec<[Step; 4]>,
    /// Of a family over ranks: how many processes each of its communicators has.
    size: Option<u32>,
}

/// A communicator that has no parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// `W`, `MPI_COMM_WORLD`.
    World,
    /// `S`, `MPI_COMM_SELF`: one communicator of each process.
    Itself,
    /// `P`, the communicator with the processes that spawned this world.
    Spawner,
    /// `F1.0-5e1c09tz`, created from groups alone.
    FromGroups(Made),
    /// `N1-5e1c09tz`, a communicator of NCCL or RCCL that was made from a unique id.
    Nccl(Made),
}

/// One creation below the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The letter of the creating call.
    pub letter: u8,
    /// The creation on the parent.
    pub made: Made,
}

/// The ordinal of a creation of one kind on one parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Made {
    /// `+`: the row that communicators share whose members change with each call.
    Changing,
    /// A creation with a number.
    Numbered {
        /// The ordinal of the creating call on the parent, from 1.
        number: u32,
        /// `+` after it: the row of this one and of all like ones that follow.
        is_shared: bool,
        /// The part, of those that the call created; `None` where it creates only one.
        part: Option<Sibling>,
        /// Digest of groups and tag, for a creation that is not collective over the parent.
        digest: Option<Digest>,
    },
}

/// One of several communicators that one call created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sibling {
    /// The one whose smallest rank in the parent is this.
    Rank(u32),
    /// `*`: each of them, in the name of a family.
    Any,
}

/// A digest of groups and tag: 40 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(u64);

impl CommName {
    /// The communicator that has no parent, from which the name begins.
    pub fn root(&self) -> Root {
        self.root
    }

    /// The creations below the root, in their order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The name of the parent; `None` for a root.
    pub fn parent(&self) -> Option<CommName> {
        let (_, before) = self.steps.split_last()?;
        Some(CommName { root: self.root, steps: before.into(), size: None })
    }

    /// Returns whether the name stands for one communicator of each process: `S` and its
    /// descendants. A communicator that a process alone made with processes which it spawned or
    /// connected to, `S_p1.3`, is a communicator of its own.
    pub fn is_one_per_process(&self) -> bool {
        self.root == Root::Itself && self.steps.iter().all(|step| step.letter != b'p')
    }

    /// Returns whether it is a communicator of NCCL or RCCL, or made of one.
    pub fn is_nccl(&self) -> bool {
        matches!(self.root, Root::Nccl(_))
    }

    /// Returns whether it names a row that stands for like communicators: `W_s1001+.0`, the 1001st
    /// from `W` and all with the same members after it, or `W_s+`, those whose members changed too
    /// often.
    pub fn is_shared_row(&self) -> bool {
        matches!(self.last(), Some(Made::Changing | Made::Numbered { is_shared: true, .. }))
    }

    /// Returns whether it names a row that stands for communicators of different members, `W_s+`:
    /// the row's members are all processes that were in one of them.
    pub fn is_of_changing_members(&self) -> bool {
        self.last() == Some(Made::Changing)
    }

    /// The part that it is, of those that its creating call made.
    pub fn part(&self) -> Option<Sibling> {
        match self.last()? {
            Made::Numbered { part, .. } => part,
            Made::Changing => None,
        }
    }

    /// The name with `*` for each number that distinguishes what one call made, and without a size.
    /// Creations that a digest distinguishes stay: their names have nothing in common.
    pub fn pattern(&self) -> CommName {
        self.mapped(|made| match made {
            Made::Numbered { number, is_shared, part: Some(_), digest: None } => {
                Made::Numbered { number, is_shared, part: Some(Sibling::Any), digest: None }
            }
            other => other,
        })
    }

    /// The name with `*` for each number and digest that differs between runs with different
    /// numbers of ranks; a family keeps its size.
    pub fn without_ranks(&self) -> CommName {
        let name = self.mapped(|made| match made {
            Made::Numbered { number, is_shared, part: Some(_), .. } => {
                Made::Numbered { number, is_shared, part: Some(Sibling::Any), digest: None }
            }
            other => other,
        });
        // The digest of a unique id is another one in each run.
        let root = match name.root {
            Root::Nccl(Made::Numbered { number, is_shared, part, .. }) => {
                Root::Nccl(Made::Numbered { number, is_shared, part, digest: None })
            }
            root => root,
        };
        CommName { size: self.size, root, ..name }
    }

    /// The name without the size of a family.
    pub fn without_size(&self) -> CommName {
        CommName { size: None, ..self.clone() }
    }

    /// The name of the family over ranks of a communicator with `size` processes: its
    /// [`CommName::pattern`], and the size, since one call may make communicators of several sizes.
    /// Where no call made several it is that of one communicator alone.
    ///
    /// All members of a communicator have its name and its size, so that they agree on it.
    pub fn family(&self, size: u32) -> CommName {
        let is_part = |made: Made| matches!(made, Made::Numbered { part: Some(_), .. });
        // A row for communicators of changing members has no size.
        let has_size = self.all().any(is_part) && !self.is_of_changing_members();
        CommName { size: has_size.then_some(size), ..self.pattern() }
    }

    fn mapped(&self, change: impl Fn(Made) -> Made) -> CommName {
        CommName {
            root: match self.root {
                Root::FromGroups(made) => Root::FromGroups(change(made)),
                Root::Nccl(made) => Root::Nccl(change(made)),
                root => root,
            },
            steps: self.steps.iter().map(|step| Step { made: change(step.made), ..*step }).collect(),
            size: None,
        }
    }

    /// The creations, with that of the root.
    fn all(&self) -> impl Iterator<Item = Made> + '_ {
        let first = match self.root {
            Root::FromGroups(made) | Root::Nccl(made) => Some(made),
            _ => None,
        };
        first.into_iter().chain(self.steps.iter().map(|step| step.made))
    }

    /// The last creation.
    fn last(&self) -> Option<Made> {
        match (self.steps.last(), self.root) {
            (Some(step), _) => Some(step.made),
            (None, Root::FromGroups(made) | Root::Nccl(made)) => Some(made),
            (None, _) => None,
        }
    }
}

impl fmt::Display for CommName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.root)?;
        self.steps.iter().try_for_each(|step| write!(out, "_{step}"))?;
        self.size.map_or(Ok(()), |size| write!(out, "@{size}"))
    }
}

impl fmt::Display for Root {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Root::World => out.write_str("W"),
            Root::Itself => out.write_str("S"),
            Root::Spawner => out.write_str("P"),
            Root::FromGroups(made) => write!(out, "F{made}"),
            Root::Nccl(made) => write!(out, "N{made}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", char::from(self.letter), self.made)
    }
}

impl fmt::Display for Made {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Made::Numbered { number, is_shared, part, digest } = self else { return out.write_str("+") };
        write!(out, "{number}{}", if *is_shared { "+" } else { "" })?;
        match part {
            Some(Sibling::Rank(rank)) => write!(out, ".{rank}")?,
            Some(Sibling::Any) => out.write_str(".*")?,
            None => {}
        }
        digest.map_or(Ok(()), |digest| write!(out, "-{digest}"))
    }
}

impl Digest {
    /// Digits of base 32, as D. Crockford has them: no letter that can be taken for another.
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    const COUNT: usize = 8;

    /// Of the lowest 40 bits of `code`.
    pub fn new(code: u64) -> Digest {
        Digest(code & ((1 << (5 * Self::COUNT)) - 1))
    }

    fn parse(text: &str) -> Option<Digest> {
        let digit = |byte| Self::DIGITS.iter().position(|&digit| digit == byte);
        let digits = text.len() == Self::COUNT;
        let code = text.bytes().try_fold(0, |code, byte| Some(code << 5 | digit(byte)? as u64));
        code.filter(|_| digits).map(Digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |place| char::from(Self::DIGITS[(self.0 >> (5 * place)) as usize % 32]);
        (0..Self::COUNT).rev().try_for_each(|place| write!(out, "{}", digit(place)))
    }
}

impl FromStr for CommName {
    type Err = String;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (name, size) = match text.split_once('@') {
                Some((name, size)) => (name, Some(number(size)?)),
                None => (text, None),
            };
            let mut steps = name.split('_');
            let root = Root::parse(steps.next()?)?;
            Some(CommName { root, steps: steps.map(Step::parse).collect::<Option<_>>()?, size })
        };
        parse().ok_or_else(|| format!("'{text}' is not the name of a communicator, like W_s2.0_d1"))
    }
}

impl FromStr for Step {
    type Err = String;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, String> {
        Step::parse(text).ok_or_else(|| format!("'{text}' is not a creation in a name, like s2.0"))
    }
}

impl Root {
    fn parse(text: &str) -> Option<Root> {
        match text {
            "W" => Some(Root::World),
            "S" => Some(Root::Itself),
            "P" => Some(Root::Spawner),
            _ => match text.strip_prefix('N') {
                Some(made) => Some(Root::Nccl(Made::parse(made)?)),
                None => Some(Root::FromGroups(Made::parse(text.strip_prefix('F')?)?)),
            },
        }
    }
}

impl Step {
    fn parse(text: &str) -> Option<Step> {
        let letter = *text.as_bytes().first().filter(|letter| letter.is_ascii_lowercase())?;
        Some(Step { letter, made: Made::parse(&text[1..])? })
    }
}

impl Made {
    fn parse(text: &str) -> Option<Made> {
        if text == "+" {
            return Some(Made::Changing);
        }
        let (text, digest) = match text.split_once('-') {
            Some((text, digest)) => (text, Some(Digest::parse(digest)?)),
            None => (text, None),
        };
        let (first, part) = match text.split_once('.') {
            Some((first, "*")) => (first, Some(Sibling::Any)),
            Some((first, rank)) => (first, Some(Sibling::Rank(number(rank)?))),
            None => (text, None),
        };
        let (first, is_shared) = first.strip_suffix('+').map_or((first, false), |first| (first, true));
        Some(Made::Numbered { number: number(first)?, is_shared, part, digest })
    }
}

/// A number as `Display` writes it: digits alone, and no zero before others.
fn number(text: &str) -> Option<u32> {
    let is_canonical =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_canonical)
}

/// A name derived from `comm` by `change`; `comm` itself if it is no name.
pub fn derived(comm: &str, change: impl FnOnce(CommName) -> CommName) -> String {
    comm.parse().map_or_else(|_| comm.to_owned(), |name| change(name).to_string())
}

/// [`CommName::is_one_per_process`] of a text; `false` if it is no name.
pub fn is_one_per_process(comm: &str) -> bool {
    comm.parse().is_ok_and(|name: CommName| name.is_one_per_process())
}

/// [`CommName::is_shared_row`] of a text; `false` if it is no name.
pub fn is_shared_row(comm: &str) -> bool {
    comm.parse().is_ok_and(|name: CommName| name.is_shared_row())
}

/// [`CommName::is_of_changing_members`] of a text; `false` if it is no name.
pub fn is_of_changing_members(comm: &str) -> bool {
    comm.parse().is_ok_and(|name: CommName| name.is_of_changing_members())
}

/// [`CommName::is_nccl`] of a text; `false` if it is no name.
pub fn is_nccl(comm: &str) -> bool {
    comm.starts_with('N') && comm.parse().is_ok_and(|name: CommName| name.is_nccl())
}

/// The creation that made a communicator: its name without what distinguishes those that one call
/// made. `W_s2.8` is of `W_s2`.
pub fn creation(comm: &str) -> &str {
    let step = comm.rfind('_').map_or(0, |underscore| underscore + 1);
    comm[step..].find('.').map_or(comm, |dot| &comm[..step + dot])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made() -> impl Strategy<Value = Made> {
        let part = prop_oneof![any::<u32>().prop_map(Sibling::Rank), Just(Sibling::Any)];
        let digest = any::<u64>().prop_map(Digest::new);
        let numbered = (any::<u32>(), any::<bool>(), prop::option::of(part), prop::option::of(digest));
        prop_oneof![
            1 => Just(Made::Changing),
            9 => numbered.prop_map(|(number, is_shared, part, digest)| Made::Numbered {
                number, is_shared, part, digest
            }),
        ]
    }

    fn name() -> impl Strategy<Value = CommName> {
        let root = prop_oneof![
            Just(Root::World),
            Just(Root::Itself),
            Just(Root::Spawner),
            made().prop_map(Root::FromGroups),
            made().prop_map(Root::Nccl)
        ];
        let step = (b'a'..=b'z', made()).prop_map(|(letter, made)| Step { letter, made });
        (root, prop::collection::vec(step, 0..9), prop::option::of(any::<u32>()))
            .prop_map(|(root, steps, size)| CommName { root, steps: steps.into(), size })
    }

    proptest! {
        #[test]
        fn a_name_that_is_written_is_read_as_the_same(name in name()) {
            prop_assert_eq!(name.to_string().parse(), Ok(name));
        }

        #[test]
        fn a_text_that_is_read_is_written_as_the_same(text in "[WSPFN][0-9+.*a-z_@-]{0,12}") {
            if let Ok(name) = text.parse::<CommName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }

        #[test]
        fn a_part_of_a_name_is_the_same_in_text(name in name()) {
            let name = CommName { size: None, ..name };
            let text = name.to_string();
            let parent = text.rsplit_once('_').map(|(parent, _)| parent.to_owned());
            prop_assert_eq!(name.parent().map(|parent| parent.to_string()), parent);
            let created: Option<CommName> = creation(&text).parse().ok();
            prop_assert_eq!(created.and_then(|created| created.part()), None);
        }
    }

    fn parsed(text: &str) -> CommName {
        text.parse().unwrap()
    }

    #[test]
    fn a_step_is_a_letter_and_numbers() {
        for step in
            ["d1", "s2.0", "s12.345", "d1001+", "s1001+.3", "s+", "x1.0-qx8fzvcf", "x11+.0-00000000", "s1.*"]
        {
            assert_eq!(step.parse::<Step>().unwrap().to_string(), step);
        }
        for wrong in
            ["", "d", "1", "s1.", "s.0", "S1", "d1_d2", "d1x", "s1.0.0", "s+.0", "s1.0+", "s+1", "d01"]
        {
            assert!(wrong.parse::<Step>().is_err(), "{wrong}");
        }
        for wrong in ["x1.0-", "x1.0-qx8fzvc", "x1.0-qx8fzvcl", "x1.0-QX8FZVCF", "x+-qx8fzvcf", "-qx8fzvcf"] {
            assert!(wrong.parse::<Step>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_begins_with_a_root() {
        for wrong in ["", "_s1", "X_s1", "W1", "W_", "F", "W_s1@", "W_s1@x", "W_s1 (after)", "W_ä1"] {
            let error = wrong.parse::<CommName>().unwrap_err();
            assert!(error.starts_with(&format!("'{wrong}' ")), "{error}");
        }
    }

    #[test]
    fn a_communicator_that_a_process_alone_spawned_is_one_communicator() {
        for (name, one_per_process) in
            [("S", true), ("S_d1", true), ("S_p1.3", false), ("S_d1_p2.0_m3", false), ("W", false)]
        {
            assert_eq!(is_one_per_process(name), one_per_process, "{name}");
        }
    }

    #[test]
    fn a_plus_is_for_many() {
        for (name, shared, changing) in [
            ("W", false, false),
            ("W_s12.0", false, false),
            ("W_s12+.0", true, false),
            ("W_d7+", true, false),
            ("W_d7+_d9", false, false),
            ("W_g1+.0-0123456z", true, false),
            ("W_s+", true, true),
            ("F+", true, true),
            ("W_s+_d8", false, false),
        ] {
            assert_eq!((is_shared_row(name), is_of_changing_members(name)), (shared, changing), "{name}");
        }
    }

    #[test]
    fn a_family_has_the_pattern_and_the_size_of_its_communicators() {
        for (name, family) in [
            ("W", "W"),
            ("W_d1", "W_d1"),
            ("W_s1.8_d2", "W_s1.*_d2@64"),
            ("W_s1001+.8", "W_s1001+.*@64"),
            ("W_x1.0-qx8fzvcf", "W_x1.0-qx8fzvcf@64"),
            ("W_s1.8_s+", "W_s1.*_s+"),
            ("F1.0-qx8fzvcf_s2.4", "F1.0-qx8fzvcf_s2.*@64"),
        ] {
            assert_eq!(parsed(name).family(64).to_string(), family);
        }
        assert_eq!(parsed("N1-qx8fzvcf_s2.4@8").without_ranks().to_string(), "N1_s2.*@8");
        assert_eq!(parsed("W_x1.0-qx8fzvcf_s2.4@8").without_ranks().to_string(), "W_x1.*_s2.*@8");
    }

    #[test]
    fn a_creation_is_the_name_without_its_part() {
        for (name, made) in
            [("W_s2.8", "W_s2"), ("W_s2.8_d1", "W_s2.8_d1"), ("W", "W"), ("W_x1.0-qx8fzvcf", "W_x1")]
        {
            assert_eq!(creation(name), made);
        }
        assert_eq!(parsed("W_s2.8").part(), Some(Sibling::Rank(8)));
    }
}
