//! A PostgreSQL server that encrypts, with a certificate that is made here.

use std::path::Path;
use std::process::Command;

use foldback_engine::store::NewSession;
use foldback_engine::{Store, StoreError};
use foldback_store::{PostgresOptions, PostgresStore};
use foldback_testkit::needs;
use tokio_postgres::{Client, NoTls};

/// How often is looked whether the server has read its configuration.
const LOOKS_MAX: usize = 10_000;

fn openssl(folder: &Path, arguments: &str) {
    let made = Command::new("openssl").args(arguments.split(' ')).current_dir(folder).output();
    let made = made.expect("openssl comes with PostgreSQL");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// An issuer `ca.pem`, one that nobody asked, `other.pem`, and a certificate for localhost by the first.
fn make_certificates(folder: &Path) {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for name in ["ca", "other"] {
        openssl(
            folder,
            &format!("req -x509 {key} -keyout {name}.key -out {name}.pem -subj /CN={name} -days 2"),
        );
    }
    openssl(folder, &format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"));
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .unwrap();
    let signed = "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names";
    openssl(folder, &format!("{signed} -out server.pem"));
}

/// Writes a file as the server's user, for nobody else to read, and answers where.
async fn written_by_server(client: &Client, name: &str, text: &str) -> String {
    let data: String = client.query_one("SHOW data_directory", &[]).await.unwrap().get(0);
    let path = format!("{data}/{name}");
    let sql = format!(
        "COPY (SELECT line FROM unnest(string_to_array('{}', E'\\n')) line) TO PROGRAM 'umask 077; cat > {path}'",
        text.trim()
    );
    client.batch_execute(&sql).await.unwrap();
    path
}

async fn connected() -> Client {
    let (client, connection) =
        tokio_postgres::connect(&format!("{}?sslmode=disable", needs::postgres()), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Turns encryption on, and waits until new connections have it.
async fn encrypt(folder: &Path) {
    let client = connected().await;
    for (setting, name) in [("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key")] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let path = written_by_server(&client, name, &text).await;
        client.batch_execute(&format!("ALTER SYSTEM SET {setting} = '{path}'")).await.unwrap();
    }
    client.batch_execute("ALTER SYSTEM SET ssl = on").await.unwrap();
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    for _ in 0..LOOKS_MAX {
        let is_on: String = connected().await.query_one("SHOW ssl", &[]).await.unwrap().get(0);
        if is_on == "on" {
            return;
        }
    }
    panic!("the server does not encrypt; its log says why");
}

async fn open(host: &str, options: &str) -> Result<PostgresStore, StoreError> {
    let address = format!("{}?{options}", needs::postgres().replacen("127.0.0.1", host, 1));
    let schema = format!("encrypted_{}", std::process::id());
    PostgresStore::open_with(&address, PostgresOptions { schema, ..PostgresOptions::default() }).await
}

/// Whether the connections of a store that is opened with these options are encrypted.
async fn is_encrypted(client: &Client, options: &str, number: usize) -> bool {
    let role = format!("encrypted_{}_{number}", std::process::id());
    client.batch_execute(&format!("CREATE ROLE {role} LOGIN SUPERUSER")).await.unwrap();
    let address = needs::postgres().replacen("://foldback@", &format!("://{role}@"), 1);
    let schema = PostgresOptions { schema: role.clone(), ..PostgresOptions::default() };
    let store = PostgresStore::open_with(&format!("{address}?{options}"), schema).await.unwrap();
    store.create(&NewSession::new("session", "main")).await.unwrap();
    let sql = "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a ON a.pid = s.pid
        WHERE a.usename = $1";
    let answer: Option<bool> = client.query_one(sql, &[&role]).await.unwrap().get(0);
    answer.expect("the store has a connection")
}

#[tokio::test]
#[ignore = "needs PostgreSQL"]
async fn a_server_is_trusted_as_far_as_its_certificate_and_the_address_say() {
    let refused = open("127.0.0.1", "sslmode=require").await.map(|_| ());
    assert!(matches!(refused, Err(StoreError::Unreachable { .. })), "it does not encrypt yet: {refused:?}");
    let folder = tempfile::tempdir().unwrap();
    make_certificates(folder.path());
    encrypt(folder.path()).await;
    let root = |name: &str| format!("sslrootcert={}", folder.path().join(name).display());
    let (ours, other) = (root("ca.pem"), root("other.pem"));
    for (host, options) in [
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-ca&{ours}")),
        ("127.0.0.1", format!("sslmode=require&{ours}")),
        ("localhost", format!("sslmode=verify-full&{ours}")),
    ] {
        let opened = open(host, &options).await;
        assert!(opened.is_ok(), "{host} {options}: {opened:?}");
    }
    for (host, options) in [
        ("127.0.0.1", format!("sslmode=verify-full&{ours}")),
        ("localhost", format!("sslmode=verify-full&{other}")),
        ("localhost", format!("sslmode=verify-ca&{other}")),
        ("localhost", format!("sslmode=require&{other}")),
        ("localhost", "sslmode=verify-full".to_owned()),
        ("localhost", "sslmode=verify-ca&sslrootcert=system".to_owned()),
    ] {
        let error = open(host, &options).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::Unreachable { .. }), "{host} {options}: {error:?}");
        assert!(error.to_string().contains("certificate"), "{host} {options}: {error}");
    }
    let client = connected().await;
    let expected = [("sslmode=require", true), ("", true), ("sslmode=disable", false)];
    for (number, (options, expected)) in expected.into_iter().enumerate() {
        assert_eq!(is_encrypted(&client, options, number).await, expected, "{options}");
    }
    client.batch_execute("ALTER SYSTEM RESET ssl").await.unwrap();
    client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
}
