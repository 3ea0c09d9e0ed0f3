//! Keys that are known by their form: a table of how they begin, of what they are made and how long they are.
//!
//! Lengths are looser than what providers give out today, so that a key that somebody shortened and one
//! of next year are found too.

use super::SecretKind;
use super::alphabet::{
    Alphabet, BASE64, CAPITALS, DIGITS, DOTTED, DOTTED_OR_TILDE, ESCAPED, HEX, HEX_DASH, LETTERS, PATH,
    SMALL, WORD, is_drawn, is_in, is_varied, run,
};
use super::placeholders::is_example;

/// A piece of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Piece {
    Is(&'static str),
    /// Between so many and so many bytes of an alphabet.
    Run(Alphabet, usize, usize),
}

use Piece::{Is, Run};

/// A key of a known form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    pub(super) kind: SecretKind,
    pub(super) pieces: &'static [Piece],
}

impl Form {
    /// The fixed characters at its beginning.
    fn opening(&self) -> &'static str {
        match self.pieces {
            [Is(opening), ..] => opening,
            _ => "",
        }
    }

    /// Whether characters that the form allows look like those of a key: the less the form says, the more they
    /// have to.
    fn fits(&self, body: &str) -> bool {
        let is_words = matches!(self.pieces, [_, Run(alphabet, ..)] if is_in(b'-', *alphabet));
        match self.opening().len() {
            0..SHORT => is_drawn(body),
            SHORT..TELLING if is_words => is_drawn(body),
            _ if is_words || self.pieces.len() > 2 => {
                is_varied(body)
                    && body.bytes().any(|byte| !byte.is_ascii_lowercase() && byte.is_ascii_alphanumeric())
            }
            _ => is_varied(body),
        }
    }
}

const fn form(kind: &'static str, pieces: &'static [Piece]) -> Form {
    Form { kind: SecretKind(kind), pieces }
}

/// Longer runs are data.
const LONG: usize = 512;
/// Tokens that hold claims.
const CLAIMS: usize = 4096;

/// Forms that begin with fixed characters, in the order of the first of them. Of two that fit, the first one
/// tells.
#[rustfmt::skip]
pub(super) const FORMS: &[Form] = &[
    form("asana token", &[Is("1/"), Run(DIGITS, 14, 18), Is(":"), Run(LETTERS, 32, 32)]),
    form("google oauth token", &[Is("1//0"), Run(WORD, 40, LONG)]),
    form("clickhouse key", &[Is("4b1d"), Run(LETTERS, 38, 38)]),
    form("1password key", &[Is("A3-"), Run(CAPITALS, 6, 6), Is("-"), Run(CAPITALS, 6, 11), Is("-"), Run(CAPITALS, 5, 6), Is("-"), Run(CAPITALS, 5, 5), Is("-"), Run(CAPITALS, 5, 5)]),
    form("age key", &[Is("AGE-SECRET-KEY-1"), Run(CAPITALS, 40, 64)]),
    form("artifactory key", &[Is("AKC"), Run(LETTERS, 50, 80)]),
    form("atlassian token", &[Is("ATATT3"), Run(DOTTED, 60, LONG)]),
    form("atlassian token", &[Is("ATCTT3"), Run(DOTTED, 60, LONG)]),
    form("aws access key", &[Is("AKIA"), Run(CAPITALS, 16, 16)]),
    form("aws access key", &[Is("ASIA"), Run(CAPITALS, 16, 16)]),
    form("aws access key", &[Is("ABIA"), Run(CAPITALS, 16, 16)]),
    form("aws access key", &[Is("ACCA"), Run(CAPITALS, 16, 16)]),
    form("aws bedrock key", &[Is("ABSK"), Run(BASE64, 80, LONG)]),
    form("bitbucket password", &[Is("ATBB"), Run(LETTERS, 28, 48)]),
    form("google key", &[Is("AIza"), Run(WORD, 31, 40)]),
    form("octopus key", &[Is("API-"), Run(CAPITALS, 25, 32)]),
    form("yandex key", &[Is("AQVN"), Run(WORD, 35, 38)]),
    form("brave key", &[Is("BSA"), Run(WORD, 28, 28)]),
    form("rails key", &[Is("BAh7"), Run(BASE64, 40, CLAIMS), Is("--"), Run(HEX, 40, 64)]),
    form("circleci token", &[Is("CCIPAT_"), Run(WORD, 40, 80)]),
    form("clojars token", &[Is("CLOJARS_"), Run(LETTERS, 60, 60)]),
    form("contentful token", &[Is("CFPAT-"), Run(WORD, 40, 50)]),
    form("easypost key", &[Is("EZAK"), Run(LETTERS, 54, 54)]),
    form("easypost key", &[Is("EZTK"), Run(LETTERS, 54, 54)]),
    form("facebook token", &[Is("EAA"), Run(LETTERS, 80, LONG)]),
    form("square token", &[Is("EAAA"), Run(WORD, 22, 60)]),
    form("flutterwave key", &[Is("FLWSECK_TEST-"), Run(WORD, 12, 48)]),
    form("flutterwave key", &[Is("FLWSECK-"), Run(WORD, 12, 48)]),
    form("gitlab token", &[Is("GR1348941"), Run(WORD, 18, 64)]),
    form("google oauth secret", &[Is("GOCSPX-"), Run(WORD, 24, 40)]),
    form("heroku key", &[Is("HRKU-"), Run(WORD, 36, 72)]),
    form("alibaba access key", &[Is("LTAI"), Run(LETTERS, 12, 24)]),
    form("private key", &[Is("LS0tLS1CRUdJTiBSU0EgUFJJVkFUR"), Run(BASE64, 24, 16_384)]),
    form("private key", &[Is("LS0tLS1CRUdJTiBQUklWQVRF"), Run(BASE64, 24, 16_384)]),
    form("private key", &[Is("LS0tLS1CRUdJTiBFQyBQUklWQVRF"), Run(BASE64, 24, 16_384)]),
    form("private key", &[Is("LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEUg"), Run(BASE64, 24, 16_384)]),
    form("private key", &[Is("LS0tLS1CRUdJTiBFTkNSWVBURUQgUFJJVkFURS"), Run(BASE64, 24, 16_384)]),
    form("new relic key", &[Is("NRAK-"), Run(LETTERS, 24, 32)]),
    form("new relic key", &[Is("NRII-"), Run(WORD, 28, 36)]),
    form("new relic key", &[Is("NRJS-"), Run(HEX, 19, 19)]),
    form("postman key", &[Is("PMAK-"), Run(HEX, 24, 24), Is("-"), Run(HEX, 34, 34)]),
    form("sendgrid key", &[Is("SG."), Run(WORD, 16, 32), Is("."), Run(WORD, 30, 50)]),
    form("twilio key", &[Is("SK"), Run(HEX, 32, 32)]),
    form("yandex key", &[Is("YCAJE"), Run(WORD, 20, 24)]),
    form("hugging face token", &[Is("api_org_"), Run(LETTERS, 30, 48)]),
    form("paypal token", &[Is("access_token$production$"), Run(SMALL, 16, 16), Is("$"), Run(HEX, 32, 32)]),
    form("plaid token", &[Is("access-production-"), Run(HEX_DASH, 36, 36)]),
    form("plaid token", &[Is("access-development-"), Run(HEX_DASH, 36, 36)]),
    form("plaid token", &[Is("access-sandbox-"), Run(HEX_DASH, 36, 36)]),
    form("terraform token", &[Is("atlasv1."), Run(DOTTED, 60, 72)]),
    form("aws bedrock key", &[Is("bedrock-api-key-"), Run(BASE64, 40, CLAIMS)]),
    form("buildkite token", &[Is("bkua_"), Run(HEX, 40, 40)]),
    form("telegram token", &[Is("bot"), Run(DIGITS, 8, 10), Is(":"), Run(WORD, 33, 37)]),
    form("artifactory token", &[Is("cmVmd"), Run(LETTERS, 59, 59)]),
    form("cerebras key", &[Is("csk-"), Run(SMALL, 40, 64)]),
    form("crates.io token", &[Is("cio"), Run(LETTERS, 32, 32)]),
    form("databricks token", &[Is("dapi"), Run(HEX, 32, 32)]),
    form("defined networking key", &[Is("dnkey-"), Run(DOTTED, 60, 90)]),
    form("digitalocean token", &[Is("doo_v1_"), Run(HEX, 40, 80)]),
    form("digitalocean token", &[Is("dop_v1_"), Run(HEX, 40, 80)]),
    form("digitalocean token", &[Is("dor_v1_"), Run(HEX, 40, 80)]),
    form("discord webhook", &[Is("discord.com/api/webhooks/"), Run(DIGITS, 16, 20), Is("/"), Run(WORD, 40, 90)]),
    form("discord webhook", &[Is("discordapp.com/api/webhooks/"), Run(DIGITS, 16, 20), Is("/"), Run(WORD, 40, 90)]),
    form("docker token", &[Is("dckr_pat_"), Run(WORD, 20, 48)]),
    form("docker token", &[Is("dckr_oat_"), Run(WORD, 20, 48)]),
    form("doppler token", &[Is("dp."), Run(SMALL, 2, 7), Is("."), Run(DOTTED, 40, 60)]),
    form("duffel token", &[Is("duffel_live_"), Run(DOTTED, 40, 48)]),
    form("duffel token", &[Is("duffel_test_"), Run(DOTTED, 40, 48)]),
    form("dynatrace token", &[Is("dt0c01."), Run(LETTERS, 24, 24), Is("."), Run(LETTERS, 64, 64)]),
    form("grafana token", &[Is("eyJrIjoi"), Run(BASE64, 60, LONG)]),
    form("figma token", &[Is("figd_"), Run(WORD, 36, 64)]),
    form("firecrawl key", &[Is("fc-"), Run(HEX, 32, 32)]),
    form("fly token", &[Is("fo1_"), Run(WORD, 43, 43)]),
    form("fly token", &[Is("fm1a_"), Run(BASE64, 80, CLAIMS)]),
    form("fly token", &[Is("fm1r_"), Run(BASE64, 80, CLAIMS)]),
    form("fly token", &[Is("fm2_"), Run(BASE64, 80, CLAIMS)]),
    form("frame.io token", &[Is("fio-u-"), Run(DOTTED, 60, 68)]),
    form("github token", &[Is("ghp_"), Run(LETTERS, 26, 255)]),
    form("github token", &[Is("gho_"), Run(LETTERS, 26, 255)]),
    form("github token", &[Is("ghu_"), Run(LETTERS, 26, 255)]),
    form("github token", &[Is("ghs_"), Run(DOTTED, 26, CLAIMS)]),
    form("github token", &[Is("ghr_"), Run(LETTERS, 26, 255)]),
    form("github token", &[Is("github_pat_"), Run(WORD, 29, 255)]),
    form("gitlab token", &[Is("glpat-"), Run(DOTTED, 18, 320)]),
    form("gitlab token", &[Is("glcbt-"), Run(WORD, 20, 320)]),
    form("gitlab token", &[Is("gldt-"), Run(WORD, 18, 64)]),
    form("gitlab token", &[Is("glffct-"), Run(WORD, 18, 64)]),
    form("gitlab token", &[Is("glft-"), Run(WORD, 18, 64)]),
    form("gitlab token", &[Is("glimt-"), Run(WORD, 18, 64)]),
    form("gitlab token", &[Is("glagent-"), Run(WORD, 18, 96)]),
    form("gitlab token", &[Is("gloas-"), Run(WORD, 18, 96)]),
    form("gitlab token", &[Is("glptt-"), Run(HEX, 40, 40)]),
    form("gitlab token", &[Is("glrt-"), Run(DOTTED, 18, 320)]),
    form("gitlab token", &[Is("glsoat-"), Run(WORD, 18, 64)]),
    form("grafana token", &[Is("glc_"), Run(BASE64, 32, LONG)]),
    form("grafana token", &[Is("glsa_"), Run(LETTERS, 32, 32), Is("_"), Run(HEX, 8, 8)]),
    form("groq key", &[Is("gsk_"), Run(LETTERS, 40, 80)]),
    form("hugging face token", &[Is("hf_"), Run(LETTERS, 30, 48)]),
    form("slack webhook", &[Is("hooks.slack.com/services/"), Run(PATH, 30, 80)]),
    form("slack webhook", &[Is("hooks.slack.com/workflows/"), Run(PATH, 30, 80)]),
    form("slack webhook", &[Is("hooks.slack.com/triggers/"), Run(PATH, 30, 80)]),
    form("vault token", &[Is("hvb."), Run(WORD, 80, 320)]),
    form("vault token", &[Is("hvr."), Run(WORD, 24, 320)]),
    form("vault token", &[Is("hvs."), Run(WORD, 24, 320)]),
    form("infracost key", &[Is("ico-"), Run(LETTERS, 32, 32)]),
    form("jina key", &[Is("jina_"), Run(WORD, 50, 80)]),
    form("mailgun key", &[Is("key-"), Run(HEX, 32, 32)]),
    form("langchain key", &[Is("lsv2_pt_"), Run(PATH, 32, 64)]),
    form("langchain key", &[Is("lsv2_sk_"), Run(PATH, 32, 64)]),
    form("linear key", &[Is("lin_api_"), Run(LETTERS, 32, 48)]),
    form("linear key", &[Is("lin_oauth_"), Run(LETTERS, 32, 80)]),
    form("neon key", &[Is("napi_"), Run(SMALL, 40, 72)]),
    form("netlify token", &[Is("nfp_"), Run(LETTERS, 32, 48)]),
    form("notion token", &[Is("ntn_"), Run(LETTERS, 40, 56)]),
    form("npm token", &[Is("npm_"), Run(LETTERS, 30, 48)]),
    form("nvidia key", &[Is("nvapi-"), Run(WORD, 48, 80)]),
    form("1password token", &[Is("ops_eyJ"), Run(BASE64, 64, CLAIMS)]),
    form("nuget key", &[Is("oy2"), Run(SMALL, 43, 43)]),
    form("adobe secret", &[Is("p8e-"), Run(LETTERS, 32, 32)]),
    form("airtable token", &[Is("pat"), Run(LETTERS, 14, 14), Is("."), Run(HEX, 64, 64)]),
    form("harness key", &[Is("pat."), Run(WORD, 22, 22), Is("."), Run(LETTERS, 24, 24), Is("."), Run(LETTERS, 20, 20)]),
    form("hubspot token", &[Is("pat-na1-"), Run(HEX_DASH, 32, 36)]),
    form("hubspot token", &[Is("pat-eu1-"), Run(HEX_DASH, 32, 36)]),
    form("perplexity key", &[Is("pplx-"), Run(LETTERS, 40, 64)]),
    form("pinecone key", &[Is("pcsk_"), Run(WORD, 40, 96)]),
    form("planetscale token", &[Is("pscale_tkn_"), Run(DOTTED, 32, 64)]),
    form("planetscale token", &[Is("pscale_oauth_"), Run(DOTTED, 32, 64)]),
    form("planetscale token", &[Is("pscale_pw_"), Run(DOTTED, 32, 64)]),
    form("prefect key", &[Is("pnu_"), Run(LETTERS, 36, 36)]),
    form("pulumi token", &[Is("pul-"), Run(HEX, 40, 40)]),
    form("pypi token", &[Is("pypi-AgE"), Run(WORD, 40, 1024)]),
    form("readme key", &[Is("rdme_"), Run(SMALL, 60, 80)]),
    form("replicate token", &[Is("r8_"), Run(LETTERS, 34, 44)]),
    form("resend key", &[Is("re_"), Run(LETTERS, 8, 10), Is("_"), Run(LETTERS, 20, 28)]),
    form("rubygems key", &[Is("rubygems_"), Run(HEX, 48, 48)]),
    form("stripe key", &[Is("rk_live_"), Run(LETTERS, 12, 255)]),
    form("stripe key", &[Is("rk_prod_"), Run(LETTERS, 12, 255)]),
    form("stripe key", &[Is("rk_test_"), Run(LETTERS, 12, 255)]),
    form("anthropic key", &[Is("sk-ant-"), Run(WORD, 20, LONG)]),
    form("dropbox token", &[Is("sl."), Run(DOTTED, 100, LONG)]),
    form("harness key", &[Is("sat."), Run(WORD, 22, 22), Is("."), Run(LETTERS, 24, 24), Is("."), Run(LETTERS, 20, 20)]),
    form("mapbox token", &[Is("sk.eyJ"), Run(WORD, 40, LONG), Is("."), Run(WORD, 20, 24)]),
    form("notion token", &[Is("secret_"), Run(LETTERS, 43, 43)]),
    form("openai key", &[Is("sk-"), Run(WORD, 21, LONG)]),
    form("openshift token", &[Is("sha256~"), Run(WORD, 43, 43)]),
    form("sentry token", &[Is("sntrys_"), Run(BASE64, 40, LONG), Is("_"), Run(BASE64, 40, 48)]),
    form("sentry token", &[Is("sntryu_"), Run(HEX, 64, 64)]),
    form("settlemint token", &[Is("sm_aat_"), Run(LETTERS, 16, 16)]),
    form("settlemint token", &[Is("sm_pat_"), Run(LETTERS, 16, 16)]),
    form("settlemint token", &[Is("sm_sat_"), Run(LETTERS, 16, 16)]),
    form("shippo token", &[Is("shippo_live_"), Run(HEX, 40, 40)]),
    form("shippo token", &[Is("shippo_test_"), Run(HEX, 40, 40)]),
    form("shopify token", &[Is("shpat_"), Run(HEX, 32, 32)]),
    form("shopify token", &[Is("shpca_"), Run(HEX, 32, 32)]),
    form("shopify token", &[Is("shppa_"), Run(HEX, 32, 32)]),
    form("shopify token", &[Is("shpss_"), Run(HEX, 32, 32)]),
    form("sonar token", &[Is("sqa_"), Run(HEX, 40, 40)]),
    form("sonar token", &[Is("sqp_"), Run(HEX, 40, 40)]),
    form("sonar token", &[Is("squ_"), Run(HEX, 40, 40)]),
    form("sourcegraph token", &[Is("sgp_"), Run(HEX, 40, 40)]),
    form("sourcegraph token", &[Is("sgp_"), Run(LETTERS, 5, 16), Is("_"), Run(HEX, 40, 40)]),
    form("square token", &[Is("sq0atp-"), Run(WORD, 22, 60)]),
    form("square token", &[Is("sq0csp-"), Run(WORD, 40, 60)]),
    form("stripe key", &[Is("sk_live_"), Run(LETTERS, 12, 255)]),
    form("stripe key", &[Is("sk_prod_"), Run(LETTERS, 12, 255)]),
    form("stripe key", &[Is("sk_test_"), Run(LETTERS, 12, 255)]),
    form("elevenlabs key", &[Is("sk_"), Run(HEX, 48, 48)]),
    form("supabase key", &[Is("sbp_"), Run(HEX, 40, 40)]),
    form("supabase key", &[Is("sb_secret_"), Run(WORD, 24, 64)]),
    form("vault token", &[Is("s."), Run(LETTERS, 24, 24)]),
    form("mapbox token", &[Is("tk.eyJ"), Run(WORD, 40, LONG), Is("."), Run(WORD, 20, 24)]),
    form("scalingo token", &[Is("tk-us-"), Run(WORD, 48, 48)]),
    form("tailscale key", &[Is("tskey-"), Run(WORD, 24, 96)]),
    form("tavily key", &[Is("tvly-"), Run(WORD, 24, 64)]),
    form("typeform token", &[Is("tfp_"), Run(DOTTED, 40, 64)]),
    form("cloudflare key", &[Is("v1.0-"), Run(HEX, 24, 24), Is("-"), Run(HEX, 146, 146)]),
    form("vercel token", &[Is("vcp_"), Run(LETTERS, 24, 64)]),
    form("stripe webhook secret", &[Is("whsec_"), Run(BASE64, 24, 80)]),
    form("teams webhook", &[Is("webhook.office.com/webhookb2/"), Run(HEX_DASH, 36, 36), Is("@"), Run(HEX_DASH, 36, 36), Is("/IncomingWebhook/"), Run(PATH, 32, 128)]),
    form("sendinblue key", &[Is("xkeysib-"), Run(HEX, 64, 64), Is("-"), Run(LETTERS, 16, 16)]),
    form("slack token", &[Is("xapp-"), Run(WORD, 15, LONG)]),
    form("slack token", &[Is("xoxa-"), Run(WORD, 15, LONG)]),
    form("slack token", &[Is("xoxb-"), Run(WORD, 15, LONG)]),
    form("slack token", &[Is("xoxc-"), Run(WORD, 15, LONG)]),
    form("slack token", &[Is("xoxd-"), Run(ESCAPED, 15, LONG)]),
    form("slack token", &[Is("xoxe."), Run(DOTTED, 15, LONG)]),
    form("slack token", &[Is("xoxe-"), Run(WORD, 15, LONG)]),
    form("slack token", &[Is("xoxo-"), Run(WORD, 15, LONG)]),
    form("slack token", &[Is("xoxp-"), Run(WORD, 15, LONG)]),
    form("slack token", &[Is("xoxr-"), Run(WORD, 15, LONG)]),
    form("slack token", &[Is("xoxs-"), Run(WORD, 15, LONG)]),
    form("xai key", &[Is("xai-"), Run(LETTERS, 60, 96)]),
    form("wallet key", &[Is("xprv"), Run(LETTERS, 100, 112)]),
    form("google oauth token", &[Is("ya29."), Run(DOTTED, 40, CLAIMS)]),
];

/// Forms that begin with characters that are drawn, tried where the first word fits.
#[rustfmt::skip]
pub(super) const OPEN_FORMS: &[Form] = &[
    form("azure client secret", &[Run(LETTERS, 4, 4), Is("Q~"), Run(DOTTED_OR_TILDE, 31, 36)]),
    form("discord token", &[Run(WORD, 23, 28), Is("."), Run(WORD, 6, 7), Is("."), Run(WORD, 27, 40)]),
    form("facebook token", &[Run(DIGITS, 15, 16), Is("|"), Run(WORD, 27, 40)]),
    form("mailchimp key", &[Run(HEX, 32, 32), Is("-us"), Run(DIGITS, 1, 2)]),
    form("maxmind key", &[Run(LETTERS, 6, 6), Is("_"), Run(LETTERS, 29, 29), Is("_mmk")]),
    form("telegram token", &[Run(DIGITS, 8, 10), Is(":AA"), Run(WORD, 31, 35)]),
    form("terraform token", &[Run(LETTERS, 14, 14), Is(".atlasv1."), Run(DOTTED, 60, 72)]),
];

/// The form of the key that begins at `start`, and where it ends.
pub(super) fn key_at(text: &str, start: usize) -> Option<(SecretKind, usize)> {
    let bytes = &text.as_bytes()[start..];
    if !has_opening(bytes) {
        return None;
    }
    let forms = forms_like(bytes);
    let mut forms =
        forms.filter(|form| form.opening().len() > SHORT || !is_inside_data(text.as_bytes(), start));
    forms.find_map(|form| Some((form.kind, start + matched(form, &text[start..])?)))
}

/// The forms that begin like these bytes.
fn forms_like(bytes: &[u8]) -> impl Iterator<Item = &'static Form> {
    let (start, end) = GROUPS[usize::from(bytes[0] & 127)];
    let is_like = move |form: &&Form| {
        let opening = form.opening().as_bytes();
        opening[1] == bytes[1] && bytes.starts_with(opening)
    };
    FORMS[start..end].iter().filter(is_like)
}

/// Where the forms stand that begin with a character.
const GROUPS: [(usize, usize); 128] = {
    let mut groups = [(0, 0); 128];
    let mut number = 0;
    while number < FORMS.len() {
        let Piece::Is(opening) = FORMS[number].pieces[0] else {
            panic!("these forms begin with fixed characters")
        };
        let first = opening.as_bytes()[0] as usize;
        assert!(
            groups[first].1 == 0 || groups[first].1 == number,
            "forms with the same first character stand together"
        );
        let start = if groups[first].1 == 0 { number } else { groups[first].0 };
        number += 1;
        groups[first] = (start, number);
    }
    groups
};

/// The same for a key that stands behind a joint: only openings with a joint of their own are told from words.
pub(super) fn joined_key_at(text: &str, start: usize) -> Option<(SecretKind, usize)> {
    let bytes = &text.as_bytes()[start..];
    if !has_opening(bytes) {
        return None;
    }
    let is_joined = |form: &&Form| form.opening().len() > SHORT && form.opening().ends_with(['_', '-']);
    forms_like(bytes)
        .filter(is_joined)
        .find_map(|form| Some((form.kind, start + matched(form, &text[start..])?)))
}

/// Such an opening occurs in encoded data by chance.
const SHORT: usize = 3;

/// Such an opening is that of keys and of nothing else.
const TELLING: usize = 4;

/// Whether a place is in the middle of encoded data.
fn is_inside_data(bytes: &[u8], start: usize) -> bool {
    const DATA_BYTES_MIN: usize = 24;
    let before = bytes[..start].iter().rev().take(DATA_BYTES_MIN);
    matches!(bytes[..start].last(), Some(b'+' | b'/'))
        && before.take_while(|byte| is_in(**byte, BASE64)).count() == DATA_BYTES_MIN
}

/// The key of a form without an opening whose first word is `start..word_end`.
pub(super) fn open_key_at(text: &str, start: usize, word_end: usize) -> Option<(SecretKind, usize)> {
    let bytes = text.as_bytes();
    // Most words end here: each of these forms goes on with one of few characters, or is one long word.
    let goes_on = matches!(bytes.get(word_end), Some(b'~' | b'.' | b'|' | b':')) && word_end - start >= 5;
    if !goes_on && !(36..=41).contains(&(word_end - start)) {
        return None;
    }
    OPEN_FORMS.iter().find_map(|form| Some((form.kind, start + matched(form, &text[start..])?)))
}

/// The length of the key of this form at the beginning of a text.
fn matched(form: &Form, text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut end, mut body_start) = (0, None);
    for (number, piece) in form.pieces.iter().enumerate() {
        match *piece {
            Is(fixed) => end += bytes[end..].starts_with(fixed.as_bytes()).then_some(fixed.len())?,
            Run(alphabet, least, most) => {
                let is_last = number + 1 == form.pieces.len();
                let length = run(&bytes[end..], alphabet, most + usize::from(is_last));
                if length < least || length > most {
                    return None;
                }
                body_start = body_start.or(Some(end));
                end += length;
            }
        }
    }
    // The end of a sentence is no part of a key.
    end -= bytes[..end].iter().rev().take_while(|byte| **byte == b'.').count();
    let body = &text[body_start?..end];
    (form.fits(body) && !is_example(body)).then_some(end)
}

/// Whether a form may begin like these bytes: a bit for each sum of three characters, so that most words
/// are looked up nowhere else.
fn has_opening(bytes: &[u8]) -> bool {
    let &[one, two, three, ..] = bytes else { return false };
    let bit = opening_bit(one, two, three);
    OPENINGS[bit / 64] >> (bit % 64) & 1 == 1
}

const fn opening_bit(one: u8, two: u8, three: u8) -> usize {
    (one as usize * 211 + two as usize * 37 + three as usize) % OPENING_BITS
}

const OPENING_BITS: usize = 4096;

const OPENINGS: [u64; OPENING_BITS / 64] = {
    let mut bits = [0; OPENING_BITS / 64];
    let mut rest = FORMS;
    while let [form, more @ ..] = rest {
        let Piece::Is(opening) = form.pieces[0] else { panic!("these forms begin with fixed characters") };
        let opening = opening.as_bytes();
        // Behind a shorter opening stands any character.
        let (mut third, end) = if opening.len() > 2 { (opening[2], opening[2]) } else { (0, 127) };
        while third <= end {
            let bit = opening_bit(opening[0], opening[1], third);
            bits[bit / 64] |= 1 << (bit % 64);
            third += 1;
        }
        rest = more;
    }
    bits
};
