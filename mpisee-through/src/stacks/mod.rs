//! Call stacks of threads that are in MPI, or asleep, read from outside of their processes.
//!
//! While a thread is in a call, its segment has the frame pointer of the function of mpisee's
//! library that makes the call to MPI. What that function was called from is on the stack behind
//! it, where the process goes on running but does not return before the call does: so nothing has
//! to be stopped, and who reads only has to look again whether the thread is still in the same
//! call. Of a thread that sleeps outside of MPI the kernel tells where it does. From the program's
//! first frame on, frames are found by the unwind tables of the files that are mapped, and by frame
//! pointers where these have none. The walk ends where the recorder's own would: before rules whose
//! evaluation may not end, and at a frame that cannot be the caller's.

mod asleep;
mod files;
mod memory;

use asleep::Asleep;
use files::{File, Files, Mapping, build_id_in_memory, mappings};
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module, UnwindRegsNative,
    Unwinder, UnwinderNative,
};
use memory::Memory;
use mpisee_in_process::native_frames::unwind_rules::Rules;
use mpisee_in_process::native_frames::{leave_frame, may_be_return};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Frames of mpisee's library at most.
const MOST_OWN_FRAMES: usize = 16;
/// Frames of a stack at most, those nearest to the call.
pub const MOST_FRAMES: usize = 256;

/// The file of mpisee's library.
const OWN_LIBRARY: &str = "libmpisee.so";

/// Reads stacks; keeps what it read of files.
#[derive(Default)]
pub struct StackReader {
    files: Files,
}

/// A process whose stacks are read.
pub struct Stacks<'r> {
    files: &'r mut Files,
    pid: u32,
    /// One of its threads that has not ended: the first, if it is of these.
    thread: u32,
    /// The folder in which its root is seen.
    root: String,
    memory: Memory,
    mappings: Vec<Mapping>,
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// The begins of the modules that the unwinder has.
    known: BTreeSet<u64>,
    /// Files that are gone, as the process has them in memory.
    gone: HashMap<String, Option<Arc<File>>>,
    /// The build IDs of the files on its stacks, by their paths when they were mapped.
    pub build_ids: HashMap<String, Option<String>>,
}

/// A thread by which the kernel shows the memory of its process: the first one may have ended,
/// while others go on.
fn living_thread(pid: u32) -> u32 {
    let has_memory = |thread: &u32| {
        std::fs::read(format!("/proc/{pid}/task/{thread}/maps")).is_ok_and(|maps| !maps.is_empty())
    };
    if has_memory(&pid) {
        return pid;
    }
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let numbers = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    numbers.into_iter().find(has_memory).unwrap_or(pid)
}

impl StackReader {
    /// The stacks of a process.
    ///
    /// # Errors
    /// Why its memory cannot be read.
    pub fn read(&mut self, pid: u32) -> Result<Stacks<'_>, String> {
        let thread = living_thread(pid);
        let path = format!("/proc/{pid}/task/{thread}/maps");
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("'{path}' cannot be read: {error}"))?;
        Ok(Stacks {
            files: &mut self.files,
            pid,
            thread,
            root: format!("/proc/{thread}/root"),
            memory: Memory::new(thread),
            mappings: mappings(&text),
            unwinder: UnwinderNative::new(),
            cache: CacheNative::new(),
            known: BTreeSet::new(),
            gone: HashMap::new(),
            build_ids: HashMap::new(),
        })
    }
}

impl Stacks<'_> {
    /// The return addresses of the calls that led to the call to MPI which is made from `frame`,
    /// the innermost first: `app+0x1a2b`, an address as in the file, or, where no file is mapped,
    /// `0x7f0012345678`.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn read(&mut self, frame: u64) -> Result<Vec<String>, String> {
        let (address, registers) = self.leave_own_library(frame)?;
        Ok(FrameAddress::from_return_address(address).map_or_else(Vec::new, |at| self.walk(at, registers)))
    }

    /// The addresses at which the thread goes on that sleeps, and to which the calls return that
    /// led to there, as [`Stacks::read`] has them; `None` if it does not sleep all the time in
    /// which they are read.
    pub fn read_asleep(&mut self) -> Option<Vec<String>> {
        let asleep = Asleep::from_thread(self.pid, self.thread)?;
        // What else is in its registers is not known: a walk ends where it needs that.
        let return_address = if cfg!(target_arch = "x86_64") { asleep.address } else { 0 };
        let registers = UnwindRegsNative::new(return_address, asleep.stack, 0);
        self.memory = Memory::new(self.thread);
        let found = self.walk(FrameAddress::from_instruction_pointer(asleep.address), registers);
        (Asleep::from_thread(self.pid, self.thread)? == asleep).then_some(found)
    }

    /// The addresses of a frame and of those further out.
    fn walk(&mut self, mut at: FrameAddress, mut registers: UnwindRegsNative) -> Vec<String> {
        let mut found = Vec::new();
        while found.len() < MOST_FRAMES {
            let address = at.address();
            found.push(self.place(address));
            let rules = self.know(at.address_for_lookup());
            let memory = &mut self.memory;
            let word = |at| memory.word(at).map_err(drop);
            let left = leave_frame(&self.unwinder, &mut self.cache, at, &rules, &mut registers, word);
            let caller = match left {
                Ok(Some(caller))
                    if self.mapping(caller).is_some_and(|it| it.is_code)
                        && (rules != Rules::Missing || self.may_be_return(caller)) =>
                {
                    FrameAddress::from_return_address(caller)
                }
                _ => None,
            };
            let Some(caller) = caller else { break };
            at = caller;
        }
        found
    }

    /// The first address outside of mpisee's library to which it returns, and the registers there.
    fn leave_own_library(&mut self, mut frame: u64) -> Result<(u64, UnwindRegsNative), String> {
        for _ in 0..MOST_OWN_FRAMES {
            let [outer, address] = [self.memory.word(frame)?, self.memory.word(frame.wrapping_add(8))?];
            match self.mapping(address) {
                None => break,
                Some(mapping) if mapping.is_code && mapping.file_name() == OWN_LIBRARY => {}
                Some(mapping) if mapping.is_code => {
                    return Ok((address, UnwindRegsNative::new(address, frame.wrapping_add(16), outer)));
                }
                Some(_) => break,
            }
            // Stacks grow towards lower addresses.
            if outer <= frame {
                break;
            }
            frame = outer;
        }
        Err("no frame pointer leads out of mpisee's library".to_owned())
    }

    fn mapping(&self, address: u64) -> Option<&Mapping> {
        let after = self.mappings.partition_point(|mapping| mapping.begin <= address);
        self.mappings.get(after.checked_sub(1)?).filter(|mapping| address < mapping.end)
    }

    /// The file that is mapped there; `None` as of [`Files::find`].
    fn file(&mut self, mapping: &Mapping) -> Option<Arc<File>> {
        if !mapping.is_deleted() {
            return self.files.find(&self.root, mapping);
        }
        if let Some(known) = self.gone.get(&mapping.path) {
            return known.clone();
        }
        let read = File::in_memory(&self.memory, &self.mappings, &mapping.path).map(Arc::new);
        self.gone.insert(mapping.path.clone(), read.clone());
        read
    }

    /// `file+0xaddress`, the address as the file has it; where that cannot be read, the offset in
    /// it.
    fn place(&mut self, address: u64) -> String {
        let Some(mapping) = self.mapping(address).filter(|mapping| mapping.is_file()).cloned() else {
            return format!("{address:#x}");
        };
        let path = mapping.path_when_mapped().to_owned();
        let (memory, mappings) = (&self.memory, &self.mappings);
        self.build_ids.entry(path).or_insert_with(|| build_id_in_memory(memory, mappings, &mapping.path));
        let bias = self.file(&mapping).and_then(|file| file.bias(&mapping));
        let bias = bias.unwrap_or_else(|| mapping.begin.wrapping_sub(mapping.offset));
        let has_build_id = self.build_ids.get(mapping.path_when_mapped()).is_some_and(Option::is_some);
        // What lies at its path now may be another build.
        let is_known = has_build_id || !mapping.is_deleted();
        let path = if is_known { mapping.path_when_mapped() } else { mapping.path.as_str() };
        format!("{path}+{:#x}", address.wrapping_sub(bias))
    }

    /// Adds the file that is mapped there to the unwinder, and returns the rules that it has for
    /// the address.
    fn know(&mut self, address: u64) -> Rules {
        let Some(mapping) = self.mapping(address).filter(|mapping| mapping.is_code).cloned() else {
            return Rules::Missing;
        };
        let Some(file) = self.file(&mapping) else { return Rules::Missing };
        let Some(bias) = file.bias(&mapping) else { return Rules::Missing };
        if self.known.insert(mapping.begin) {
            let sections: ExplicitModuleSectionInfo<Arc<[u8]>> = file.sections();
            let addresses = mapping.begin..mapping.end;
            self.unwinder.add_module(Module::new(mapping.path, addresses, bias, sections));
        }
        file.rules(address.wrapping_sub(bias))
    }

    fn may_be_return(&self, address: u64) -> bool {
        may_be_return(address, |from, bytes| {
            self.memory.bytes(from, bytes.len()).is_ok_and(|read| {
                bytes.copy_from_slice(&read);
                true
            })
        })
    }
}
