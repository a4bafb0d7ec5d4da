//! MPI's own variables (`--mpi-t`): performance variables are read where regions begin and end, and
//! when an agent asks; what they counted since the last reading goes to the region in which the
//! program was.
//!
//! Without the option MPI is not asked for anything.

use crate::mpi::abi::{Element, constant, settings_of, variables_in_use};
use crate::mpi::tool::{self, Binding, Control, Performance, Session, StartedVariable, VariableValue};
use crate::state::openmpi_components::Components;
use crate::state::process;
use crate::state::world::{self, World};
use crate::storage::counters::{Counters, update};
use crate::storage::hot::HOT;
use crate::storage::memory;
use crate::storage::message::say;
use mpisee_in_process::guards::keep_thread_state;
use mpisee_profile::RegionId;
use mpisee_profile::run::{ControlInfo, VariableInfo};
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::Slot;
use mpisee_profile::segment::layout::variable::{
    DELTA, LAST, LEAST, Last, MOST, READINGS, REQUESTED_VALUE, VALUE,
};
use mpisee_profile::segment::log::Record;
use mpisee_profile::segment::{NotSeen, SlotKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

pub mod monitoring;
mod patterns;

use patterns::Patterns;

/// Variables that a process reads at most: each reading reads all of them.
const MOST_VARIABLES: usize = 4096;
/// Memory that must be left for a look at the variables.
const LEAST_MEMORY: usize = 1 << 22;

/// True while variables are read.
static IS_ON: AtomicBool = AtomicBool::new(false);

static WATCHED: Mutex<Option<Watched>> = Mutex::new(None);

/// The variables that are read.
struct Watched {
    world: &'static World,
    session: Session,
    patterns: Patterns,
    variables: Vec<Variable>,
    /// Descriptions of the variables, by number, for `run.json`.
    infos: Vec<VariableInfo>,
    /// Of the variables that there were before the first look, those that may be read; `None`: all.
    in_use: Option<Vec<bool>>,
    /// The number of MPI's variables that have been looked at; further ones may appear.
    looked_at: i32,
    /// The values of control variables after `MPI_Init`, by name; on rank 0.
    control: BTreeMap<String, String>,
    counters: Counters,
    words: Vec<u64>,
    /// The readings so far, and those that another process requested.
    last: Last,
}

// SAFETY: the index and the slots of its counters live as long as the process, and who holds the
// lock uses them alone.
unsafe impl Send for Watched {}

/// The cause of a reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A region begins or ends, recording is switched, or MPI ends.
    Border,
    /// A request of another process, at a moment that has nothing to do with the program's regions.
    Request,
}

/// A variable that is read.
struct Variable {
    /// Its number in the log.
    number: u16,
    class: &'static str,
    element: Element,
    /// `None` once MPI refused a reading.
    started: Option<StartedVariable>,
    /// The last reading.
    last: VariableValue,
}

/// Begins to read variables if the options ask for it, once MPI is initialised.
pub fn begin(world: &'static World) {
    if world.options.variables.is_empty() || !process::has_world() || !memory::is_left(LEAST_MEMORY) {
        return;
    }
    // The level that MPI has provided already.
    let level = ["single", "funneled", "serialized", "multiple"];
    let level = level.iter().position(|&name| name == world.thread_level()).unwrap_or(3);
    let in_use = variables_in_use();
    if !tool::init(constant::THREAD_LEVELS[level]) {
        return complain(
            world,
            "this MPI has no variables that --mpi-t could read: MPI_T_init_thread failed".to_owned(),
        );
    }
    let Some(session) = Session::new() else { return tool::finalize() };
    let mut watched = Watched {
        world,
        session,
        patterns: Patterns::from_option(&world.options.variables),
        variables: Vec::new(),
        infos: Vec::new(),
        in_use,
        looked_at: 0,
        control: BTreeMap::new(),
        counters: Counters::new(),
        words: Vec::new(),
        last: Last::default(),
    };
    watched.look_for_new();
    let complaints = watched.patterns.complaints(watched.looked_at);
    complaints.into_iter().for_each(|complaint| complain(world, complaint));
    if world.rank.get() == 0 {
        watched.control = control_values();
        set_from_outside(&watched.control).iter().for_each(|info| log_control(world, info));
    }
    *lock() = Some(watched);
    IS_ON.store(true, Ordering::Relaxed);
}

/// Says on stderr and in the profile that an option chooses nothing.
fn complain(world: &World, complaint: String) {
    world.segment.log(&Fact::Note.record(&complaint));
    if world.rank.get() == 0 {
        say(format_args!("{complaint}"));
    }
    NOTES.lock().unwrap_or_else(PoisonError::into_inner).push(complaint);
}

/// Returns whether variables are read, so that the profiler uses MPI's interface for tools.
pub fn are_read() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

fn lock() -> std::sync::MutexGuard<'static, Option<Watched>> {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program leaves the region in which it is, for another one or the end of MPI.
#[inline]
pub fn leave_region() {
    if IS_ON.load(Ordering::Relaxed) {
        read(Cause::Border, process::is_recording());
    }
}

/// Another process asks for a reading: a thread that is in no call is about to make one.
pub fn read_for_another() {
    if IS_ON.load(Ordering::Relaxed) {
        read(Cause::Request, process::is_recording());
    }
}

/// Recording is switched on or off: what variables count while it is off is in no row.
pub fn switch(is_on: bool) {
    if IS_ON.load(Ordering::Relaxed) && process::is_recording() != is_on {
        read(Cause::Border, !is_on);
    }
}

#[cold]
fn read(cause: Cause, is_counted: bool) {
    // Most values are numbers with a fraction.
    let _kept = keep_thread_state();
    if let Some(watched) = &mut *lock() {
        watched.read(cause, HOT.region(), is_counted);
    }
}

/// The last reading, before MPI ends.
pub fn end() {
    if !IS_ON.swap(false, Ordering::Relaxed) {
        return;
    }
    let Some(mut watched) = lock().take() else { return };
    watched.read(Cause::Border, HOT.region(), process::is_recording());
    if watched.world.rank.get() == 0 {
        let last = control_values();
        let changed = last
            .iter()
            .filter(|(name, value)| watched.control.get(*name).is_some_and(|first| first != *value));
        changed.for_each(|(name, value)| log_control(watched.world, &control_info(name, value, "program")));
    }
    let Watched { session, variables, infos, .. } = watched;
    *INFOS.lock().unwrap_or_else(PoisonError::into_inner) = infos;
    variables.into_iter().filter_map(|variable| variable.started).for_each(|started| session.stop(started));
    session.end();
    tool::finalize();
}

/// The descriptions for `run.json` of the variables that were read, and of control variables; known
/// at the end.
static INFOS: Mutex<Vec<VariableInfo>> = Mutex::new(Vec::new());
static CONTROL: Mutex<Vec<ControlInfo>> = Mutex::new(Vec::new());

/// Sentences for `run.json`.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Sentences for `run.json` on what cannot be read.
pub fn notes() -> Vec<String> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The variables that were read, and the control variables that are not at their defaults, for
/// `run.json`.
pub fn described() -> (Vec<VariableInfo>, Vec<ControlInfo>) {
    let infos = INFOS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (infos, CONTROL.lock().unwrap_or_else(PoisonError::into_inner).clone())
}

impl Watched {
    /// Starts the variables that have appeared since the last look.
    fn look_for_new(&mut self) {
        let (is_first, count) = (self.looked_at == 0, tool::performance_count());
        if self.looked_at >= count {
            return;
        }
        let components = Components::now();
        let mut monitors = None;
        for index in self.looked_at..count {
            let chosen = tool::performance(index).filter(|variable| self.patterns.choose(&variable.name));
            let Some(variable) = chosen else { continue };
            let is_in_use = is_first.then_some(self.in_use.as_ref()).flatten().is_none_or(|in_use| {
                // Initialising the interface has added the rest.
                in_use.get(index as usize).copied().unwrap_or(false)
            });
            let is_plugin = components.as_ref().is_some_and(|all| all.component(&variable.name).is_some());
            let is_there = is_plugin
                || !monitoring::is_of(&variable.name)
                || *monitors.get_or_insert_with(monitoring::is_in_use);
            let is_read = is_in_use
                && is_there
                && can_be_read(components.as_ref(), &variable.name)
                && self.start(&variable);
            self.patterns.note(&variable.name, is_read);
            if !is_read {
                world::not_seen(NotSeen::UnreadVariable);
            }
        }
        self.looked_at = count;
    }

    /// Starts a variable; false if it cannot be read.
    fn start(&mut self, variable: &Performance) -> bool {
        let has_room = self.variables.len() < MOST_VARIABLES;
        let Some(element) = variable.element.filter(|_| variable.has_number() && has_room) else {
            return false;
        };
        let Some(started) = self.session.start(variable, self.world.predefined.world) else { return false };
        let is_readable = self.session.read(&started, &mut self.words);
        let first = combined(variable.class, element, &self.words[..started.count.min(self.words.len())]);
        let (true, Some(last)) = (is_readable, first) else {
            self.session.stop(started);
            return false;
        };
        let record = Record::Variable {
            of_world: variable.binding == Binding::Communicator,
            class: variable.class.to_owned(),
            name: variable.name.clone(),
            description: variable.description.clone(),
        };
        if !self.world.segment.log(&record) {
            self.session.stop(started);
            return false;
        }
        let number = self.variables.len() as u16;
        let Record::Variable { of_world, class, name, description } = record else { return false };
        self.infos.push(VariableInfo { name, class, of_world, description });
        self.variables.push(Variable {
            number,
            class: variable.class,
            element,
            started: Some(started),
            last,
        });
        true
    }

    /// Reads all variables at the end of a stay in a region.
    fn read(&mut self, cause: Cause, region: RegionId, is_counted: bool) {
        self.last.reading += 1;
        self.last.requested += u64::from(cause == Cause::Request);
        for variable in &mut self.variables {
            let Some(started) = &variable.started else { continue };
            let is_read = self.session.read(started, &mut self.words);
            let value = combined(
                variable.class,
                variable.element,
                &self.words[..started.count.min(self.words.len())],
            );
            let (true, Some(value)) = (is_read, value) else {
                // A component that is closed takes its variables with it.
                variable.started = None;
                world::not_seen(NotSeen::UnreadVariable);
                continue;
            };
            let last = std::mem::replace(&mut variable.last, value);
            if is_counted {
                let slot =
                    self.counters.slot(&self.world.segment, SlotKey::variable(variable.number, region));
                note(slot, variable, last, cause, self.last);
            }
        }
        self.look_for_new();
    }
}

/// One number of a variable that may have several values, as for each process of a communicator;
/// `None` where they make none.
fn combined(class: &str, element: Element, words: &[u64]) -> Option<VariableValue> {
    let numbers = |count: usize| (0..count).map(|at| element.number(words, at));
    let count = words.len();
    let larger =
        |one: VariableValue, other: VariableValue| if one.to_f64() >= other.to_f64() { one } else { other };
    match (class, count) {
        (_, 0) => None,
        (_, 1) => Some(element.number(words, 0)),
        ("highwatermark", _) => numbers(count).reduce(larger),
        ("lowwatermark", _) => {
            numbers(count).reduce(|one, other| if larger(one, other) == one { other } else { one })
        }
        ("level" | "size", _) => numbers(count).reduce(sum),
        (class, _) if grows(class) => numbers(count).reduce(sum),
        _ => None,
    }
}

/// Returns whether variables of a class grow, so that the difference of two readings is what was
/// counted.
fn grows(class: &str) -> bool {
    matches!(class, "counter" | "aggregate" | "timer")
}

fn sum(one: VariableValue, other: VariableValue) -> VariableValue {
    match (one, other) {
        (VariableValue::Integer(one), VariableValue::Integer(other)) => VariableValue::Integer(one + other),
        _ => VariableValue::Real(one.to_f64() + other.to_f64()),
    }
}

/// By how much a variable grew. One of 32 bits may have begun again at 0.
fn growth(element: Element, last: VariableValue, value: VariableValue) -> f64 {
    match (last, value) {
        (VariableValue::Integer(last), VariableValue::Integer(value)) if value >= last => {
            (value - last) as f64
        }
        (VariableValue::Integer(last), VariableValue::Integer(value))
            if element == Element::U32 && last <= i128::from(u32::MAX) =>
        {
            (value - last + (1 << 32)) as f64
        }
        (last, value) => value.to_f64() - last.to_f64(),
    }
}

/// Adds the process's last reading to the row of a variable in a region.
fn note(slot: Option<&Slot>, variable: &Variable, before: VariableValue, cause: Cause, last: Last) {
    let Some(slot) = slot else { return world::not_seen(NotSeen::NoRoom) };
    let relaxed = Ordering::Relaxed;
    let grown = growth(variable.element, before, variable.last);
    let (value, before) = (variable.last.to_f64(), before.to_f64());
    update(slot, |values| {
        let real = |which: usize| f64::from_bits(values[which].load(relaxed));
        let is_first = values[READINGS].fetch_add(1, relaxed) == 0;
        let (least, most) =
            if is_first { (f64::INFINITY, f64::NEG_INFINITY) } else { (real(LEAST), real(MOST)) };
        values[VALUE].store(value.to_bits(), relaxed);
        values[LEAST].store(least.min(value).min(before).to_bits(), relaxed);
        values[MOST].store(most.max(value).max(before).to_bits(), relaxed);
        let mut in_region = Last { reading: last.reading, ..Last::from_bits(values[LAST].load(relaxed)) };
        if cause == Cause::Request {
            in_region.requested = last.requested;
        }
        if grows(variable.class) {
            values[DELTA].store((real(DELTA) + grown).to_bits(), relaxed);
        } else if cause == Cause::Request {
            values[REQUESTED_VALUE].store(value.to_bits(), relaxed);
        }
        values[LAST].store(in_region.bits(), relaxed);
    });
}

/// The control variables with their values, by name.
fn control_values() -> BTreeMap<String, String> {
    let components = Components::now();
    let all = (0..tool::control_count()).filter_map(tool::control);
    let all = all.filter(|control| can_be_read(components.as_ref(), &control.name));
    all.filter_map(|control: Control| Some((control.value()?, control.name)))
        .map(|(value, name)| (name, value))
        .collect()
}

/// Returns whether the memory behind a variable is there; not known without the components.
fn can_be_read(components: Option<&Components>, name: &str) -> bool {
    components.is_some_and(|components| !components.are_without(name))
}

/// The control variables that the environment or a file of parameters sets. MPI tells neither
/// defaults nor where a value is from.
fn set_from_outside(values: &BTreeMap<String, String>) -> Vec<ControlInfo> {
    let in_files = values.get("mca_base_param_files").map(|files| names_in_files(files)).unwrap_or_default();
    let found = values.iter().filter(|(name, _)| !is_of_launcher(name)).filter_map(|(name, value)| {
        let is_set = settings_of(name).iter().any(|variable| std::env::var_os(variable).is_some());
        match (is_set, in_files.contains(name)) {
            (true, _) => Some(control_info(name, value, "environment")),
            (false, true) => Some(control_info(name, value, "file")),
            (false, false) => None,
        }
    });
    found.collect()
}

/// Returns whether Open MPI's launcher sets a variable for itself, as where it listens.
fn is_of_launcher(name: &str) -> bool {
    ["orte_", "ess", "pmix"].iter().any(|begin| name.starts_with(begin))
}

fn control_info(name: &str, value: &str, set_by: &str) -> ControlInfo {
    ControlInfo { name: name.to_owned(), value: value.to_owned(), set_by: set_by.to_owned() }
}

/// The names that Open MPI's files of parameters set: lines `name = value`.
fn names_in_files(files: &str) -> BTreeSet<String> {
    let texts = files.split([',', ':']).filter_map(|file| std::fs::read_to_string(file.trim()).ok());
    let names = |text: String| -> Vec<String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned())).collect()
    };
    texts.flat_map(names).collect()
}

fn log_control(world: &World, info: &ControlInfo) {
    world.segment.log(&Fact::Control.record(format!("{}\0{}\0{}", info.name, info.value, info.set_by)));
    CONTROL.lock().unwrap_or_else(PoisonError::into_inner).push(info.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_values_make_one_by_their_class() {
        let words = [3u64, 9, 4];
        let of = |class| combined(class, Element::U64, &words);
        assert_eq!(of("counter"), Some(VariableValue::Integer(16)));
        assert_eq!(of("highwatermark"), Some(VariableValue::Integer(9)));
        assert_eq!(of("lowwatermark"), Some(VariableValue::Integer(3)));
        assert_eq!(of("state"), None);
        assert_eq!(combined("state", Element::U64, &words[..1]), Some(VariableValue::Integer(3)));
        assert_eq!(combined("counter", Element::U64, &[]), None);
    }

    #[test]
    fn a_counter_of_32_bits_begins_again() {
        let number = |value: i128| VariableValue::Integer(value);
        assert_eq!(growth(Element::U32, number(4_294_967_290), number(4)), 10.0);
        assert_eq!(growth(Element::U64, number(7), number(9)), 2.0);
        assert_eq!(growth(Element::F64, VariableValue::Real(0.5), VariableValue::Real(0.75)), 0.25);
    }

    #[test]
    fn names_in_a_file_of_parameters_are_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("params.conf");
        std::fs::write(&file, "# btl = self\nbtl_base_warn = 0\n\n pml=ob1\n").expect("it can be written");
        let names = names_in_files(&format!("/nowhere,{}", file.display()));
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["btl_base_warn", "pml"]);
    }
}
