//! Keys and proxies as the environment has them.

use foldback_backends::Protocol;

/// The variable that holds the key for a provider's own servers.
pub(super) fn key_variable(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::OpenAiChat | Protocol::OpenAiResponses => "OPENAI_API_KEY",
        Protocol::Anthropic => "ANTHROPIC_API_KEY",
    }
}

/// The proxy for an address, as other programs take it from the environment.
pub(super) fn proxy(address: &str) -> Option<String> {
    let either = |lower: &str, upper: &str| set(lower).or_else(|| set(upper));
    chosen_proxy(
        address,
        &Proxies {
            // Where a web server runs programs, a client can set HTTP_PROXY: only the lower case counts.
            http: set("http_proxy"),
            https: either("https_proxy", "HTTPS_PROXY"),
            all: either("all_proxy", "ALL_PROXY"),
            excepted: either("no_proxy", "NO_PROXY").unwrap_or_default(),
        },
    )
}

#[derive(Default)]
struct Proxies {
    http: Option<String>,
    https: Option<String>,
    all: Option<String>,
    excepted: String,
}

fn chosen_proxy(address: &str, proxies: &Proxies) -> Option<String> {
    let (scheme, rest) = address.split_once("://")?;
    let host = host(rest);
    let is_here = host == "localhost" || host.starts_with("127.") || host == "::1";
    if is_here || proxies.excepted.split(',').any(|exception| is_excepted(host, exception.trim())) {
        return None;
    }
    let own = if scheme == "https" { &proxies.https } else { &proxies.http };
    own.clone().or_else(|| proxies.all.clone())
}

/// The host of what follows `://`.
fn host(rest: &str) -> &str {
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_excepted(host: &str, exception: &str) -> bool {
    let domain = exception.trim_start_matches("*.").trim_start_matches('.');
    match exception {
        "" => false,
        "*" => true,
        _ => host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')),
    }
}

/// A variable that is set; to nothing is not set.
pub(super) fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_used_for_its_scheme_and_not_for_what_is_excepted() {
        let named = |name: &str| Some(format!("http://{name}:3128"));
        let excepted = "internal.example, .corp,10.0.0.1".to_owned();
        let proxies = Proxies { http: named("plain"), https: named("secure"), all: named("any"), excepted };
        let chosen = |address| chosen_proxy(address, &proxies);
        assert_eq!(chosen("https://api.openai.com/v1"), named("secure"));
        assert_eq!(chosen("http://models.example:8080/v1"), named("plain"));
        for direct in
            ["https://internal.example", "https://a.corp/v1", "http://10.0.0.1:80", "http://127.0.0.1:1/v1"]
                .into_iter()
                .chain(["http://localhost", "http://[::1]:8080/v1"])
        {
            assert_eq!(chosen(direct), None, "{direct}");
        }
        assert_eq!(chosen("https://notinternal.example"), named("secure"));
        let none = Proxies { all: named("any"), excepted: "*".to_owned(), ..Proxies::default() };
        assert_eq!(chosen_proxy("https://h", &none), None);
    }
}
