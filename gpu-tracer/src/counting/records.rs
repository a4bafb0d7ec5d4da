//! Records of every access, from the device to a file: `device/core.h` writes them into two halves
//! of a buffer, of which one is read and emptied while kernels go on to write into the other.

use crate::counting::counts::{Counts, Origin};
use crate::device::backend::{Backend, Queue};
use crate::device::layout::{Record, Records, What, bytes_of, bytes_of_mut};
use crate::memory::registry::Registry;
use crate::process;
use crate::process::stacks::Stacks;
use mpisee_profile::gpu::records::{
    Description, RECORDS_MAGIC, WarpAccess, accesses_block, description_block, file_name,
};
use mpisee_profile::gpu::{Access, Handle};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::mem::offset_of;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Records of a half: both take 18 MB of a device.
pub const CAPACITY: usize = 1 << 15;
/// Level of compression, zstd's default: records are much alike.
const LEVEL: i32 = 3;

/// The buffer of a context.
#[derive(Debug, Default)]
pub struct Buffer {
    /// The address; 0 if there is none.
    pub address: u64,
    capacity: usize,
    /// Records that were taken, of each half.
    taken: [usize; 2],
    /// How often each half was emptied; the device may not have the last time yet.
    emptied: [u64; 2],
    dropped: u64,
}

impl Buffer {
    /// Makes the buffer, in the order of the stream.
    pub fn make(backend: &dyn Backend, queue: Queue, capacity: usize) -> Option<Buffer> {
        let address = backend.allocate(queue.context, Records::bytes(capacity))?;
        let header = Records { capacity: capacity as u64, ..Records::default() };
        let is_made = backend.clear(queue, address, Records::bytes(capacity))
            && backend.write(queue, address, bytes_of(&[header]));
        is_made.then_some(Buffer { address, capacity, ..Buffer::default() })
    }

    /// Takes what is whole, and empties halves that are full; also how many records were dropped
    /// since this was last done. None if the device cannot be read.
    pub fn take(&mut self, backend: &dyn Backend, queue: Queue) -> Option<(Vec<Record>, u64)> {
        let mut header = [Records::default()];
        if !backend.read(queue, self.address, bytes_of_mut(&mut header)) {
            return None;
        }
        let mut found = Vec::new();
        // A half that is not empty yet has what was taken.
        let is_old = [0, 1].map(|half| header[0].emptied[half] != self.emptied[half]);
        for half in (0..2).filter(|&half| !is_old[half]) {
            let begun = (header[0].reserved[half].min(self.capacity as u64)) as usize;
            let first = self.taken[half];
            if begun > first {
                let whole = self.whole(backend, queue, half, first..begun)?;
                self.taken[half] += whole.len();
                found.extend(whole);
            }
            if self.taken[half] == self.capacity {
                self.empty(backend, queue, half).then_some(())?;
            }
        }
        let dropped = header[0].dropped.saturating_sub(self.dropped);
        self.dropped = header[0].dropped;
        Some((found, dropped))
    }

    /// Records up to the first that is not whole. They are read twice: what was whole in the first
    /// place is so throughout in the second.
    fn whole(
        &self,
        backend: &dyn Backend,
        queue: Queue,
        half: usize,
        places: std::ops::Range<usize>,
    ) -> Option<Vec<Record>> {
        let address = self.address + Records::offset(self.capacity, half, places.start);
        let mut records = vec![Record::default(); places.len()];
        if !backend.read(queue, address, bytes_of_mut(&mut records)) {
            return None;
        }
        records.truncate(records.iter().position(|it| it.pc == 0).unwrap_or(records.len()));
        (records.is_empty() || backend.read(queue, address, bytes_of_mut(&mut records))).then_some(records)
    }

    /// Empties a half of which every record was taken. Nobody writes there until `reserved` is 0
    /// again.
    fn empty(&mut self, backend: &dyn Backend, queue: Queue, half: usize) -> bool {
        let begin = self.address + Records::offset(self.capacity, half, 0);
        let word = |field: usize| self.address + (field + 8 * half) as u64;
        let [reserved, emptied] = [offset_of!(Records, reserved), offset_of!(Records, emptied)].map(word);
        self.taken[half] = 0;
        self.emptied[half] += 1;
        // In this order on the device.
        backend.clear(queue, begin, self.capacity * size_of::<Record>())
            && backend.write(queue, reserved, bytes_of(&[0u64]))
            && backend.write(queue, emptied, bytes_of(&[self.emptied[half]]))
    }
}

/// The file of the process.
pub struct Recorder {
    path: PathBuf,
    /// The last number of a launch.
    launches: u32,
    /// Numbers of instructions, by device, kernel with the line that launched it, and address.
    instructions: HashMap<(i32, u32, u64), u32>,
    /// Allocations that were written, with their names then.
    allocations: HashMap<u32, String>,
    /// Bytes that go into the file next.
    pending: Vec<u8>,
    dropped: u64,
    /// Why nothing is written any more.
    failed: Option<String>,
}

impl Recorder {
    /// Makes the file in the folder, and that if need be.
    pub fn create(folder: &Path, sample: u32) -> io::Result<Recorder> {
        std::fs::create_dir_all(folder)?;
        let name = file_name(&process::host(), std::process::id());
        let path = std::path::absolute(folder.join(name))?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o644).custom_flags(libc::O_NOFOLLOW).open(&path)?;
        let mut recorder = Recorder {
            path,
            launches: 0,
            instructions: HashMap::new(),
            allocations: HashMap::new(),
            pending: RECORDS_MAGIC.to_vec(),
            dropped: 0,
            failed: None,
        };
        recorder.describe(&Description::Sampled(sample.max(1)));
        recorder.flush();
        Ok(recorder)
    }

    /// The number of the next launch.
    pub fn launch(&mut self) -> u32 {
        self.launches = self.launches.wrapping_add(1);
        self.launches
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why nothing is written any more, if so.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    /// Appends the records taken from a device, after the descriptions that they need.
    pub fn write(&mut self, device: i32, taken: &(Vec<Record>, u64), known: &mut Known<'_>) {
        let (records, dropped) = taken;
        if self.failed.is_some() || records.is_empty() && *dropped == 0 {
            return;
        }
        let accesses: Vec<WarpAccess> = records.iter().map(|it| self.access(device, it, known)).collect();
        if !accesses.is_empty() {
            self.pending.extend(accesses_block(&accesses));
        }
        if *dropped > 0 {
            self.dropped += dropped;
            self.describe(&Description::Dropped(self.dropped));
        }
        self.flush();
    }

    /// Writes at once whose memory it is that other processes import by a handle: their accesses
    /// may be in their files before anything else is in this one.
    pub fn export(&mut self, handle: Handle, device: String, object: String) {
        if self.failed.is_none() {
            self.describe(&Description::Export { handle, device, object });
            self.flush();
        }
    }

    fn describe(&mut self, description: &Description) {
        self.pending.extend(description_block(description));
    }

    fn access(&mut self, device: i32, record: &Record, known: &mut Known<'_>) -> WarpAccess {
        let What { range, kernel, kind, width } = What::from(record.what);
        let pc = record.pc & !1;
        let next = self.instructions.len() as u32;
        let instruction = *self.instructions.entry((device, kernel, pc)).or_insert(next);
        if instruction == next {
            let Origin { kernel, source, launched } = known.counts.origin(kernel, pc, known.backend);
            let device = known.backend.device_name(device);
            self.describe(&Description::Instruction { id: instruction, device, kernel, source, launched });
        }
        if let Some(it) = known.registry.get(range)
            && self.allocations.get(&range) != Some(&it.name)
        {
            self.allocations.insert(range, it.name.clone());
            let object = if it.name.is_empty() { known.stacks.text(it.object) } else { it.name.clone() };
            let place = it.place.place(|device| known.backend.device_name(device));
            let (begin, bytes) = (it.begin, it.end - it.begin);
            let is_named = !it.name.is_empty();
            self.describe(&Description::Allocation { id: range, begin, bytes, place, object, is_named });
        }
        let lanes = (0..32).filter(|lane| record.lanes >> lane & 1 == 1);
        let words = if width == 0 {
            record.address[..2].to_vec()
        } else {
            lanes.map(|lane| record.address[lane]).collect()
        };
        let access = match kind {
            0 => Access::Load,
            1 => Access::Store,
            _ => Access::Atomic,
        };
        WarpAccess {
            launch: record.launch,
            instruction,
            allocation: range,
            lanes: record.lanes,
            access,
            width,
            words,
        }
    }

    /// Writes what waits, as one frame.
    fn flush(&mut self) {
        let write = || -> io::Result<()> {
            let frame = zstd::bulk::compress(&self.pending, LEVEL)?;
            let mut options = OpenOptions::new();
            options.append(true).custom_flags(libc::O_NOFOLLOW).open(&self.path)?.write_all(&frame)
        };
        if let Err(error) = write() {
            self.failed = Some(error.to_string());
        }
        self.pending.clear();
    }
}

/// Tables that resolve the numbers in records.
pub struct Known<'t> {
    /// Kernels.
    pub counts: &'t mut Counts,
    /// Allocations.
    pub registry: &'t Registry,
    /// The call stacks that made those.
    pub stacks: &'t Stacks,
    /// Devices, and where code is.
    pub backend: &'t dyn Backend,
}
