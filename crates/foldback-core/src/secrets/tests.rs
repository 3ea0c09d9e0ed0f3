use super::*;

/// Something that looks drawn, made here so that no scanner takes this file for a leak.
fn drawn(length: usize) -> String {
    let letters = b"aB3dE7fG1hJ9kLmN0pQ2rS5tUvW8xYz4";
    (0..length).map(|index| char::from(letters[index * 7 % letters.len()])).collect()
}

fn kinds(text: &str) -> Vec<SecretKind> {
    find(text).into_iter().map(|secret| secret.kind).collect()
}

fn joined(parts: &[&str]) -> String {
    parts.concat()
}

#[test]
fn keys_with_a_form_of_their_own_are_found_anywhere() {
    use SecretKind::*;
    let aws = joined(&["AK", "IA", "2J4KQ7XN5PLMWZ3R"]);
    let by_prefix = PREFIXES.iter().map(|(prefix, _, kind)| (joined(&[prefix, &drawn(60)]), *kind));
    let others = [
        (aws, AwsAccessKey),
        (joined(&["sk", "-ant-", "api03-", &drawn(60)]), AnthropicKey),
        (joined(&["sk", "-proj-", &drawn(60)]), OpenAiKey),
        (joined(&["sk", "-", &drawn(48)]), OpenAiKey),
        (joined(&["xo", "xb-", "123456789012-", &drawn(24)]), SlackToken),
        (joined(&["ey", "J", &drawn(20), ".", &drawn(40), ".", &drawn(30)]), Jwt),
    ];
    for (key, kind) in by_prefix.chain(others) {
        for text in [
            key.clone(),
            format!("use {key}, please"),
            format!("\"{key}\""),
            format!("x=[{key}]"),
            format!("https://x.dev/?k={key}&y=1"),
        ] {
            let found = find(&text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert_eq!((found[0].kind, &text[found[0].span.clone()]), (kind, key.as_str()));
        }
    }
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
    ] {
        assert_eq!(kinds(text), [], "{text}");
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
    assert_eq!(redacted(&format!("{begin}\n{begin}\n{end}\n{end}")).matches("[secret").count(), 3);
}

#[test]
fn values_that_are_called_a_secret_are_found() {
    use SecretKind::*;
    let value = drawn(20);
    for (text, kind) in [
        (format!("password={value}"), Password),
        (format!("DB_PASSWORD={value}"), Password),
        ("DB_PASSWORD=correcthorse".to_owned(), Password),
        (format!("\"password\": \"{value}\""), Password),
        (format!("{{\\\"password\\\":\\\"{value}\\\"}}"), Password),
        ("password: 'correct-horse'".to_owned(), Password),
        (format!("api_key: \"{value}\""), ApiKey),
        (format!("apiKey = '{value}'"), ApiKey),
        (format!("X-Api-Key: {value}"), ApiKey),
        (format!("AWS_SECRET_ACCESS_KEY={value}{value}"), AwsSecretKey),
        (format!("client_secret={value}&x=1"), Secret),
        (format!("export SECRET={value}"), Secret),
        (format!("login --token {value}"), Token),
        (format!("accessToken: \"{value}\""), Token),
        (format!("Authorization: Bearer {value}"), Authorization),
        (format!("-H 'authorization: Basic {value}='"), Authorization),
    ] {
        assert_eq!(kinds(&text), [kind], "{text}");
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
        "Bearer tokens are signed",
        "https://x.dev:8080/a@b",
        "postgres://${USER}:${PASSWORD}@host/db",
    ] {
        assert_eq!(kinds(text), [], "{text}");
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
fn a_megabyte_of_beginnings_yields_secrets_that_are_apart() {
    for unit in
        ["password=", "password=\"a", "://a:b@", "eyJaaaaaaaaaaaa.", "-----BEGIN ", "token: ", "Basic "]
    {
        let text = unit.repeat(1_000_000 / unit.len());
        assert!(find(&text).windows(2).all(|two| two[0].span.end <= two[1].span.start), "{unit}");
    }
}
