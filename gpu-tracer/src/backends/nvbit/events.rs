//! NVBit's events, as events of the tracer.

use super::Nvbit;
use super::functions::{Kernel, Key};
use super::gate::Gate;
use crate::events::calls::{self, DriverCall};
use crate::events::state::{Shared, State};
use crate::generated::layer::{
    MPISEE_GRAPH_KERNEL, MPISEE_GRAPH_LAUNCH, MPISEE_LAUNCH, MPISEE_UNLOAD_LIBRARY, MPISEE_UNLOAD_MODULE,
    MPISEE_WAITED, MPISEE_WAITED_CONTEXT, MPISEE_WAITED_STREAM, mpisee_nvbit_events,
    mpisee_nvbit_launch as Launch,
};
use crate::process::driver::{self, PER_THREAD, handle, number};
use crate::trace::trace;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The functions of this library for NVBit's events.
pub const EVENTS: mpisee_nvbit_events =
    mpisee_nvbit_events { call: Some(call), node: Some(node), context_end: Some(context_end) };

struct Listener {
    nvbit: Arc<Nvbit>,
    shared: &'static Shared,
    gate: Gate,
    /// The devices of the contexts.
    devices: Mutex<HashMap<u64, i32>>,
}

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Makes events come to the tracer.
pub fn listen(nvbit: Arc<Nvbit>, shared: &'static Shared) {
    let _ = LISTENER.set(Listener { nvbit, shared, gate: Gate::default(), devices: Mutex::default() });
}

/// `CU_STREAM_LEGACY`, a cast in cuda.h, which cudarc does not have. No stream is the same.
const LEGACY: u64 = 1;
/// The stream of a thread is [`PER_THREAD`] in this many low bits, and the thread's number above.
const THREAD_SHIFT: u32 = 8;

/// The tracer's number of a stream: that of a thread is another one in each.
fn stream_number(stream: u64, is_per_thread: bool) -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static OWN: Cell<u64> = const { Cell::new(0) };
    }
    match stream {
        0 if !is_per_thread => 0,
        LEGACY => 0,
        0 | PER_THREAD => {
            if OWN.get() == 0 {
                OWN.set(THREADS.fetch_add(1, Ordering::Relaxed));
            }
            OWN.get() << THREAD_SHIFT | PER_THREAD
        }
        stream => stream,
    }
}

/// The stream of a number; streams are at least 8 bytes apart, so that no other ends in these bits.
pub fn stream_of(number: u64) -> u64 {
    if number & ((1 << THREAD_SHIFT) - 1) == PER_THREAD { PER_THREAD } else { number }
}

/// A call of the driver, before or after it.
unsafe extern "C" fn call(context: *mut c_void, is_exit: c_int, what: u32, parameters: *const c_void) {
    let Some(listener) = LISTENER.get() else { return };
    let (context, is_exit) = (number(context), is_exit != 0);
    trace!("call {:?} number={what} context={context:#x} is_exit={is_exit}", DriverCall::from_repr(what));
    if what == MPISEE_LAUNCH && is_exit {
        listener.gate.leave();
        return;
    }
    if what == MPISEE_GRAPH_LAUNCH && is_exit {
        OF_GRAPH.with_borrow_mut(HashMap::clear);
        return;
    }
    let is_time = match what {
        MPISEE_LAUNCH
        | MPISEE_GRAPH_KERNEL
        | MPISEE_GRAPH_LAUNCH
        | MPISEE_UNLOAD_MODULE
        | MPISEE_UNLOAD_LIBRARY => !is_exit,
        _ => is_exit != DriverCall::from_repr(what).is_some_and(DriverCall::frees),
    };
    if context == 0 || !is_time {
        return;
    }
    let mut may_count = false;
    if what == MPISEE_LAUNCH {
        // SAFETY: the parameters of a launch.
        let function = number(unsafe { &*parameters.cast::<Launch>() }.function);
        listener.shared.event(|state| may_count = listener.may_count(state, context, function));
    }
    // Without the tracer's lock, which the thread in there may need.
    let is_alone = may_count && listener.gate.enter();
    // SAFETY: the parameters are those that nvbit/tool.cpp gives for the call.
    listener.shared.event(|state| unsafe { listener.called(state, context, what, parameters, is_alone) });
}

thread_local! {
    /// Arguments of the calls in kernels of the graph that this thread is launching.
    static OF_GRAPH: RefCell<HashMap<Key, u64>> = RefCell::default();
}

/// A kernel of a graph is about to run. What its calls get was made before, since here the driver
/// has its locks: neither it nor a thread that may be in it is waited for.
unsafe extern "C" fn node(context: *mut c_void, function: *mut c_void, stream: *mut c_void, launch: u64) {
    let Some(listener) = LISTENER.get() else { return };
    trace!("graph-node context={context:p} function={function:p} stream={stream:p} launch={launch}");
    let layer = &listener.nvbit.layer;
    // SAFETY: context and function are those of the event.
    let key = (number(context), unsafe { (layer.address)(context, function) });
    let value = OF_GRAPH.with_borrow(|of_graph| of_graph.get(&key).copied()).unwrap_or(0);
    if value != 0 || listener.nvbit.functions().may_run_calls(key) {
        // SAFETY: context, function, stream and launch are those of the event.
        unsafe { (layer.set)(context, function, value, stream, launch) };
    }
}

unsafe extern "C" fn context_end(context: *mut c_void) {
    let Some(listener) = LISTENER.get() else { return };
    let context = number(context);
    listener.shared.event(|state| {
        listener.devices.lock().unwrap_or_else(PoisonError::into_inner).remove(&context);
        state.tracer.context_destroyed(context);
    });
}

impl Listener {
    /// The device of a context, which is reported to the tracer when it is first seen.
    fn device(&self, state: &mut State, context: u64) -> Option<i32> {
        let mut devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&device) = devices.get(&context) {
            return Some(device);
        }
        let driver = &self.nvbit.driver;
        let device = driver.within(context, || driver.device()).flatten()?;
        devices.insert(context, device);
        state.tracer.context_created(context, device);
        Some(device)
    }

    /// A call of the driver, at its time; `is_alone` is of launches.
    ///
    /// # Safety
    /// The parameters are those that nvbit/tool.cpp gives for the call.
    unsafe fn called(
        &self,
        state: &mut State,
        context: u64,
        what: u32,
        parameters: *const c_void,
        is_alone: bool,
    ) {
        let Some(device) = self.device(state, context) else { return };
        // SAFETY: the parameters are those that nvbit/tool.cpp gives for the call.
        unsafe {
            if let Some(known) = DriverCall::from_repr(what) {
                calls::take(state, known, parameters, device);
                return;
            }
            match what {
                MPISEE_LAUNCH => self.launch(state, context, &*parameters.cast(), is_alone),
                MPISEE_GRAPH_KERNEL => {
                    let launch = &*parameters.cast::<Launch>();
                    self.prepare_in_graph(state, context, number(launch.function));
                }
                MPISEE_GRAPH_LAUNCH => self.launch_graph(state, &*parameters.cast()),
                MPISEE_UNLOAD_MODULE => self.unload(state, parameters.addr() as u64),
                MPISEE_UNLOAD_LIBRARY => {
                    let library = parameters.addr() as u64;
                    let driver = &self.nvbit.driver;
                    let module = driver.within(context, || driver.module_of_library(library));
                    if let Some(module) = module.flatten() {
                        self.unload(state, module);
                    }
                }
                MPISEE_WAITED_STREAM => {
                    let launch = &*parameters.cast::<Launch>();
                    let stream = stream_number(number(launch.stream), launch.is_per_thread != 0);
                    state.tracer.synchronized(context, Some(stream));
                }
                MPISEE_WAITED_CONTEXT => state.tracer.synchronized(context, None),
                MPISEE_WAITED => state.tracer.progressed(context),
                _ => {}
            }
        }
    }

    /// Returns whether a launch of a kernel would count anything.
    fn may_count(&self, state: &mut State, context: u64, function: u64) -> bool {
        self.device(state, context).is_some()
            && self
                .look_up(context, function)
                .is_some_and(|(_, it)| state.tracer.wants(context, it.module, &it.name))
    }

    /// A kernel is about to be launched; `is_alone` says that no other is until this one is.
    fn launch(&self, state: &mut State, context: u64, launch: &Launch, is_alone: bool) {
        let function = number(launch.function);
        let stream = stream_number(number(launch.stream), launch.is_per_thread != 0);
        let driver = &self.nvbit.driver;
        if driver.within(context, || driver.is_capturing(stream_of(stream))) == Some(true) {
            self.prepare_in_graph(state, context, function);
            return;
        }
        let Some((key, Kernel { module, name, .. })) = self.look_up(context, function) else { return };
        let address = if state.tracer.launching(context, module, &name) && is_alone {
            self.put_calls(state, key, function)
                .then(|| state.tracer.launch(context, stream, module, &name))
                .flatten()
        } else {
            None
        };
        trace!(
            "launch kernel={name} function={function:#x} stream={stream:#x} module={module:#x} alone={is_alone} gets {address:x?}"
        );
        match address {
            Some(address) => self.run_with_calls(context, function, address),
            None => self.run_as_it_is(key, function),
        }
    }

    /// A kernel becomes part of a graph. What its calls get is said when the graph runs; until then
    /// they do nothing.
    fn prepare_in_graph(&self, state: &mut State, context: u64, function: u64) {
        let Some((key, Kernel { name, .. })) = self.look_up(context, function) else { return };
        if state.tracer.is_chosen(&name) && self.put_calls(state, key, function) {
            if let Some(known) = self.nvbit.functions().kernels.get_mut(&key) {
                known.in_graph = Some(function);
            }
            self.run_with_calls(context, function, 0);
        } else {
            self.run_as_it_is(key, function);
        }
    }

    /// A graph is about to be launched. Its kernels are reported one by one, when it is too late to
    /// query the driver for memory: so all that are in any graph get what their calls need.
    fn launch_graph(&self, state: &mut State, launch: &Launch) {
        let stream = stream_number(number(launch.stream), launch.is_per_thread != 0);
        let in_graphs: Vec<(Key, Kernel)> = {
            let functions = self.nvbit.functions();
            functions
                .kernels
                .iter()
                .filter(|(_, it)| it.in_graph.is_some())
                .map(|(key, it)| (*key, it.clone()))
                .collect()
        };
        for (key, Kernel { module, name, in_graph, .. }) in in_graphs {
            let (context, function) = (key.0, in_graph.unwrap_or_default());
            let counts = state.tracer.launching(context, module, &name);
            let address = counts.then(|| state.tracer.launch(context, stream, module, &name)).flatten();
            trace!("launch kernel={name} stream={stream:#x} module={module:#x} in a graph gets {address:x?}");
            match address {
                Some(address) => {
                    OF_GRAPH.with_borrow_mut(|of_graph| of_graph.insert(key, address));
                    // Launched by itself it may have run as it is meanwhile.
                    self.run_with_calls(context, function, 0);
                }
                None => self.run_as_it_is(key, function),
            }
        }
    }

    /// The kernel of a handle. Neither NVBit nor the driver is called while other threads wait for
    /// what is known of functions.
    fn look_up(&self, context: u64, function: u64) -> Option<(Key, Kernel)> {
        if let Some(known) = self.nvbit.functions().kernel(context, function) {
            return Some(known);
        }
        let layer = &self.nvbit.layer;
        // SAFETY: context and function are those of a launch; the name is NVBit's.
        let (address, name) = unsafe {
            let (context, function) = (handle(context), handle(function));
            ((layer.address)(context, function), driver::text((layer.name)(context, function))?)
        };
        let driver = &self.nvbit.driver;
        let of = driver.within(context, || driver.module_of(function)).unwrap_or([function; 2]);
        let key = (context, address);
        Some((key, self.nvbit.functions().learn(function, key, name, of)))
    }

    /// Puts calls into a kernel and what it calls, once. Whether it has any.
    fn put_calls(&self, state: &mut State, key: Key, function: u64) -> bool {
        let known = self.nvbit.functions().kernels.get(&key).cloned();
        let Some(Kernel { module, calls, is_outlived, .. }) = known else { return false };
        if is_outlived {
            state.tracer.note(OUTLIVED);
            return false;
        }
        if let Some(calls) = calls {
            return calls > 0;
        }
        if !state.tracer.knows_module(module) {
            state.tracer.module_loaded(key.0, module, &self.nvbit.image(key.0, function));
        }
        let mut selection =
            Selection { listener: self, module, kernel: key, earlier: 0, meets_outlived: false };
        let data = (&raw mut selection).cast();
        // SAFETY: context and function are those of a launch; `selects` is called before the call
        // returns.
        let calls =
            unsafe { (self.nvbit.layer.instrument)(handle(key.0), handle(function), Some(selects), data) };
        let calls = calls + selection.earlier;
        trace!("calls={calls} of the kernel at {:#x}", key.1);
        if let Some(known) = self.nvbit.functions().kernels.get_mut(&key) {
            known.calls = Some(calls);
            known.is_outlived = selection.meets_outlived;
        }
        if selection.meets_outlived {
            state.tracer.note(OUTLIVED);
        }
        calls > 0 && !selection.meets_outlived
    }

    fn run_with_calls(&self, context: u64, function: u64, value: u64) {
        let layer = &self.nvbit.layer;
        // SAFETY: context and function are those of a launch, or of a kernel that was not unloaded
        // since.
        unsafe {
            (layer.set)(handle(context), handle(function), value, std::ptr::null_mut(), 0);
            (layer.enable)(handle(context), handle(function), 1);
        }
    }

    fn run_as_it_is(&self, key: Key, function: u64) {
        let may_have = self.nvbit.functions().may_run_calls(key);
        if may_have {
            // SAFETY: context and function are those of a launch, or of a kernel that was not
            // unloaded since.
            unsafe { (self.nvbit.layer.enable)(handle(key.0), handle(function), 0) };
        }
    }

    fn unload(&self, state: &mut State, module: u64) {
        state.tracer.module_unloading(module);
        self.nvbit.functions().unload(module);
    }
}

/// Of kernels that are launched without calls, see `outlived` of the functions.
const OUTLIVED: &str = "kernels were not counted of modules that were loaded where others had been unloaded, since NVBit takes them for \
                        the earlier ones; --gpu-backend sanitizer counts them";

/// Data of [`selects`].
struct Selection<'l> {
    listener: &'l Listener,
    module: u64,
    kernel: Key,
    /// Functions that had calls before.
    earlier: u32,
    /// Whether a function that the kernel calls has the handle of an unloaded one.
    meets_outlived: bool,
}

/// Selects a function that a kernel may run, unless it has calls already.
///
/// # Safety
/// `data` is a [`Selection`], the name ends in a zero.
unsafe extern "C" fn selects(
    data: *mut c_void,
    function: *mut c_void,
    name: *const c_char,
    begin: u64,
    bytes: u64,
) -> c_int {
    // SAFETY: `data` is the [`Selection`] that was passed with this function, and the driver's name
    // ends in a zero.
    let (selection, name) = unsafe { (&mut *data.cast::<Selection<'_>>(), driver::text(name)) };
    trace!("function {name:?} module={:#x} pc={begin:#x} bytes={bytes}", selection.module);
    let mut functions = selection.listener.nvbit.functions();
    let (context, function) = (selection.kernel.0, number(function));
    if functions.outlives(context, function) {
        selection.meets_outlived = true;
        return 0;
    }
    functions.code.insert((selection.module, name.unwrap_or_default()), (begin, bytes));
    let is_new = functions.gets_calls((context, begin), selection.kernel, selection.module, function);
    selection.earlier += u32::from(!is_new);
    c_int::from(is_new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_threads_are_apart_and_found_again() {
        let own = stream_number(0, true);
        let other = std::thread::spawn(|| stream_number(PER_THREAD, false)).join().unwrap();
        assert_ne!(own, other);
        assert_eq!((stream_of(own), stream_of(other)), (PER_THREAD, PER_THREAD));
        assert_eq!((stream_number(0, false), stream_number(LEGACY, true)), (0, 0));
        assert_eq!((stream_number(0x7f00, true), stream_of(0x7f00)), (0x7f00, 0x7f00));
    }
}
