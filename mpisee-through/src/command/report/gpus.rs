//! All that the profile has of GPUs, in the lists of `gpu` without options.

use super::columns::Table;
use crate::command::gpu::Page;
use crate::sheet::Sheet;
use serde::Serialize;
use std::collections::BTreeMap;

/// The section of GPUs.
#[derive(Debug, Serialize)]
pub struct Gpus {
    /// Short names of GPUs by the UUIDs that the tables have.
    names: BTreeMap<String, String>,
    /// The lists that are not empty, in their order.
    lists: Vec<List>,
    /// Sentences on data that is in no list, and on copies for messages.
    notes: Vec<String>,
}

/// A list of the command.
#[derive(Debug, Serialize)]
struct List {
    /// Its name in JSON.
    name: &'static str,
    title: &'static str,
    table: Table,
}

impl Gpus {
    /// Of the command's page; none if the profile has nothing of GPUs.
    pub fn from_page(page: Page) -> Option<Self> {
        let list = |(title, sheet): (_, &Sheet)| List { name: sheet.name, title, table: Table::from(sheet) };
        page.has_some.then(|| Gpus {
            lists: page.titled().map(list).collect(),
            notes: page.notes.iter().cloned().chain(page.closing.lines().map(str::to_owned)).collect(),
            names: page.names,
        })
    }
}
