//! The records of the log, put into a snapshot in their order.

use super::{Communicator, Loaded, Module, Region, SharedRow, Site, Snapshot};
use crate::error::ProfileError;
use crate::rows::MOST_PROCESSES;
use crate::run::VariableInfo;
use crate::segment::log::{Code, Record, Runs};
use crate::{CommId, Operation};

impl Snapshot {
    /// Adds what more the log says: words that follow on those that were read, and end with a whole
    /// record.
    pub fn replay(&mut self, mut log: &[u64]) -> Result<(), ProfileError> {
        while !log.is_empty() {
            let (record, words) = Record::decode(log).ok_or_else(|| ProfileError::Segment {
                why: "its log holds a record that is cut off or unknown".to_owned(),
            })?;
            log = &log[words..];
            self.apply(record)?;
        }
        Ok(())
    }

    fn apply(&mut self, record: Record) -> Result<(), ProfileError> {
        let wrong = |what: &str| ProfileError::Segment { why: format!("its log {what}") };
        match record {
            Record::Created(created) => {
                let next = CommId::new(self.communicators.len() as u32);
                let known = created.parent.is_none_or(|parent| parent < created.id);
                if created.id != next || !known || created.group.is_empty() {
                    return Err(wrong("creates communicators out of order"));
                }
                if created.group.len() + created.remote.as_ref().map_or(0, Runs::len) > MOST_PROCESSES {
                    return Err(wrong("creates a communicator of more processes than there can be"));
                }
                self.communicators.push(Communicator {
                    created,
                    label: String::new(),
                    topology: String::new(),
                    freed: false,
                    shared_row: None,
                });
            }
            Record::Region { id, parent, name } => {
                if id.index() != self.regions.len() + 1 || parent >= id || !id.fits() {
                    return Err(wrong("begins regions out of order"));
                }
                self.regions.push(Region { parent, name });
            }
            Record::Module { path, build_id, layout } => {
                self.modules.push(Module::Binary { path, build_id, layout });
            }
            Record::Loaded { module, addresses, bias } => {
                self.check_code(&Code { module, offset: 0 })?;
                self.loaded.push(Loaded { module, addresses, bias });
            }
            Record::Step { thread, step } => self.orders.add_step(thread, step),
            Record::Function { file, name } => self.modules.push(Module::Function { file, name }),
            Record::Site { operation, code } => {
                let operation = Operation::from_index(u64::from(operation));
                let operation = operation.ok_or_else(|| wrong("has the site of an unknown operation"))?;
                self.check_code(&code)?;
                self.sites.push(Site { operation, code });
            }
            Record::Path { frames } => {
                frames.iter().try_for_each(|code| self.check_code(code))?;
                self.paths.push(frames);
            }
            Record::Variable { of_world, class, name, description } => {
                self.program.variables.push(VariableInfo { name, class, of_world, description });
            }
            Record::Fact { which, text } => self.program.learn(which, text),
            Record::Label { id, text } => self.communicator(id)?.label = text,
            Record::Topology { id, text } => self.communicator(id)?.topology = text,
            Record::Freed { id } => self.communicator(id)?.freed = true,
            Record::SharedRow { id, changing } => {
                let shared_row = if changing { SharedRow::Changing } else { SharedRow::Alike };
                self.communicator(id)?.shared_row = Some(shared_row);
            }
        }
        Ok(())
    }

    fn check_code(&self, code: &Code) -> Result<(), ProfileError> {
        if (code.module as usize) < self.modules.len() {
            return Ok(());
        }
        let why = format!("its log has code of binary {} before that binary", code.module);
        Err(ProfileError::Segment { why })
    }

    fn communicator(&mut self, id: CommId) -> Result<&mut Communicator, ProfileError> {
        let missing =
            || ProfileError::Segment { why: format!("its log names communicator {} too early", id.get()) };
        self.communicators.get_mut(id.index()).ok_or_else(missing)
    }
}
