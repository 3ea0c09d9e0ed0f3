//! stub
use crate::ids::Tokens;
/// stub
#[derive(Clone, Debug)]
pub struct Budget {
    target: Tokens,
}
impl Budget {
    /// stub
    pub fn for_target(target: Tokens) -> Result<Self, ()> {
        Ok(Self { target })
    }
    /// stub
    pub fn target(&self) -> Tokens {
        self.target
    }
    /// stub
    pub fn usable(&self) -> Tokens {
        self.target
    }
}
