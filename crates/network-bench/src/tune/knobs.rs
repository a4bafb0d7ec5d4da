//! Knobs: the choices of algorithms that this MPI offers for what is replayed, read from its own
//! control variables.

use super::rules::{self, Rule};
use super::selection::{self, Selection, Tree};
use crate::collective::Collective;
use crate::output::size;
use crate::replay::Item;
use crate::trial::{Report, Variable};
use std::collections::{BTreeMap, BTreeSet};

/// Variables of Open MPI that switch rules on and name the file with them.
pub const USE_RULES: &str = "coll_tuned_use_dynamic_rules";
/// See [`USE_RULES`].
pub const RULES_FILE: &str = "coll_tuned_dynamic_rules_filename";
/// Components of Open MPI that offer collectives beside tuned, by the variables that put them
/// first.
const COMPONENTS: [&str; 2] = ["coll_han_priority", "coll_adapt_priority"];
/// A priority above that of all components.
const FIRST: &str = "100";

/// The variables to ask the ranks for, beside those that choose algorithms.
pub fn variables() -> Vec<String> {
    [USE_RULES, RULES_FILE, selection::FILE].into_iter().chain(COMPONENTS).map(str::to_owned).collect()
}

/// Something that can be chosen once for some items.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// The operation; none where it is for all of them.
    pub collective: Option<Collective>,
    /// The sizes of communicators for which it is.
    pub members: Vec<u32>,
    /// Size class of the messages for which it is; all if there is none.
    pub bytes: Option<[u64; 2]>,
    /// The items, by their places.
    pub items: Vec<usize>,
    /// The choice without a change.
    pub now: String,
    /// The other choices.
    pub choices: Vec<Choice>,
}

/// A choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Its name for people.
    pub name: String,
    /// The way in which it is made.
    pub means: Means,
}

/// The way in which a choice is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Means {
    /// A control variable is set.
    Variable(Assignment),
    /// A rule in Open MPI's file.
    Rule(Rule),
    /// A selection in MPICH's file.
    Selection(Selection),
}

/// A variable of the environment that sets a control variable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assignment {
    /// In the environment.
    pub name: String,
    /// Its value there.
    pub value: String,
    /// The control variable, by its name in MPI_T.
    pub variable: String,
    /// The value as MPI_T has it.
    pub reads_as: String,
}

impl Assignment {
    /// Of a variable of Open MPI.
    pub fn of_open_mpi(variable: &str, value: &str) -> Assignment {
        Assignment {
            name: format!("OMPI_MCA_{variable}"),
            value: value.to_owned(),
            variable: variable.to_owned(),
            reads_as: value.to_owned(),
        }
    }

    /// Of a variable of MPICH with a text.
    pub fn of_mpich(variable: &str, value: &str) -> Assignment {
        let [name, value] = [variable, value].map(str::to_owned);
        Assignment { variable: name.clone(), reads_as: value.clone(), name, value }
    }
}

impl Knob {
    /// The time of all calls of its items, with these times of a call.
    pub fn time_s(&self, items: &[Item], times_s: &[f64]) -> f64 {
        self.items.iter().map(|&at| items[at].calls as f64 * times_s[at]).sum()
    }

    /// The communicators for people.
    pub fn families(&self, items: &[Item]) -> String {
        let names: BTreeSet<&str> = self.items.iter().map(|&at| items[at].family.as_str()).collect();
        match &names.into_iter().collect::<Vec<_>>()[..] {
            [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} more", rest.len()),
            all => all.join(", "),
        }
    }

    /// The block or message sizes that were replayed, for people.
    pub fn sizes(&self, items: &[Item]) -> String {
        let sizes = || self.items.iter().map(|&at| items[at].bytes);
        let [least, most] = [sizes().min(), sizes().max()].map(Option::unwrap_or_default);
        if least == most { size(least) } else { format!("{} to {}", size(least), size(most)) }
    }
}

/// The collective operation of an item, if there may be a choice.
pub fn collective(item: &Item) -> Option<Collective> {
    let is_shared = item.comms.iter().any(|(_, members)| members.len() > 1);
    Collective::from_name(&item.call).filter(|_| is_shared)
}

/// The knobs for these items with the MPI that reported; a sentence where it offers none that is
/// known here. MPICH selects by the tree `own` without a change.
pub fn knobs(report: &Report, items: &[Item], own: Option<&Tree>) -> Result<Vec<Knob>, String> {
    if report.variable(USE_RULES).is_some() {
        open_mpi(report, items)
    } else if report.variables.iter().any(|it| it.name.starts_with(MPICH)) {
        mpich(report, items, own)
    } else {
        Err(format!(
            "{} reports no choice of algorithms through MPI_T: neither Open MPI's component tuned nor MPICH's MPIR_CVAR_…_INTRA_ALGORITHM",
            report.setting
        ))
    }
}

fn open_mpi(report: &Report, items: &[Item]) -> Result<Vec<Knob>, String> {
    let uses_rules = report.variable(USE_RULES).is_some_and(|it| it.value == "1");
    let file = report.variable(RULES_FILE).map(|it| it.value.as_str()).unwrap_or_default();
    if uses_rules && !file.is_empty() {
        return Err(format!(
            "Open MPI already takes its algorithms from the rules file {file}; leave it out (unset OMPI_MCA_{RULES_FILE}), so that its \
             rules are not lost"
        ));
    }
    // Rules switch on whatever variables force, also for operations that are not tuned.
    let sleeping = report.variables.iter().find(|it| {
        !uses_rules
            && it.name.starts_with("coll_tuned_")
            && it.name.ends_with("_algorithm")
            && it.value != "0"
    });
    if let Some(Variable { name, value, .. }) = sleeping {
        return Err(format!(
            "{name} is set to {value}, which has no effect while {USE_RULES} is off, and rules switch it on; take it out (unset OMPI_MCA_{name}), \
             or make it hold (OMPI_MCA_{USE_RULES}=1)"
        ));
    }
    let mut knobs = Vec::new();
    for (collective, places) in by_collective(items) {
        let name = collective.name()["MPI_".len()..].to_lowercase();
        let variable = report.variable(&format!("coll_tuned_{name}_algorithm"));
        let Some(variable) = variable.filter(|_| rules::number(collective).is_some()) else { continue };
        match uses_rules && variable.value != "0" {
            true => knobs.push(forced(collective, variable, places, items)),
            false => knobs.extend(by_rule(collective, variable, &places, items)),
        }
    }
    knobs.extend(components(report, items));
    Ok(knobs)
}

/// The items of each operation.
fn by_collective(items: &[Item]) -> BTreeMap<Collective, Vec<usize>> {
    let mut places: BTreeMap<Collective, Vec<usize>> = BTreeMap::new();
    for (at, item) in items.iter().enumerate() {
        if let Some(collective) = collective(item) {
            places.entry(collective).or_default().push(at);
        }
    }
    places
}

/// The sizes of an item's communicators.
fn members(item: &Item) -> BTreeSet<u32> {
    item.comms.iter().map(|(_, members)| members.len() as u32).filter(|&members| members > 1).collect()
}

fn members_of(places: &[usize], items: &[Item]) -> Vec<u32> {
    places.iter().flat_map(|&at| members(&items[at])).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The knob of an algorithm that a variable forces for all communicators and sizes: the variable
/// itself.
fn forced(collective: Collective, variable: &Variable, places: Vec<usize>, items: &[Item]) -> Knob {
    let name_of = |number: i64| match number {
        0 => "Open MPI's choice".to_owned(),
        _ => variable.names.iter().find(|it| it.0 == number).map_or(number.to_string(), |it| it.1.clone()),
    };
    let now: i64 = variable.value.parse().unwrap_or_default();
    let choice = |&(number, _): &(i64, String)| Choice {
        name: name_of(number),
        means: Means::Variable(Assignment::of_open_mpi(&variable.name, &number.to_string())),
    };
    Knob {
        collective: Some(collective),
        members: members_of(&places, items),
        bytes: None,
        items: places,
        now: name_of(now),
        choices: variable.names.iter().filter(|it| it.0 != now).map(choice).collect(),
    }
}

/// A size class, the sizes of communicators and the places of items.
type Group = (Option<[u64; 2]>, BTreeSet<u32>, Vec<usize>);

/// The items of an operation, by size class on communicators of some sizes.
fn groups(collective: Collective, places: &[usize], items: &[Item]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for &at in places {
        let bytes = rules::has_sizes(collective).then_some(items[at].size);
        let mut joined = (bytes, members(&items[at]), vec![at]);
        // Items for which the same rule would hold are of one knob.
        for other in std::mem::take(&mut groups) {
            if other.0 == bytes && !other.1.is_disjoint(&joined.1) {
                joined.1.extend(other.1);
                joined.2.extend(other.2);
            } else {
                groups.push(other);
            }
        }
        groups.push(joined);
    }
    groups
}

/// The knobs of an operation by rules: one for each size class on communicators of some sizes.
fn by_rule(collective: Collective, variable: &Variable, places: &[usize], items: &[Item]) -> Vec<Knob> {
    let knob = |(bytes, members, places): Group| {
        let members: Vec<u32> = members.into_iter().collect();
        let choice = |(number, name): &(i64, String)| Choice {
            name: name.clone(),
            means: Means::Rule(Rule {
                collective,
                members: members.clone(),
                bytes,
                algorithm: *number,
                name: name.clone(),
            }),
        };
        let choices = variable.names.iter().filter(|it| it.0 != 0).map(choice).collect();
        let now = "Open MPI's choice".to_owned();
        Knob { collective: Some(collective), members, bytes, items: places, now, choices }
    };
    groups(collective, places, items).into_iter().map(knob).collect()
}

/// The knob of the component that comes first for all operations that it offers.
fn components(report: &Report, items: &[Item]) -> Option<Knob> {
    let choice = |name: &&str| {
        let variable = report.variable(name).filter(|it| it.value != FIRST)?;
        let component = name.trim_start_matches("coll_").trim_end_matches("_priority");
        // HAN takes no communicator within a node.
        (component != "han" || report.nodes > 1).then(|| Choice {
            name: format!("component {component} first"),
            means: Means::Variable(Assignment::of_open_mpi(&variable.name, FIRST)),
        })
    };
    let choices: Vec<Choice> = COMPONENTS.iter().filter_map(choice).collect();
    let places: Vec<usize> = (0..items.len()).filter(|&at| collective(&items[at]).is_some()).collect();
    (!choices.is_empty()).then(|| Knob {
        collective: None,
        members: members_of(&places, items),
        bytes: None,
        items: places,
        now: "Open MPI's components".to_owned(),
        choices,
    })
}

/// The beginning of MPICH's control variables.
const MPICH: &str = "MPIR_CVAR_";

fn mpich(report: &Report, items: &[Item], own: Option<&Tree>) -> Result<Vec<Knob>, String> {
    if let Some(used) = report.variable(selection::FILE).filter(|it| !it.value.is_empty()) {
        return Err(format!(
            "MPICH already takes its algorithms from the selection file {}; leave it out (unset {}), so that its selections are not lost",
            used.value,
            selection::FILE
        ));
    }
    let own = own.filter(|_| report.variable(selection::FILE).is_some());
    let of_collective = |(collective, places): (Collective, Vec<usize>)| {
        let selected = own.map(|own| by_selection(report, own, collective, &places, items));
        match selected {
            Some(knobs) if !knobs.is_empty() => knobs,
            _ => by_variable(report, collective, places, items).into_iter().collect(),
        }
    };
    Ok(by_collective(items).into_iter().flat_map(of_collective).collect())
}

/// The knob of an operation by MPICH's variables.
fn by_variable(report: &Report, collective: Collective, places: Vec<usize>, items: &[Item]) -> Option<Knob> {
    let variables = mpich_variables(report, collective);
    let choices: Vec<Choice> = variables.iter().flat_map(|it| mpich_choices(it)).collect();
    let now: Vec<String> = variables.iter().filter_map(|it| Some(mpich_name(it)?.to_owned())).collect();
    (!choices.is_empty()).then(|| Knob {
        collective: Some(collective),
        members: members_of(&places, items),
        bytes: None,
        items: places,
        now: now.into_iter().find(|name| name != "auto").unwrap_or_else(|| "auto".to_owned()),
        choices,
    })
}

/// The variables that choose algorithms for an operation.
fn mpich_variables(report: &Report, collective: Collective) -> Vec<&Variable> {
    let name = collective.name()["MPI_".len()..].to_uppercase();
    let ends = ["INTRA_ALGORITHM", "POSIX_INTRA_ALGORITHM"].iter();
    ends.filter_map(|end| report.variable(&format!("{MPICH}{name}_{end}"))).collect()
}

/// The knobs of an operation by MPICH's selection file: one for each size class on communicators of
/// some sizes. None where it occurs with one, for which a variable says as much, or where a
/// variable forces an algorithm, so that no file is looked at.
fn by_selection(
    report: &Report,
    own: &Tree,
    collective: Collective,
    places: &[usize],
    items: &[Item],
) -> Vec<Knob> {
    let is_forced = |it: &&Variable| mpich_name(it) != Some("auto");
    let groups = groups(collective, places, items);
    let algorithms = own.algorithms(collective);
    if groups.len() < 2 || algorithms.is_empty() || mpich_variables(report, collective).iter().any(is_forced)
    {
        return Vec::new();
    }
    let knob = |(bytes, members, places): Group| {
        let members: Vec<u32> = members.into_iter().collect();
        let choice = |algorithm: &String| {
            let (members, algorithm) = (members.clone(), algorithm.clone());
            Some(Choice {
                name: selection::name(&algorithm).to_owned(),
                means: Means::Selection(Selection { collective, members, bytes: bytes?, algorithm }),
            })
        };
        let choices = algorithms.iter().filter_map(choice).collect();
        let now = "MPICH's choice".to_owned();
        Knob { collective: Some(collective), members, bytes, items: places, now, choices }
    };
    groups.into_iter().map(knob).filter(|knob| !knob.choices.is_empty()).collect()
}

/// The values that a variable of MPICH has, in their order: its description has `name -
/// explanation` for each.
fn mpich_values(variable: &Variable) -> Vec<&str> {
    const AUTO: &str = "auto - Internal algorithm selection (";
    let text = variable.description.as_str();
    if text.contains('\n') {
        return text
            .lines()
            .filter_map(|line| Some(line.split_once(" - ")?.0.trim()))
            .filter(is_name)
            .collect();
    }
    // MPICH 4.0 has lost the ends of lines: `…algorithmsmp - Force smp`. Names are as wide as their
    // column, and the first of it is known: that behind the explanation of `auto`, or behind the
    // introduction.
    let Some(auto) = text.find(AUTO) else { return Vec::new() };
    let after = text[auto..].find(')').map_or("", |end| &text[auto + end + 1..]);
    let name = variable.name.trim_start_matches(MPICH).split("_POSIX_").next().unwrap_or_default();
    let introduction = format!("intra-node {}", name.to_lowercase());
    let before = text.find(&introduction).map(|begin| begin + introduction.len()).filter(|&it| it < auto);
    let before = before.map_or("", |begin| &text[begin..auto]);
    column(before).into_iter().chain(["auto"]).chain(column(after)).collect()
}

/// The names in a text of `name - explanation` without ends of lines, the first of which is at its
/// begin.
fn column(text: &str) -> Vec<&str> {
    const DASH: &str = " - ";
    let Some(width) = text.find(DASH) else { return Vec::new() };
    let ends = text.match_indices(DASH).map(|(end, _)| end);
    ends.filter_map(|end| Some(text.get(end - width..end)?.trim_end())).filter(is_name).collect()
}

fn is_name(word: &&str) -> bool {
    !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The name of the value that a variable of MPICH has.
fn mpich_name(variable: &Variable) -> Option<&str> {
    let number: usize = variable.value.parse().ok()?;
    mpich_values(variable).get(number).copied()
}

fn mpich_choices(variable: &Variable) -> Vec<Choice> {
    let values = mpich_values(variable).into_iter().enumerate();
    let others = values.filter(|(number, _)| number.to_string() != variable.value);
    let choice = |(number, name): (usize, &str)| Choice {
        name: if variable.name.contains("_POSIX_") {
            format!("{name} (shared memory)")
        } else {
            name.to_owned()
        },
        means: Means::Variable(Assignment {
            name: variable.name.clone(),
            value: name.to_owned(),
            variable: variable.name.clone(),
            reads_as: number.to_string(),
        }),
    };
    others.map(choice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::network::NetworkMpi;

    fn item(call: &str, members: &[u32], size: [u64; 2], family: &str) -> Item {
        Item {
            family: family.to_owned(),
            comms: vec![(family.to_owned(), members.to_vec())],
            busiest: 0,
            call: call.to_owned(),
            size,
            bytes: size[0],
            calls: 10,
            volume: 10 * size[0],
            time_s: 1.0,
            messages: Vec::new(),
        }
    }

    fn variable(name: &str, value: &str, names: &[(i64, &str)], description: &str) -> Variable {
        Variable {
            name: name.to_owned(),
            description: description.to_owned(),
            value: value.to_owned(),
            names: names.iter().map(|&(number, name)| (number, name.to_owned())).collect(),
        }
    }

    fn report(variables: Vec<Variable>) -> Report {
        let setting = "Some MPI, 4 ranks on 1 node".to_owned();
        Report {
            mpi: NetworkMpi::default(),
            setting,
            nodes: 1,
            times_s: Vec::new(),
            variables,
            selection: None,
        }
    }

    const ALGORITHMS: [(i64, &str); 3] = [(0, "ignore"), (1, "linear"), (2, "pairwise")];

    fn items() -> Vec<Item> {
        vec![
            item("MPI_Alltoall", &[0, 1], [1024, 2047], "W_s1.0"),
            item("MPI_Alltoall", &[2, 3], [1024, 2047], "W_s2.0"),
            item("MPI_Alltoall", &[0, 1, 2], [1024, 2047], "W_s3.0"),
            item("MPI_Alltoall", &[0, 1], [2048, 4095], "W_s1.0"),
            item("messages", &[0, 1], [1, 1], "W"),
            item("MPI_Alltoall", &[3], [1024, 2047], "W_s4.3"),
        ]
    }

    #[test]
    fn rules_of_open_mpi_are_by_size_of_communicator_and_message() {
        let variables = vec![
            variable(USE_RULES, "0", &[], ""),
            variable("coll_tuned_alltoall_algorithm", "0", &ALGORITHMS, ""),
        ];
        let found = knobs(&report(variables), &items(), None).unwrap();
        let of: Vec<(&[u32], &[usize])> = found.iter().map(|it| (&it.members[..], &it.items[..])).collect();
        assert_eq!(of, [(&[2][..], &[1, 0][..]), (&[3], &[2]), (&[2], &[3])]);
        assert_eq!(found[0].choices.len(), 2);
        assert!(
            matches!(&found[0].choices[1].means, Means::Rule(rule) if rule.algorithm == 2 && rule.name == "pairwise")
        );
        let used = vec![variable(USE_RULES, "1", &[], ""), variable(RULES_FILE, "/a", &[], "")];
        assert!(knobs(&report(used), &items(), None).unwrap_err().contains("the rules file /a"));
        assert!(knobs(&report(Vec::new()), &items(), None).unwrap_err().contains("no choice of algorithms"));
    }

    #[test]
    fn a_forced_algorithm_of_open_mpi_can_be_given_up() {
        let variables = vec![
            variable(USE_RULES, "1", &[], ""),
            variable("coll_tuned_alltoall_algorithm", "1", &ALGORITHMS, ""),
            variable("coll_adapt_priority", "0", &[], ""),
            variable("coll_han_priority", "0", &[], ""),
        ];
        let found = knobs(&report(variables), &items(), None).unwrap();
        assert_eq!((found.len(), &*found[0].now, found[0].items.len()), (2, "linear", 4));
        let names: Vec<&str> = found[0].choices.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["Open MPI's choice", "pairwise"]);
        let Means::Variable(set) = &found[0].choices[0].means else { panic!() };
        assert_eq!((&*set.name, &*set.value), ("OMPI_MCA_coll_tuned_alltoall_algorithm", "0"));
        assert_eq!(found[1].choices.len(), 1, "HAN takes no communicator within a node");
    }

    #[test]
    fn values_of_mpich_are_found_in_descriptions_with_and_without_ends_of_lines() {
        const OF_4_0: &str = "Variable to select allreduce algorithmauto - Internal algorithm selection (can be overridden with \
                              A_FILE)nb                       - Force nonblocking algorithmsmp                      - Force smp \
                              algorithmrecursive_doubling       - Force recursive doubling algorithmreduce_scatter_allgather - \
                              Force reduce scatter allgather algorithm";
        const OF_SHARED: &str = "Variable to select algorithm for intra-node allreducempir           - Fallback to MPIR \
                                 collectivesrelease_gather - Force shm optimized algo using release, gather primitivesauto - \
                                 Internal algorithm selection (can be overridden with A_FILE)";
        const WITH_LINES: &str = "Variable to select allreduce algorithm\nauto - Internal algorithm selection (see A_FILE)\nnb   \
                                  - Force nonblocking algorithm\nccl - Force CCL - if there is one";
        let values = |name: &str, text: &str| {
            let variable = variable(name, "0", &[], text);
            mpich_values(&variable).iter().map(|&it| it.to_owned()).collect::<Vec<_>>()
        };
        let intra = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM";
        let all = ["auto", "nb", "smp", "recursive_doubling", "reduce_scatter_allgather"];
        assert_eq!(values(intra, OF_4_0), all);
        let shared = "MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM";
        assert_eq!(values(shared, OF_SHARED), ["mpir", "release_gather", "auto"]);
        assert_eq!(values(intra, WITH_LINES), ["auto", "nb", "ccl"]);
        let report = report(vec![variable(intra, "1", &[], OF_4_0), variable(shared, "2", &[], OF_SHARED)]);
        let mut used = report.clone();
        used.variables.push(variable(selection::FILE, "/b", &[], ""));
        assert!(knobs(&used, &items(), None).unwrap_err().contains("the selection file /b"));
        let [knob] = &knobs(&report, &[item("MPI_Allreduce", &[0, 1], [8, 15], "W")], None).unwrap()[..]
        else {
            panic!()
        };
        assert_eq!((knob.now.as_str(), knob.choices.len()), ("nb", 4 + 2));
        let Means::Variable(set) = &knob.choices[0].means else { panic!() };
        assert_eq!((&*set.value, &*set.reads_as), ("auto", "0"));
    }
}
