//! A project's `foldback.toml` says where conversations go only after the person allowed it.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use foldback_testkit::server::{Request, Said, Server, Spoken, required};

use super::*;

const SECRET: &str = "sk-nobody-may-see-this";

/// A project in a folder, beside the folders of the person who works in it.
struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    fn new(config: &str) -> Self {
        let project = Self { folder: folder() };
        std::fs::create_dir_all(at(&project.folder, "project/below")).unwrap();
        project.configure(config);
        project
    }

    fn configure(&self, config: &str) {
        std::fs::write(self.file(), config).unwrap();
    }

    fn file(&self) -> String {
        at(&self.folder, "project/foldback.toml")
    }

    /// The person's own configuration.
    fn own(&self, config: &str) {
        std::fs::create_dir_all(at(&self.folder, "config/foldback")).unwrap();
        std::fs::write(at(&self.folder, "config/foldback/config.toml"), config).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = foldback(arguments);
        command.current_dir(at(&self.folder, "project/below"));
        command.env("XDG_DATA_HOME", at(&self.folder, "data"));
        command.env("XDG_CONFIG_HOME", at(&self.folder, "config"));
        command.env("MY_KEY", SECRET).env("OPENAI_API_KEY", SECRET);
        command
    }

    /// Runs it and says how it ended and what stands on stderr.
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.command(arguments).output().unwrap();
        let told = text(&output.stderr);
        assert!(!told.contains(SECRET) && !text(&output.stdout).contains(SECRET), "{told}");
        (code(&output), told)
    }

    fn compact(&self, more: &[&str]) -> String {
        let arguments = ["compact", SESSION, "--target", "3000", "-o", "out.jsonl"];
        let (exit, told) = self.run(&[&arguments[..], more].concat());
        assert_eq!(exit, 0, "{told}");
        told
    }
}

fn backend(url: &str) -> String {
    format!("[compact]\nbackend = \"openai:{url}/v1#m\"\nbackend_key_env = \"MY_KEY\"\n")
}

/// A server that writes summaries; and the keys that it was sent.
fn summarizing() -> (String, Arc<Mutex<Vec<Option<String>>>>) {
    let keys: Arc<Mutex<Vec<Option<String>>>> = Arc::default();
    let seen = Arc::clone(&keys);
    let url = Server::apart(move |request: &Request| {
        seen.lock().unwrap().push(request.header("authorization").map(ToOwned::to_owned));
        let text = format!("## Task\nA parser was mended.\n{}", required(request));
        Spoken::of(request).unwrap().answer(request, &Said::Text(&text))
    });
    (url, keys)
}

/// Takes the keys that were sent since.
fn sent(keys: &Mutex<Vec<Option<String>>>) -> Vec<Option<String>> {
    std::mem::take(&mut *keys.lock().unwrap())
}

#[test]
fn nobody_is_even_connected_to_because_a_project_that_is_not_trusted_names_them() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let project = Project::new(&format!("model = \"openai:{url}/v1#m\"\n{}", backend(&url)));
    let imported = project.run(&["import", SESSION, "--id", "s"]);
    assert_eq!(imported.0, 0, "{}", imported.1);
    let cases: [(&[&str], i32); 5] = [
        (&["compact", SESSION, "--target", "3000", "-o", "out.jsonl"], 0),
        (&["chat"], 2),
        (&["probe", SESSION], 2),
        (&["session", "compact", "s", "--target", "3000"], 0),
        (&["session", "work", "--target", "3000"], 0),
    ];
    for (arguments, expected) in cases {
        let (exit, told) = project.run(arguments);
        assert_eq!(exit, expected, "{arguments:?}: {told}");
        assert!(told.contains("note:") && told.contains("not trusted"), "{arguments:?}: {told}");
        assert!(told.contains("backend, backend_key_env"), "{arguments:?}: {told}");
        assert!(told.contains(&project.file()) && told.contains("`foldback trust`"), "{arguments:?}: {told}");
        assert!(!told.contains("sends to"), "{arguments:?}: {told}");
    }
    let stats = json(&project.command(&["stats", SESSION, "--json"]).output().unwrap());
    assert_ne!(stats["model"], format!("openai:{url}/v1#m"), "{stats}");
    let met = listener.accept().map_err(|error| error.kind());
    assert!(matches!(met, Err(std::io::ErrorKind::WouldBlock)), "{met:?}");
}

#[test]
fn a_file_is_followed_from_when_it_is_allowed_until_it_changes_or_is_revoked() {
    let (url, keys) = summarizing();
    let project = Project::new(&backend(&url));
    let key = Some(format!("Bearer {SECRET}"));
    project.compact(&[]);
    assert_eq!(sent(&keys), []);

    let allowed = project.command(&["trust"]).output().unwrap();
    let (told, shown) = (text(&allowed.stderr), text(&allowed.stdout));
    assert_eq!(code(&allowed), 0, "{told}");
    for expected in [&project.file(), &url, "MY_KEY", "backend_key_env", "--revoke"] {
        assert!(shown.contains(expected), "no {expected} in {shown}");
    }
    let told = project.compact(&["--quiet"]);
    let expected = format!(
        "sends to {url}/v1 (model m), key from MY_KEY, chosen by {}, a project's file that you trust\n",
        project.file()
    );
    assert_eq!(told, expected, "even to whoever wants to hear little");
    assert_eq!(sent(&keys), std::slice::from_ref(&key));

    // One byte is another file.
    project.configure(&format!("{}\n", backend(&url)));
    let told = project.compact(&[]);
    assert!(told.contains("not trusted"), "{told}");
    assert_eq!(sent(&keys), []);
    let listed = text(&project.command(&["trust", "--list"]).output().unwrap().stdout);
    assert!(listed.contains(&project.file()) && listed.contains("has changed"), "{listed}");

    assert_eq!(project.run(&["trust", &project.file()]).0, 0);
    project.compact(&[]);
    assert_eq!(sent(&keys), [key]);
    let listed = json(&project.command(&["trust", "--list", "--json"]).output().unwrap());
    assert_eq!((&listed["file"], &listed["state"]), (&project.file().into(), &"trusted".into()));

    assert_eq!(project.run(&["trust", "--revoke"]).0, 0);
    let told = project.compact(&[]);
    assert!(told.contains("not trusted"), "{told}");
    assert_eq!(sent(&keys), []);
    let listed = text(&project.command(&["trust", "--list"]).output().unwrap().stdout);
    assert_eq!(listed, "no file is trusted\n");
}

#[test]
fn what_is_allowed_at_one_place_is_not_allowed_at_another() {
    let (url, keys) = summarizing();
    let project = Project::new(&backend(&url));
    assert_eq!(project.run(&["trust"]).0, 0);
    std::fs::copy(project.file(), at(&project.folder, "project/below/foldback.toml")).unwrap();
    let told = project.compact(&[]);
    assert!(told.contains("below/foldback.toml is not trusted"), "{told}");
    assert_eq!(sent(&keys), []);
}

#[test]
fn flags_variables_and_files_that_are_named_need_no_trust() {
    let (url, keys) = summarizing();
    let project = Project::new(&backend("http://127.0.0.1:1"));
    let spec = format!("openai:{url}/v1#n");
    let told = project.compact(&["--backend", &spec]);
    assert!(told.contains(&format!("sends to {url}/v1 (model n), no key, chosen by --backend\n")), "{told}");
    assert!(!told.contains("not trusted"), "{told}");
    assert_eq!(sent(&keys), [None], "the key of the file is for the server of the file");

    let mut command = project.command(&["compact", SESSION, "--target", "3000", "-o", "out.jsonl"]);
    command.env("FOLDBACK_BACKEND", &spec).args(["--backend-key-env", "MY_KEY"]);
    let told = text(&command.output().unwrap().stderr);
    assert!(told.contains("key from MY_KEY, chosen by FOLDBACK_BACKEND"), "{told}");
    assert_eq!(sent(&keys), [Some(format!("Bearer {SECRET}"))]);

    project.configure(&backend(&url));
    let told = project.compact(&["--config", &project.file()]);
    assert!(told.contains(&format!("key from MY_KEY, chosen by {}\n", project.file())), "{told}");
    assert_eq!(sent(&keys).len(), 1);
}

#[test]
fn what_a_person_configured_holds_where_a_project_is_silent_or_not_trusted() {
    let (url, keys) = summarizing();
    let project = Project::new("[compact]\ntarget = 30000\n");
    project.own(&format!("counter = \"estimate\"\n{}", backend(&url)));
    let told = project.compact(&[]);
    assert!(told.contains("chosen by") && told.contains("config/foldback/config.toml\n"), "{told}");
    assert_eq!(sent(&keys).len(), 1);

    project.configure(&format!("[compact]\ntarget = 30000\n{}", &backend("http://127.0.0.1:1")[10..]));
    let told = project.compact(&[]);
    assert!(told.contains("not trusted") && told.contains(&url), "{told}");
    assert_eq!(sent(&keys).len(), 1);
    let report = json(&project.command(&["compact", SESSION, "--dry-run", "--json"]).output().unwrap());
    assert_eq!(report["target"], 30_000, "what needs no trust is followed: {report}");
    assert_ne!(report["counter"], "o200k_base", "{report}");
}

#[test]
fn where_it_goes_is_told_before_the_first_byte_is_sent() {
    let folder = folder();
    let stderr = folder.path().join("stderr");
    let (heard, told): (_, Arc<Mutex<Vec<String>>>) = (stderr.clone(), Arc::default());
    let seen = Arc::clone(&told);
    let url = Server::apart(move |request: &Request| {
        seen.lock().unwrap().push(std::fs::read_to_string(&heard).unwrap());
        Spoken::of(request).unwrap().answer(request, &Said::Text("understood"))
    });
    let spec = format!("openai:{url}/v1#m");
    let cases: [(&[&str], &str); 3] = [
        (&["compact", SESSION, "--target", "3000", "-o", "out.jsonl", "--backend", &spec], "--backend"),
        (&["probe", SESSION, "--cache", "cache", "--backend", &spec], "--backend"),
        (&["chat", "--model", &spec], "--model"),
    ];
    for (arguments, flag) in cases {
        let file = std::fs::File::create(&stderr).unwrap();
        let mut child = foldback(arguments)
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
        child.wait().unwrap();
        let told = std::mem::take(&mut *told.lock().unwrap());
        let expected = format!("sends to {url}/v1 (model m), no key, chosen by {flag}\n");
        assert!(!told.is_empty() && told[0].contains(&expected), "{arguments:?}: {told:?}");
        let all = std::fs::read_to_string(&stderr).unwrap();
        assert_eq!(all.matches("sends to").count(), 1, "once: {all}");
    }
}

#[test]
fn a_chat_does_not_talk_to_whom_an_untrusted_project_names_even_by_a_plain_name() {
    let project = Project::new("model = \"gpt-5\"\n");
    let (exit, told) = project.run(&["chat"]);
    assert_eq!(exit, 2, "{told}");
    assert!(told.contains("ignored: model") && told.contains("which model?"), "{told}");
    let (exit, told) = project.run(&["stats", SESSION]);
    assert_eq!((exit, told.as_str()), (0, ""), "a name is harmless where nothing is sent");
}

#[test]
#[cfg(unix)]
fn the_list_of_trusted_files_is_its_owners_alone_and_a_broken_one_trusts_nobody() {
    use std::os::unix::fs::PermissionsExt;

    let (url, keys) = summarizing();
    let project = Project::new(&backend(&url));
    assert_eq!(project.run(&["trust"]).0, 0);
    let list = at(&project.folder, "data/foldback/trusted.json");
    assert_eq!(std::fs::metadata(&list).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&list, "[{\"path\"").unwrap();
    let told = project.compact(&[]);
    assert!(told.contains("not trusted"), "{told}");
    assert_eq!(sent(&keys), []);
    let (exit, told) = project.run(&["trust"]);
    assert_eq!(exit, 3, "{told}");
    assert!(told.contains("trusted.json") && told.contains("hint:"), "{told}");
}

#[test]
fn a_file_that_decides_nothing_needs_no_trust() {
    let project = Project::new("[compact]\ntarget = 5000\nbackend = \"digest\"\n");
    let told = text(&project.command(&["trust"]).output().unwrap().stdout);
    assert!(told.contains("says nothing that needs trust"), "{told}");
    assert!(!project.compact(&[]).contains("not trusted"));
    std::fs::remove_file(project.file()).unwrap();
    let (exit, told) = project.run(&["trust"]);
    assert_eq!(exit, 2, "{told}");
    assert!(told.contains("no foldback.toml"), "{told}");
}
