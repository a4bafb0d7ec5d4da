//! The numbers by which rows of the report name communicators, operations and fields of ranks.

use crate::axis::Axis;
use crate::family_rows::Family;
use crate::filter::CommFilter;
use crate::view::ProfileView;
use mpisee_profile::rows::CommRow;
use serde::Serialize;
use std::collections::HashMap;

/// Fields of ranks in charts at most.
const MOST_FIELDS: u32 = 1024;

/// The ranks on the axes of charts: each rank a field, or blocks of them.
#[derive(Debug, Serialize)]
pub struct Fields {
    /// `7`, or `8-15` of a block.
    names: Vec<String>,
    /// How many ranks each has.
    ranks: Vec<u32>,
    /// Ranks of a block.
    block: u32,
}

/// The axis with the numbers of its fields.
pub struct RankAxis {
    axis: Axis,
    /// Its fields in the report.
    pub fields: Fields,
}

impl RankAxis {
    /// All ranks of the profile.
    pub fn new(view: &ProfileView) -> Self {
        let axis = Axis::new(view.processes(), &CommFilter::default(), false, MOST_FIELDS);
        let mut ranks = vec![0; axis.len() as usize];
        for row in view.processes().ranks() {
            if let Some(field) = axis.field(row.rank) {
                ranks[field as usize] += 1;
            }
        }
        let names = (0..axis.len()).map(|field| axis.name(field)).collect();
        let fields = Fields { names, ranks, block: axis.block() };
        RankAxis { axis, fields }
    }

    /// The field of a rank.
    pub fn field(&self, rank: u32) -> Option<u32> {
        self.axis.field(rank)
    }

    /// The number of fields.
    pub fn len(&self) -> u32 {
        self.axis.len()
    }
}

/// Families by the names of their members. A communicator that `comms.csv` lacks is appended at its
/// first use.
pub struct FamilyNumbers<'a> {
    of_comm: HashMap<String, u32>,
    /// The families in the order of their numbers; none for a communicator that `comms.csv` lacks.
    pub names: Vec<(String, Option<Family<'a>>)>,
}

impl<'a> FamilyNumbers<'a> {
    /// Of these families.
    pub fn new(families: Vec<Family<'a>>) -> Self {
        let mut of_comm = HashMap::new();
        for (number, family) in (0..).zip(&families) {
            of_comm.extend(family.rows.iter().map(|row| (row.comm.clone(), number)));
        }
        let names = families.into_iter().map(|family| (family.name.clone(), Some(family))).collect();
        FamilyNumbers { of_comm, names }
    }

    /// The number of a communicator's family.
    pub fn number(&mut self, comm: &str) -> u32 {
        if let Some(&number) = self.of_comm.get(comm) {
            return number;
        }
        let number = self.names.len() as u32;
        self.of_comm.insert(comm.to_owned(), number);
        self.names.push((comm.to_owned(), None));
        number
    }

    /// The rows of all communicators, with the numbers of their families.
    pub fn rows(&self) -> impl Iterator<Item = (u32, &'a CommRow)> {
        let families = (0..).zip(&self.names);
        families.flat_map(|(number, (_, family))| {
            family.iter().flat_map(move |family| family.rows.iter().map(move |&row| (number, row)))
        })
    }
}

/// Numbers of names in the order of their first use.
#[derive(Debug, Default)]
pub struct Numbered {
    numbers: HashMap<String, u32>,
    /// The names by number.
    pub names: Vec<String>,
}

impl Numbered {
    /// The number of a name.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        number
    }
}
