//! The filters of `gpu`: which accesses are counted.

use super::rows::Accessed;
use crate::short_names::short;
use clap::Args;
use mpisee_profile::RankSet;
use mpisee_profile::glob::Glob;

/// Filters; each takes what all others take.
#[derive(Debug, Args)]
#[command(next_help_heading = "Filters")]
pub struct Choice {
    /// Only kernels whose name matches, mangled or as in the table; * and ? as in file names
    #[arg(long, value_name = "PATTERN")]
    kernel: Option<Glob>,

    /// Only lines that match, as in the table (file:line)
    #[arg(long, value_name = "PATTERN")]
    line: Option<Glob>,

    /// Only kernels that matching lines of Python launched (file:line)
    #[arg(long, value_name = "PATTERN")]
    launch: Option<Glob>,

    /// Only objects that match, as in the table: names from the program, or allocating calls
    #[arg(long, value_name = "PATTERN")]
    object: Option<Glob>,

    /// Only kernels on devices whose UUID matches
    #[arg(long, value_name = "PATTERN")]
    device: Option<Glob>,

    /// Only memory on devices that match, as in the table, or host, managed
    #[arg(long, value_name = "PATTERN")]
    peer_device: Option<Glob>,

    /// Only kernels of these ranks: 0-3,8
    #[arg(long, value_name = "RANKS")]
    ranks: Option<RankSet>,
}

impl Choice {
    /// Returns whether anything is left out.
    pub fn is_on(&self) -> bool {
        let patterns =
            [&self.kernel, &self.line, &self.launch, &self.object, &self.device, &self.peer_device];
        self.ranks.is_some() || patterns.iter().any(|pattern| pattern.is_some())
    }

    /// Returns whether objects have to be resolved to their calls before rows are chosen.
    pub fn needs_objects(&self) -> bool {
        self.object.is_some()
    }

    /// Returns whether an object is chosen.
    pub fn takes_object(&self, described: &str) -> bool {
        self.object.as_ref().is_none_or(|it| it.matches(described))
    }

    /// Returns whether memory on a device is chosen.
    pub fn takes_peer_device(&self, peer_device: &str) -> bool {
        self.peer_device.as_ref().is_none_or(|it| it.matches(peer_device))
    }

    /// Returns whether single ranks or devices are chosen.
    pub fn names_ranks(&self) -> bool {
        self.ranks.is_some() || self.device.is_some()
    }

    /// Returns whether a rank is chosen.
    pub fn takes_rank(&self, rank: u32) -> bool {
        self.ranks.as_ref().is_none_or(|it| it.contains(rank))
    }

    /// Returns whether what a rank runs is chosen: an instruction by its line, and by that of
    /// Python which launched the kernel.
    pub fn takes_line(&self, rank: u32, device: &str, kernel: &str, lines: [&str; 2]) -> bool {
        self.takes_rank(rank)
            && self.device.as_ref().is_none_or(|it| it.matches(device))
            && self.takes_code(kernel, lines)
    }

    fn takes_code(&self, kernel: &str, [line, launch]: [&str; 2]) -> bool {
        let fits = |pattern: &Option<Glob>, text: &str| pattern.as_ref().is_none_or(|it| it.matches(text));
        let is_kernel = |it: &Glob| it.matches(kernel) || it.matches(&short(kernel));
        self.kernel.as_ref().is_none_or(is_kernel) && fits(&self.line, line) && fits(&self.launch, launch)
    }

    /// Returns whether a row is chosen, but for its object.
    pub fn takes(&self, row: &Accessed) -> bool {
        let lines = [row.source.as_str(), &row.launched];
        let is_line = match &row.rank {
            Some((rank, device)) => self.takes_line(*rank, device, &row.kernel, lines),
            None => self.takes_code(&row.kernel, lines),
        };
        is_line && self.takes_peer_device(&row.peer_device)
    }
}
