//! Model backends: whoever writes summaries over HTTP.
//!
//! An [`Endpoint`] says where a server is, a [`ModelClient`] asks one model there in one
//! [`Protocol`], and a [`ModelBackend`] is the port of the engine over such a client. Nothing here
//! reads the environment: addresses, keys and proxies are passed in (A4), and no key appears in an
//! error, a log or a `Debug`.
//!
//! ```
//! use foldback_backends::{Endpoint, Key, ModelBackend, ModelClient, Protocol};
//! use foldback_engine::CompactionBackend;
//!
//! let endpoint = Endpoint::new("http://127.0.0.1:8080/v1")?.key(Key::new("secret"));
//! let client = ModelClient::new(endpoint, Protocol::OpenAiChat, "qwen3-4b")?;
//! let backend = ModelBackend::new(client).window(foldback_core::Tokens(8_192));
//! assert_eq!(backend.name(), "openai:qwen3-4b");
//! assert!(!format!("{backend:?}").contains("secret"));
//! # Ok::<(), foldback_backends::EndpointError>(())
//! ```

mod backend;
mod client;
mod endpoint;
mod prompt;

pub use backend::ModelBackend;
pub use client::{ModelAnswer, ModelClient, ModelRequest};
pub use endpoint::{Endpoint, EndpointError, Key};
pub use foldback_formats::answer::{Caching, Delta, Protocol, ToolSpec};
pub use prompt::{prompt_tokens as summary_prompt_tokens, quoted as summary_prompt};
