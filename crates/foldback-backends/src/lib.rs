//! Model backends: the prompt that asks for a summary, and clients that ask models over HTTP.
//!
//! The clients are the feature `http`, which is on unless a crate switches it off. Without it the
//! prompt and the types of requests stay, for hosts that bring a model of their own.
//!
//! An [`Endpoint`] says where a server is, a [`ModelClient`] asks one model there in one
//! [`Protocol`], and a [`ModelBackend`] is the port of the engine over such a client. Nothing here
//! reads the environment: addresses, keys and proxies are passed in (A4), and no key appears in an
//! error, a log or a `Debug`.
//!
//! ```
//! # #[cfg(feature = "http")] {
//! use foldback_backends::{Endpoint, Key, ModelBackend, ModelClient, Protocol};
//! use foldback_engine::CompactionBackend;
//!
//! let endpoint = Endpoint::new("http://127.0.0.1:8080/v1")?.key(Key::new("secret"));
//! let client = ModelClient::new(endpoint, Protocol::OpenAiChat, "qwen3-4b")?;
//! let backend = ModelBackend::new(client).window(foldback_core::Tokens(8_192));
//! assert_eq!(backend.name(), "openai:qwen3-4b");
//! assert!(!format!("{backend:?}").contains("secret"));
//! # }
//! # Ok::<(), foldback_backends::EndpointError>(())
//! ```

#[cfg(feature = "http")]
mod backend;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod endpoint;
mod prompt;
mod request;

#[cfg(feature = "http")]
pub use backend::{ModelBackend, answer_text};
#[cfg(feature = "http")]
pub use client::ModelClient;
#[cfg(feature = "http")]
pub use endpoint::{Endpoint, EndpointError, Key};
pub use foldback_formats::answer::{Caching, Delta, Protocol, ToolSpec};
pub use prompt::{Quoted, Sealed, sealed};
pub use prompt::{prompt_tokens as summary_prompt_tokens, quoted as summary_prompt};
pub use request::{ModelAnswer, ModelRequest};
