//! The options that all commands have.

use crate::memory::MemoryKind;
use crate::output::Format;
use crate::sizes::Sizes;
use clap::Args;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// How to measure, and how to show results.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub struct Settings {
    /// Sizes in bytes, such as 8,1k,1M-4M; k is 1024, and a range has its powers of two
    #[arg(long, global = true, default_value = "1-4M")]
    pub sizes: Sizes,

    /// Repetitions of each measurement
    #[arg(long, global = true, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: u32,

    /// Runs of the pattern before the first repetition
    #[arg(long, global = true, value_name = "N", default_value_t = 10)]
    pub warm_up: u32,

    /// Least time of a repetition; short patterns run several times in each
    #[arg(long, global = true, value_name = "MS", default_value_t = 5)]
    pub least_ms: u32,

    /// Add a barrier before each run of the pattern, instead of before each repetition
    #[arg(long, global = true)]
    pub apart: bool,

    /// Skip the check that all bytes arrive
    #[arg(long, global = true)]
    pub no_verify: bool,

    /// Memory of all buffers (default: device for the backends ipc and nccl, else host)
    #[arg(long, global = true, value_name = "KIND", value_enum)]
    pub memory: Option<MemoryKind>,

    /// Pass GPU memory to MPI, even if MPI does not report support for it
    #[arg(long, global = true)]
    pub assume_gpu_aware: bool,

    /// Format of the results (default: by the suffix of --output, .csv or .json, else table)
    #[arg(long, global = true, value_name = "FORM", value_enum)]
    format: Option<Format>,

    /// File for the results (default: standard output; models: network.json; tune: app.tuned.*)
    #[arg(long, short, global = true, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Build of mpisee-bench, by a name of mpisee --flavours, if no running MPI is detected
    #[arg(long, global = true, value_name = "NAME")]
    pub flavour: Option<String>,
}

impl Settings {
    /// The form of what goes to standard output beside a file.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_default()
    }

    /// The form of measurements, which go to the output itself.
    pub fn format_of_output(&self) -> Format {
        let ending = self.output.as_deref().and_then(Path::extension).and_then(OsStr::to_str);
        let by_ending = match ending {
            Some("csv") => Format::Csv,
            Some("json") => Format::Json,
            _ => Format::Table,
        };
        self.format.unwrap_or(by_ending)
    }
}
