//! A PostgreSQL server of our own: installed if it is missing, started on a free port with an empty
//! data directory, stopped and removed at the end.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Failure;
use crate::cargo::{answers, cargo, read, root, run as run_command};

/// Where the tests look for the server.
pub(crate) const URL_VARIABLE: &str = "FOLDBACK_POSTGRES_URL";

/// Where Debian puts the server's programs: one folder for each major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Whom the server runs as where we are root, which it refuses to run as.
const USER: &str = "postgres";

/// A running server; dropping it stops it and removes its files.
#[derive(Debug)]
pub(crate) struct Server {
    programs: PathBuf,
    folder: PathBuf,
    is_root: bool,
    url: String,
}

impl Server {
    /// Installs the server if it is missing, and starts one.
    pub(crate) fn start() -> Result<Self, Failure> {
        let programs = programs()?;
        let is_root = read(Command::new("id").arg("-u"))?.trim() == "0";
        let name = format!("foldback-postgres-{}", std::process::id());
        // The server's user may not be able to reach our folder where it is not our own user.
        let parent = if is_root { std::env::temp_dir() } else { root().join("target") };
        let folder = parent.join(name);
        std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
        let port = free_port()?;
        let url = format!("postgres://foldback@127.0.0.1:{port}/postgres");
        let server = Self { programs, folder, is_root, url };
        if is_root {
            run_command(Command::new("chown").arg(USER).arg(&server.folder))?;
        }
        let data = server.folder.join("data");
        read(server.program("initdb").arg("-D").arg(&data).args([
            "--username=foldback",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]))?;
        let sockets = server.folder.display();
        let options = format!("-p {port} -k {sockets} -c listen_addresses=127.0.0.1 -c max_connections=200");
        let log = server.folder.join("log");
        let mut start = server.program("pg_ctl");
        start.arg("-D").arg(&data).arg("-l").arg(log).args(["-w", "-s", "-o", &options, "start"]);
        run_command(&mut start)?;
        eprintln!("started PostgreSQL on port {port}, data in {}", server.folder.display());
        Ok(server)
    }

    /// Its address, for [`URL_VARIABLE`].
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn program(&self, name: &str) -> Command {
        let program = self.programs.join(name);
        let mut command = if self.is_root {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(&self.folder);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = self.program("pg_ctl");
        stop.arg("-D").arg(self.folder.join("data")).args(["-s", "-m", "fast", "stop"]);
        match run_command(&mut stop) {
            Ok(()) => eprintln!("stopped PostgreSQL"),
            Err(failure) => eprintln!("PostgreSQL may still be running: {failure:?}"),
        }
        if let Err(error) = std::fs::remove_dir_all(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}

/// Runs a command beside a server whose address it finds in [`URL_VARIABLE`].
pub(crate) fn run(words: &[String]) -> Result<(), Failure> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::Misuse("postgres wants a command to run beside the server".to_owned()));
    };
    let server = Server::start()?;
    run_command(Command::new(program).args(arguments).env(URL_VARIABLE, server.url()))
}

/// How long a side appends at a time, beside pgbench.
pub(crate) const APPEND_SECONDS_DEFAULT: u32 = 5;

/// Runs the example of foldback-store that appends beside pgbench, on the same server and in turns.
pub(crate) fn run_appends(seconds: u32) -> Result<(), Failure> {
    let server = Server::start()?;
    let arguments = ["run", "--release", "--package", "foldback-store", "--example", "appends", "--"];
    let mut command = cargo(&arguments);
    command.arg(seconds.to_string()).env(URL_VARIABLE, server.url());
    run_command(command.env("PGBENCH", server.programs.join("pgbench")))
}

fn programs() -> Result<PathBuf, Failure> {
    if let Some(programs) = newest_programs() {
        return Ok(programs);
    }
    eprintln!("installing PostgreSQL (apt-get install postgresql)");
    if answers(Command::new("apt-get").arg("--version")) {
        let apt = |words: &[&str]| {
            run_command(Command::new("apt-get").args(words).env("DEBIAN_FRONTEND", "noninteractive"))
        };
        apt(&["update", "--quiet"])?;
        apt(&["install", "--yes", "--quiet", "postgresql"])?;
    }
    newest_programs().ok_or_else(|| {
        Failure::Failed(format!(
            "PostgreSQL is missing; install it so that initdb is in {DEBIAN}/*/bin or the PATH"
        ))
    })
}

/// The folder with the programs of the newest version.
fn newest_programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let installed =
        versions.map(|version| version.path().join("bin")).filter(|programs| has_server(programs));
    let newest = installed.max_by_key(|programs| major_version(programs));
    newest.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| has_server(folder))
    })
}

fn has_server(folder: &Path) -> bool {
    ["initdb", "pg_ctl", "postgres"].iter().all(|program| folder.join(program).is_file())
}

fn major_version(programs: &Path) -> u32 {
    let version = programs.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// A port that nobody has right now.
fn free_port() -> Result<u16, Failure> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map(|address| address.port()).map_err(|error| Failure::Failed(format!("no free port: {error}")))
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |name: &str| major_version(&Path::new(DEBIAN).join(name).join("bin"));
        assert!(version("15") > version("9"));
        assert_eq!(version("none"), 0);
    }

    #[test]
    fn without_a_command_nothing_is_started() {
        assert!(matches!(run(&[]), Err(Failure::Misuse(_))));
    }
}
