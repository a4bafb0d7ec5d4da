//! Functions that move nothing, and wait or work for the process or for what it has: buffers for
//! messages, settings, looks at requests, operations of the program's own.

use crate::exact::{assert_all_seen, assert_calls, assert_peers, printed};
use mpisee_tests::{Mpi, Run, case};

#[case]
fn buffers_count_on_their_communicator_and_those_of_the_process_on_its_own(mpi: &Mpi) {
    let finished = Run::new(mpi, "point_to_point/buffered").ranks(2).profiled();
    let newer = printed(&finished.stdout, "of communicators ") == 1;
    let tables = finished.tables();
    for rank in 0..2 {
        let mut own = vec![("MPI_Buffer_attach", 1, 0), ("MPI_Buffer_detach", 1, 0)];
        let (messages, mut bytes) = (1 + u64::from(newer), 601);
        let mut of_dup = vec![("MPI_Comm_free", 1, 0)];
        if newer {
            bytes += 701;
            own.extend([
                ("MPI_Buffer_flush", 1, 0),
                ("MPI_Buffer_iflush", 1, 0),
                ("MPI_Session_attach_buffer", 1, 0),
                ("MPI_Session_flush_buffer", 1, 0),
                ("MPI_Session_iflush_buffer", 1, 0),
                ("MPI_Session_detach_buffer", 1, 0),
                ("MPI_Wait", 2, 0),
            ]);
            of_dup.extend([
                ("MPI_Comm_attach_buffer", 1, 0),
                ("MPI_Comm_flush_buffer", 1, 0),
                ("MPI_Comm_iflush_buffer", 1, 0),
                ("MPI_Comm_detach_buffer", 1, 0),
                ("MPI_Wait", 1, 0),
            ]);
        }
        of_dup.extend([("MPI_Bsend", messages, bytes), ("MPI_Recv", messages, bytes)]);
        assert_calls(tables, "S", rank, &own);
        assert_calls(tables, "W_d1", rank, &of_dup);
    }
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn calls_that_move_no_data_count_with_their_time(mpi: &Mpi) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(&mpi.name);
    // Open MPI 4.1 makes no window on a communicator that is not the whole world over UCX.
    let run = Run::new(mpi, "communicators/settings").ranks(2).variable("OMPI_MCA_osc", "^ucx");
    let finished = run.argument(path.display()).profiled();
    let tables = finished.tables();
    let of_dup = [
        ("MPI_Comm_set_info", 1, 0),
        ("MPI_Cart_map", 1, 0),
        ("MPI_Graph_map", 1, 0),
        ("MPI_Win_allocate", 1, 0),
        ("MPI_Win_set_info", 1, 0),
        ("MPI_Win_free", 1, 0),
        ("MPI_Comm_free", 1, 0),
    ];
    for rank in 0..2 {
        let mut own = vec![("MPI_Grequest_start", 1, 0), ("MPI_Grequest_complete", 1, 0), ("MPI_Wait", 1, 0)];
        if rank == 0 {
            own.extend([("MPI_File_open", 1, 0), ("MPI_File_close", 1, 0), ("MPI_File_delete", 1, 0)]);
        }
        assert_calls(tables, "S", rank, &own);
        assert_calls(tables, "W_d1", rank, &of_dup);
    }
    assert!(!path.exists());
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn looks_at_many_requests_leave_their_messages_to_the_completion(mpi: &Mpi) {
    let finished = Run::new(mpi, "requests/request_status_of_many").ranks(2).profiled();
    if finished.stdout == "too old\n" {
        return;
    }
    let tables = finished.tables();
    for rank in 0..2 {
        let looked = |how: &str| printed(&finished.stdout, &format!("{how}-{rank} "));
        let expected = [
            ("MPI_Irecv", 2, 1301 + 1401),
            ("MPI_Send", 2, 1301 + 1401),
            ("MPI_Request_get_status_all", looked("all"), 0),
            ("MPI_Request_get_status_any", looked("any"), 0),
            ("MPI_Request_get_status_some", looked("some"), 0),
            ("MPI_Waitall", 1, 0),
            ("MPI_Comm_free", 1, 0),
        ];
        assert_calls(tables, "W_d1", rank, &expected);
    }
    let traffic = [2, 1301 + 1401, 2, 1301 + 1401];
    assert_peers(tables, &[("W_d1", 0, 1, traffic), ("W_d1", 1, 0, traffic)]);
    assert_all_seen(tables);
    finished.check();
}
