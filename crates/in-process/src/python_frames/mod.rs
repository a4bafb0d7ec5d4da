//! Reads the call stack of Python of the calling thread, without calling into the interpreter.
//!
//! Most callers have released the GIL: mpi4py does so around calls that may block, and launchers of
//! GPU kernels do. Taking it there could deadlock. So no function of Python that needs it is
//! called, and no reference is counted. It is not needed, either: a thread's own frames, and what
//! they hold, do not change while it is in a call of C. Where that does not hold, as for threads
//! that outlive the interpreter, what is read may be garbage, but reading it cannot fault
//! (`memory.rs`), and an object is used only if its type is the expected one.

mod layout;
mod lines;
mod memory;
mod process;

use layout::{Instruction, Layout};
pub use memory::Memory;
use std::ffi::c_void;

/// Frames that a walk goes through at most, those that are none of Python included.
const MOST_FRAMES: usize = 512;
/// Characters of a name of a file or function.
const MOST_CHARACTERS: u64 = 4096;
/// Bytes of a table of lines.
const MOST_TABLE_BYTES: u64 = 1 << 18;
/// From this owner on a frame stands for a call from C: `FRAME_OWNED_BY_INTERPRETER` and
/// `FRAME_OWNED_BY_CSTACK`.
const NO_PYTHON: u8 = 3;
/// Bits of a pointer to code that are none of its address.
const TAGS: u64 = 7;

type ThreadState = unsafe extern "C" fn() -> *mut c_void;

/// The Python of the process.
#[derive(Debug)]
pub struct Python {
    thread_state: ThreadState,
    /// The addresses of the types of code and strings.
    types: [u64; 2],
    layout: Layout,
}

/// A Python whose frames cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// `3.16.0`
    pub version: String,
    /// An address in the interpreter's code.
    pub code_address: usize,
}

/// A place on the stack of Python: a function, and the instruction that it executes.
///
/// It holds while the thread stays in the call of C in which the frame was read.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    at: u64,
    code: u64,
    /// The string with the name of the file.
    file: u64,
}

impl Frame {
    /// Returns whether both frames are of one file, for sure: their file names are one object.
    pub fn has_file_of(&self, other: &Frame) -> bool {
        self.file == other.file
    }
}

/// A walk up the stack of Python.
#[derive(Debug)]
pub struct Walk {
    next: u64,
    left: usize,
}

impl Python {
    /// The Python that is loaded, in the program or a library. It is kept loaded from then on.
    pub fn find() -> Option<Result<Python, Unsupported>> {
        let library = process::library()?;
        let (version, code_address) = process::version(library)?;
        let found = Python::from_library(library, &version);
        Some(found.ok_or(Unsupported { version, code_address }))
    }

    fn from_library(library: *mut c_void, version: &str) -> Option<Python> {
        let address = |name| process::symbol(library, name).map(|it| it.addr() as u64);
        let thread_state = process::symbol(library, c"PyGILState_GetThisThreadState")?;
        let runtime = address(c"_PyRuntime")?;
        Some(Python {
            // SAFETY: the function has this type in each version.
            thread_state: unsafe { std::mem::transmute::<*mut c_void, ThreadState>(thread_state) },
            types: [address(c"PyCode_Type")?, address(c"PyUnicode_Type")?],
            layout: Layout::for_version(process::minor(version)?, runtime, &mut Memory::default())?,
        })
    }

    /// An address in the interpreter's code.
    pub fn code_address(&self) -> usize {
        self.thread_state as *const () as usize
    }

    /// The begin of a walk from the calling thread's innermost frame; `None` if the thread runs no
    /// Python.
    pub fn walk(&self, memory: &mut Memory) -> Option<Walk> {
        // SAFETY: the function reads a variable of the thread, and needs neither the lock nor a
        // thread that Python started.
        let thread = unsafe { (self.thread_state)() };
        if thread.is_null() {
            return None;
        }
        memory.renew();
        self.walk_of(thread.addr() as u64, memory)
    }

    fn walk_of(&self, thread: u64, memory: &mut Memory) -> Option<Walk> {
        let mut next = memory.u64(thread, self.layout.current)?;
        if let Some(through) = self.layout.through.filter(|_| next != 0) {
            next = memory.u64(next, through)?;
        }
        (next != 0).then_some(Walk { next, left: MOST_FRAMES })
    }

    /// The next frame outwards; `None` at the end of the stack, or where that cannot be read.
    pub fn next(&self, walk: &mut Walk, memory: &mut Memory) -> Option<Frame> {
        while walk.next != 0 && walk.left > 0 {
            let at = walk.next;
            walk.left -= 1;
            walk.next = memory.u64(at, self.layout.previous)?;
            if let Some((code, file)) = self.place(at, memory) {
                return Some(Frame { at, code, file });
            }
        }
        None
    }

    /// The code of a frame, and the name of its file; none of a frame that is not one of Python.
    fn place(&self, frame: u64, memory: &mut Memory) -> Option<(u64, u64)> {
        let layout = &self.layout;
        if let Some(owner) = layout.owner
            && memory.u8(frame, owner)? >= NO_PYTHON
        {
            return None;
        }
        let code = memory.u64(frame, layout.code)? & !TAGS;
        let [of_code, of_string] = self.types;
        if memory.u64(code, layout.kind)? != of_code {
            return None;
        }
        let name = memory.u64(code, layout.file)?;
        (memory.u64(name, layout.kind)? == of_string).then_some((code, name))
    }

    /// The file of a frame, as Python has it.
    pub fn file(&self, frame: &Frame, memory: &mut Memory) -> Option<String> {
        self.string(frame.file, memory)
    }

    /// The function of a frame, `Solver.step` from Python 3.11 on, before that `step`; `<module>`
    /// outside of all.
    pub fn function(&self, frame: &Frame, memory: &mut Memory) -> Option<String> {
        let name = self.name(frame, memory)?;
        self.string(name, memory)
    }

    fn name(&self, frame: &Frame, memory: &mut Memory) -> Option<u64> {
        let name = memory.u64(frame.code, self.layout.name)?;
        (memory.u64(name, self.layout.kind)? == self.types[1]).then_some(name)
    }

    /// The line that a frame executes.
    pub fn line(&self, frame: &Frame, memory: &mut Memory) -> Option<u32> {
        let layout = &self.layout;
        let offset = self.offset(frame, memory)?;
        let table = memory.u64(frame.code, layout.line_table)?;
        let length = memory.u64(table, layout.bytes_length)?;
        if length > MOST_TABLE_BYTES {
            return None;
        }
        let mut bytes = room(length as usize)?;
        memory.read(table.wrapping_add(layout.bytes), &mut bytes)?;
        let first = memory.i32(frame.code, layout.first_line)?;
        u32::try_from(lines::line(layout.table, &bytes, first, offset)).ok()
    }

    /// Bytes from the begin of the code to the instruction that a frame executes.
    fn offset(&self, frame: &Frame, memory: &mut Memory) -> Option<i64> {
        let Frame { at: frame, code, .. } = *frame;
        match self.layout.instruction {
            Instruction::Number { at, bytes } => Some(i64::from(memory.i32(frame, at)?) * bytes),
            Instruction::Address { at, code: begin, of_thread } => {
                let begin = match of_thread {
                    None => code.wrapping_add(begin),
                    Some((number, instructions)) => {
                        let number = u64::try_from(memory.i32(frame, number)?).ok()?;
                        let all = memory.u64(code, instructions)?;
                        // How many there are is before them.
                        memory.u64(all, 8 + 8 * number)?
                    }
                };
                Some(memory.u64(frame, at)?.wrapping_sub(begin).cast_signed())
            }
        }
    }

    /// A hash of what tells a place apart, in whichever object it is: file, function, its first
    /// line, and the instruction. Far cheaper than line and names themselves.
    pub fn identity(&self, frame: &Frame, memory: &mut Memory) -> Option<u64> {
        let mut hash = mixed(0, self.offset(frame, memory)? as u64);
        hash = mixed(hash, memory.i32(frame.code, self.layout.first_line)? as u64);
        for string in [frame.file, self.name(frame, memory)?] {
            let (begin, bytes, _) = self.characters(string, memory)?;
            hash = mixed(hash, bytes);
            let mut at = 0;
            while at < bytes {
                let mut word = [0; 8];
                let part = (bytes - at).min(8);
                memory.read(begin.wrapping_add(at), &mut word[..part as usize])?;
                hash = mixed(hash, u64::from_le_bytes(word));
                at += part;
            }
        }
        Some(hash)
    }

    /// Where a string has its characters, how many bytes these take, and how many each; 0 if they
    /// are those of ASCII.
    fn characters(&self, string: u64, memory: &mut Memory) -> Option<(u64, u64, u32)> {
        let layout = &self.layout;
        let length = memory.u64(string, layout.string_length)?;
        if length > MOST_CHARACTERS {
            return None;
        }
        let state = memory.i32(string, layout.string_state)?.cast_unsigned();
        // Interning is stored in two bits, or in a byte where that is changed by several threads. A
        // string is never of no kind, so that the two are not mistaken.
        let state = if state >> 2 & 7 == 0 { state >> 8 } else { state >> 2 };
        let (bytes, is_compact, is_ascii) = (state & 7, state & 8 != 0, state & 16 != 0);
        if !is_compact || !matches!(bytes, 1 | 2 | 4) {
            return None;
        }
        let begin = string.wrapping_add(if is_ascii { layout.ascii } else { layout.characters });
        Some((begin, length * u64::from(bytes), if is_ascii { 0 } else { bytes }))
    }

    fn string(&self, string: u64, memory: &mut Memory) -> Option<String> {
        let (begin, length, bytes) = self.characters(string, memory)?;
        let mut text = room(length as usize)?;
        memory.read(begin, &mut text)?;
        if bytes == 0 {
            return String::from_utf8(text).ok();
        }
        let character = |it: &[u8]| {
            let mut whole = [0; 4];
            whole[..it.len()].copy_from_slice(it);
            char::from_u32(u32::from_le_bytes(whole)).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        Some(text.chunks_exact(bytes as usize).map(character).collect())
    }
}

/// Zeros; `None` if there is no memory for them.
fn room(bytes: usize) -> Option<Vec<u8>> {
    let mut room = Vec::new();
    room.try_reserve_exact(bytes).ok()?;
    room.resize(bytes, 0);
    Some(room)
}

/// A hash with another word.
fn mixed(hash: u64, word: u64) -> u64 {
    // The last step of MurmurHash3, by which each bit changes all others.
    let mut mixed = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects as a Python without a global lock has them: each thread with instructions of its
    /// own.
    const LAYOUT: Layout = Layout {
        current: 8,
        through: None,
        previous: 0,
        code: 8,
        instruction: Instruction::Address { at: 16, code: 48, of_thread: Some((24, 40)) },
        owner: Some(28),
        kind: 0,
        file: 8,
        name: 32,
        line_table: 16,
        table: lines::Table::Entries,
        first_line: 24,
        bytes_length: 8,
        bytes: 16,
        string_length: 8,
        string_state: 16,
        ascii: 24,
        characters: 40,
    };
    const OWN_INSTRUCTIONS: u64 = 0x5000;

    /// Memory that stays, of so many words.
    fn objects(words: &[u64]) -> u64 {
        Vec::leak(words.to_vec()).as_ptr().expose_provenance() as u64
    }

    /// A string of so many bytes a character, in a Python where the first byte of the state is of
    /// its own.
    fn string(kind: u64, text: &str, bytes: u64) -> u64 {
        let state = (bytes | 8 | if text.is_ascii() { 16 } else { 0 }) << 8 | 3;
        let mut object = [kind, text.chars().count() as u64, state].map(u64::to_le_bytes).concat();
        if !text.is_ascii() {
            object.extend([0xff; 16]);
        }
        text.chars().for_each(|it| object.extend(&u32::from(it).to_le_bytes()[..bytes as usize]));
        object.resize(object.len().next_multiple_of(8), 0);
        let word = |it: &[u8]| u64::from_le_bytes(it.try_into().unwrap());
        objects(&object.chunks_exact(8).map(word).collect::<Vec<_>>())
    }

    unsafe extern "C" fn no_thread() -> *mut c_void {
        std::ptr::null_mut()
    }

    fn python() -> Python {
        Python { thread_state: no_thread, types: [objects(&[0]), objects(&[0])], layout: LAYOUT }
    }

    fn code(python: &Python, file: u64, function: &str) -> u64 {
        let [of_code, of_string] = python.types;
        // Three instructions of the first line, and two of the next.
        let table = objects(&[0, 6, u64::from_le_bytes([0xd2, 0, 0, 0xd9, 0, 0, 0, 0])]);
        let all = objects(&[2, 0x1000, OWN_INSTRUCTIONS]);
        objects(&[of_code, file, table, 40, string(of_string, function, 1), all])
    }

    fn frame(previous: u64, code: u64, instruction: u64, owner: u64) -> u64 {
        objects(&[previous, code, OWN_INSTRUCTIONS + 2 * instruction, 1 | owner << 32])
    }

    /// File, function and line of each frame.
    fn walked(python: &Python, innermost: u64) -> Vec<(String, String, u32)> {
        let memory = &mut Memory::default();
        let Some(mut walk) = python.walk_of(objects(&[0, innermost]), memory) else { return Vec::new() };
        let mut frames = Vec::new();
        while let Some(it) = python.next(&mut walk, memory) {
            let (file, function) = (python.file(&it, memory), python.function(&it, memory));
            frames.push((file.unwrap(), function.unwrap(), python.line(&it, memory).unwrap()));
        }
        frames
    }

    #[test]
    fn frames_are_read_where_each_thread_has_its_own_instructions() {
        let python = python();
        let of_string = python.types[1];
        let [plain, latin, wide] = [("/u/a.py", 1), ("/u/ä.py", 1), ("/u/波𝛁.py", 4)]
            .map(|(name, bytes)| string(of_string, name, bytes));
        // Bits of pointers to code are none of its address.
        let bottom = frame(0, code(&python, plain, "<module>") | 1, 4, 0);
        let entry = frame(bottom, objects(&[0, 0]), 0, 3);
        let middle = frame(entry, code(&python, latin, "Solver.step") | 2, 0, 1);
        let inner = frame(middle, code(&python, wide, "halo"), 3, 0);
        let expected =
            [("/u/波𝛁.py", "halo", 41), ("/u/ä.py", "Solver.step", 40), ("/u/a.py", "<module>", 41)];
        let expected = expected.map(|(file, function, line)| (file.to_owned(), function.to_owned(), line));
        assert_eq!(walked(&python, inner), expected);
    }

    #[test]
    fn what_is_no_frame_of_python_is_left_out() {
        let python = python();
        let (of_string, none) = (python.types[1], objects(&[0, 0]));
        let file = string(of_string, "/u/a.py", 1);
        // An object of another type, or unmapped memory, is no line.
        assert_eq!(walked(&python, frame(0, none, 0, 0)), []);
        assert_eq!(walked(&python, frame(0, code(&python, none, "f"), 0, 0)), []);
        assert_eq!(walked(&python, 0), []);
        assert_eq!(walked(&python, 8), []);
        let above_nothing = frame(8, code(&python, file, "f"), 0, 0);
        assert_eq!(walked(&python, above_nothing).len(), 1, "as far as it can be read");
        assert!(python.walk(&mut Memory::default()).is_none(), "a thread that Python does not know");
    }

    #[test]
    fn a_place_has_one_identity_in_whatever_objects_it_is() {
        let python = python();
        let identity = |file: &str, function: &str, instruction: u64| {
            let memory = &mut Memory::default();
            let file = string(python.types[1], file, 1);
            let innermost = frame(0, code(&python, file, function), instruction, 0);
            let mut walk = python.walk_of(objects(&[0, innermost]), memory).unwrap();
            let frame = python.next(&mut walk, memory).unwrap();
            python.identity(&frame, memory).unwrap()
        };
        let one = identity("/u/solver.py", "step", 1);
        assert_eq!(one, identity("/u/solver.py", "step", 1));
        for (file, function, instruction) in
            [("/u/solver.py", "step", 2), ("/u/solver.py", "stop", 1), ("/u/solver2.py", "step", 1)]
        {
            assert_ne!(one, identity(file, function, instruction), "{file} {function} {instruction}");
        }
    }

    #[test]
    fn without_python_there_is_none() {
        assert!(Python::find().is_none());
    }
}
