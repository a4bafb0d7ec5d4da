//! Calls on windows and files, which stand for the communicator on which they were made.

use crate::mpi::abi::{self, Comm, FromFortran, Raw, constant};
use crate::mpi::argument::HandlePtr;
use crate::naming::ROWS;
use crate::recording::{RecordedCall, record_call};
use crate::state::handles::Handles;
use crate::state::process;
use crate::state::world;
use mpisee_profile::{CommId, Operation, Ticks};
use std::ffi::c_int;

impl<H: FromFortran> Handles<H> {
    /// A call that creates a handle on `comm` and stores it at `new`; only its time is counted.
    ///
    /// # Safety
    /// The arguments are those of the application's call, and `make` makes it; so for every
    /// function here.
    pub unsafe fn create(
        &self,
        operation: Operation,
        comm: Raw<Comm>,
        new: HandlePtr<H>,
        make: impl FnOnce() -> c_int,
    ) -> c_int {
        record_call(
            RecordedCall::if_tracking(),
            operation,
            |call| call.id_of(comm),
            make,
            |recorder, made| {
                made.count_time(recorder);
                if made.succeeded()
                    && let Some(id) = match self.has_targets {
                        true => ROWS.open_window(made.communicator),
                        false => ROWS.row_of(made.communicator),
                    }
                {
                    // SAFETY: the call succeeded, so it stored a handle.
                    self.communicators.insert(abi::bits(unsafe { new.handle() }), id);
                }
            },
        )
    }

    /// A call that frees the handle; only its time is counted.
    ///
    /// # Safety
    /// See [`Handles::create`].
    pub unsafe fn free(
        &self,
        operation: Operation,
        handle: HandlePtr<H>,
        make: impl FnOnce() -> c_int,
    ) -> c_int {
        if !process::is_tracking() || handle.is_null() {
            return make();
        }
        // Removed before the call: as soon as it returns, MPI may give the handle to another
        // thread. A call from inside MPI, as a delete callback makes, frees the handle, too.
        // SAFETY: the handle is valid, the caller says.
        let key = abi::bits(unsafe { handle.handle() });
        let communicator = self.communicators.remove(key);
        let call = RecordedCall::if_tracking();
        let (code, ticks) = match &call {
            Some(call) => call.time(operation, communicator.unwrap_or(CommId::NONE), make),
            None => (make(), Ticks::ZERO),
        };
        if let Some(communicator) = communicator.filter(|_| code != constant::SUCCESS) {
            self.communicators.insert(key, communicator);
        }
        let is_closed = self.has_targets && code == constant::SUCCESS;
        let close = || communicator.filter(|_| is_closed).into_iter().for_each(|id| ROWS.close_window(id));
        let Some(call) = call else {
            world::guarded(close);
            return code;
        };
        call.record(|recorder| {
            match communicator {
                Some(communicator) => recorder.count_time(communicator, operation, ticks),
                None if process::is_recording() => world::not_seen(self.unknown),
                None => {}
            }
            close();
        });
        code
    }

    /// A call that counts with its time alone.
    ///
    /// # Safety
    /// See [`Handles::create`].
    #[inline]
    pub unsafe fn plain(&self, operation: Operation, handle: Raw<H>, make: impl FnOnce() -> c_int) -> c_int {
        let find = |_: &RecordedCall| self.communicator_of(handle);
        record_call(RecordedCall::if_recording(), operation, find, make, |recorder, made| {
            made.count_time(recorder)
        })
    }
}
