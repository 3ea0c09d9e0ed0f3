//! `foldback mcp`: recall and search for agents, over stdin and stdout.

use foldback_engine::session::Secrets;
use foldback_server::mcp::McpServer;

use crate::args::sessions::Mcp;
use crate::failure::{Exit, Failure};
use crate::store;

pub(crate) fn run(arguments: &Mcp) -> Result<Exit, Failure> {
    let secrets = if arguments.show_secrets { Secrets::Shown } else { Secrets::Replaced };
    store::block_on(async {
        let store = store::open_existing(&arguments.at).await?;
        let session = match &arguments.session {
            Some(id) => Some(store::find(&store, id).await?),
            None => None,
        };
        let failed = |error: foldback_server::mcp::ServeError| Failure::Usage {
            what: error.to_string(),
            hint: Some(
                "an MCP client starts this program and talks to it; see `foldback mcp --help`".to_owned(),
            ),
        };
        McpServer::new(store, session, secrets).serve_stdio().await.map_err(failed)?;
        Ok(Exit::Success)
    })
}
