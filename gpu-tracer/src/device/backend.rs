//! Interface of a backend to the tracer. The backend reports events in turn;
//! docs/explanation/gpu-tracing.md lists them.

/// A stream of a context.
#[derive(Clone, Copy, Debug)]
pub struct Queue {
    /// The context.
    pub context: u64,
    /// The stream.
    pub stream: u64,
}

/// Operations of a backend on a context and its device.
///
/// Contexts, modules and streams are the backend's own numbers for them. All of it may be called
/// from within an event.
pub trait Backend: Send {
    /// Device memory of a context, which the program does not see, and which goes with the context.
    fn allocate(&self, context: u64, bytes: usize) -> Option<u64>;
    /// Writes to device memory that nothing uses which runs or waits now, before anything that is
    /// put into the stream later; the bytes are taken at once.
    fn write(&self, queue: Queue, address: u64, bytes: &[u8]) -> bool;
    /// Sets device memory to zero, in the order of [`Backend::write`].
    fn clear(&self, queue: Queue, address: u64, bytes: usize) -> bool;
    /// Reads device memory as it is now: what was written may not be there yet, and kernels go on
    /// counting meanwhile.
    fn read(&self, queue: Queue, address: u64, bytes: &mut [u8]) -> bool;
    /// Waits until all that is in the stream has run.
    fn wait(&self, queue: Queue) -> bool;
    /// Waits for kernels of a context that still run, but not for long, before counts are taken for
    /// the last time.
    fn settle(&self, _context: u64) {}
    /// Functions of a module whose code is known, besides those of its line table.
    fn functions(&self, _module: u64) -> Vec<String> {
        Vec::new()
    }
    /// The address of a function's code, and its length.
    fn function(&self, module: u64, name: &str) -> Option<(u64, u64)>;
    /// Makes the accesses of a module's kernels count, where that is not done kernel by kernel.
    fn patch(&self, context: u64, module: u64) -> bool;
    /// Makes kernels of a module, of which none runs, what they were. False if that cannot be done,
    /// or need not.
    fn unpatch(&self, _module: u64) -> bool {
        false
    }
    /// A context and all that was made in it is gone.
    fn context_gone(&self, context: u64);
    /// Name of the device that is the same in all processes.
    fn device_name(&self, device: i32) -> String;
}
