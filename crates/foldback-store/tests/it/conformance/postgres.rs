//! The suite on PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use foldback_core::{Item, LoopId, SessionId};
use foldback_engine::store::{At, NewSession, ProblemKind, Repairs, SearchQuery};
use foldback_engine::{Store, StoreError};
use foldback_store::{PostgresOptions, PostgresStore};
use foldback_testkit::needs;
use proptest::prelude::{prop, proptest};

use crate::conformance::sqlite::runtime;
use crate::conformance::{HandClock, cases, model};

static SCHEMAS: AtomicU32 = AtomicU32::new(0);

/// Tables of its own for each test.
pub(crate) fn options(clock: &HandClock) -> PostgresOptions {
    let number = SCHEMAS.fetch_add(1, Ordering::SeqCst);
    let schema = format!("test_{}_{number}", std::process::id());
    PostgresOptions { clock: Arc::new(clock.clone()), schema, connections_max: 4 }
}

pub(crate) async fn raw(options: &PostgresOptions) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&needs::postgres(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(&format!("SET search_path TO {}", options.schema)).await.unwrap();
    client
}

macro_rules! conforms {
    ($($case:ident),* $(,)?) => {
        $(#[test]
        #[ignore = "needs PostgreSQL"]
        fn $case() {
            let clock = HandClock::default();
            runtime().block_on(async {
                let store = PostgresStore::open_with(&needs::postgres(), options(&clock)).await.unwrap();
                cases::$case(&store, &clock).await;
            });
        })*
    };
}

crate::conformance::every_case!(conforms);

proptest! {
    #![proptest_config(foldback_testkit::costly(60))]

    /// Whatever is done in whatever order, the store holds what a list in memory holds.
    #[test]
    #[ignore = "needs PostgreSQL"]
    fn a_store_does_what_a_list_in_memory_does(steps in prop::collection::vec(model::step(), 1..24)) {
        let options = options(&HandClock::default());
        runtime().block_on(async {
            let reopen = || async {
                let store = PostgresStore::open_with(&needs::postgres(), options.clone()).await.unwrap();
                Box::new(store) as Box<dyn Store>
            };
            model::run(&steps, reopen).await
        })?;
    }
}

#[test]
#[ignore = "needs PostgreSQL"]
fn an_address_that_leads_nowhere_is_an_error_that_keeps_the_password() {
    runtime().block_on(async {
        for url in
            ["postgres://me:secret@127.0.0.1:1/db", "postgres://me:secret@host:port/db", "nonsense secret"]
        {
            let error = PostgresStore::open(url).await.map(|_| ()).unwrap_err();
            assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let missing =
            needs::postgres().replace("/postgres?", "/nowhere?").trim_end_matches("/postgres").to_owned()
                + "/nowhere";
        let error = PostgresStore::open(&missing).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn whoever_may_only_read_gets_a_typed_error_for_writing_and_reads_on() {
    let options = options(&HandClock::default());
    let (session, loop_id): (SessionId, LoopId) = ("session".into(), "main".into());
    let items = [Arc::new(Item::user("u", "hello"))];
    runtime().block_on(async {
        let store = PostgresStore::open_with(&needs::postgres(), options.clone()).await.unwrap();
        let version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await.unwrap();
        let at = At { session: &session, loop_id: &loop_id, version };
        let version = store.append(&at, &items).await.unwrap();
        store.index(9).await.unwrap();
        let role = format!("reader_{}", options.schema);
        let client = raw(&options).await;
        let made = format!(
            "CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET default_transaction_read_only = on"
        );
        client.batch_execute(&made).await.unwrap();
        let address = needs::postgres().replacen("://foldback@", &format!("://{role}@"), 1);
        assert!(address != needs::postgres(), "the server that the tests start has a user foldback");
        let reader = PostgresStore::open_with(&address, options.clone()).await.unwrap();
        let refused = reader.append(&At { version, ..at }, &items).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
        assert_eq!(reader.items(&session, &loop_id, 0..9).await.unwrap(), items);
        assert_eq!(reader.search(&SearchQuery::text("hello")).await.unwrap().hits.len(), 1);
        let elsewhere = PostgresOptions { schema: format!("{}_other", options.schema), ..options };
        let refused = PostgresStore::open_with(&address, elsewhere).await.map(|_| ());
        assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
        store.append(&At { version, ..at }, &items).await.unwrap();
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn an_append_larger_than_a_message_is_stored_whole_or_not_at_all() {
    let options = options(&HandClock::default());
    let (session, loop_id): (SessionId, LoopId) = ("session".into(), "main".into());
    let noise = |number: usize| {
        let mut random = fastrand::Rng::with_seed(number as u64);
        let text: String = std::iter::repeat_with(|| random.alphanumeric()).take(1_000_000).collect();
        Arc::new(Item::user(format!("n{number}"), text))
    };
    let items: Vec<Arc<Item>> = (0..24).map(noise).collect();
    runtime().block_on(async {
        let store = PostgresStore::open_with(&needs::postgres(), options.clone()).await.unwrap();
        let version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await.unwrap();
        let at = At { session: &session, loop_id: &loop_id, version };
        let next = store.append(&at, &items).await.unwrap();
        let refused = store.append(&at, &items).await;
        assert!(matches!(refused, Err(StoreError::Conflict { .. })), "{refused:?}");
        let rows = raw(&options).await.query_one("SELECT count(*) FROM tail", &[]).await.unwrap();
        assert_eq!(rows.get::<_, i64>(0), 24, "nothing of the second");
        for _ in 0..2 {
            assert!(store.items(&session, &loop_id, 0..99).await.unwrap() == items);
            assert!(store.items(&session, &loop_id, 7..9).await.unwrap() == items[7..9]);
            assert_eq!(store.index(99).await, Ok(0), "and once more when it is settled");
        }
        assert_eq!(store.session(&session).await.unwrap().version, next);
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn whoever_stores_a_file_waits_for_gc_without_holding_the_session() {
    let options = options(&HandClock::default());
    let (session, loop_id): (SessionId, LoopId) = ("session".into(), "main".into());
    runtime().block_on(async {
        let store = PostgresStore::open_with(&needs::postgres(), options.clone()).await.unwrap();
        let version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await.unwrap();
        let mut client = raw(&options).await;
        let watcher = raw(&options).await;
        // As gc does it: first the lock on bodies, then sessions.
        let gc = client.transaction().await.unwrap();
        gc.batch_execute("SELECT pg_advisory_xact_lock(1651467385)").await.unwrap();
        let writer = tokio::spawn({
            let (store, session, loop_id) = (store.clone(), session.clone(), loop_id.clone());
            async move {
                let at = At { session: &session, loop_id: &loop_id, version };
                store.append_original(&at, 0, b"bytes").await
            }
        });
        let waits = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity
            WHERE application_name = 'foldback' AND wait_event_type = 'Lock' AND query LIKE '%advisory%shared%')";
        let mut is_waiting = false;
        for _ in 0..100_000 {
            is_waiting = watcher.query_one(waits, &[]).await.unwrap().get(0);
            if is_waiting {
                break;
            }
        }
        assert!(is_waiting, "it never came to the lock");
        gc.batch_execute("SELECT 1 FROM sessions FOR UPDATE NOWAIT").await.unwrap();
        gc.rollback().await.unwrap();
        writer.await.unwrap().unwrap();
        assert_eq!(store.original(&session, &loop_id, 0).await.unwrap(), b"bytes");
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_store_of_another_version_is_refused_and_left_alone() {
    let options = options(&HandClock::default());
    runtime().block_on(async {
        drop(PostgresStore::open_with(&needs::postgres(), options.clone()).await.unwrap());
        for found in [1, 5, 99] {
            let changed = format!("UPDATE store_version SET version = {found}");
            raw(&options).await.batch_execute(&changed).await.unwrap();
            let refused = PostgresStore::open_with(&needs::postgres(), options.clone()).await.map(|_| ());
            assert_eq!(refused, Err(StoreError::OtherVersion { found, known: 6 }));
        }
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn a_missing_body_is_named_and_verify_finds_it() {
    let options = options(&HandClock::default());
    let (session, loop_id): (SessionId, LoopId) = ("session".into(), "main".into());
    runtime().block_on(async {
        let store = PostgresStore::open_with(&needs::postgres(), options.clone()).await.unwrap();
        let version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await.unwrap();
        let items: Vec<Arc<Item>> =
            (0..3).map(|n| Arc::new(Item::user(format!("u{n}"), format!("{n}")))).collect();
        store.append(&At { session: &session, loop_id: &loop_id, version }, &items).await.unwrap();
        store.index(9).await.unwrap();
        let sql = "DELETE FROM bodies WHERE id = (SELECT body FROM items WHERE position = 1)";
        raw(&options).await.batch_execute(sql).await.unwrap();
        let read = store.items(&session, &loop_id, 0..3).await;
        assert!(matches!(read, Err(StoreError::Corrupt { .. })), "{read:?}");
        assert_eq!(store.items(&session, &loop_id, 2..3).await.unwrap(), items[2..]);
        let report = store.verify(Repairs::None).await.unwrap();
        assert_eq!(
            report.problems.iter().map(|problem| problem.kind).collect::<Vec<_>>(),
            [ProblemKind::Items]
        );
    });
}

#[test]
#[ignore = "needs PostgreSQL"]
fn the_loss_of_what_was_appended_last_is_noticed_and_a_repair_goes_on_without_it() {
    let options = options(&HandClock::default());
    let (session, loop_id): (SessionId, LoopId) = ("session".into(), "main".into());
    let items: Vec<Arc<Item>> =
        (0..4).map(|n| Arc::new(Item::user(format!("u{n}"), format!("{n}")))).collect();
    runtime().block_on(async {
        let store = PostgresStore::open_with(&needs::postgres(), options.clone()).await.unwrap();
        let version = store.create(&NewSession::new(session.clone(), loop_id.clone())).await.unwrap();
        let at = At { session: &session, loop_id: &loop_id, version };
        let version = store.append(&at, &items[..3]).await.unwrap();
        let version = store.append(&At { version, ..at }, &items[3..]).await.unwrap();
        let lost = "DELETE FROM tail WHERE position = (SELECT max(position) FROM tail)";
        raw(&options).await.batch_execute(lost).await.unwrap();
        let report = store.verify(Repairs::None).await.unwrap();
        assert_eq!(report.problems.len(), 1, "{report:?}");
        let problem = &report.problems[0];
        assert!(
            problem.kind == ProblemKind::Items && problem.what.contains("4 items and has 3"),
            "{problem:?}"
        );
        assert!(store.verify(Repairs::Derived).await.unwrap().is_clean());
        assert!(store.verify(Repairs::None).await.unwrap().problems.is_empty());
        assert_eq!(store.items(&session, &loop_id, 0..9).await.unwrap(), items[..3]);
        store.append(&At { version, ..at }, &items[3..]).await.unwrap();
        assert_eq!(store.items(&session, &loop_id, 0..9).await.unwrap(), items);
    });
}
