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

/// A table for several threads whose own level is full, so that what comes goes to the overflow.
fn full_table() -> Arc<Table<u64>> {
    let table = table();
    (101..=102).for_each(|key| assert!(table.insert(key, 10 * key)));
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

fn use_handles_of_two_threads(table: &Arc<Table<u64>>) {
    let other = {
        let table = Arc::clone(table);
        thread::spawn(move || use_handle(&table, 1))
    };
    use_handle(table, 2);
    other.join().unwrap();
}

#[test]
fn threads_with_handles_of_their_own() {
    try_all(3, || {
        let table = table();
        use_handles_of_two_threads(&table);
        assert!(table.is_empty());
    });
}

#[test]
fn threads_with_handles_of_their_own_in_the_overflow() {
    try_all(1, || {
        let table = full_table();
        use_handles_of_two_threads(&table);
        assert_eq!([101, 102].map(|key| table.remove(key)), [Some(1010), Some(1020)]);
        assert!(table.is_empty());
    });
}

/// A slot that one thread frees is used again by another, while a third looks at it on the way to
/// its own entry.
#[test]
fn a_slot_of_the_overflow_that_is_used_again() {
    try_all(2, || {
        let table = full_table();
        assert!(table.insert(1, 10));
        assert!(table.insert(3, 30));
        let remover = {
            let table = Arc::clone(&table);
            thread::spawn(move || assert_eq!(table.remove(1), Some(10)))
        };
        let starter = {
            let table = Arc::clone(&table);
            thread::spawn(move || assert!(table.insert(2, 20)))
        };
        assert_eq!(table.get(3), Some(30));
        remover.join().unwrap();
        starter.join().unwrap();
        assert_eq!([1, 2, 3].map(|key| table.get(key)), [None, Some(20), Some(30)]);
    });
}

/// Two threads take the two ways that a level of the index has left, and free them.
#[test]
fn threads_that_fill_a_level_of_the_index() {
    try_all(2, || {
        let table = full_table();
        assert!(table.insert(1, 10));
        let other = {
            let table = Arc::clone(&table);
            thread::spawn(move || assert!(table.insert(2, 20)))
        };
        assert!(table.insert(3, 30));
        other.join().unwrap();
        assert_eq!([1, 2, 3].map(|key| table.remove(key)), [Some(10), Some(20), Some(30)]);
    });
}

/// MPI gives a handle out again as soon as its request is complete, to whichever thread comes next,
/// while the one that completed it has yet to take it out of the table. A third thread takes what
/// becomes free.
#[test]
fn a_handle_that_is_given_out_again() {
    try_all(2, || {
        give_out_again(table(), true);
    });
}

/// Without the third thread: it would take a minute, and a slot that is free is in a test of its
/// own.
#[test]
fn a_handle_of_the_overflow_that_is_given_out_again() {
    try_all(1, || {
        give_out_again(full_table(), false);
    });
}

fn give_out_again(table: Arc<Table<u64>>, has_third: bool) {
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
    let third = has_third.then(|| {
        let table = Arc::clone(&table);
        thread::spawn(move || assert!(table.insert(3, 30)))
    });
    let found = table.find(1).expect("it is in the table");
    complete.store(true, Ordering::Release);
    table.remove_found(&found);
    let key = starter.join().unwrap();
    if let Some(third) = third {
        third.join().unwrap();
        assert_eq!(table.remove(3), Some(30));
    }
    assert_eq!(table.remove(key), Some(20));
    assert_eq!([1, 2, 3].map(|key| table.get(key)), [None; 3]);
}
