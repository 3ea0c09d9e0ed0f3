use super::*;

mod kinds;
mod planted;

/// Something that looks drawn, made here so that no scanner takes this file for a leak.
fn drawn(length: usize) -> String {
    let letters = b"aB3dE7fG1hJ9kLmN0pQ2rS5tUvW8xYz4";
    (0..length).map(|index| char::from(letters[index * 7 % letters.len()])).collect()
}

fn names(text: &str) -> Vec<&'static str> {
    find(text).into_iter().map(|secret| secret.kind.name()).collect()
}

fn joined(parts: &[&str]) -> String {
    parts.concat()
}

#[test]
fn what_only_looks_like_a_key_is_left() {
    for text in [
        "sk-learn and sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "npm_config_registry_url_for_the_whole_workspace",
        "commit 3f2a91c0b7de4f5a6b7c8d9e0f1a2b3c4d5e6f70",
        "AKIAEXAMPLE",
        "eyJust a word. And another. Sentence.",
        "task-1234567890-abcdefghijklmnop",
        "9b74c9897bac770ffc029102a200c5de",
        "550e8400-e29b-41d4-a716-446655440000",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "\"integrity\": \"sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg==\"",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx and ghp_your_token_here_1234567890",
        "ghp_short1",
        "sk-ant-api03-YOUR-KEY-HERE-1234567890-abcdef",
        "sk-some-words-joined-by-dashes-only",
        "xoxb-your-bot-token-goes-here",
        "glpat-xxxxxxxxxxxxxxxxxxxx",
        "s.getBoundingClientRectBox",
        "pat.match(/a/) and path.to.something.else.entirely",
        "hooks.slack.com/services/ is where they come in",
        "if (key.includes('BEGIN PRIVATE KEY')) throw new Error('no key')",
        "SG.foo.bar",
        "api-key-rotation-2024-runbook.md",
        "https://hub.docker.com/_/postgres and 10.0.0.1:5432",
        "arn:aws:iam::123456789012:role/deploy-2024",
        "v1.0-0123 and 1//2 and 1/2:3",
    ] {
        assert_eq!(names(text), [""; 0], "{text}");
        assert!(matches!(redact(text), Cow::Borrowed(_)));
    }
}

#[test]
fn a_private_key_goes_even_where_part_of_it_is_missing() {
    let line = drawn(64);
    let (begin, end) =
        (joined(&["-----BEGIN RSA PRIV", "ATE KEY-----"]), joined(&["-----END RSA PRIV", "ATE KEY-----"]));
    let redacted = |text: &str| redact(text).into_owned();
    let whole = format!("a\n{begin}\n{line}\n{line}\nab==\n{end}\nb");
    assert_eq!(redacted(&whole), "a\n[secret: private key]\nb");
    assert_eq!(redacted(&format!("{begin}\n{line}\n{line}")), "[secret: private key]");
    assert_eq!(
        redacted(&format!("{begin}\n{line}\nand then some words")),
        "[secret: private key]\nand then some words"
    );
    assert_eq!(redacted(&format!("words\n{line}\nab==\n{end} b")), "words\n[secret: private key] b");
    assert_eq!(
        redacted(&format!("\"k\":\"{begin}\\n{line}\\n{end}\\n\"")),
        "\"k\":\"[secret: private key]\\n\""
    );
    assert_eq!(redacted(&format!("x \\n{line}\\n{end}")), "x \\n[secret: private key]");
    // The lines alone are what programs look for.
    let lines = format!("{begin}\n{begin}\n{end}\n{end}");
    assert_eq!(redacted(&lines), lines);
    let numbered = format!("     1→{begin}\n     2→{line}\n     3→{line}");
    assert_eq!(redacted(&numbered), "     1→[secret: private key]");
    let changed = format!("+{begin}\n+{line}\n+{line}\n+{end}\n");
    assert_eq!(redacted(&changed), "+[secret: private key]\n");
}

#[test]
fn values_that_are_called_a_secret_are_found() {
    let value = drawn(20);
    for (text, kind) in [
        (format!("password={value}"), "password"),
        (format!("DB_PASSWORD={value}"), "password"),
        ("DB_PASSWORD=correcthorse".to_owned(), "password"),
        (format!("\"password\": \"{value}\""), "password"),
        (format!("{{\\\"password\\\":\\\"{value}\\\"}}"), "password"),
        ("password: 'correct-horse'".to_owned(), "password"),
        (format!("api_key: \"{value}\""), "api key"),
        (format!("apiKey = '{value}'"), "api key"),
        (format!("X-Api-Key: {value}"), "api key"),
        (format!("AWS_SECRET_ACCESS_KEY={value}{value}"), "aws secret key"),
        (format!("client_secret={value}&x=1"), "secret"),
        (format!("export SECRET={value}"), "secret"),
        (format!("login --token {value}"), "token"),
        (format!("accessToken: \"{value}\""), "token"),
        (format!("Authorization: Bearer {value}"), "authorization"),
        (format!("-H 'authorization: Basic {value}='"), "authorization"),
    ] {
        assert_eq!(names(&text), [kind], "{text}");
        let redacted = redact(&text);
        assert!(!redacted.contains(&value) && !redacted.contains("horse"), "{redacted}");
        assert!(redacted.ends_with(&text[text.len() - 1..]) || redacted.ends_with(']'), "{redacted}");
    }
}

#[test]
fn names_types_and_placeholders_are_no_secrets() {
    for text in [
        "password: string;",
        "password: Option<String>,",
        "let token = get_token(client_id_2024);",
        "token: self.config.token,",
        "password=${DB_PASSWORD}",
        "password = os.environ[\"DB_PASSWORD\"]",
        "apiKey: process.env.API_KEY_V2_2024",
        "api_key: \"<your key here 1234>\"",
        "api_key=\"your-api-key-123456\"",
        "SECRET=xxxxxxxxxxxx",
        "PASSWORD=********",
        "PWD=/home/somebody/project1",
        "max_tokens: 128000000",
        "token_count=12345678a",
        "\"token\": \"identifier\"",
        "password: \"Enter your password\"",
        "the password is checked before anything else",
        "secret: ${{ secrets.DEPLOY_KEY_2024 }}",
        "password=short1",
        "'password' => 'required|string|min:8'",
        "password: \"Password\", secret: \"secret\"",
        "\"forgotPassword\": \"forgot-password\"",
        "next_page_token=CAUQAA1b2c3d4e5f6g7",
        "eos_token: \"<|im_end|>\"",
        "user.signingkey=8D357AFBEA94CD48BC1982CCBDDE13F749C6CF8A",
        "token: tokenOf(request_1, 22)",
        "secret: valueFrom.secretKeyRef.name2",
        "the token is valid for 30 days",
        "my password is wrong",
        "Authorization: Bearer $TOKEN and Authorization: Bearer <token>",
        "Authorization: Basic YWRtaW4",
        "Cookie: theme=dark; lang=en",
        "curl -u $USER:$PASSWORD https://x.dev && curl -u user: https://x.dev",
        "docker run -p 8080:80 nginx && mkdir -p src/module && mysql -p",
        "postgres://postgres:postgres@localhost/app and redis://user:password@host",
        "https://github.com/owner/repo@v4 and git@github.com:owner/repo.git",
        "signature::ECDSA_P384_SHA512_ASN1, &Token::TupleEnd, Secrets::Aes128Gcm { key }",
        "traffic_secret: OkmBlock, shared_secret: OnceLock<Vec<u8>>",
        "private_key: EcPrivateKeyBin<'_> and secret: \"CLIENT_TRAFFIC_SECRET_0\"",
        "?key=value&signature=none&sig=1",
        "\"auth\": \"required\", \"author\": \"somebody\"",
        "Bearer tokens are signed",
        "https://x.dev:8080/a@b",
        "postgres://${USER}:${PASSWORD}@host/db",
    ] {
        assert_eq!(names(text), [""; 0], "{text}");
    }
}

#[test]
fn a_password_in_an_address_goes_and_the_address_stays() {
    let text = format!("at postgres://admin:{}@db.internal:5432/app now", "hunter2");
    assert_eq!(redact(&text), "at postgres://admin:[secret: url password]@db.internal:5432/app now");
}

#[test]
fn what_was_redacted_once_is_left_alone() {
    let value = drawn(24);
    let text = format!(
        "password={value} \"secret\": \"{value}\" https://a:{value}@b.c Bearer {value} --token {value} {}",
        joined(&["gh", "p_", &drawn(36)])
    );
    let once = redact(&text).into_owned();
    assert!(!once.contains(&value), "{once}");
    assert_eq!(redact(&once), once);
}

#[test]
fn any_text_is_read_without_a_panic() {
    let label = joined(&["PRIV", "ATE KEY-----"]);
    for text in
        ["", "ü", "://@", "://:@", "password", "password=", "password=\"", "pässword=ü", "eyJ...", "Bearer "]
    {
        redact(text);
    }
    for text in [format!("{label}{label}"), format!("ü-----BEGIN {label}ü"), format!("-----END {label}")] {
        redact(&text);
    }
}

#[test]
fn many_beginnings_yield_secrets_that_are_apart_and_not_empty() {
    let begin = joined(&["-----BEGIN PRIV", "ATE KEY-----"]);
    let units = [
        "password=",
        "password=\"a",
        "://a:b@",
        "eyJaaaaaaaaaaaa.",
        "-----BEGIN ",
        "token: ",
        "Basic ",
        "cookie: a=",
        "mnemonic: abcd ",
        "Private-Lines: 1\n",
        "curl -u a:bcde ",
        "password is ",
        "sk-",
        "\\\\",
        &begin,
    ];
    for unit in units {
        let text = unit.repeat(300_000 / unit.len());
        let found = find(&text);
        assert!(found.windows(2).all(|two| two[0].span.end <= two[1].span.start), "{unit}");
        assert!(
            found.iter().all(|one| !one.span.is_empty() && text.get(one.span.clone()).is_some()),
            "{unit}"
        );
    }
}
