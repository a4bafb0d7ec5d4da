//! `gpu-records`: prints every access in a file of `mpisee --gpu-records` as CSV.

use super::Outcome;
use crate::gpu_record_files;
use anyhow::{Context, Result};
use clap::Args;
use mpisee_profile::gpu::RemoteMemory;
use mpisee_profile::gpu::records::{Description, Item, WarpAccess};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  mpirun -n 2 mpisee --gpu --gpu-records halo ./app     a file per process: halo/HOST-PID.zst
  mpisee-through gpu-records halo/node1-4711.zst > accesses.csv";

/// Every access of a process's GPU kernels, as CSV (experimental)
///
/// A row is one access by the lanes of a warp, in one allocation. The column lanes is the mask of
/// the lanes, in hexadecimal. The column offsets has bytes from the start of the allocation, lowest
/// lane first. For a copy of any length (width 0), it has the offset and the bytes of the copy.
/// Notes on standard error count missing records. See docs/how-to/gpu-kernels.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GpuRecordsArgs {
    /// File of `mpisee --gpu-records`
    file: PathBuf,
}

#[derive(Serialize)]
struct Row<'r> {
    launch: u32,
    device: &'r str,
    kernel: &'r str,
    source: &'r str,
    launched: &'r str,
    memory: &'r str,
    peer: &'r str,
    object: &'r str,
    /// Which of the allocations that one call made.
    allocation: u32,
    access: &'r str,
    width: u32,
    lanes: String,
    offsets: String,
}

/// Names that accesses refer to.
#[derive(Default)]
struct Descriptions {
    /// Device, kernel, source, and the line that launched the kernel.
    instructions: HashMap<u32, [String; 4]>,
    /// Where it begins; memory, peer and object.
    allocations: HashMap<u32, (u64, [String; 3])>,
}

impl Descriptions {
    fn add(&mut self, description: Description) {
        match description {
            Description::Instruction { id, device, kernel, source, launched } => {
                self.instructions.insert(id, [device, kernel, source, launched]);
            }
            Description::Allocation { id, begin, place, object, .. } => {
                let (memory, peer) = match place {
                    RemoteMemory::Device(device) => ("device", device),
                    RemoteMemory::Ipc(handle) => ("ipc", handle),
                    RemoteMemory::Imported { handle: Some(handle), .. } => ("imported", handle.to_string()),
                    RemoteMemory::Imported { device, handle: None } => ("imported", device),
                    RemoteMemory::Pinned => ("pinned", String::new()),
                    RemoteMemory::Registered => ("registered", String::new()),
                    RemoteMemory::Managed => ("managed", String::new()),
                };
                self.allocations.insert(id, (begin, [memory.to_owned(), peer, object]));
            }
            Description::Sampled(_) | Description::Export { .. } | Description::Dropped(_) => {}
        }
    }

    fn row(&self, it: &WarpAccess) -> Row<'_> {
        const NONE: &[String; 3] = &[const { String::new() }; 3];
        const NO_CODE: &[String; 4] = &[const { String::new() }; 4];
        let [device, kernel, source, launched] = self.instructions.get(&it.instruction).unwrap_or(NO_CODE);
        let allocation = self.allocations.get(&it.allocation);
        let begin = allocation.map_or(0, |allocation| allocation.0);
        let [memory, peer, object] = allocation.map_or(NONE, |allocation| &allocation.1);
        let mut offsets = String::new();
        for (at, &word) in it.words.iter().enumerate() {
            let is_length = it.width == 0 && at == 1;
            let between = if at == 0 { "" } else { " " };
            let _ = write!(offsets, "{between}{}", if is_length { word } else { word.wrapping_sub(begin) });
        }
        Row {
            launch: it.launch,
            device,
            kernel,
            source,
            launched,
            memory,
            peer,
            object,
            allocation: it.allocation,
            access: ["load", "store", "atomic"][it.access as usize],
            width: it.width,
            lanes: format!("{:08x}", it.lanes),
            offsets,
        }
    }
}

/// Runs the command.
pub fn run(args: &GpuRecordsArgs) -> Result<Outcome> {
    let mut descriptions = Descriptions::default();
    let (mut sampled, mut dropped) = (1, 0);
    let mut rows = csv::Writer::from_writer(io::stdout().lock());
    let read = gpu_record_files::read(&args.file, |item| {
        match item {
            Item::Access(access) => rows.serialize(descriptions.row(&access))?,
            Item::Description(Description::Sampled(n)) => sampled = n,
            Item::Description(Description::Dropped(warps)) => dropped = warps,
            Item::Description(description) => descriptions.add(description),
        }
        Ok(())
    });
    let is_whole = match read {
        Ok(is_whole) => is_whole,
        Err(error) => return ended(error),
    };
    rows.flush().or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })?;
    let mut said = String::new();
    if sampled > 1 {
        let _ = writeln!(said, "Only one warp in {sampled} was recorded.");
    }
    if dropped > 0 {
        let _ = writeln!(said, "{dropped} records are missing: the device had no room for them.");
    }
    if !is_whole {
        let _ = writeln!(said, "The records break off, as where a process was killed.");
    }
    io::stderr().write_all(said.as_bytes())?;
    Ok(Outcome::Done)
}

/// Whoever reads the rows may have enough of them.
fn ended(error: anyhow::Error) -> Result<Outcome> {
    match error.downcast::<csv::Error>() {
        Ok(error) => match error.kind() {
            csv::ErrorKind::Io(cause) if cause.kind() == ErrorKind::BrokenPipe => Ok(Outcome::Done),
            _ => Err(error).context("cannot write the rows"),
        },
        Err(error) => Err(error),
    }
}
