//! Where a server is and how it is reached: [`Endpoint`], [`Key`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use foldback_formats::answer::Protocol;
use percent_encoding::percent_decode_str;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use url::Url;

/// What is printed instead of a secret.
pub(crate) const HIDDEN: &str = "<hidden>";

/// Shorter values of headers are words, which errors may repeat.
const HEADER_SECRET_BYTES_MIN: usize = 8;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long nothing may come: a long prompt is read before the first word is written.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// The version that servers have where an address names none.
const VERSION_DEFAULT: &str = "v1";

/// The version of Anthropic's protocol.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A secret that a server knows its client by. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(Arc<str>);

impl Key {
    /// Takes the secret, without white space around it: files end in a line break.
    pub fn new(secret: impl AsRef<str>) -> Self {
        Self(secret.as_ref().trim().into())
    }

    /// The text without the secret.
    pub(crate) fn hidden_in(&self, text: String) -> String {
        if self.0.is_empty() || !text.contains(&*self.0) { text } else { text.replace(&*self.0, HIDDEN) }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// Why a server cannot be asked at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The address is none.
    #[error("the address of the server cannot be used: {why}")]
    Address {
        /// What is wrong with it.
        why: String,
    },
    /// The address holds a user name or password, which would end up in logs.
    #[error("the address of the server has credentials in it; give the key apart")]
    Credentials,
    /// The key has characters that no header may have.
    #[error("the key has characters that cannot be sent")]
    Key,
    /// A header that cannot be sent.
    #[error("the header `{name}` cannot be sent")]
    Header {
        /// Its name.
        name: String,
    },
    /// The address of the proxy is none.
    #[error("the address of the proxy cannot be used")]
    Proxy,
    /// There is no way to check certificates.
    #[error("no encrypted connections: {why}")]
    Tls {
        /// What is missing.
        why: String,
    },
}

/// Where a server is and how it is reached.
///
/// The address is that of the API with its version, as providers print it (`https://host/v1`).
/// Without a version `/v1` is added; an address that already ends in a protocol's own path
/// (`/chat/completions`, `/responses`, `/messages`) is taken as it is. A query stays.
#[derive(Clone)]
pub struct Endpoint {
    base: Url,
    key: Option<Key>,
    proxy: Option<String>,
    headers: Vec<(String, String)>,
    connect_timeout: Duration,
    idle_timeout: Duration,
}

impl Endpoint {
    /// A server at this address, `http` or `https`.
    pub fn new(base_url: &str) -> Result<Self, EndpointError> {
        let address = |why: String| EndpointError::Address { why };
        let mut base = Url::parse(base_url.trim()).map_err(|error| address(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(address("it must begin with http:// or https://".to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(EndpointError::Credentials);
        }
        base.set_fragment(None);
        Ok(Self {
            base,
            key: None,
            proxy: None,
            headers: Vec::new(),
            connect_timeout: CONNECT_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
        })
    }

    /// The same, with this key.
    #[must_use]
    pub fn key(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }

    /// The same, through this proxy. Without one, none is used, whatever the environment says.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// The same, with this header on every request. Its value is never printed.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The same, with another limit for making a connection (10 s).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The same, with another limit for the time in which nothing comes, before the first piece of
    /// an answer and between any two (120 s).
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// Where requests of a protocol go.
    pub(crate) fn url_for(&self, protocol: Protocol) -> Url {
        let mut url = self.base.clone();
        let path = self.base.path().trim_end_matches('/');
        if Protocol::ALL.iter().any(|known| path.ends_with(&format!("/{}", known.path()))) {
            return url;
        }
        let version = if path.split('/').any(is_version) { "" } else { VERSION_DEFAULT };
        let separator = if version.is_empty() { "" } else { "/" };
        url.set_path(&format!("{path}{separator}{version}/{}", protocol.path()));
        url
    }

    pub(crate) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// The key, the proxy's password, and what is sent in headers of the host's own, where it is long
    /// enough to be a secret.
    pub(crate) fn secrets(&self) -> Vec<Key> {
        let values = self.headers.iter().map(|(_, value)| value.as_str());
        let values = values.filter(|value| value.len() >= HEADER_SECRET_BYTES_MIN).map(Key::new);
        self.key.iter().cloned().chain(self.proxy_password()).chain(values).collect()
    }

    /// The password in the proxy's address, which a proxy may repeat: as it stands there, and as it is sent.
    fn proxy_password(&self) -> Vec<Key> {
        let proxy = self.proxy.as_deref().and_then(|proxy| Url::parse(proxy.trim()).ok());
        let Some(encoded) = proxy.as_ref().and_then(Url::password) else { return Vec::new() };
        let decoded = percent_decode_str(encoded).decode_utf8_lossy();
        vec![Key::new(encoded), Key::new(decoded)]
    }

    pub(crate) fn idle(&self) -> Duration {
        self.idle_timeout
    }

    /// Everything that goes with every request.
    pub(crate) fn headers_for(&self, protocol: Protocol) -> Result<HeaderMap, EndpointError> {
        let mut headers = HeaderMap::new();
        if protocol == Protocol::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
        }
        if let Some(Key(secret)) = &self.key {
            let (name, value) = match protocol {
                Protocol::Anthropic => (HeaderName::from_static("x-api-key"), secret.to_string()),
                Protocol::OpenAiChat | Protocol::OpenAiResponses => {
                    (AUTHORIZATION, format!("Bearer {secret}"))
                }
            };
            let value = HeaderValue::from_str(&value).map_err(|_| EndpointError::Key)?;
            headers.insert(name, sensitive(value));
        }
        for (name, value) in &self.headers {
            let unusable = || EndpointError::Header { name: name.clone() };
            let parsed = HeaderName::try_from(name.as_str()).map_err(|_| unusable())?;
            let value = HeaderValue::from_str(value).map_err(|_| unusable())?;
            headers.insert(parsed, sensitive(value));
        }
        Ok(headers)
    }

    /// A client for this server alone.
    pub(crate) fn connect(&self) -> Result<reqwest::Client, EndpointError> {
        let is_encrypted = self.base.scheme() == "https"
            || self.proxy.as_ref().is_some_and(|proxy| proxy.trim_start().starts_with("https:"));
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(is_encrypted)?)
            .connect_timeout(self.connect_timeout)
            // A redirect would take the key and the conversation somewhere else.
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .no_proxy();
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(reqwest::Proxy::all(proxy.trim()).map_err(|_| EndpointError::Proxy)?);
        }
        builder.build().map_err(|error| EndpointError::Tls { why: error.without_url().to_string() })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let mut base = self.base.clone();
        base.set_query(base.query().map(|_| HIDDEN));
        f.debug_struct("Endpoint")
            .field("base", &base.as_str())
            .field("key", &self.key)
            .field("proxy", &self.proxy.as_ref().map(|_| HIDDEN))
            .field("headers", &names)
            .field("connect_timeout", &self.connect_timeout)
            .field("idle_timeout", &self.idle_timeout)
            .finish()
    }
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

/// How certificates are checked: by those that the system trusts. Where nothing is encrypted none
/// are read, so that a server on this machine can be asked without any.
fn tls(is_encrypted: bool) -> Result<ClientConfig, EndpointError> {
    let missing = |error: rustls::Error| EndpointError::Tls { why: error.to_string() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(missing)?;
    if !is_encrypted {
        return Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
    }
    Ok(builder.with_platform_verifier().map_err(missing)?.with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(base: &str, protocol: Protocol) -> String {
        Endpoint::new(base).unwrap().url_for(protocol).to_string()
    }

    #[test]
    fn the_version_is_added_only_where_it_is_missing() {
        let chat = |base| url(base, Protocol::OpenAiChat);
        for base in [
            "http://127.0.0.1:8080",
            "http://127.0.0.1:8080/",
            "http://127.0.0.1:8080/v1",
            "http://127.0.0.1:8080/v1/",
            "http://127.0.0.1:8080/v1/chat/completions",
        ] {
            assert_eq!(chat(base), "http://127.0.0.1:8080/v1/chat/completions", "{base}");
        }
        assert_eq!(chat("https://h/api/v1"), "https://h/api/v1/chat/completions");
        assert_eq!(chat("https://h/v1beta/openai/"), "https://h/v1beta/openai/chat/completions");
        assert_eq!(chat("https://h/gate"), "https://h/gate/v1/chat/completions");
        assert_eq!(
            chat("https://h/x/chat/completions?api-version=2"),
            "https://h/x/chat/completions?api-version=2"
        );
        assert_eq!(
            url("https://api.anthropic.com", Protocol::Anthropic),
            "https://api.anthropic.com/v1/messages"
        );
        assert_eq!(url("https://h/v1", Protocol::OpenAiResponses), "https://h/v1/responses");
    }

    #[test]
    fn an_address_with_credentials_is_refused_without_repeating_them() {
        let error = Endpoint::new("https://me:hunter2@h/v1").unwrap_err();
        assert_eq!(error, EndpointError::Credentials);
        assert!(!error.to_string().contains("hunter2"));
        assert!(matches!(Endpoint::new("ftp://h"), Err(EndpointError::Address { .. })));
        assert!(matches!(Endpoint::new("127.0.0.1:8080"), Err(EndpointError::Address { .. })));
    }

    #[test]
    fn nothing_secret_is_printed() {
        let endpoint = Endpoint::new("https://h/v1?code=hunter3")
            .unwrap()
            .key(Key::new("hunter2\n"))
            .proxy("http://me:hunter4@proxy:3128")
            .header("x-gate", "hunter5");
        let printed = format!("{endpoint:?} {:#?}", endpoint);
        assert!(!printed.contains("hunter"), "{printed}");
        assert!(printed.contains("x-gate") && printed.contains(HIDDEN));
        let headers = endpoint.headers_for(Protocol::Anthropic).unwrap();
        assert_eq!(headers["x-api-key"], "hunter2");
        assert!(!format!("{headers:?}").contains("hunter"));
    }

    #[test]
    fn the_password_of_a_proxy_is_a_secret_as_it_stands_and_as_it_is_sent() {
        let endpoint = Endpoint::new("https://h/v1").unwrap().proxy("http://me:hunter%2F4@proxy:3128");
        let secrets = endpoint.secrets();
        for told in ["not hunter%2F4!", "not hunter/4!"] {
            let hidden = secrets.iter().fold(told.to_owned(), |text, secret| secret.hidden_in(text));
            assert_eq!(hidden, format!("not {HIDDEN}!"));
        }
        assert!(Endpoint::new("https://h/v1").unwrap().proxy("http://proxy:3128").secrets().is_empty());
    }

    #[test]
    fn what_no_header_can_hold_is_said_before_anything_is_sent() {
        let endpoint = Endpoint::new("http://h").unwrap();
        let with_key = endpoint.clone().key(Key::new("a\nb"));
        assert_eq!(with_key.headers_for(Protocol::OpenAiChat).unwrap_err(), EndpointError::Key);
        let with_header = endpoint.clone().header("no name", "x");
        assert!(matches!(with_header.headers_for(Protocol::OpenAiChat), Err(EndpointError::Header { .. })));
        assert_eq!(endpoint.proxy("::").connect().unwrap_err(), EndpointError::Proxy);
    }
}
