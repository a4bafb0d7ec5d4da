//! What a back end gives to the [`crate::tracer::Tracer`]. It tells the tracer of events in turn; docs/gpu.md has which.

/// What a back end can do with a context and its device.
///
/// Contexts, modules and streams are the back end's own numbers for them. All of it may be called from within an event.
pub trait Backend: Send {
    /// Device memory of a context, which the program does not see, and which goes with the context.
    fn allocate(&self, context: u64, bytes: usize) -> Option<u64>;
    /// Writes to device memory before anything that is put into the stream later; the bytes are taken at once.
    fn write(&self, stream: u64, address: u64, bytes: &[u8]) -> bool;
    /// Sets device memory to zero, in the order of the stream.
    fn clear(&self, stream: u64, address: u64, bytes: usize) -> bool;
    /// Reads device memory.
    fn read(&self, stream: u64, address: u64, bytes: &mut [u8]) -> bool;
    /// Where the code of a function is, and how long.
    fn function(&self, module: u64, name: &str) -> Option<(u64, u64)>;
    /// Makes the accesses of a module's kernels count.
    fn patch(&self, context: u64, module: u64) -> bool;
    /// A context and all that was made in it is gone.
    fn context_gone(&self, context: u64);
    /// What others know the device by.
    fn device_name(&self, device: i32) -> String;
}
