//! Every kind of secret in every surrounding: what is found, and where.

use super::super::find;

const HEX: &str = "0123456789abcdef";
const SMALL: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const CAPITALS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const DIGITS: &str = "0123456789";

/// Something that looks drawn, the same each time.
pub(super) fn drawn(alphabet: &str, length: usize, seed: u64) -> String {
    let letters = alphabet.as_bytes();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(letters[(state >> 33) as usize % letters.len()])
    };
    (0..length).map(letter).collect()
}

/// A secret from its recipe, so that no scanner takes this file for a leak: `|` joins what is written
/// apart, and `{h8}` stands for eight hexadecimal digits, others likewise.
pub(super) fn made(recipe: &str, seed: u64) -> String {
    let mut secret = String::new();
    for (number, piece) in recipe.replace('|', "").split('{').enumerate() {
        let Some((run, fixed)) = piece.split_once('}').filter(|_| number > 0) else {
            secret.push_str(piece);
            continue;
        };
        let alphabet = match &run[..1] {
            "h" => HEX,
            "s" => SMALL,
            "c" => CAPITALS,
            "d" => DIGITS,
            _ => LETTERS,
        };
        secret.push_str(&drawn(alphabet, run[1..].parse().expect("a length"), seed + number as u64));
        secret.push_str(fixed);
    }
    secret
}

/// Secrets that are known by their form alone.
pub(super) const FORMS: &[(&str, &str)] = &[
    ("1password key", "A3-|{c6}-{c6}-{c5}-{c5}-{c5}"),
    ("1password token", "ops|_eyJ{l260}"),
    ("adobe secret", "p8|e-{s32}"),
    ("age key", "AGE-SECRET|-KEY-1{c58}"),
    ("airtable token", "pa|t{l14}.{h64}"),
    ("alibaba access key", "LT|AI{s20}"),
    ("anthropic key", "sk-|ant-api03-{l93}AA"),
    ("artifactory key", "AK|Cp{l69}"),
    ("artifactory token", "cmV|md{l59}"),
    ("asana token", "1/|{d16}:{h32}"),
    ("atlassian token", "ATA|TT3x{l180}"),
    ("aws access key", "AK|IA{c16}"),
    ("aws access key", "AS|IA{c16}"),
    ("aws bedrock key", "AB|SK{l120}"),
    ("azure client secret", "{l3}8|Q~{l34}"),
    ("bitbucket password", "AT|BB{l32}"),
    ("brave key", "BS|A{l28}"),
    ("buildkite token", "bk|ua_{h40}"),
    ("circleci token", "CCI|PAT_{l22}_{h40}"),
    ("clojars token", "CLO|JARS_{h60}"),
    ("contentful token", "CF|PAT-{l43}"),
    ("crates.io token", "ci|o{l32}"),
    ("databricks token", "da|pi{h32}"),
    ("digitalocean token", "do|p_v1_{h64}"),
    ("discord token", "MT{l24}.{l6}.{l38}"),
    ("discord webhook", "discord.com/api/web|hooks/{d18}/{l68}"),
    ("docker token", "dckr|_pat_{l27}"),
    ("doppler token", "dp|.pt.{l43}"),
    ("dropbox token", "sl|.{l135}"),
    ("duffel token", "duf|fel_live_{l43}"),
    ("dynatrace token", "dt0|c01.{c24}.{c64}"),
    ("easypost key", "EZ|AK{s54}"),
    ("elevenlabs key", "s|k_{h48}"),
    ("facebook token", "EA|AC{l120}"),
    ("figma token", "fi|gd_{l40}"),
    ("firecrawl key", "f|c-{h32}"),
    ("flutterwave key", "FLW|SECK-{h32}-X"),
    ("fly token", "fm|2_{l160}"),
    ("frame.io token", "fio|-u-{l64}"),
    ("github token", "gh|p_{l36}"),
    ("github token", "gh|o_{l36}"),
    ("github token", "gh|s_{l36}"),
    ("github token", "github|_pat_{l22}_{l59}"),
    ("gitlab token", "gl|pat-{l20}"),
    ("gitlab token", "gl|rt-{l20}"),
    ("gitlab token", "GR13|48941{l20}"),
    ("google key", "AI|za{l35}"),
    ("google oauth secret", "GOC|SPX-{l28}"),
    ("google oauth token", "ya|29.{l180}"),
    ("google oauth token", "1/|/0{l60}"),
    ("grafana token", "gl|sa_{l32}_{h8}"),
    ("groq key", "gs|k_{l52}"),
    ("harness key", "pa|t.{l22}.{l24}.{l20}"),
    ("heroku key", "HR|KU-AA{l58}"),
    ("hubspot token", "pat|-na1-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("hugging face token", "h|f_{l34}"),
    ("infracost key", "ic|o-{l32}"),
    ("jina key", "ji|na_{l60}"),
    ("jwt", "ey|Jh{l33}.eyJ{l80}.{l43}"),
    ("jwt", "ey|Jh{l33}.{l40}.{l16}.{l90}.{l22}"),
    ("langchain key", "lsv2|_pt_{h32}_{h10}"),
    ("linear key", "lin|_api_{l40}"),
    ("mailchimp key", "{h32}-u|s12"),
    ("mailgun key", "ke|y-{h32}"),
    ("mapbox token", "sk|.eyJ{l60}.{l22}"),
    ("maxmind key", "{l6}_{l29}_m|mk"),
    ("neon key", "na|pi_{s64}"),
    ("netlify token", "nf|p_{l40}"),
    ("new relic key", "NR|AK-{c27}"),
    ("notion token", "nt|n_{d11}{l35}"),
    ("notion token", "sec|ret_{l43}"),
    ("npm token", "np|m_{l36}"),
    ("nuget key", "oy|2{s43}"),
    ("nvidia key", "nv|api-{l64}"),
    ("octopus key", "AP|I-{c26}"),
    ("openai key", "s|k-{l48}"),
    ("openai key", "sk|-proj-{l80}"),
    ("openai key", "sk|-or-v1-{h64}"),
    ("openshift token", "sha|256~{l43}"),
    ("paypal token", "access_token$prod|uction${s16}${h32}"),
    ("perplexity key", "pp|lx-{l48}"),
    ("pinecone key", "pc|sk_{l6}_{l60}"),
    ("plaid token", "access|-sandbox-{h8}-{h4}-{h4}-{h4}-{h12}"),
    ("planetscale token", "pscale|_tkn_{l43}"),
    ("postman key", "PM|AK-{h24}-{h34}"),
    ("prefect key", "pn|u_{l36}"),
    ("private key", "LS0tLS1CRUdJTiBQUk|lWQVRF{l800}"),
    ("pulumi token", "pu|l-{h40}"),
    ("pypi token", "py|pi-AgEIcHlwaS5vcmc{l120}"),
    ("readme key", "rd|me_{s70}"),
    ("replicate token", "r|8_{l37}"),
    ("resend key", "r|e_{l8}_{l24}"),
    ("rubygems key", "ruby|gems_{h48}"),
    ("sendgrid key", "S|G.{l22}.{l43}"),
    ("sendinblue key", "xkey|sib-{h64}-{l16}"),
    ("sentry token", "sntr|yu_{h64}"),
    ("shippo token", "ship|po_live_{h40}"),
    ("shopify token", "shp|at_{h32}"),
    ("slack token", "xo|xb-{d12}-{d12}-{l24}"),
    ("slack token", "xa|pp-1-{c10}-{d13}-{h64}"),
    ("slack webhook", "hooks.slack|.com/services/T{c8}/B{c8}/{l24}"),
    ("sonar token", "sq|u_{h40}"),
    ("sourcegraph token", "sg|p_{h40}"),
    ("square token", "EA|AA{l56}"),
    ("stripe key", "sk|_live_{l24}"),
    ("stripe key", "rk|_test_{l24}"),
    ("stripe webhook secret", "wh|sec_{l32}"),
    ("supabase key", "sb|p_{h40}"),
    ("tailscale key", "ts|key-auth-k{l10}CNTRL-{l32}"),
    ("tavily key", "tv|ly-{l32}"),
    (
        "teams webhook",
        "webhook|.office.com/webhookb2/{h8}-{h4}-{h4}-{h4}-{h12}@{h8}-{h4}-{h4}-{h4}-{h12}/IncomingWebhook/{h32}/{h8}-{h4}-{h4}-{h4}-{h12}",
    ),
    ("telegram token", "{d9}:|AA{l33}"),
    ("telegram token", "bo|t{d9}:AA{l33}"),
    ("terraform token", "{l14}.atlas|v1.{l64}"),
    ("twilio key", "S|K{h32}"),
    ("typeform token", "tf|p_{l44}"),
    ("vault token", "hv|s.{l90}"),
    ("vercel token", "vc|p_{l40}"),
    ("wallet key", "xp|rv9{l107}"),
    ("xai key", "xa|i-{l80}"),
    ("yandex key", "AQ|VN{l36}"),
];

/// Secrets that are known by what stands around them: `§` is the secret.
pub(super) const NAMED: &[(&str, &str, &str)] = &[
    ("api key", "{h32}", "DATADOG_API_KEY=§"),
    ("api key", "{h8}-{h4}-{h4}-{h4}-{h12}", "heroku_api_key: \"§\""),
    ("api key", "{l40}", "X-Api-Key: §"),
    ("api key", "{l24}", "const apiKey = '§';"),
    ("api key", "{l44}", "PrivateKey = §"),
    ("api key", "{l32}", "API_KEY_PROD=§"),
    ("api key", "{l39}", "https://maps.example.org/js?key=§&v=3"),
    ("authorization", "{l40}", "Authorization: Bearer §"),
    ("authorization", "{l40}", "\"Authorization\": \"Bearer §\""),
    ("authorization", "{l40}", "Authorization: token §"),
    ("authorization", "{l40}", "authorization: §"),
    ("authorization", "ZGVwbG95OmNvcnJlY3Qt|aG9yc2U=", "-H 'Authorization: Basic §'"),
    ("authorization", "ZGVwbG95OmNvcnJlY3Qt|aG9yc2U=", "{\"auths\":{\"ghcr.io\":{\"auth\":\"§\"}}}"),
    ("authorization", "ZGVwbG95OmNvcnJlY3Qt|aG9yc2U=", "//registry.npmjs.org/:_auth=§"),
    ("authorization", "{l30}", "bearer §"),
    ("aws secret key", "{l40}", "AWS_SECRET_ACCESS_KEY=§"),
    ("aws secret key", "{l40}", "aws_secret_access_key = §"),
    ("aws secret key", "{l40}", "{\"SecretAccessKey\": \"§\"}"),
    (
        "azure shared key",
        "{l43}=",
        "Endpoint=sb://bus.example.org/;SharedAccessKeyName=Root;SharedAccessKey=§",
    ),
    (
        "azure storage key",
        "{l86}==",
        "DefaultEndpointsProtocol=https;AccountName=one;AccountKey=§;EndpointSuffix=x",
    ),
    ("cookie", "session={l32}; theme=dark", "Cookie: §"),
    ("password", "hunter2-{l4}", "{\"user\": \"ann\", \"password\": \"§\"}"),
    ("password", "correct|horsebattery", "DB_PASSWORD=§"),
    ("password", "S3cr3t!{l6}", "password: §"),
    ("password", "{l5}4{l4}7{l1}", "<password>§</password>"),
    ("password", "{l5}4{l4}7{l1}", "<add key=\"Password\" value=\"§\" />"),
    ("password", "{l5}4{l4}7{l1}", "- name: DB_PASSWORD\n  value: §"),
    ("password", "{l5}4{l4}7{l1}", "machine api.x.dev login ann password §"),
    ("password", "{l5}4{l4}7{l1}", "Server=db;User Id=sa;Pwd=§;Encrypt=no"),
    ("password", "{l5}4{l4}7{l1}", "mysql -h db -u root -p§ shop"),
    ("password", "{l5}4{l4}7{l1}", "sshpass -p '§' ssh root@db"),
    ("password", "{l5}4{l4}7{l1}", "curl -s -u ann:§ https://x.dev/"),
    ("password", "{l5}4{l4}7{l1}", "redis-cli -h cache -a § ping"),
    ("password", "{l5}4{l4}7{l1}", "openssl rsa -in k.pem -passin pass:§ -out o"),
    ("password", "{l5}4{l4}7{l1}", "docker login -u ann -p § ghcr.io"),
    ("password", "{l5}4{l4}7{l1}", "login --password § --quiet"),
    ("password", "{l5}4{l4}7{l1}", "the password is §"),
    ("password", "{l6}\\\"{l6}", "{\"password\": \"§\"}"),
    ("secret", "{l32}", "client_secret=§"),
    ("secret", "{l32}", "JWT_SECRET: '§'"),
    (
        "seed phrase",
        "legal winner thank year wave sausage worth useful legal winner thank yellow",
        "MNEMONIC=\"§\"",
    ),
    ("session", "{h26}", "PHPSESSID=§"),
    ("signature", "{l43}%3D", "https://one.blob.core.windows.net/c/f?sv=2022&sp=r&sig=§"),
    ("token", "{l24}", "login --token §"),
    ("token", "{l36}", "\"accessToken\": \"§\""),
    ("token", "{h40}", "WANDB_TOKEN=§"),
    ("token", "{l36}", "//registry.npmjs.org/:_authToken=§"),
    ("token", "{l36}", "https://api.x.dev/v1?access_token=§&page=2"),
    ("url password", "{l5}4{l4}7{l1}", "postgres://ann:§@db.internal:5432/app"),
    ("url password", "{l5}4{l4}7{l1}", "mongodb+srv://ann:§@cluster0.mongodb.net"),
    ("url password", "{l5}4{l4}7{l1}", "redis://:§@cache:6379/0"),
    ("url password", "{l32}", "https://§@git.example.org/one.git"),
];

/// What keys stand in, `§` is the key: alone, in JSON once and twice, in settings, headers, addresses,
/// colours, code, and at the end of a text that was cut.
const SURROUNDINGS: &[&str] = &[
    "§",
    "{\"config\": {\"value\": \"§\"}}",
    "{\\\"value\\\":\\\"§\\\"}",
    "line\\n§\\nline",
    "export SOMETHING=§\n",
    "X-Something: §\r\nAccept: */*",
    "https://x.dev/?k=§&y=1",
    "https://x.dev/?k%3D§",
    "\u{1b}[31m§\u{1b}[0m",
    "use (§), please. It's long: `§`, [§] <§>",
    "+    key: '§',",
    "日本語§日本語",
    "…output cut here…\n§",
];

#[test]
fn every_form_is_found_whole_in_every_surrounding() {
    for (seed, (kind, recipe)) in FORMS.iter().enumerate() {
        let key = made(recipe, seed as u64 + 1);
        for surrounding in SURROUNDINGS {
            let text = surrounding.replace('§', &key);
            let found: Vec<(&str, &str)> =
                find(&text).iter().map(|one| (one.kind.name(), &text[one.span.clone()])).collect();
            let expected = vec![(*kind, key.as_str()); surrounding.matches('§').count()];
            assert_eq!(found, expected, "{text}");
        }
    }
}

#[test]
fn every_named_secret_is_found_where_it_stands_also_in_json_and_among_lines() {
    for (seed, (kind, recipe, text)) in NAMED.iter().enumerate() {
        let secret = made(recipe, seed as u64 + 1);
        let text = text.replace('§', &secret);
        let quoted = serde_json::to_string(&text).expect("a text is JSON");
        let lines = format!("$ cat notes\n{text}\n$ ");
        for (surrounded, secret) in [
            (text.clone(), secret.clone()),
            (lines, secret.clone()),
            (quoted, secret.replace('\\', "\\\\").replace('"', "\\\"")),
        ] {
            let found: Vec<(&str, &str)> = find(&surrounded)
                .iter()
                .map(|one| (one.kind.name(), &surrounded[one.span.clone()]))
                .collect();
            assert_eq!(found, [(*kind, secret.as_str())], "{surrounded}");
        }
    }
}

/// The same over and over, for keys that are drawn otherwise.
#[test]
fn keys_are_found_however_they_were_drawn() {
    let missed: Vec<&str> = (FORMS.iter())
        .filter(|(_, recipe)| (0..200).any(|seed| find(&made(recipe, seed * 77)).len() != 1))
        .map(|(_, recipe)| *recipe)
        .collect();
    assert_eq!(missed, [""; 0]);
    let missed_in = |(_, recipe, text): &(&str, &str, &str), seed: u64| {
        let secret = made(recipe, seed * 77);
        let text = text.replace('§', &secret);
        let is_found = find(&text).iter().any(|one| text[one.span.clone()] == secret);
        (!is_found).then_some(text)
    };
    let seeds = |named| (0..200).filter_map(move |seed| missed_in(named, seed));
    let missed: Vec<String> = NAMED.iter().flat_map(seeds).collect();
    assert_eq!(missed, [""; 0]);
}
