//! The line of Python that called the driver, read from the frames of the calling thread.
//!
//! Most callers release the GIL before they launch a kernel, and taking it inside a driver call could deadlock. So no
//! Python function that needs it is called, and no reference is counted. It is not needed, either: a thread's own
//! frames, and what they hold, do not change while it is in a C call. Where that does not hold, as for threads that
//! outlive the interpreter, what is read may be garbage, but reading it cannot fault (`memory.rs`), and an object is
//! used only if its type is the expected one.

mod layout;
mod lines;
mod memory;

use crate::process::driver::{of_profiler as of_process, symbol};
use layout::{Instruction, Layout};
use memory::Memory;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// Frames that are looked at.
const MOST_FRAMES: usize = 512;
/// Characters of a file's name.
const MOST_CHARACTERS: u64 = 4096;
/// Bytes of a table of lines.
const MOST_TABLE_BYTES: u64 = 1 << 18;
/// From this owner on a frame stands for a call from C: `FRAME_OWNED_BY_INTERPRETER` and `FRAME_OWNED_BY_CSTACK`.
const NO_PYTHON: u8 = 3;
/// Bits of a pointer to code that are none of its address.
const TAGS: u64 = 7;

type ThreadState = unsafe extern "C" fn() -> *mut c_void;

/// The Python of the process.
struct Python {
    thread_state: ThreadState,
    /// The addresses of the types of code and strings.
    types: [u64; 2],
    layout: Layout,
}

static PYTHON: OnceLock<Option<Python>> = OnceLock::new();

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// Looks whether there is a Python in the process, until there is one. A sentence if it is one whose lines cannot be read.
pub fn look() -> Option<String> {
    if PYTHON.get().is_some() {
        return None;
    }
    let library = library()?;
    let version = version(library)?;
    let python = Python::find(library, &version);
    let is_known = python.is_some();
    let is_new = PYTHON.set(python).is_ok();
    (is_new && !is_known).then(|| {
        format!("lines of Python that launch kernels are not recorded: Python {version} is not supported")
    })
}

/// `file:line` of Python that called; empty if this thread runs none.
pub fn line() -> String {
    let Some(Some(python)) = PYTHON.get() else { return String::new() };
    // SAFETY: the function needs neither the lock nor a thread that Python started.
    let thread = unsafe { (python.thread_state)() };
    if thread.is_null() {
        return String::new();
    }
    let read = |memory: &RefCell<Memory>| {
        let memory = &mut *memory.try_borrow_mut().ok()?;
        memory.renew();
        python.line(thread.addr() as u64, memory)
    };
    // A thread that is about to end may have no memory of its own any more.
    MEMORY.try_with(read).ok().flatten().unwrap_or_default()
}

/// The library that has Python, or the program.
fn library() -> Option<*mut c_void> {
    if let Some(runtime) = of_process(c"_PyRuntime") {
        keep(runtime);
        return Some(libc::RTLD_DEFAULT);
    }
    // Loaded by a program, or a module of one, for itself alone.
    let mut found = None;
    // SAFETY: the function has the type that it should, and its data outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(is_python), (&raw mut found).cast()) };
    found.and_then(|name: std::ffi::CString| {
        // SAFETY: the name ends in a zero; nothing new is loaded.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        (!library.is_null()).then_some(library)
    })
}

/// Keeps the library that has the address: a program that opened it may close it, and its functions are called later.
fn keep(address: *mut c_void) {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the description is written, or stays zero.
    let name = unsafe {
        libc::dladdr(address, info.as_mut_ptr());
        info.assume_init().dli_fname
    };
    if !name.is_null() {
        // SAFETY: the name is the loader's, and ends in a zero; nothing new is loaded.
        unsafe { libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    }
}

/// Takes the name of a library that is Python's.
unsafe extern "C" fn is_python(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader's, valid during the call.
    let name = unsafe { (*info).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the loader's, too, and ends in a zero.
    let name = unsafe { CStr::from_ptr(name) };
    let bytes = name.to_bytes();
    let is_python = bytes.rsplit(|&it| it == b'/').next().is_some_and(|it| it.starts_with(b"libpython3."));
    if is_python {
        // SAFETY: what `library` gave.
        unsafe { *data.cast() = Some(name.to_owned()) };
    }
    c_int::from(is_python)
}

/// `3.11.2`
fn version(library: *mut c_void) -> Option<String> {
    type GetVersion = unsafe extern "C" fn() -> *const c_char;
    let function = symbol(library, c"Py_GetVersion")?;
    // SAFETY: the function has this type in each version, and needs nothing else.
    let text = unsafe { std::mem::transmute::<*mut c_void, GetVersion>(function)() };
    if text.is_null() {
        return None;
    }
    // SAFETY: a text of Python's that stays, and ends in a zero.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    Some(text.split_whitespace().next()?.to_owned())
}

/// The minor version of Python 3.
fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("3.")?;
    rest.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
}

impl Python {
    fn find(library: *mut c_void, version: &str) -> Option<Python> {
        let address = |name| symbol(library, name).map(|it| it.addr() as u64);
        let thread_state = symbol(library, c"PyGILState_GetThisThreadState")?;
        let runtime = address(c"_PyRuntime")?;
        Some(Python {
            // SAFETY: the function has this type in each version.
            thread_state: unsafe { std::mem::transmute::<*mut c_void, ThreadState>(thread_state) },
            types: [address(c"PyCode_Type")?, address(c"PyUnicode_Type")?],
            layout: Layout::of(minor(version)?, runtime, &mut Memory::default())?,
        })
    }

    /// The innermost line that is of no package. If there is none, the innermost of another package than the one that
    /// launched: of a program that is installed itself. If there is none either, the innermost.
    fn line(&self, thread: u64, memory: &mut Memory) -> Option<String> {
        let layout = &self.layout;
        let mut frame = memory.u64(thread, layout.current)?;
        if let Some(through) = layout.through.filter(|_| frame != 0) {
            frame = memory.u64(frame, through)?;
        }
        let mut found: Option<Found> = None;
        // Frames that follow each other are often of one file.
        let mut known: Option<(u64, String, bool)> = None;
        for _ in 0..MOST_FRAMES {
            if frame == 0 {
                break;
            }
            if let Some((code, name)) = self.place(frame, memory) {
                if known.as_ref().is_none_or(|(of, ..)| *of != name) {
                    let file = self.string(name, memory)?;
                    let is_of_library = is_of_library(&file);
                    known = Some((name, file, is_of_library));
                }
                let (_, file, is_of_library) = known.as_ref()?;
                // Launchers that an installer wrote have no line of interest.
                let is_of_library = *is_of_library || found.as_ref().is_some_and(|it| it.is_begun_by(file));
                let is_better = |found: &Found| !is_of_library || !found.is_outside && found.is_left_by(file);
                if found.as_ref().is_none_or(is_better) {
                    let is_outside = found.is_some();
                    found = Some(Found { frame, code, file: file.clone(), is_outside });
                }
                if !is_of_library {
                    break;
                }
            }
            frame = memory.u64(frame, layout.previous)?;
        }
        let Found { frame, code, file, .. } = found?;
        let line = self.line_in(frame, code, memory)?;
        Some(format!("{file}:{line}"))
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

    fn string(&self, string: u64, memory: &mut Memory) -> Option<String> {
        let layout = &self.layout;
        let length = memory.u64(string, layout.string_length)?;
        if length > MOST_CHARACTERS {
            return None;
        }
        let state = memory.i32(string, layout.string_state)?.cast_unsigned();
        // Interning is stored in two bits, or in a byte where that is changed by several threads. A string is never of
        // no kind, so that the two are not mistaken.
        let state = if state >> 2 & 7 == 0 { state >> 8 } else { state >> 2 };
        let (bytes, is_compact, is_ascii) = (state & 7, state & 8 != 0, state & 16 != 0);
        if !is_compact || !matches!(bytes, 1 | 2 | 4) {
            return None;
        }
        let begin = if is_ascii { layout.ascii } else { layout.characters };
        let mut text = vec![0; (length * u64::from(bytes)) as usize];
        memory.read(string.wrapping_add(begin), &mut text)?;
        if is_ascii {
            return String::from_utf8(text).ok();
        }
        let character = |it: &[u8]| {
            let mut whole = [0; 4];
            whole[..it.len()].copy_from_slice(it);
            char::from_u32(u32::from_le_bytes(whole)).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        Some(text.chunks_exact(bytes as usize).map(character).collect())
    }

    fn line_in(&self, frame: u64, code: u64, memory: &mut Memory) -> Option<i32> {
        let layout = &self.layout;
        let offset = match layout.instruction {
            Instruction::Number { at, bytes } => i64::from(memory.i32(frame, at)?) * bytes,
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
                memory.u64(frame, at)?.wrapping_sub(begin).cast_signed()
            }
        };
        let table = memory.u64(code, layout.line_table)?;
        let length = memory.u64(table, layout.bytes_length)?;
        if length > MOST_TABLE_BYTES {
            return None;
        }
        let mut bytes = vec![0; length as usize];
        memory.read(table.wrapping_add(layout.bytes), &mut bytes)?;
        let first = memory.i32(code, layout.first_line)?;
        Some(lines::line(layout.table, &bytes, first, offset))
    }
}

/// The frame that is reported, unless a better one is found.
struct Found {
    frame: u64,
    code: u64,
    file: String,
    /// True if it is outside of the package that launched.
    is_outside: bool,
}

impl Found {
    /// Returns whether the file is of another package than this one, and no part of Python itself.
    fn is_left_by(&self, file: &str) -> bool {
        package(file).is_some_and(|it| package(&self.file) != Some(it))
    }

    /// Returns whether the file is a command that was installed with packages: `bin/solver` beside `lib`, where this one is.
    fn is_begun_by(&self, file: &str) -> bool {
        let command = file.rsplit_once('/').filter(|(_, name)| !name.contains('.'));
        let prefix = command.and_then(|(folder, _)| folder.strip_suffix("/bin"));
        prefix.and_then(|it| self.file.strip_prefix(it)).is_some_and(|it| it.starts_with("/lib"))
    }
}

/// The package that a file is of, as it is installed.
fn package(file: &str) -> Option<&str> {
    let (_, rest) = ["/site-packages/", "/dist-packages/"].iter().find_map(|it| file.rsplit_once(it))?;
    rest.split('/').next()
}

/// Returns whether code is of an installed package, of the standard library, or was generated by one, and so is not the program's own.
fn is_of_library(file: &str) -> bool {
    if let Some(name) = file.strip_prefix('<') {
        let typed = ["string>", "stdin>", "console>", "ipython-input"];
        return !typed.iter().any(|it| name.starts_with(it));
    }
    let mut parent = "";
    file.split('/').any(|part| {
        let is_of_version = |name: &str| {
            name.strip_prefix("python3.")
                .is_some_and(|it| it.starts_with(|first: char| first.is_ascii_digit()))
        };
        let is_library = matches!(parent, "lib" | "lib64") && is_of_version(part)
            || matches!(part, "site-packages" | "dist-packages")
            // `python311.zip`; and what PyTorch writes when it compiles.
            || part.starts_with("python3") && part.ends_with(".zip")
            || part.starts_with("torchinductor_");
        parent = part;
        is_library
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_libraries_are_not_the_programs() {
        for library in [
            "/usr/lib/python3.11/threading.py",
            "/opt/conda/envs/a/lib/python3.13t/asyncio/base_events.py",
            "/home/u/venv/lib64/python3.9/site-packages/torch/nn/modules/module.py",
            "/usr/lib/python3/dist-packages/cupy/_core.py",
            "/home/u/.local/packages/site-packages/numba/cuda/dispatcher.py",
            "<frozen importlib._bootstrap>",
            "<eval_with_key>.3",
            "<__array_function__ internals>",
            "/usr/lib/python312.zip/runpy.py",
            "/tmp/torchinductor_u/ab/cabc.py",
        ] {
            assert!(is_of_library(library), "{library}");
        }
        for own in [
            "train.py",
            "/home/u/python3.11/train.py",
            "/home/u/lib/train.py",
            "<string>",
            "<stdin>",
            "<ipython-input-1-abc>",
            "/tmp/ipykernel_7/12.py",
            "/home/u/my-site-packages/a.py",
            "/home/u/bin/train",
        ] {
            assert!(!is_of_library(own), "{own}");
        }
    }

    #[test]
    fn versions_are_parsed_from_pythons_text() {
        for (text, expected) in
            [("3.11.2", Some(11)), ("3.15.0a1+", Some(15)), ("3.9", Some(9)), ("2.7.18", None)]
        {
            assert_eq!(minor(text), expected, "{text}");
        }
    }

    /// Objects as a Python without a global lock has them: each thread with instructions of its own.
    const LAYOUT: Layout = Layout {
        current: 8,
        through: None,
        previous: 0,
        code: 8,
        instruction: Instruction::Address { at: 16, code: 32, of_thread: Some((24, 40)) },
        owner: Some(28),
        kind: 0,
        file: 8,
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

    /// Memory that stays, of so many words.
    fn objects(words: &[u64]) -> u64 {
        Vec::leak(words.to_vec()).as_ptr().expose_provenance() as u64
    }

    /// A string of so many bytes a character, in a Python where the first byte of the state is of its own.
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

    #[test]
    fn frames_are_read_where_each_thread_has_its_own_instructions() {
        let (of_code, of_string, none) = (objects(&[0]), objects(&[0]), objects(&[0, 0]));
        let python = Python { thread_state: no_thread, types: [of_code, of_string], layout: LAYOUT };
        // Three instructions of the first line, and two of the next.
        let table = objects(&[0, 6, u64::from_le_bytes([0xd2, 0, 0, 0xd9, 0, 0, 0, 0])]);
        let own = 0x5000;
        let code = |file: u64, table: u64| {
            let all = objects(&[2, 0x1000, own]);
            objects(&[of_code, file, table, 40, 0, all])
        };
        let frame = |previous: u64, code: u64, instruction: u64, owner: u64| {
            objects(&[previous, code, own + 2 * instruction, 1 | owner << 32])
        };
        let line = |frame: u64| python.line(objects(&[0, frame]), &mut Memory::default());
        let [plain, latin, wide] = [("/u/a.py", 1), ("/u/ä.py", 1), ("/u/波𝛁.py", 4)]
            .map(|(name, bytes)| string(of_string, name, bytes));
        let library = string(of_string, "/lib/python3.14t/x.py", 1);
        // Bits of pointers to code are none of its address.
        let bottom = frame(0, code(plain, table) | 1, 4, 0);
        assert_eq!(line(bottom).as_deref(), Some("/u/a.py:41"));
        let entry = frame(bottom, none, 0, 3);
        let inner = frame(entry, code(library, table), 0, 1);
        assert_eq!(line(inner).as_deref(), Some("/u/a.py:41"));
        assert_eq!(line(frame(0, code(library, table), 0, 1)).as_deref(), Some("/lib/python3.14t/x.py:40"));
        assert_eq!(line(frame(inner, code(latin, table) | 2, 0, 0)).as_deref(), Some("/u/ä.py:40"));
        assert_eq!(line(frame(inner, code(wide, table), 4, 0)).as_deref(), Some("/u/波𝛁.py:41"));
        // A program that is installed itself, begun by what the installer wrote.
        let of = |previous: u64, name: &str| frame(previous, code(string(of_string, name, 1), table), 0, 0);
        let begun = of(of(0, "/v/bin/solve"), "/v/lib/python3.14t/site-packages/solve/main.py");
        assert_eq!(line(begun).as_deref(), Some("/v/lib/python3.14t/site-packages/solve/main.py:40"));
        let through =
            of(of(begun, "/v/lib/python3.14t/site-packages/solve/step.py"), "/lib/python3.14t/threading.py");
        let inner = of(
            of(through, "/v/lib/python3.14t/site-packages/numba/cuda/a.py"),
            "/v/lib/python3.14t/site-packages/numba/b.py",
        );
        assert_eq!(line(inner).as_deref(), Some("/v/lib/python3.14t/site-packages/solve/step.py:40"));
        let all = of(
            of(0, "/v/lib/python3.14t/site-packages/numba/a.py"),
            "/v/lib/python3.14t/site-packages/numba/b.py",
        );
        assert_eq!(line(all).as_deref(), Some("/v/lib/python3.14t/site-packages/numba/b.py:40"));
        // Somebody's own command.
        let own = of(of(0, "/u/bin/train"), "/v/lib/python3.14t/site-packages/torch/a.py");
        assert_eq!(line(own).as_deref(), Some("/u/bin/train:40"));
        // An object of another type, or unmapped memory, is no line.
        assert_eq!(line(frame(0, none, 0, 0)), None);
        assert_eq!(line(frame(0, code(none, table), 0, 0)), None);
        assert_eq!(line(frame(8, code(library, table), 0, 0)), None);
        assert_eq!(line(0), None);
        assert_eq!(python.line(8, &mut Memory::default()), None);
    }

    unsafe extern "C" fn no_thread() -> *mut c_void {
        std::ptr::null_mut()
    }

    #[test]
    fn without_python_there_is_no_line() {
        assert_eq!((look(), line()), (None, String::new()));
    }
}
