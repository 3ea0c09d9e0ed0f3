//! Model backends: whoever writes summaries over HTTP.
