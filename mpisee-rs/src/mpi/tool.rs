//! The interface of MPI for tools (MPI 4.1, chapter 15): performance variables, which MPI counts,
//! and control variables, by which it is set.
//!
//! Functions are called by their `PMPI_T` names, and count for the program nowhere: initialisation
//! is counted by MPI, and variables are read in a session of the profiler's own.

use super::abi::{Comm, Datatype, Element, NUMBERING, constant, element_of};
use super::symbol::Symbol;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

type Handle = *mut c_void;

static INIT: Symbol<unsafe extern "C-unwind" fn(c_int, *mut c_int) -> c_int> =
    Symbol::new(c"PMPI_T_init_thread");
static FINALIZE: Symbol<unsafe extern "C-unwind" fn() -> c_int> = Symbol::new(c"PMPI_T_finalize");
static PVAR_NUM: Symbol<unsafe extern "C-unwind" fn(*mut c_int) -> c_int> =
    Symbol::new(c"PMPI_T_pvar_get_num");
static CVAR_NUM: Symbol<unsafe extern "C-unwind" fn(*mut c_int) -> c_int> =
    Symbol::new(c"PMPI_T_cvar_get_num");
static EVENT_NUM: Symbol<unsafe extern "C-unwind" fn(*mut c_int) -> c_int> =
    Symbol::new(c"PMPI_T_event_get_num");
#[allow(clippy::type_complexity, reason = "the standard's signature")]
static PVAR_INFO: Symbol<
    unsafe extern "C-unwind" fn(
        c_int,
        *mut c_char,
        *mut c_int,
        *mut c_int,
        *mut c_int,
        *mut Datatype,
        *mut Handle,
        *mut c_char,
        *mut c_int,
        *mut c_int,
        *mut c_int,
        *mut c_int,
        *mut c_int,
    ) -> c_int,
> = Symbol::new(c"PMPI_T_pvar_get_info");
#[allow(clippy::type_complexity, reason = "the standard's signature")]
static CVAR_INFO: Symbol<
    unsafe extern "C-unwind" fn(
        c_int,
        *mut c_char,
        *mut c_int,
        *mut c_int,
        *mut Datatype,
        *mut Handle,
        *mut c_char,
        *mut c_int,
        *mut c_int,
        *mut c_int,
    ) -> c_int,
> = Symbol::new(c"PMPI_T_cvar_get_info");
static SESSION_CREATE: Symbol<unsafe extern "C-unwind" fn(*mut Handle) -> c_int> =
    Symbol::new(c"PMPI_T_pvar_session_create");
static SESSION_FREE: Symbol<unsafe extern "C-unwind" fn(*mut Handle) -> c_int> =
    Symbol::new(c"PMPI_T_pvar_session_free");
static PVAR_ALLOC: Symbol<
    unsafe extern "C-unwind" fn(Handle, c_int, *mut c_void, *mut Handle, *mut c_int) -> c_int,
> = Symbol::new(c"PMPI_T_pvar_handle_alloc");
static PVAR_FREE: Symbol<unsafe extern "C-unwind" fn(Handle, *mut Handle) -> c_int> =
    Symbol::new(c"PMPI_T_pvar_handle_free");
static PVAR_START: Symbol<unsafe extern "C-unwind" fn(Handle, Handle) -> c_int> =
    Symbol::new(c"PMPI_T_pvar_start");
static PVAR_READ: Symbol<unsafe extern "C-unwind" fn(Handle, Handle, *mut c_void) -> c_int> =
    Symbol::new(c"PMPI_T_pvar_read");
static CVAR_ALLOC: Symbol<unsafe extern "C-unwind" fn(c_int, *mut c_void, *mut Handle, *mut c_int) -> c_int> =
    Symbol::new(c"PMPI_T_cvar_handle_alloc");
static CVAR_FREE: Symbol<unsafe extern "C-unwind" fn(*mut Handle) -> c_int> =
    Symbol::new(c"PMPI_T_cvar_handle_free");
static CVAR_READ: Symbol<unsafe extern "C-unwind" fn(Handle, *mut c_void) -> c_int> =
    Symbol::new(c"PMPI_T_cvar_read");

/// Classes of performance variables, in the order of their constants.
const CLASSES: [&str; 10] = [
    "state",
    "level",
    "size",
    "percentage",
    "highwatermark",
    "lowwatermark",
    "counter",
    "aggregate",
    "timer",
    "generic",
];

/// Bytes of a name and of a description that are kept.
const NAME_BYTES: usize = 512;
const DESCRIPTION_BYTES: usize = 4096;
/// Bytes that a string has at most: Open MPI copies it without looking at the room.
const TEXT_BYTES: usize = 1 << 16;
/// Values that a variable may have for one object: a variable of a communicator may have one for
/// each process of it.
const MOST_VALUES: usize = 1 << 22;

/// The object to which a variable belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// None: it is of the whole process.
    Process,
    /// A communicator.
    Communicator,
    /// An object of another kind.
    Other,
}

impl Binding {
    fn from_number(number: c_int) -> Binding {
        match number - NUMBERING.unbound {
            0 => Binding::Process,
            1 => Binding::Communicator,
            _ => Binding::Other,
        }
    }

    /// The name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Binding::Process => "process",
            Binding::Communicator => "communicator",
            Binding::Other => "other object",
        }
    }
}

/// A performance variable.
#[derive(Clone, Debug)]
pub struct Performance {
    pub index: c_int,
    pub name: String,
    pub description: String,
    /// One of [`CLASSES`]; empty if it is unknown.
    pub class: &'static str,
    /// The type of its values; `None` for one that no variable has.
    pub element: Option<Element>,
    pub binding: Binding,
    /// True if it need not be started.
    pub is_continuous: bool,
}

/// A control variable.
#[derive(Clone, Debug)]
pub struct Control {
    pub index: c_int,
    pub name: String,
    pub description: String,
    /// The type of its values; `None` for one that no variable has.
    pub element: Option<Element>,
    pub binding: Binding,
}

/// Begins to use the interface, at the thread level that MPI provides: Open MPI takes what it is
/// given here for the program's level, too. False if MPI does not have it.
pub fn init(level: c_int) -> bool {
    let mut provided = 0;
    // SAFETY: the level is written.
    unsafe { INIT.get()(level, &raw mut provided) == constant::SUCCESS }
}

/// Ends what a successful [`init`] began.
pub fn finalize() {
    // SAFETY: as many calls are made as of `init`.
    unsafe { FINALIZE.get()() };
}

fn number(function: &Symbol<unsafe extern "C-unwind" fn(*mut c_int) -> c_int>) -> Option<c_int> {
    let mut number = 0;
    // SAFETY: the number is written.
    let code = unsafe { function.get()(&raw mut number) };
    (code == constant::SUCCESS).then_some(number)
}

/// The number of performance variables; it may grow.
pub fn performance_count() -> c_int {
    number(&PVAR_NUM).unwrap_or(0)
}

/// The number of control variables; it may grow.
pub fn control_count() -> c_int {
    number(&CVAR_NUM).unwrap_or(0)
}

/// The number of types of events (MPI 4.0); `None` in an MPI without the functions for them.
pub fn event_count() -> Option<c_int> {
    number(&EVENT_NUM)
}

fn text(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).unwrap_or_default().to_string_lossy();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The performance variable with that number, unless it is gone.
pub fn performance(index: c_int) -> Option<Performance> {
    let mut name = vec![0u8; NAME_BYTES];
    let mut description = vec![0u8; DESCRIPTION_BYTES];
    let mut lengths = [NAME_BYTES as c_int, DESCRIPTION_BYTES as c_int];
    let [mut verbosity, mut class, mut bind, mut read_only, mut continuous, mut atomic] = [0; 6];
    let mut datatype = std::mem::MaybeUninit::<Datatype>::zeroed();
    let mut enumeration = ptr::null_mut();
    // SAFETY: each text has as many bytes as its length says, everything else is written; a
    // datatype is an integer or a pointer, for which zero is valid.
    let (code, datatype) = unsafe {
        let code = PVAR_INFO.get()(
            index,
            name.as_mut_ptr().cast(),
            &raw mut lengths[0],
            &raw mut verbosity,
            &raw mut class,
            datatype.as_mut_ptr(),
            &raw mut enumeration,
            description.as_mut_ptr().cast(),
            &raw mut lengths[1],
            &raw mut bind,
            &raw mut read_only,
            &raw mut continuous,
            &raw mut atomic,
        );
        (code, datatype.assume_init())
    };
    (code == constant::SUCCESS).then(|| Performance {
        index,
        name: text(&name),
        description: text(&description),
        class: usize::try_from(class - NUMBERING.first_class)
            .ok()
            .and_then(|class| CLASSES.get(class).copied())
            .unwrap_or_default(),
        element: element_of(datatype),
        binding: Binding::from_number(bind),
        is_continuous: continuous != 0,
    })
}

/// The control variable with that number, unless it is gone.
pub fn control(index: c_int) -> Option<Control> {
    let mut name = vec![0u8; NAME_BYTES];
    let mut description = vec![0u8; DESCRIPTION_BYTES];
    let mut lengths = [NAME_BYTES as c_int, DESCRIPTION_BYTES as c_int];
    let [mut verbosity, mut bind, mut scope] = [0; 3];
    let mut datatype = std::mem::MaybeUninit::<Datatype>::zeroed();
    let mut enumeration = ptr::null_mut();
    // SAFETY: the buffers are as long as their lengths say, and MPI writes the other results, whose
    // types are these.
    let (code, datatype) = unsafe {
        let code = CVAR_INFO.get()(
            index,
            name.as_mut_ptr().cast(),
            &raw mut lengths[0],
            &raw mut verbosity,
            datatype.as_mut_ptr(),
            &raw mut enumeration,
            description.as_mut_ptr().cast(),
            &raw mut lengths[1],
            &raw mut bind,
            &raw mut scope,
        );
        (code, datatype.assume_init())
    };
    (code == constant::SUCCESS).then(|| Control {
        index,
        name: text(&name),
        description: text(&description),
        element: element_of(datatype),
        binding: Binding::from_number(bind),
    })
}

impl Performance {
    /// Returns whether its values are numbers of the process or of a communicator, which alone are
    /// read.
    pub fn has_number(&self) -> bool {
        self.element.is_some_and(|element| element != Element::Char)
            && self.binding != Binding::Other
            && !self.class.is_empty()
    }
}

impl Control {
    /// Its value as text: all values of it, one after the other; `None` if it cannot be read, or
    /// belongs to an object.
    pub fn value(&self) -> Option<String> {
        let element = self.element.filter(|_| self.binding == Binding::Process)?;
        let (mut handle, mut count) = (ptr::null_mut(), 0);
        // SAFETY: a variable of no object takes none; the handle and the number of values are
        // written.
        let code = unsafe { CVAR_ALLOC.get()(self.index, ptr::null_mut(), &raw mut handle, &raw mut count) };
        if code != constant::SUCCESS {
            return None;
        }
        let count = usize::try_from(count).ok().filter(|&count| count <= MOST_VALUES);
        let value = count.and_then(|count| {
            let mut values = vec![0u64; (count * 8 + TEXT_BYTES) / 8];
            // SAFETY: the buffer has more room than that number of values takes.
            let code = unsafe { CVAR_READ.get()(handle, values.as_mut_ptr().cast()) };
            (code == constant::SUCCESS).then(|| in_text(&values, element, count))
        });
        // SAFETY: the handle was allocated here.
        unsafe { CVAR_FREE.get()(&raw mut handle) };
        value
    }
}

/// Values as text: a string, or numbers with spaces between them.
fn in_text(values: &[u64], element: Element, count: usize) -> String {
    if element == Element::Char {
        let bytes: Vec<u8> = values.iter().flat_map(|word| word.to_ne_bytes()).collect();
        return text(&bytes);
    }
    let numbers = (0..count).map(|at| match element.number(values, at) {
        VariableValue::Integer(number) => number.to_string(),
        VariableValue::Real(number) => number.to_string(),
    });
    numbers.collect::<Vec<_>>().join(" ")
}

/// A number that MPI gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VariableValue {
    /// Of an integer type.
    Integer(i128),
    /// Of `MPI_DOUBLE`.
    Real(f64),
}

impl VariableValue {
    /// As a number with 53 bits.
    pub fn to_f64(self) -> f64 {
        match self {
            VariableValue::Integer(number) => number as f64,
            VariableValue::Real(number) => number,
        }
    }
}

impl Element {
    /// The value at a place of an array of this type, which begins with the first of `words`; 0
    /// behind its end.
    pub fn number(self, words: &[u64], at: usize) -> VariableValue {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        let half = |at: usize| {
            let bytes = word(at / 2).to_ne_bytes();
            let (first, second) = bytes.split_at(4);
            let half = if at.is_multiple_of(2) { first } else { second };
            u32::from_ne_bytes(half.try_into().unwrap_or_default())
        };
        match self {
            Element::I32 => VariableValue::Integer(half(at).cast_signed().into()),
            Element::U32 => VariableValue::Integer(half(at).into()),
            Element::I64 => VariableValue::Integer(word(at).cast_signed().into()),
            Element::U64 => VariableValue::Integer(word(at).into()),
            Element::F64 => VariableValue::Real(f64::from_bits(word(at))),
            Element::Bool | Element::Char => {
                VariableValue::Integer(word(at / 8).to_ne_bytes().get(at % 8).copied().unwrap_or(0).into())
            }
        }
    }
}

/// A session in which performance variables are read.
pub struct Session(Handle);

/// A performance variable for an object, started.
pub struct StartedVariable {
    handle: Handle,
    /// The number of its values.
    pub count: usize,
}

// SAFETY: both are names of MPI's objects, which any thread may use, one at a time; they are never
// dereferenced here.
unsafe impl Send for Session {}
// SAFETY: a handle is a name of MPI's object, which any thread may use, one at a time.
unsafe impl Send for StartedVariable {}

impl Session {
    /// A new session; `None` if MPI refuses.
    pub fn new() -> Option<Session> {
        let mut session = ptr::null_mut();
        // SAFETY: the handle is written.
        let code = unsafe { SESSION_CREATE.get()(&raw mut session) };
        (code == constant::SUCCESS).then_some(Session(session))
    }

    /// Starts a variable, for `comm` if it is one of communicators; `None` if MPI refuses.
    pub fn start(&self, variable: &Performance, mut comm: Comm) -> Option<StartedVariable> {
        let object = match variable.binding {
            Binding::Process => ptr::null_mut(),
            Binding::Communicator => (&raw mut comm).cast(),
            Binding::Other => return None,
        };
        let (mut handle, mut count) = (ptr::null_mut(), 0);
        // SAFETY: the object is of the kind to which the variable belongs; handle and number are
        // written.
        let code =
            unsafe { PVAR_ALLOC.get()(self.0, variable.index, object, &raw mut handle, &raw mut count) };
        if code != constant::SUCCESS {
            return None;
        }
        let started = StartedVariable {
            handle,
            count: usize::try_from(count).ok().filter(|&count| count <= MOST_VALUES)?,
        };
        // SAFETY: the handle is of this session.
        let is_started =
            variable.is_continuous || unsafe { PVAR_START.get()(self.0, handle) } == constant::SUCCESS;
        if !is_started {
            self.stop(started);
            return None;
        }
        Some(started)
    }

    /// Reads a variable's values into `words`, which are made as many as needed; false if MPI
    /// refuses.
    pub fn read(&self, started: &StartedVariable, words: &mut Vec<u64>) -> bool {
        // A value has eight bytes at most.
        words.clear();
        words.resize(started.count.max(1), 0);
        // SAFETY: the handle is of this session, and the buffer has room for its values.
        unsafe { PVAR_READ.get()(self.0, started.handle, words.as_mut_ptr().cast()) == constant::SUCCESS }
    }

    /// Frees a variable.
    pub fn stop(&self, mut started: StartedVariable) {
        // SAFETY: the handle is of this session, and used no more.
        unsafe { PVAR_FREE.get()(self.0, &raw mut started.handle) };
    }

    /// Ends the session, all of whose variables are freed.
    pub fn end(mut self) {
        // SAFETY: the session is used no more.
        unsafe { SESSION_FREE.get()(&raw mut self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_width_of_their_type() {
        let words = [u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0]), 2.5f64.to_bits()];
        assert_eq!(Element::I32.number(&words, 0), VariableValue::Integer(-1));
        assert_eq!(Element::U32.number(&words, 0), VariableValue::Integer(0xffff_ffff));
        assert_eq!(Element::U32.number(&words, 1), VariableValue::Integer(5));
        assert_eq!(Element::U64.number(&words, 0), VariableValue::Integer(words[0].into()));
        assert_eq!(Element::F64.number(&words, 1), VariableValue::Real(2.5));
        assert_eq!(Element::Bool.number(&words, 4), VariableValue::Integer(5));
        assert_eq!(Element::U64.number(&words, 2), VariableValue::Integer(0));
        assert_eq!(in_text(&words, Element::U32, 2), "4294967295 5");
        assert_eq!(in_text(&[u64::from_ne_bytes(*b"a  b\0xyz")], Element::Char, 8), "a b");
    }
}
