//! Functions of modules: their kernels, handles and code.

use std::collections::{HashMap, HashSet};

/// A function: its context, and where its code is. In calls of the driver a function may be stood
/// for by the kernel of a library (`CUkernel`), by NVBit's events of graphs it is not.
pub type Key = (u64, u64);

/// The functions of the process.
#[derive(Default)]
pub struct Functions {
    /// Kernels by context and handle.
    handles: HashMap<(u64, u64), Key>,
    /// Kernels that were launched.
    pub kernels: HashMap<Key, Kernel>,
    /// Begin and length of the code of a module's functions, by name.
    pub code: HashMap<(u64, String), (u64, u64)>,
    /// Functions that have calls, kernels and what these call, with their module and handle.
    with_calls: HashMap<Key, (u64, u64)>,
    /// Modules where kernels call functions that have some: a kernel without calls of its own may
    /// run them.
    with_shared: HashSet<u64>,
    /// Functions of modules that were unloaded, by context and handle. NVBit (1.7.7.1) takes a
    /// later function with such a handle for the earlier one: it runs without calls, and what it
    /// "switches back" may be another function's code.
    outlived: HashSet<(u64, u64)>,
}

/// A kernel.
#[derive(Clone)]
pub struct Kernel {
    /// Its mangled name.
    pub name: String,
    /// Its module.
    pub module: u64,
    /// The function, for which a handle may stand.
    function: u64,
    /// Whether NVBit must not be asked for it, see [`Functions::outlives`].
    pub is_outlived: bool,
    /// The number of calls inserted into it and its callees; `None` if none were inserted yet.
    pub calls: Option<u32>,
    /// A handle of it, if it has calls and is part of a graph.
    pub in_graph: Option<u64>,
}

impl Functions {
    /// The kernel of a handle, if it was seen before.
    pub fn key(&self, context: u64, handle: u64) -> Option<Key> {
        self.handles.get(&(context, handle)).copied()
    }

    /// A kernel and its key, if the handle was seen before.
    pub fn kernel(&self, context: u64, handle: u64) -> Option<(Key, Kernel)> {
        let key = self.key(context, handle)?;
        Some((key, self.kernels.get(&key)?.clone()))
    }

    /// A handle that was not seen before.
    pub fn learn(&mut self, handle: u64, key: Key, name: String, [module, function]: [u64; 2]) -> Kernel {
        self.handles.insert((key.0, handle), key);
        let is_outlived = self.outlives(key.0, function);
        let new = Kernel { name, module, function, is_outlived, calls: None, in_graph: None };
        self.kernels.entry(key).or_insert(new).clone()
    }

    /// Returns whether a function has the handle of one whose module was unloaded.
    pub fn outlives(&self, context: u64, function: u64) -> bool {
        self.outlived.contains(&(context, function))
    }

    /// A function of a kernel's module. Whether it is to get calls: each does once.
    pub fn gets_calls(&mut self, key: Key, kernel: Key, module: u64, function: u64) -> bool {
        if key != kernel {
            self.with_shared.insert(module);
        }
        self.with_calls.insert(key, (module, function)).is_none()
    }

    /// Returns whether a launch of a kernel may run calls; also those of a function that it has in
    /// common with another kernel.
    pub fn may_run_calls(&self, key: Key) -> bool {
        self.kernels.get(&key).is_some_and(|it| {
            let has_calls = it.calls.is_some_and(|calls| calls > 0) || self.with_shared.contains(&it.module);
            has_calls && !it.is_outlived
        })
    }

    /// A module is about to go.
    pub fn unload(&mut self, module: u64) {
        let kernels = self.kernels.iter().filter(|(_, it)| it.module == module);
        let kernels = kernels.map(|(key, it)| (key.0, it.function));
        let others = self.with_calls.iter().filter(|(_, (of, _))| *of == module);
        let others = others.map(|(key, (_, function))| (key.0, *function));
        self.outlived.extend(kernels.chain(others));
        self.forget(|_, of| of == module);
    }

    /// A context is about to go, and with it what NVBit knows of it.
    pub fn context_gone(&mut self, context: u64) {
        self.outlived.retain(|(of, _)| *of != context);
        self.forget(|(of, _), _| *of == context);
    }

    /// Forgets functions that are gone, by key and module.
    fn forget(&mut self, is_gone: impl Fn(&Key, u64) -> bool) {
        let gone = self.with_calls.iter().filter(|(key, (of, _))| is_gone(key, *of));
        let modules: Vec<u64> = gone.map(|(_, (of, _))| *of).collect();
        self.kernels.retain(|key, it| !is_gone(key, it.module));
        self.handles.retain(|_, key| self.kernels.contains_key(key));
        self.with_calls.retain(|key, (module, _)| !is_gone(key, *module));
        self.with_shared.retain(|module| !modules.contains(module));
        self.code.retain(|(module, _), _| !modules.contains(module));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_one_under_all_of_its_handles_until_it_is_gone() {
        let mut known = Functions::default();
        known.learn(10, (1, 0x100), "a".to_owned(), [7, 10]);
        known.kernels.get_mut(&(1, 0x100)).unwrap().calls = Some(3);
        assert_eq!(known.learn(11, (1, 0x100), "a".to_owned(), [7, 10]).calls, Some(3));
        known.learn(10, (2, 0x200), "a".to_owned(), [8, 10]);
        assert_eq!(
            (known.key(1, 11), known.key(2, 10), known.key(2, 11)),
            (Some((1, 0x100)), Some((2, 0x200)), None)
        );
        assert!(known.gets_calls((1, 0x100), (1, 0x100), 7, 10));
        assert!(!known.gets_calls((1, 0x100), (1, 0x100), 7, 10));
        assert!(known.may_run_calls((1, 0x100)) && !known.may_run_calls((2, 0x200)));
        known.unload(7);
        assert!(known.kernel(1, 10).is_none() && known.kernel(2, 10).is_some());
    }

    #[test]
    fn kernels_of_a_module_may_run_what_others_of_it_call() {
        let mut known = Functions::default();
        for (handle, module) in [(1, 7), (2, 7), (3, 8)] {
            known.learn(handle, (1, 0x100 * handle), handle.to_string(), [module, handle]);
        }
        assert!(known.gets_calls((1, 0x900), (1, 0x100), 7, 9));
        assert_eq!([0x100, 0x200, 0x300].map(|code| known.may_run_calls((1, code))), [true, true, false]);
        known.unload(7);
        known.learn(4, (1, 0x200), "2".to_owned(), [7, 4]);
        assert!(!known.may_run_calls((1, 0x200)));
    }

    #[test]
    fn handles_of_an_unloaded_module_are_known_in_its_context() {
        let mut known = Functions::default();
        // A kernel of a library, 20, stands for the function 10, which calls the function 9.
        known.learn(20, (1, 0x100), "a".to_owned(), [7, 10]);
        known.gets_calls((1, 0x900), (1, 0x100), 7, 9);
        known.learn(11, (1, 0x200), "b".to_owned(), [8, 11]);
        known.unload(7);
        let outlived = |known: &Functions| [9, 10, 11, 20].map(|function| known.outlives(1, function));
        assert_eq!(outlived(&known), [true, true, false, false]);
        assert!(!known.outlives(2, 10));
        // At the same place in the code, or another.
        assert!(known.learn(21, (1, 0x100), "a".to_owned(), [9, 10]).is_outlived);
        known.gets_calls((1, 0x100), (1, 0x100), 9, 10);
        known.kernels.get_mut(&(1, 0x100)).unwrap().calls = Some(1);
        assert!(!known.may_run_calls((1, 0x100)));
        assert!(!known.learn(22, (1, 0x300), "a".to_owned(), [9, 12]).is_outlived);
        known.context_gone(1);
        assert_eq!(outlived(&known), [false; 4]);
    }
}
