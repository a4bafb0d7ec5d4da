//! Families of like communicators, which tables show on one row.

use crate::family::range;
pub use crate::family::{Family, each, families, parents};
use crate::load::members_text;
use crate::output::{Format, OutputArgs};
use crate::shape::stride;
use crate::units::natural_order;
use crate::view::ProfileView;
use mpisee_profile::RankSet;
use mpisee_profile::comm_name::is_one_per_process;
use mpisee_profile::rows::CommRow;
use std::collections::BTreeSet;

/// How communicators share rows.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct FamilyArgs {
    /// Show a row for each communicator (default in CSV and JSON)
    #[arg(long, alias = "unfold", conflicts_with = "families")]
    each: bool,

    /// Show a row for each family of like communicators, such as W_s2.* (default in tables)
    #[arg(long)]
    families: bool,
}

impl FamilyArgs {
    /// Returns whether like communicators share a row.
    pub fn are_on(self, output: &OutputArgs) -> bool {
        self.families || !self.each && output.format() == Format::Table
    }
}

/// How to see the communicators of families.
pub const EACH_HINT: &str = "Like communicators share a row (how many × size); --each shows every one.\n";

/// The communicators that are kept, as rows of a table: in families or each.
pub fn of_table(
    view: &ProfileView,
    is_kept: impl Fn(&CommRow) -> bool,
    with_families: bool,
) -> Vec<Family<'_>> {
    let mut rows: Vec<&CommRow> = view.processes().comms.values().collect();
    rows.sort_by(|left, right| natural_order(&left.comm, &right.comm));
    let kept: Vec<bool> = rows.iter().map(|row| is_kept(row)).collect();
    match with_families && view.may_share_rows() {
        true => families(&rows, &kept),
        false => each(&rows, &kept),
    }
}

impl Family<'_> {
    /// `8`, or `4 × 8` of several.
    pub fn size_text(&self) -> String {
        match self.count() {
            1 => self.sizes(),
            count => format!("{count} × {}", self.sizes()),
        }
    }

    /// `1` or, of several, `1-2`.
    pub fn nodes(&self) -> String {
        range(self.rows.iter().map(|row| row.nodes))
    }

    /// All processes of the communicators.
    pub fn members(&self) -> RankSet {
        self.rows.iter().flat_map(|row| row.members.all().iter().collect::<Vec<_>>()).collect()
    }

    /// The processes for reading.
    pub fn processes(&self) -> String {
        match self.rows[..] {
            [row] => members_text(row),
            _ => {
                let each =
                    if self.rows.iter().any(|row| is_one_per_process(&row.comm)) { "each " } else { "" };
                format!("{}{each}of {}", self.choice(), self.members().to_string().replace(',', ", "))
            }
        }
    }

    /// How the processes are divided, where the distance of neighbours is the same in all.
    fn choice(&self) -> String {
        let strides: BTreeSet<Option<u32>> = self.rows.iter().map(|row| stride(&row.members)).collect();
        match (strides.len(), strides.first()) {
            (1, Some(Some(1))) => "consecutive ranks ".to_owned(),
            (1, Some(Some(stride))) => format!("every {} rank ", ordinal(*stride)),
            _ => String::new(),
        }
    }

    /// The common part of the labels.
    pub fn label(&self) -> String {
        let first = &self.rows[0].label;
        let same =
            |other: &str| first.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
        let common = self.rows.iter().map(|row| same(&row.label)).min().unwrap_or(0);
        match self.rows.iter().all(|row| row.label == *first) {
            true => first.clone(),
            false => first.chars().take(common).chain(['*']).collect(),
        }
    }
}

/// `2nd`, `8th`.
fn ordinal(number: u32) -> String {
    let suffix = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::rows::Members;

    fn row(comm: &str, members: &str, label: &str) -> CommRow {
        let members: Members = members.parse().unwrap();
        CommRow {
            comm: comm.to_owned(),
            parent: comm.rsplit_once('_').map_or("", |(parent, _)| parent).to_owned(),
            size: members.all().len() as u32,
            count: 1,
            members,
            label: label.to_owned(),
            nodes: 1,
            ..CommRow::default()
        }
    }

    #[test]
    fn labels_tell_roles_apart() {
        let labelled = |labels: [&str; 2]| {
            let rows =
                [row("W", "0-3", ""), row("W_s1.0", "0-1", labels[0]), row("W_s1.2", "2-3", labels[1])];
            let rows: Vec<&CommRow> = rows.iter().collect();
            let found = families(&rows, &[true; 3]);
            found.last().map(|family| (found.len(), family.label())).unwrap()
        };
        assert_eq!(labelled(["row 0", "row 12"]), (2, "row *".to_owned()));
        assert_eq!(labelled(["ocean", "ice"]), (3, "ice".to_owned()));
    }

    #[test]
    fn processes_are_told_for_all() {
        let of = |members: &[&str]| {
            let rows: Vec<CommRow> = members.iter().map(|members| row("W_s1.0", members, "")).collect();
            let rows: Vec<&CommRow> = rows.iter().collect();
            let indices = (0..rows.len()).collect();
            Family { name: String::new(), parent: None, indices, rows }.processes()
        };
        assert_eq!(of(&["0-3", "4-7"]), "consecutive ranks of 0-7");
        assert_eq!(of(&["0,2", "1,3"]), "every 2nd rank of 0-3");
        assert_eq!(of(&["0,3", "1,2"]), "of 0-3");
        assert_eq!(of(&["0,2"]), "0, 2");
    }
}
