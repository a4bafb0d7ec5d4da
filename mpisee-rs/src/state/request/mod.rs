//! Open requests, from the call that starts the operation to the call that completes it.

use super::counted_call::CountedCall;
use crate::mpi::abi::{self, Request};
use crate::mpi::argument::HandlePtr;
use crate::state::world;
use crate::storage::hot::HOT;
use crate::storage::table::{EntryRef, Table};
use mpisee_profile::rows::Memory;
use mpisee_profile::segment::{OperationAtSite, SlotKey};
use mpisee_profile::{CommId, Operation, RegionId, Ticks};
use std::hint::black_box;

mod aliased;
mod entries;
mod kind;
mod removed;
#[cfg(test)]
mod tests;

use aliased::AliasedHandles;
pub use kind::RequestKind;
pub use removed::Removed;

/// Address of a request whose variable is not known.
const NO_VARIABLE: usize = 0;

/// An open request, in a cache line of its own.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct RequestState {
    pub kind: RequestKind,
    /// The call that started it, as it was counted; of a persistent request, that of its last
    /// start.
    pub counted: CountedCall,
    /// The bytes of its message, or, of a receive, the room for it.
    pub message: u64,
    /// The bytes that each start of a persistent request contributes; those of a receive come
    /// later.
    pub at_start: u64,
    /// The destination of a send, the source that a receive names; of a persistent collective
    /// operation its root, if it has one; of an `MPI_Comm_idup`, its number among those on their
    /// way.
    pub peer: i32,
    /// The sample of it that is not finished, see `recording::unfinished`; 0 for none.
    pub unfinished: u32,
    /// Of a persistent request, the number of the slot that counts its operations, see
    /// `recording::samples`; 0 for none.
    pub counted_by: u32,
    /// Of a persistent request, the memory of its buffers: the call that starts several has the
    /// kind farthest from the host.
    pub memory: Memory,
    /// Where its thread keeps the starting call, see
    /// [`Thread::cached_by_number`](crate::state::thread::Thread::cached_by_number).
    pub cached: u8,
    /// True if the request stays after its completion.
    pub persistent: bool,
    /// True if an operation is in flight; false for an inactive persistent request.
    pub active: bool,
    /// True if it was started while recording was on.
    pub recorded: bool,
    /// True if the starting call may be counted anew in the size class of the message that came.
    pub reclassed: bool,
    /// True if the application asked to cancel it.
    pub cancelled: bool,
    /// True if `MPI_Request_get_status` has reported to the application that it is complete.
    pub seen_complete: bool,
    /// True if it may have failed: one of several persistent ones did, and nothing shows which.
    pub doubtful: bool,
}

/// The origin of a request, beside what was counted.
#[derive(Clone, Copy)]
pub struct RequestOrigin {
    pub kind: RequestKind,
    /// As [`RequestState::peer`].
    pub peer: i32,
    /// As [`RequestState::cached`].
    pub cached: u8,
}

impl RequestOrigin {
    /// By a call that is not cached; the number is that of any.
    pub fn new(kind: RequestKind, peer: i32) -> RequestOrigin {
        RequestOrigin { kind, peer, cached: 0 }
    }
}

/// Communicator and kind of a request: what a completion call needs to charge its time.
#[derive(Clone, Copy)]
pub struct Owner {
    /// The communicator.
    pub communicator: CommId,
    pub kind: RequestKind,
    /// As [`RequestState::peer`].
    pub peer: i32,
    /// As [`RequestState::active`].
    pub active: bool,
    /// As [`RequestState::recorded`].
    pub recorded: bool,
    /// As [`RequestState::doubtful`].
    pub doubtful: bool,
}

impl Owner {
    /// The number of the `MPI_Comm_idup` that the request stands for.
    pub fn duplication(&self) -> Option<u32> {
        (self.kind == RequestKind::Duplication).then_some(self.peer as u32)
    }

    /// Returns whether its completion has nothing to count but its own time.
    #[inline(always)]
    fn is_settled(&self) -> bool {
        self.recorded && !self.kind.has_more_to_record()
    }
}

/// A request passed to a completion call.
#[derive(Clone, Copy)]
pub enum RequestRef {
    /// `MPI_REQUEST_NULL`, or a persistent request that is not active.
    Nothing,
    /// Not in the table: no recorded call started the request.
    Unknown,
    /// One in the table.
    Known(ActiveRequest),
    /// A handle shared by several open requests; they are distinguished by the address of the
    /// program's variable.
    Aliased(u64, usize),
}

/// An active request in the table.
#[derive(Clone, Copy)]
pub struct ActiveRequest {
    found: EntryRef<RequestState>,
    /// True if its completion needs the status.
    pub needs_status: bool,
    /// As [`RequestState::persistent`].
    pub persistent: bool,
}

/// The requests that are open.
#[unsafe(link_section = ".data.hot")]
pub static REQUESTS: Requests = Requests::new();

/// The table of open requests.
pub struct Requests {
    table: Table<RequestState>,
    aliased: AliasedHandles,
}

impl Requests {
    pub const fn new() -> Self {
        Requests { table: Table::new(), aliased: AliasedHandles::new() }
    }

    /// Several threads call MPI at the same time.
    pub fn share(&self) {
        self.table.share();
        self.aliased.share();
        // Threads may have kept polls of simple requests, which a shared table does not have.
        HOT.invalidate_handles();
    }

    /// A number that changes whenever a request is started that shares its handle with no other
    /// one, or is no longer simple, see [`Requests::find_simple`].
    #[inline(always)]
    pub fn started(&self) -> u64 {
        self.table.inserted()
    }

    /// Inserts, looks up and completes a dummy request, to measure the overhead per request.
    pub fn calibrate(&self) {
        const NO_REQUEST: u64 = 1;
        let operation = OperationAtSite::from_operation(Operation::Irecv);
        let counted = CountedCall::new(CommId::WORLD, RegionId::OUTSIDE, operation, 0, 0, Ticks::ZERO);
        let make = || RequestState::once(RequestKind::Receive, counted, 0);
        let _ = self.table.insert_new(NO_REQUEST, make) || self.table.insert_with(NO_REQUEST, make);
        let Some(found) = self.table.find(NO_REQUEST) else { return };
        let known = ActiveRequest { found, needs_status: true, persistent: false };
        black_box(self.complete(&known, None, |started| started.recorded));
    }

    /// Returns whether several threads call MPI.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.table.is_shared()
    }

    /// Returns whether none is open.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty() && self.aliased.is_empty()
    }

    /// Adds the request that a call stored in `variable`, and that its completion frees; as for
    /// [`RequestState::once`].
    ///
    /// # Safety
    /// The call has stored a valid request in `variable`.
    #[inline(always)]
    pub unsafe fn add(
        &self,
        variable: HandlePtr<Request>,
        started: RequestOrigin,
        CountedCall { key, bytes, ticks }: CountedCall,
        message: u64,
    ) {
        // SAFETY: there is a request in the variable.
        let request = unsafe { variable.handle() };
        self.add_once(request, started, key, bytes, ticks, message, variable.address());
    }

    /// As [`Requests::add`].
    ///
    /// PERF: one copy for all calls that start something, which finds all but the last in
    /// registers; the entry is made in its variable.
    #[inline(never)]
    #[unsafe(link_section = ".text.hot")]
    #[expect(clippy::too_many_arguments, reason = "in registers")]
    fn add_once(
        &self,
        request: Request,
        RequestOrigin { kind, peer, cached }: RequestOrigin,
        key: SlotKey,
        bytes: u64,
        ticks: Ticks,
        message: u64,
        variable: usize,
    ) {
        let handle = abi::bits(request);
        let is_added = if abi::is_aliased_request(request) {
            let communicator = key.communicator_of_call();
            let owner = Owner { communicator, kind, peer, active: true, recorded: true, doubtful: false };
            self.aliased.try_add(handle, variable, owner)
        } else {
            let counted = CountedCall { key, bytes, ticks };
            let make = || RequestState { peer, cached, ..RequestState::once(kind, counted, message) };
            self.table.insert_new(handle, make)
        };
        if !is_added {
            self.add_slowly(
                request,
                RequestOrigin { kind, peer, cached },
                key,
                bytes,
                ticks,
                message,
                variable,
            );
        }
    }

    /// As [`Requests::add_once`], where there are several threads, or the request shares its handle
    /// with another.
    #[cold]
    #[inline(never)]
    #[expect(clippy::too_many_arguments, reason = "those of `add_once`")]
    fn add_slowly(
        &self,
        request: Request,
        RequestOrigin { kind, peer, cached }: RequestOrigin,
        key: SlotKey,
        bytes: u64,
        ticks: Ticks,
        message: u64,
        variable: usize,
    ) {
        let counted = CountedCall { key, bytes, ticks };
        let make = || RequestState { peer, cached, ..RequestState::once(kind, counted, message) };
        self.insert(request, variable, make);
    }

    /// Adds the persistent request that a call stored in `variable`.
    ///
    /// # Safety
    /// As for [`Requests::add`].
    #[inline(never)]
    pub unsafe fn add_persistent(&self, variable: HandlePtr<Request>, started: RequestState) {
        // SAFETY: there is a request in the variable.
        self.insert(unsafe { variable.handle() }, variable.address(), || started);
    }

    #[inline(always)]
    fn insert(&self, request: Request, variable: usize, started: impl FnOnce() -> RequestState) {
        let key = abi::bits(request);
        if abi::is_aliased_request(request) {
            self.aliased.add(key, variable, started().owner());
        } else {
            self.table.insert_or(key, started, |started| self.add_again(key, variable, started));
        }
    }

    /// Adds a request whose handle is in the table already. Usually the earlier request completed
    /// unseen and its entry is stale. If MPI shares the handle among requests, both stay open: it
    /// does so only for operations that are complete.
    #[cold]
    #[inline(never)]
    fn add_again(&self, key: u64, variable: usize, started: RequestState) -> bool {
        let has_bytes_to_come = started.kind.bytes_come_from_status() || started.persistent;
        if has_bytes_to_come || !abi::learn_aliased_request(key) {
            return self.table.insert(key, started);
        }
        let first = self.table.remove(key).filter(|first| first.active && !first.persistent);
        if let Some(first) = first {
            // The address of the first request is unknown. Later ones are found by address, so a
            // look-up without a match is the first one's.
            self.aliased.add(key, NO_VARIABLE, first.owner());
        }
        self.aliased.add(key, variable, started.owner());
        true
    }

    /// Looks up the request in `variable` without removing it: a test may leave it open.
    #[inline(always)]
    pub fn look_up(&self, request: Request, variable: HandlePtr<Request>, null: Request) -> RequestRef {
        let key = abi::bits(request);
        if key == abi::bits(null) {
            return RequestRef::Nothing;
        }
        if abi::is_aliased_request(request) {
            return RequestRef::Aliased(key, variable.address());
        }
        let Some(found) = self.table.find(key) else { return RequestRef::Unknown };
        let started = self.table.value(&found);
        if !started.active {
            return RequestRef::Nothing;
        }
        let needs_status = started.needs_status();
        RequestRef::Known(ActiveRequest { found, needs_status, persistent: started.persistent })
    }

    /// The request in `variable`, its communicator, and what it is ([`RequestKind::awaited`]), if
    /// it is active, counted, not persistent, and was not cancelled, with no sample of its message
    /// to be kept. One with an aliased handle has to have been started there, and to have nothing
    /// left to count; other ones are not found where several threads call MPI.
    ///
    /// # Safety
    /// There is a request in `variable`.
    #[inline(always)]
    pub unsafe fn find_simple(&self, variable: HandlePtr<Request>) -> Option<(RequestRef, CommId, u64)> {
        // SAFETY: there is a request in the variable.
        let request = unsafe { variable.handle() };
        if abi::is_aliased_request(request) {
            let (key, variable) = (abi::bits(request), variable.address());
            let owner = self.aliased.find_by_variable(key, variable).filter(Owner::is_settled)?;
            let awaited = owner.kind.awaited(owner.peer);
            return Some((RequestRef::Aliased(key, variable), owner.communicator, awaited));
        }
        if self.is_shared() {
            return None;
        }
        let found = self.table.find(abi::bits(request))?;
        let started = self.table.value(&found);
        let is_simple = started.active
            && started.recorded
            && !started.persistent
            && !started.cancelled
            && started.unfinished == 0;
        let known =
            ActiveRequest { found, needs_status: started.kind.bytes_come_from_status(), persistent: false };
        let awaited = started.kind.awaited(started.peer);
        is_simple.then_some((RequestRef::Known(known), started.counted.communicator(), awaited))
    }

    /// Removes what [`Requests::find_simple`] has found with an aliased handle.
    #[inline(always)]
    pub fn complete_by_variable(&self, key: u64, variable: usize) {
        self.aliased.take_by_variable(key, variable);
    }

    /// Returns whether a handle is `MPI_REQUEST_NULL`.
    pub fn is_null(&self, request: Request) -> bool {
        world::world().is_none_or(|world| request == world.predefined.request_null)
    }

    /// Communicator of an active request; unknown for an aliased handle.
    #[inline]
    pub fn communicator_of(&self, given: &RequestRef) -> CommId {
        match given {
            RequestRef::Known(known) => self.table.value(&known.found).counted.communicator(),
            RequestRef::Nothing | RequestRef::Unknown | RequestRef::Aliased(..) => CommId::NONE,
        }
    }

    /// Copies the entry before a call that may complete the request: with several threads, MPI may
    /// give the handle to another thread before this one looks at the entry again.
    #[inline]
    pub fn copy_if_shared(&self, given: &RequestRef) -> Option<RequestState> {
        match given {
            RequestRef::Known(known) if self.is_shared() => Some(self.table.value(&known.found)),
            _ => None,
        }
    }

    /// The persistent request with this handle, active or not.
    pub fn persistent(&self, request: Request) -> Option<(EntryRef<RequestState>, RequestState)> {
        let found = self.table.find(abi::bits(request))?;
        let started = self.table.value(&found);
        started.persistent.then_some((found, started))
    }

    /// The entry of an open request.
    pub fn state(&self, found: &EntryRef<RequestState>) -> RequestState {
        self.table.value(found)
    }

    /// MPI has replaced the handle of an inactive persistent request.
    pub fn rename(&self, old: Request, new: Request) {
        // Another thread may have got the old handle meanwhile, for a request of its own.
        if let Some((found, started)) = self.persistent(old).filter(|(_, started)| !started.active) {
            self.table.remove_found(&found);
            self.table.insert(abi::bits(new), started);
        }
    }

    /// Replaces the entry of an open request.
    pub fn change(&self, found: &EntryRef<RequestState>, started: RequestState) {
        self.table.replace_found(found, started);
    }

    /// Returns whether the handle is one that several open requests may share.
    pub fn is_aliased(&self, request: Request) -> bool {
        abi::is_aliased_request(request)
    }

    /// An open request has a sample that is not finished. False if the request is unknown.
    pub fn set_unfinished(&self, request: Request, number: u32) -> bool {
        let Some(found) = self.table.find(abi::bits(request)) else { return false };
        let started = self.table.value(&found);
        self.change(&found, RequestState { unfinished: number, ..started });
        self.table.note_change();
        true
    }

    /// The application asked to cancel a request.
    pub fn cancel(&self, known: &ActiveRequest) {
        self.change(&known.found, RequestState { cancelled: true, ..self.table.value(&known.found) });
        self.table.note_change();
    }

    /// An active request whose status or completion still has something to record.
    pub fn unrecorded(&self, given: &RequestRef) -> Option<RequestState> {
        let RequestRef::Known(known) = given else { return None };
        Some(self.table.value(&known.found))
            .filter(|started| known.needs_status || started.kind == RequestKind::Duplication)
    }

    /// `MPI_Request_get_status` has reported to the application that a request is complete.
    pub fn seen_complete(&self, given: &RequestRef) {
        if let RequestRef::Known(known) = given {
            let started = self.table.value(&known.found);
            self.change(&known.found, RequestState { seen_complete: true, ..started });
        }
    }

    /// A request may have failed.
    pub fn doubt(&self, known: &ActiveRequest) {
        self.change(&known.found, RequestState { doubtful: true, ..self.table.value(&known.found) });
    }

    /// The number of the `MPI_Comm_idup` that an open request stands for.
    pub fn duplication(&self, given: &RequestRef) -> Option<u32> {
        self.owner(given)?.duplication()
    }

    /// Marks the communicator of an `MPI_Comm_idup` as entered before the request completes. The
    /// request becomes a plain collective, because the number of the duplication may be reused by
    /// then.
    pub fn duplicated(&self, given: &RequestRef) {
        match given {
            RequestRef::Known(known) => {
                let started = self.table.value(&known.found);
                self.change(&known.found, RequestState { kind: RequestKind::Collective, ..started });
            }
            RequestRef::Aliased(key, variable) => {
                self.aliased.change_kind(*key, *variable, RequestKind::Collective)
            }
            RequestRef::Nothing | RequestRef::Unknown => {}
        }
    }

    /// Removes a completed request and passes its entry to `settle`; a persistent request stays,
    /// inactive.
    #[inline(always)]
    pub fn complete<R>(
        &self,
        known: &ActiveRequest,
        kept: Option<&RequestState>,
        settle: impl FnOnce(&RequestState) -> R,
    ) -> R {
        let started = kept.copied().unwrap_or_else(|| self.table.value(&known.found));
        if started.persistent {
            self.change(
                &known.found,
                RequestState {
                    active: false,
                    cancelled: false,
                    seen_complete: false,
                    doubtful: false,
                    unfinished: 0,
                    ..started
                },
            );
        } else {
            self.table.remove_found(&known.found);
        }
        settle(&started)
    }

    /// Removes a completed request with an aliased handle; see [`AliasedHandles::take`].
    pub fn complete_aliased(&self, key: u64, variable: usize, prefer: Option<CommId>) -> Option<Owner> {
        self.aliased.take(key, variable, prefer)
    }

    /// Owner of a request that stays open.
    pub fn owner(&self, given: &RequestRef) -> Option<Owner> {
        match given {
            RequestRef::Nothing | RequestRef::Unknown => None,
            RequestRef::Known(known) => Some(self.table.value(&known.found).owner()),
            RequestRef::Aliased(key, variable) => self.aliased.look(*key, *variable),
        }
    }

    /// Removes a request that the application is about to free: another thread may get its handle
    /// for a new one before the call has returned.
    pub fn remove(&self, request: Request, variable: HandlePtr<Request>) -> Option<Removed> {
        let key = abi::bits(request);
        if abi::is_aliased_request(request) {
            let owner = self.aliased.take(key, variable.address(), None)?;
            Some(Removed::Aliased(key, variable.address(), owner))
        } else {
            self.table.remove(key).map(|started| Removed::Entry(key, started))
        }
    }

    /// Puts back a request that was not freed.
    pub fn put_back(&self, removed: Removed) {
        match removed {
            Removed::Entry(key, started) => {
                self.table.insert(key, started);
            }
            Removed::Aliased(key, variable, owner) => self.aliased.add(key, variable, owner),
        }
    }
}

impl RequestRef {
    /// Returns whether its completion has something to learn from the status.
    #[inline]
    pub fn needs_status(&self) -> bool {
        matches!(self, RequestRef::Known(known) if known.needs_status)
    }

    /// Returns whether it shares its handle with others.
    pub fn is_aliased(&self) -> bool {
        matches!(self, RequestRef::Aliased(..))
    }

    /// Returns whether it is a persistent request.
    pub fn is_persistent(&self) -> bool {
        matches!(self, RequestRef::Known(known) if known.persistent)
    }
}

impl RequestState {
    /// Whose it is.
    #[inline]
    pub fn owner(&self) -> Owner {
        let RequestState { kind, peer, active, recorded, doubtful, .. } = *self;
        Owner { communicator: self.counted.communicator(), kind, peer, active, recorded, doubtful }
    }

    /// Returns whether its completion has something to learn from the status.
    #[inline]
    pub fn needs_status(&self) -> bool {
        self.kind.bytes_come_from_status() || self.cancelled
    }

    /// Returns whether it is a send and a receive in one.
    pub fn is_combined(&self) -> bool {
        self.kind == RequestKind::SendReceive
    }

    /// A request that its completion frees; `message` is the size of its message or of its receive
    /// buffer.
    #[inline(always)]
    pub fn once(kind: RequestKind, counted: CountedCall, message: u64) -> Self {
        RequestState {
            kind,
            counted,
            message,
            at_start: 0,
            peer: crate::mpi::abi::constant::PROC_NULL,
            unfinished: 0,
            counted_by: 0,
            memory: Memory::Host,
            cached: 0,
            persistent: false,
            active: true,
            recorded: true,
            // A send and receive in one stays in the class of what it sends.
            reclassed: kind != RequestKind::SendReceive,
            cancelled: false,
            seen_complete: false,
            doubtful: false,
        }
    }

    /// A persistent request; each start contributes `at_start` bytes.
    pub fn persistent(kind: RequestKind, template: CountedCall, message: u64, at_start: u64) -> Self {
        RequestState {
            at_start,
            memory: template.key.memory_of_call(),
            persistent: true,
            active: false,
            ..RequestState::once(kind, template, message)
        }
    }
}
