//! The program, as the log of a segment describes it.

use crate::path_text::from_text;
use crate::rows::Cpus;
use crate::run::{ControlInfo, VariableInfo};
use crate::segment::device_fact::DeviceFact;
use crate::segment::fact::Fact;
use crate::segment::switch_request::FollowedRequest;
use std::path::PathBuf;

/// The program, as far as the log describes it.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The command line.
    pub command: Vec<String>,
    /// The name of the profile that was to be written.
    pub profile: String,
    /// The text of `MPI_Get_library_version`.
    pub library: String,
    /// The flavour of libmpisee.so.
    pub flavour: String,
    /// As in `run.json`.
    pub thread_level: String,
    /// The job of a batch system, as in `run.json`.
    pub job: Option<String>,
    /// Sentences for `run.json`.
    pub notes: Vec<String>,
    /// The same on this rank: those of `notes` are taken of one rank alone.
    pub notes_of_rank: Vec<String>,
    /// The number of ranks above which the profile was to be aggregated; `None` if it is not
    /// logged.
    pub fold: Option<u32>,
    /// The absolute path wanted for the profile, and the working directory; known once the process
    /// has arrived.
    pub wanted: Option<[PathBuf; 2]>,
    /// The CPUs that the process may use: when recording began, and at the end of MPI if they
    /// differ then.
    pub cpus: Vec<Cpus>,
    /// The variables of MPI that were read, by their number.
    pub variables: Vec<VariableInfo>,
    /// Control variables of MPI that are not at their defaults, as in `run.json`.
    pub control: Vec<ControlInfo>,
    /// Requests to switch recording that the process followed, in their order.
    pub followed_requests: Vec<FollowedRequest>,
    /// GPUs that the process sees, and what its node has near them.
    pub devices: Vec<DeviceFact>,
}

impl Program {
    /// Takes a fact from the log.
    pub(super) fn learn(&mut self, which: u32, text: String) {
        match which {
            which if which == Fact::Argument as u32 => self.command.push(text),
            which if which == Fact::Profile as u32 => self.profile = text,
            which if which == Fact::Library as u32 => self.library = text,
            which if which == Fact::Flavour as u32 => self.flavour = text,
            which if which == Fact::ThreadLevel as u32 => self.thread_level = text,
            which if which == Fact::Note as u32 => self.notes.push(text),
            which if which == Fact::NoteOfRank as u32 => self.notes_of_rank.push(text),
            which if which == Fact::Fold as u32 => self.fold = text.parse().ok(),
            which if which == Fact::Job as u32 => self.job = Some(text),
            which if which == Fact::Control as u32 => {
                let mut parts = text.splitn(3, '\0').map(str::to_owned);
                if let (Some(name), Some(value), Some(set_by)) = (parts.next(), parts.next(), parts.next()) {
                    self.control.push(ControlInfo { name, value, set_by });
                }
            }
            which if which == Fact::FollowedRequest as u32 => {
                self.followed_requests.extend(FollowedRequest::from_text(&text));
            }
            which if which == Fact::Device as u32 => self.devices.extend(DeviceFact::from_text(&text)),
            which if which == Fact::Cpus as u32 => self.cpus.extend(text.parse()),
            which if which == Fact::Wanted as u32 => {
                let paths = text.split_once('\0');
                self.wanted = paths.map(|(wanted, folder)| [wanted, folder].map(from_text));
            }
            _ => {}
        }
    }
}
