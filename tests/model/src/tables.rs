//! The table of handles.

use crate::storage::sync::{AtomicBool, Ordering};
use crate::storage::table::Table;
use crate::try_all;
use loom::sync::Arc;
use loom::thread;

/// A table for several threads.
fn table() -> Arc<Table<u64>> {
    let table = Arc::new(Table::new());
    table.share();
    table
}

/// A request of one's own: started, looked up and completed.
fn use_handle(table: &Table<u64>, key: u64) {
    assert!(table.insert(key, 10 * key));
    let found = table.find(key).expect("it is in the table");
    assert_eq!(table.value(&found), 10 * key);
    table.remove_found(&found);
    assert_eq!(table.get(key), None);
}

#[test]
fn threads_with_handles_of_their_own() {
    try_all(3, || {
        let table = table();
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || use_handle(&table, 1))
        };
        use_handle(&table, 2);
        other.join().unwrap();
        assert!(table.is_empty());
    });
}

/// MPI gives a handle out again as soon as its request is complete, to whichever thread comes next, while the one
/// that completed it has yet to take it out of the table. A third thread takes what becomes free.
#[test]
fn a_handle_that_is_given_out_again() {
    try_all(2, || {
        let table = table();
        let complete = Arc::new(AtomicBool::new(false));
        assert!(table.insert(1, 10));
        let starter = {
            let (table, complete) = (Arc::clone(&table), Arc::clone(&complete));
            thread::spawn(move || {
                let key = if complete.load(Ordering::Acquire) { 1 } else { 2 };
                assert!(table.insert(key, 20));
                key
            })
        };
        let third = {
            let table = Arc::clone(&table);
            thread::spawn(move || assert!(table.insert(3, 30)))
        };
        let found = table.find(1).expect("it is in the table");
        complete.store(true, Ordering::Release);
        table.remove_found(&found);
        let key = starter.join().unwrap();
        third.join().unwrap();
        assert_eq!(table.remove(key), Some(20));
        assert_eq!(table.remove(3), Some(30));
        assert_eq!([1, 2, 3].map(|key| table.get(key)), [None; 3]);
        assert!(table.is_empty());
    });
}
