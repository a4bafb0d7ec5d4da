use super::*;
use crate::mpi::abi::from_bits;

fn request(bits: u64) -> Request {
    from_bits(bits)
}

fn null() -> Request {
    from_bits(0x7fff_fff0)
}

fn receive(communicator: CommId) -> RequestState {
    let counted = CountedCall::new(
        communicator,
        RegionId::OUTSIDE,
        OperationAtSite::from_operation(Operation::Irecv),
        4001,
        0,
        Ticks::new(5),
    );
    RequestState::once(RequestKind::Receive, counted, 4001)
}

fn add(requests: &Requests, handle: &Request, started: RequestState) {
    // SAFETY: the handle is there.
    unsafe {
        if started.persistent {
            requests.add_persistent(HandlePtr::c(handle), started);
        } else {
            {
                let by = RequestOrigin::new(started.kind, started.peer);
                requests.add(HandlePtr::c(handle), by, started.counted, started.message);
            }
        }
    }
}

fn given(requests: &Requests, handle: &Request) -> RequestRef {
    requests.look_up(*handle, HandlePtr::c(handle), null())
}

#[test]
fn a_request_is_open_until_it_completes() {
    let (requests, first, second) = (Requests::new(), request(0x1234), request(0x1238));
    assert!(requests.is_empty());
    add(&requests, &first, receive(CommId::new(2)));
    add(&requests, &second, receive(CommId::new(3)));
    let RequestRef::Known(known) = given(&requests, &first) else { panic!("it is open") };
    assert!(known.needs_status && !known.persistent);
    let communicator = requests.complete(&known, None, |started| started.counted.communicator());
    assert_eq!(communicator, CommId::new(2));
    assert!(matches!(given(&requests, &first), RequestRef::Unknown));
    assert_eq!(requests.communicator_of(&given(&requests, &second)), CommId::new(3));
    assert_eq!(
        requests.remove(second, HandlePtr::c(&second)).map(|it| it.owner().communicator),
        Some(CommId::new(3))
    );
    assert!(requests.is_empty());
    assert!(matches!(given(&requests, &null()), RequestRef::Nothing));
}

#[test]
fn a_persistent_request_stays_and_is_nothing_between_its_starts() {
    let (requests, handle) = (Requests::new(), request(0x4444));
    let template = CountedCall::new(
        CommId::SELF,
        RegionId::OUTSIDE,
        OperationAtSite::from_operation(Operation::SendInit),
        64,
        0,
        Ticks::ZERO,
    );
    add(&requests, &handle, RequestState::persistent(RequestKind::Send, template, 64, 64));
    for _ in 0..2 {
        assert!(matches!(given(&requests, &handle), RequestRef::Nothing));
        let (found, state) = requests.persistent(handle).expect("it stays");
        requests.change(&found, RequestState { active: true, ..state });
        let RequestRef::Known(known) = given(&requests, &handle) else { panic!("it is active") };
        assert!(known.persistent && !known.needs_status);
        requests.complete(&known, None, |started| assert!(started.active));
    }
    assert!(!requests.is_empty());
}

#[test]
fn a_cancelled_send_needs_its_status() {
    let (requests, handle) = (Requests::new(), request(0x5550));
    let counted = CountedCall::new(
        CommId::SELF,
        RegionId::OUTSIDE,
        OperationAtSite::from_operation(Operation::Isend),
        64,
        64,
        Ticks::ZERO,
    );
    add(&requests, &handle, RequestState::once(RequestKind::Send, counted, 64));
    let RequestRef::Known(known) = given(&requests, &handle) else { panic!("it is open") };
    assert!(!known.needs_status);
    requests.cancel(&known);
    assert!(given(&requests, &handle).needs_status());
}

#[test]
fn a_receive_with_the_handle_of_a_stale_entry_replaces_it() {
    let (requests, handle) = (Requests::new(), request(0x6660));
    add(&requests, &handle, receive(CommId::new(2)));
    add(&requests, &handle, receive(CommId::new(4)));
    assert_eq!(requests.communicator_of(&given(&requests, &handle)), CommId::new(4));
}

#[test]
fn a_duplication_that_was_entered_is_a_plain_collective() {
    let (requests, handle) = (Requests::new(), request(0x7770));
    let counted = CountedCall::new(
        CommId::SELF,
        RegionId::OUTSIDE,
        OperationAtSite::from_operation(Operation::CommIdup),
        0,
        0,
        Ticks::ZERO,
    );
    add(
        &requests,
        &handle,
        RequestState { peer: 9, ..RequestState::once(RequestKind::Duplication, counted, 0) },
    );
    let open = given(&requests, &handle);
    assert_eq!(requests.duplication(&open), Some(9));
    requests.duplicated(&open);
    assert_eq!(requests.duplication(&given(&requests, &handle)), None);
}
